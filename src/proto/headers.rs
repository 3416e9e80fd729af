//! The header dictionary of a request, from either of its two forms.
//!
//! Mongrel2's JSON is hand-made and often not JSON at all (protocol section 2.4), so both forms are read as bytes:
//! nothing is decoded, no name is judged. A name here may hold control bytes; whoever builds an environ must refuse
//! what is not an HTTP token (protocol section 2.2).

use std::borrow::Cow;
use std::collections::HashSet;

use crate::proto::error::Fault;
use crate::proto::error::ParseError;
use crate::proto::error::Part;
use crate::proto::json;
use crate::proto::netstring::Netstring;
use crate::proto::request::HeaderBlock;

/// Most values of one dictionary, elements of lists included. Mongrel2 keeps 1280 names of 5 values each at most
/// unless configured otherwise (protocol section 10.1).
pub const MAX_VALUES: usize = 8192;

/// The value of a header: a text, or the texts of a header that came several times, in order of arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// A plain string.
    One(Cow<'a, [u8]>),
    /// A list of strings, in practice of two to five.
    Many(Vec<Cow<'a, [u8]>>),
}

impl Value<'_> {
    /// The only or first text; empty for an empty list.
    pub fn first(&self) -> &[u8] {
        match self {
            Value::One(text) => text,
            Value::Many(texts) => texts.first().map_or(b"", |text| text),
        }
    }

    /// The text of a plain string; nothing for a list, even one of a single text.
    pub fn single(&self) -> Option<&[u8]> {
        match self {
            Value::One(text) => Some(text),
            Value::Many(_) => None,
        }
    }

    /// All texts in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let texts = match self {
            Value::One(text) => std::slice::from_ref(text),
            Value::Many(texts) => texts.as_slice(),
        };
        texts.iter().map(AsRef::as_ref)
    }

    /// All texts with `separator` between them; borrows where there is only one.
    pub fn joined(&self, separator: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Value::One(text) => Cow::Borrowed(text),
            Value::Many(texts) if texts.len() < 2 => Cow::Borrowed(self.first()),
            Value::Many(texts) => Cow::Owned(texts.join(separator)),
        }
    }
}

/// Names and values in the order of the wire.
pub(super) type Entries<'a> = Vec<(Cow<'a, [u8]>, Value<'a>)>;

/// The header dictionary of one request.
///
/// A key names at most one value: of keys that come twice the last one counts, since Mongrel2 writes its own keys last
/// for readers that work so (protocol section 2.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers<'a> {
    entries: Entries<'a>,
}

impl<'a> Headers<'a> {
    /// Reads a header block. Offsets in errors are those of the block.
    pub fn parse(block: HeaderBlock<'a>) -> Result<Headers<'a>, ParseError> {
        let mut entries = match block {
            HeaderBlock::Json(text) => json::entries(text)?,
            HeaderBlock::Tnet(pairs) => tnet_entries(pairs)?,
        };
        keep_last(&mut entries);
        Ok(Headers { entries })
    }

    /// All entries in the order of the wire, which is not that of the client (protocol section 2.1).
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Value<'a>)> {
        self.entries.iter().map(|(name, value)| (name.as_ref(), value))
    }

