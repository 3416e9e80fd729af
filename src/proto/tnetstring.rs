//! Tagged netstrings over bytes: the payload of extended replies and of the front end's control port.
//!
//! The header dictionaries of requests have a narrower reader in [`headers`](crate::proto::headers). Floats are
//! refused both ways: one of them in a reply crashes Mongrel2 (protocol section 7.1).

use crate::proto::error::Fault;
use crate::proto::error::ParseError;
use crate::proto::error::Part;
use crate::proto::netstring;
use crate::proto::netstring::Netstring;

/// Deepest nesting of lists and dicts: what the protocol uses is three deep.
pub const MAX_DEPTH: usize = 8;

/// Most items of one parsed value, all levels together.
pub const MAX_ITEMS: usize = 8192;

/// A tnetstring value. Texts are bytes, as on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<'a> {
    /// `,` a text of any bytes.
    Bytes(&'a [u8]),
    /// `#` a whole number.
    Integer(i64),
    /// `!` true or false.
    Bool(bool),
    /// `~` nothing.
    Null,
    /// `]` a list.
    List(Vec<Item<'a>>),
    /// `}` pairs in the order of the wire. Keys are texts; whether one may come twice is for the reader to say.
    Dict(Vec<(&'a [u8], Item<'a>)>),
}

impl<'a> Item<'a> {
    /// Reads exactly one value and nothing after it.
    pub fn parse(input: &'a [u8]) -> Result<Item<'a>, ParseError> {
        let mut reader = Reader { end: input.len(), items: 0 };
        let (item, rest) = reader.item(input, 0)?;
        if rest.is_empty() { Ok(item) } else { reader.error(Fault::Trailing, rest) }
    }

    /// Appends the value.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Item::Bytes(bytes) => netstring::put(out, bytes, b','),
            Item::Integer(number) => {
                netstring::put(out, itoa::Buffer::new().format(*number).as_bytes(), b'#');
            }
            Item::Bool(true) => out.extend_from_slice(b"4:true!"),
            Item::Bool(false) => out.extend_from_slice(b"5:false!"),
            Item::Null => out.extend_from_slice(b"0:~"),
            Item::List(items) => {
                let mut inner = Vec::new();
                for item in items {
                    item.put(&mut inner);
                }
                netstring::put(out, &inner, b']');
            }
            Item::Dict(pairs) => {
                let mut inner = Vec::new();
                for (key, item) in pairs {
                    netstring::put(&mut inner, key, b',');
                    item.put(&mut inner);
                }
                netstring::put(out, &inner, b'}');
            }
        }
    }
}

/// Reads one value; counts items over all levels.
///
/// A nested payload is read by its own bounds, and `end` moves with it, so that offsets stay those of the whole input.
struct Reader {
    end: usize,
    items: usize,
}

impl Reader {
    fn error<T>(&self, what: Fault, rest: &[u8]) -> Result<T, ParseError> {
        Err(ParseError::new(what, Part::Item, self.end.saturating_sub(rest.len())))
    }

    fn item<'a>(
        &mut self,
        input: &'a [u8],
        depth: usize,
    ) -> Result<(Item<'a>, &'a [u8]), ParseError> {
        self.items = self.items.saturating_add(1);
        if self.items > MAX_ITEMS {
            return self.error(Fault::TooMany, input);
        }
        let start = self.end.saturating_sub(input.len());
        let element = Netstring::split(input).map_err(|error| error.within(Part::Item, start))?;
        let Netstring { payload, tag, rest } = element;
        let item = match (tag, payload) {
            (b',', bytes) => Item::Bytes(bytes),
            (b'#', digits) => match integer(digits) {
                Some(number) => Item::Integer(number),
                None => return self.error(Fault::Number, input),
            },
            (b'!', b"true") => Item::Bool(true),
            (b'!', b"false") => Item::Bool(false),
            (b'~', b"") => Item::Null,
            (b']' | b'}', _) if depth >= MAX_DEPTH => return self.error(Fault::TooDeep, input),
            (b']', inner) => self.inside(rest, |reader| reader.list(inner, depth))?,
            (b'}', inner) => self.inside(rest, |reader| reader.dict(inner, depth))?,
            _ => return self.error(Fault::Type, input),
        };
        Ok((item, rest))
    }

    /// Runs `read` with `end` moved to the end of the payload that is followed by its tag and `rest`.
    fn inside<T>(&mut self, rest: &[u8], read: impl FnOnce(&mut Reader) -> T) -> T {
        let outer = self.end;
        self.end = outer.saturating_sub(rest.len()).saturating_sub(1);
        let result = read(self);
        self.end = outer;
        result
    }

    fn list<'a>(&mut self, mut input: &'a [u8], depth: usize) -> Result<Item<'a>, ParseError> {
        let mut items = Vec::new();
        while !input.is_empty() {
            let (item, rest) = self.item(input, depth.saturating_add(1))?;
            items.push(item);
            input = rest;
        }
        Ok(Item::List(items))
    }

    fn dict<'a>(&mut self, mut input: &'a [u8], depth: usize) -> Result<Item<'a>, ParseError> {
        let mut pairs = Vec::new();
        while !input.is_empty() {
            let (key, rest) = self.item(input, depth.saturating_add(1))?;
            let Item::Bytes(key) = key else { return self.error(Fault::Type, input) };
            let (item, rest) = self.item(rest, depth.saturating_add(1))?;
            pairs.push((key, item));
            input = rest;
        }
        Ok(Item::Dict(pairs))
    }
}

/// Reads `-?[0-9]+` that fits 64 bits, without a round trip through text.
fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    // Downwards for negative numbers, so that the smallest one fits.
    digits.iter().try_fold(0i64, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit.wrapping_sub(b'0')))?;
        let number = number.checked_mul(10)?;
        if negative { number.checked_sub(digit) } else { number.checked_add(digit) }
    })
}
