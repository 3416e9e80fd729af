//! Netstrings: `LEN:bytes,`, with any byte as the closing tag, which makes them the elements of tnetstrings.
//!
//! LEN is decimal, without sign, blank or leading zero. Whether a tag makes sense is for the caller to say.

use crate::proto::error::Fault;
use crate::proto::error::ParseError;
use crate::proto::error::Part;
use crate::proto::ident::decimal;

/// Most digits of a length: those of 2^31-1, the most that Mongrel2 can count (protocol section 6.1).
const MAX_DIGITS: usize = 10;

/// One element split off the front of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Netstring<'a> {
    /// The bytes between colon and tag.
    pub payload: &'a [u8],
    /// The closing byte, `,` in a plain netstring.
    pub tag: u8,
    /// What follows the tag.
    pub rest: &'a [u8],
}

impl<'a> Netstring<'a> {
    /// Splits the first element off `input`.
    ///
    /// ```
    /// use lurcher::proto::netstring::Netstring;
    /// let first = Netstring::split(b"5:hello,0:,").unwrap();
    /// assert_eq!((first.payload, first.tag, first.rest), (&b"hello"[..], b',', &b"0:,"[..]));
    /// ```
    pub fn split(input: &'a [u8]) -> Result<Netstring<'a>, ParseError> {
        let error = |what, at| Err(ParseError::new(what, Part::Item, at));
        let digits = input.iter().take(MAX_DIGITS).take_while(|byte| byte.is_ascii_digit()).count();
        let Some((length, after)) = input.split_at_checked(digits) else {
            return error(Fault::Short, input.len());
        };
        let payload_and_rest = match after {
            [b':', rest @ ..] => rest,
            [] => return error(Fault::Short, digits),
            _ => return error(Fault::Length, digits),
        };
        if matches!(length, [b'0', _, ..]) {
            return error(Fault::Length, 0);
        }
        let Some(length) = decimal(length).and_then(|number| usize::try_from(number).ok()) else {
            return error(Fault::Length, 0);
        };
        match payload_and_rest.split_at_checked(length) {
            Some((payload, [tag, rest @ ..])) => Ok(Netstring { payload, tag: *tag, rest }),
            _ => error(Fault::Short, input.len()),
        }
    }
}

/// Appends `payload` as an element closed by `tag`.
pub fn put(out: &mut Vec<u8>, payload: &[u8], tag: u8) {
    put_number(out, payload.len());
    out.push(b':');
    out.extend_from_slice(payload);
    out.push(tag);
}

/// Appends a number in decimal digits.
pub(super) fn put_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
