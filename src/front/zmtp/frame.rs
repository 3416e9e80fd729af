//! Frames: a byte of flags, a length of one or eight bytes, a body.

use super::ZmtpError;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// One frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Another frame of the same message follows.
    pub more: bool,
    /// A command, and no part of a message.
    pub command: bool,
    /// Its bytes.
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Splits the first frame off `input`; gives it and the bytes it takes up, or nothing while it is not all there.
    ///
    /// # Errors
    /// A frame of more than `limit` bytes is refused as soon as its length can be read.
    pub fn split(input: &'a [u8], limit: u64) -> Result<Option<(Frame<'a>, usize)>, ZmtpError> {
        let Some((&flags, rest)) = input.split_first() else { return Ok(None) };
        if flags & !(MORE | LONG | COMMAND) != 0 || flags & (MORE | COMMAND) == MORE | COMMAND {
            return Err(ZmtpError::Flags);
        }
        let (length, head) = if flags & LONG == 0 {
            match rest.first() {
                Some(&length) => (u64::from(length), 2),
                None => return Ok(None),
            }
        } else {
            match rest.first_chunk() {
                Some(length) => (u64::from_be_bytes(*length), 9),
                None => return Ok(None),
            }
        };
        if length > limit {
            return Err(ZmtpError::TooLong(length));
        }
        let Ok(length) = usize::try_from(length) else { return Err(ZmtpError::TooLong(length)) };
        let Some(body) = input.get(head..).and_then(|body| body.get(..length)) else {
            return Ok(None);
        };
        let frame = Frame { more: flags & MORE != 0, command: flags & COMMAND != 0, body };
        Ok(Some((frame, head + length)))
    }
}

/// Appends the flags and the length of a body of `length` bytes.
fn put_head(out: &mut Vec<u8>, flags: u8, length: usize) {
    if let Ok(short) = u8::try_from(length) {
        out.extend_from_slice(&[flags, short]);
    } else {
        out.push(flags | LONG);
        out.extend_from_slice(&(length as u64).to_be_bytes());
    }
}

/// Appends a message of one frame, given in pieces.
pub fn put_message(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    let length = pieces.iter().map(|piece| piece.len()).sum();
    out.reserve(length + 9);
    put_head(out, 0, length);
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

/// Appends a command: its name and what follows it.
pub(super) fn put_command(out: &mut Vec<u8>, name: &str, data: &[u8]) {
    put_head(out, COMMAND, 1 + name.len() + data.len());
    // The names are our own and short.
    out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(data);
}