    /// The value of a key, compared byte by byte. Client headers are in lower case.
    pub fn get(&self, name: &[u8]) -> Option<&Value<'a>> {
        self.entries.iter().find(|(key, _)| key.as_ref() == name).map(|(_, value)| value)
    }

    /// The value of one of the front end's own keys, which are in upper case and which no client can forge (protocol
    /// section 2.2). Nothing if it is missing, is a list (the front end's own never are), or if `name` is not such a
    /// key.
    pub fn own(&self, name: &str) -> Option<&[u8]> {
        if name.bytes().any(|byte| byte.is_ascii_lowercase()) {
            return None;
        }
        self.get(name.as_bytes()).and_then(Value::single)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Reads the pairs of a tnetstring dict: texts, or lists of texts; no other type occurs (protocol section 3).
fn tnet_entries(block: &[u8]) -> Result<Entries<'_>, ParseError> {
    let mut entries = Vec::with_capacity(32.min(block.len() / 16));
    let mut values = 0usize;
    let mut rest = block;
    while !rest.is_empty() {
        let at = block.len().saturating_sub(rest.len());
        let name = element(rest, at)?;
        if name.tag != b',' {
            return Err(ParseError::new(Fault::Type, Part::Headers, at));
        }
        let at = block.len().saturating_sub(name.rest.len());
        let value = element(name.rest, at)?;
        rest = value.rest;
        let before_payload = block.len().saturating_sub(rest.len()).saturating_sub(1);
        let value = match value.tag {
            b',' => Value::One(Cow::Borrowed(value.payload)),
            b']' => Value::Many(tnet_texts(value.payload, before_payload, &mut values)?),
            _ => return Err(ParseError::new(Fault::Type, Part::Headers, at)),
        };
        values = values.saturating_add(1);
        if values > MAX_VALUES {
            return Err(ParseError::new(Fault::TooMany, Part::Headers, at));
        }
        entries.push((Cow::Borrowed(name.payload), value));
    }
    Ok(entries)
}

/// Reads the texts of a list whose payload ends at offset `end` of the block.
fn tnet_texts<'a>(
    mut rest: &'a [u8],
    end: usize,
    values: &mut usize,
) -> Result<Vec<Cow<'a, [u8]>>, ParseError> {
    let mut texts = Vec::new();
    while !rest.is_empty() {
        let at = end.saturating_sub(rest.len());
        let text = element(rest, at)?;
        if text.tag != b',' {
            return Err(ParseError::new(Fault::Type, Part::Headers, at));
        }
        *values = values.saturating_add(1);
        if *values > MAX_VALUES {
            return Err(ParseError::new(Fault::TooMany, Part::Headers, at));
        }
        texts.push(Cow::Borrowed(text.payload));
        rest = text.rest;
    }
    Ok(texts)
}

fn element(input: &[u8], at: usize) -> Result<Netstring<'_>, ParseError> {
    Netstring::split(input).map_err(|error| error.within(Part::Headers, at))
}

/// Drops all but the last of entries with the same name.
///
/// Mongrel2 sends none, so the usual case must cost next to nothing: a small table of hash bits proves that all names
/// differ. Only if it cannot are the names really compared.
fn keep_last(entries: &mut Entries<'_>) {
    let mut table = [0u64; 64];
    let all_differ = entries.iter().all(|(name, _)| {
        let hash = quick_hash(name);
        let [row, ..] = (hash >> 58).to_le_bytes();
        let bit = 1u64.rotate_left(u32::from(hash.to_be_bytes()[1] & 63));
        table.get_mut(usize::from(row)).is_some_and(|row| {
            let new = *row & bit == 0;
            *row |= bit;
            new
        })
    });
    if all_differ {
        return;
    }
    let mut seen = HashSet::with_capacity(entries.len());
    let mut keep: Vec<bool> =
        entries.iter().rev().map(|(name, _)| seen.insert(name.as_ref())).collect();
    drop(seen);
    if keep.iter().all(|&keep| keep) {
        return;
    }
    // `keep` runs from the last entry to the first, so popping gives the answers from the first on.
    entries.retain(|_| keep.pop().unwrap_or(true));
}

/// Mixes the length and the first and last bytes of a name.
fn quick_hash(name: &[u8]) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let ends = match (name.first_chunk(), name.last_chunk()) {
        (Some(first), Some(last)) => {
            u64::from_le_bytes(*first).wrapping_mul(ODD) ^ u64::from_le_bytes(*last)
        }
        _ => name.iter().fold(0, |hash, &byte| (hash << 8) | u64::from(byte)),
    };
    let hash = ends.wrapping_mul(ODD);
    (hash ^ (hash >> 32)).wrapping_mul(ODD)
}
