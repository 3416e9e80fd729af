//! The header dictionary in its JSON form: an object whose values are strings or lists of strings.
//!
//! It takes what Mongrel2 writes (protocol section 2.4), which is not always JSON: control bytes and bytes over 0x7f
//! stand raw in strings and in keys, and pass as they are. It also takes what a front end with a real JSON encoder may
//! write of the same shape: white space, and all escapes of JSON, `\uXXXX` giving UTF-8. Half of a surrogate pair has
//! no bytes; it gives U+FFFD. Any other type of value is an error.

use std::borrow::Cow;

use crate::proto::error::Fault;
use crate::proto::error::ParseError;
use crate::proto::error::Part;
use crate::proto::headers::Entries;
use crate::proto::headers::MAX_VALUES;
use crate::proto::headers::Value;

/// Reads a whole object.
pub(super) fn entries(text: &[u8]) -> Result<Entries<'_>, ParseError> {
    let mut json = Json { end: text.len(), rest: text, values: 0 };
    let mut entries = Vec::with_capacity(32.min(text.len() / 16));
    json.expect_token(b'{')?;
    if !json.take_token(b'}') {
        loop {
            json.expect_token(b'"')?;
            let name = json.string()?;
            json.expect_token(b':')?;
            let value = json.value()?;
            entries.push((name, value));
            if !json.take_token(b',') {
                json.expect_token(b'}')?;
                break;
            }
        }
    }
    json.skip_space();
    if json.rest.is_empty() { Ok(entries) } else { json.error(Fault::Trailing) }
}

struct Json<'a> {
    end: usize,
    rest: &'a [u8],
    values: usize,
}

impl<'a> Json<'a> {
    fn error<T>(&self, what: Fault) -> Result<T, ParseError> {
        Err(ParseError::new(what, Part::Headers, self.end.saturating_sub(self.rest.len())))
    }

    fn skip_space(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Takes `token` if it comes next, after white space or not.
    fn take_token(&mut self, token: u8) -> bool {
        self.skip_space();
        match self.rest {
            [first, rest @ ..] if *first == token => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn expect_token(&mut self, token: u8) -> Result<(), ParseError> {
        if self.take_token(token) {
            Ok(())
        } else if self.rest.is_empty() {
            self.error(Fault::Short)
        } else {
            self.error(Fault::Syntax)
        }
    }

    fn value(&mut self) -> Result<Value<'a>, ParseError> {
        if self.take_token(b'"') {
            return self.text().map(Value::One);
        }
        if !self.take_token(b'[') {
            return self.not_a_text();
        }
        let mut texts = Vec::new();
        if self.take_token(b']') {
            return Ok(Value::Many(texts));
        }
        loop {
            if !self.take_token(b'"') {
                return self.not_a_text();
            }
            texts.push(self.text()?);
            if !self.take_token(b',') {
                self.expect_token(b']')?;
                return Ok(Value::Many(texts));
            }
        }
    }

    fn not_a_text<T>(&self) -> Result<T, ParseError> {
        match self.rest {
            [] => self.error(Fault::Short),
            [b'{' | b'[' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n', ..] => self.error(Fault::Type),
            _ => self.error(Fault::Syntax),
        }
    }

    /// A string that counts as a value.
    fn text(&mut self) -> Result<Cow<'a, [u8]>, ParseError> {
        self.values = self.values.saturating_add(1);
        if self.values > MAX_VALUES { self.error(Fault::TooMany) } else { self.string() }
    }

    /// The string whose opening quote has been taken. Borrows unless something in it is escaped.
    fn string(&mut self) -> Result<Cow<'a, [u8]>, ParseError> {
        let plain = self.plain()?;
        if self.at_quote() {
            return Ok(Cow::Borrowed(plain));
        }
        let mut text = plain.to_vec();
        loop {
            self.escape(&mut text)?;
            text.extend_from_slice(self.plain()?);
            if self.at_quote() {
                return Ok(Cow::Owned(text));
            }
        }
    }

    /// The bytes up to the next quote or backslash, which is left in place.
    fn plain(&mut self) -> Result<&'a [u8], ParseError> {
        let stop = memchr::memchr2(b'"', b'\\', self.rest);
        if let Some((plain, rest)) = stop.and_then(|stop| self.rest.split_at_checked(stop)) {
            self.rest = rest;
            return Ok(plain);
        }
        self.rest = &[];
        self.error(Fault::Short)
    }

    fn at_quote(&mut self) -> bool {
        match self.rest {
            [b'"', rest @ ..] => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Takes one escape, its backslash included, and appends what it stands for.
    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), ParseError> {
        let (byte, rest) = match self.rest {
            [b'\\', byte, rest @ ..] => (*byte, rest),
            _ => return self.error(Fault::Short),
        };
        let meant = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.unicode(rest, text),
            _ => return self.error(Fault::Escape),
        };
        text.push(meant);
        self.rest = rest;
        Ok(())
    }

    /// Takes the digits of a `\u` escape, and a second escape if both make a surrogate pair.
    fn unicode(&mut self, digits: &'a [u8], text: &mut Vec<u8>) -> Result<(), ParseError> {
        let Some((unit, mut rest)) = hex4(digits) else { return self.error(Fault::Escape) };
        let mut meant = char::from_u32(unit);
        if (0xD800..0xDC00).contains(&unit)
            && let [b'\\', b'u', digits @ ..] = rest
            && let Some((low, after)) = hex4(digits)
            && (0xDC00..0xE000).contains(&low)
        {
            let pair = ((unit & 0x3FF) << 10) | (low & 0x3FF);
            meant = char::from_u32(pair.saturating_add(0x1_0000));
            rest = after;
        }
        let meant = meant.unwrap_or(char::REPLACEMENT_CHARACTER);
        text.extend_from_slice(meant.encode_utf8(&mut [0; 4]).as_bytes());
        self.rest = rest;
        Ok(())
    }
}

/// Reads four hexadecimal digits.
fn hex4(input: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = input.split_first_chunk::<4>()?;
    let unit = digits.iter().try_fold(0u32, |unit, &digit| {
        char::from(digit).to_digit(16).map(|digit| (unit << 4) | digit)
    })?;
    Some((unit, rest))
}
