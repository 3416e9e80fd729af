//! Chunked transfer coding (RFC 9112 section 7.1), the reading half: framed bytes in, any split, data out.
//!
//! Data is given out as it lies in the input, never copied. Extensions are passed over and trailers are checked and
//! dropped, both within limits. Nothing is guessed: a size that is not plain hexadecimal, a bare LF or data that its
//! chunk does not end is an error, because two readers that guess differently are how a request is smuggled.

use super::field;
use super::field::FieldError;
use super::field::is_blank;

/// Most bytes of a chunk's size line, its extensions included.
pub const MAX_LINE: usize = 1024;

/// Most bytes of all trailers of a body.
pub const MAX_TRAILERS: usize = 8192;

/// Sixteen hexadecimal digits are 64 bits.
const MAX_DIGITS: usize = 16;

/// What is wrong with a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// Not one to sixteen hexadecimal digits, or something other than an extension behind them.
    #[error("chunk size is not a hexadecimal number")]
    Size,
    /// The size line is longer than [`MAX_LINE`].
    #[error("chunk size line is longer than {MAX_LINE} bytes")]
    Line,
    /// A control character in an extension.
    #[error("control character in a chunk extension")]
    Extension,
    /// A line that ends with LF alone, or a CR that LF does not follow.
    #[error("line of a chunked body does not end with CR LF")]
    LineEnd,
    /// The data is not followed by CR LF: there was more of it than the size said, or less.
    #[error("chunk is not as long as its size says")]
    Data,
    /// All trailers together are longer than [`MAX_TRAILERS`].
    #[error("trailers are longer than {MAX_TRAILERS} bytes")]
    Trailers,
    /// A trailer that is not a header line.
    #[error("trailer: {0}")]
    Trailer(#[source] FieldError),
}

/// What [`Dechunk::next`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk<'i> {
    /// Bytes of the body, never empty.
    Data(&'i [u8]),
    /// The body is complete; what is left of the input is not part of it.
    End,
    /// The input is used up.
    More,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// In the digits of a size.
    Size,
    /// Behind them: blanks that only an extension may follow.
    Blank,
    Extension,
    /// The CR of a size line has come.
    SizeLf,
    /// So many bytes of data are to come.
    Data(u64),
    DataCr,
    DataLf,
    Trailer,
    End,
}

/// A chunked body being read.
#[derive(Debug, Clone)]
pub struct Dechunk {
    at: At,
    size: u64,
    digits: usize,
    /// Bytes of the size line so far.
    line: usize,
    trailers: usize,
    /// The trailer line that has begun.
    trailer: Vec<u8>,
}

impl Default for Dechunk {
    fn default() -> Dechunk {
        Dechunk { at: At::Size, size: 0, digits: 0, line: 0, trailers: 0, trailer: Vec::new() }
    }
}

impl Dechunk {
    /// Takes from the front of `input` up to the next piece of data or the end of the body. After an error or the end
    /// nothing more may be asked.
    pub fn next<'i>(&mut self, input: &mut &'i [u8]) -> Result<Chunk<'i>, ChunkError> {
        loop {
            match self.at {
                At::Data(left) => {
                    if input.is_empty() {
                        return Ok(Chunk::More);
                    }
                    let length = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    let (data, rest) = input.split_at(length);
                    *input = rest;
                    let left = left - length as u64;
                    self.at = if left == 0 { At::DataCr } else { At::Data(left) };
                    return Ok(Chunk::Data(data));
                }
                At::Trailer => {
                    if !self.trailer_line(input)? {
                        return Ok(Chunk::More);
                    }
                }
                At::End => return Ok(Chunk::End),
                _ => {
                    let Some((&byte, rest)) = input.split_first() else {
                        return Ok(Chunk::More);
                    };
                    *input = rest;
                    self.byte(byte)?;
                }
            }
        }
    }

    /// One byte of what stands round the data.
    fn byte(&mut self, byte: u8) -> Result<(), ChunkError> {
        self.line += 1;
        if self.line > MAX_LINE {
            return Err(ChunkError::Line);
        }
        match (self.at, byte) {
            (At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.digits += 1;
                if self.digits > MAX_DIGITS {
                    return Err(ChunkError::Size);
                }
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                self.size = self.size << 4 | u64::from(digit);
            }
            (At::Size, _) if self.digits == 0 => return Err(ChunkError::Size),
            (At::Size | At::Extension, b'\r') => self.at = At::SizeLf,
            (At::Size | At::Blank | At::Extension, b'\n') => return Err(ChunkError::LineEnd),
            (At::Size | At::Blank, b';') => self.at = At::Extension,
            (At::Size | At::Blank, byte) if is_blank(byte) => self.at = At::Blank,
            (At::Size | At::Blank, _) => return Err(ChunkError::Size),
            (At::Extension, byte) if (byte < b' ' && byte != b'\t') || byte == 0x7f => {
                return Err(ChunkError::Extension);
            }
            (At::SizeLf, b'\n') => {
                self.at = if self.size == 0 { At::Trailer } else { At::Data(self.size) };
                (self.size, self.digits, self.line) = (0, 0, 0);
            }
            (At::SizeLf, _) => return Err(ChunkError::LineEnd),
            (At::DataCr, b'\r') => self.at = At::DataLf,
            (At::DataLf, b'\n') => (self.at, self.line) = (At::Size, 0),
            (At::DataCr | At::DataLf, _) => return Err(ChunkError::Data),
            (At::Extension | At::Data(_) | At::Trailer | At::End, _) => {}
        }
        Ok(())
    }

    /// Reads one line behind the last chunk; false when the input ends within it.
    fn trailer_line(&mut self, input: &mut &[u8]) -> Result<bool, ChunkError> {
        let end = memchr::memchr(b'\n', input);
        let (part, rest) = input.split_at(end.map_or(input.len(), |at| at + 1));
        if self.trailers + part.len() > MAX_TRAILERS {
            return Err(ChunkError::Trailers);
        }
        self.trailers += part.len();
        self.trailer.extend_from_slice(part);
        *input = rest;
        if end.is_none() {
            return Ok(false);
        }
        let line = self.trailer.strip_suffix(b"\r\n").ok_or(ChunkError::LineEnd)?;
        if line.is_empty() {
            self.at = At::End;
        } else {
            field::split(line).map_err(ChunkError::Trailer)?;
        }
        self.trailer.clear();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data, and what is left behind the body.
    type Read = (Vec<u8>, Vec<u8>);

    /// Reads in pieces of `step` bytes; `None` where the body does not end.
    fn read(body: &[u8], step: usize) -> Result<Option<Read>, ChunkError> {
        let mut chunks = Dechunk::default();
        let mut data = Vec::new();
        for (number, mut input) in body.chunks(step).enumerate() {
            loop {
                match chunks.next(&mut input)? {
                    Chunk::Data(piece) => data.extend_from_slice(piece),
                    Chunk::More => break,
                    Chunk::End => {
                        let mut left = input.to_vec();
                        left.extend(body.chunks(step).skip(number + 1).flatten());
                        return Ok(Some((data, left)));
                    }
                }
            }
        }
        Ok(None)
    }

    #[test]
    fn whole_bodies() {
        for (body, data, left) in [
            (&b"0\r\n\r\n"[..], &b""[..], &b""[..]),
            (b"5\r\nhello\r\n0\r\n\r\n", b"hello", b""),
            (b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nrest", b"hello world", b"rest"),
            (b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789", b""),
            (b"000a\r\n0123456789\r\n000\r\n\r\n", b"0123456789", b""),
            (b"1;x\r\na\r\n0\r\n\r\n", b"a", b""),
            (b"1 \t;x=\"y z\"\r\na\r\n0;last\r\n\r\n", b"a", b""),
            (b"1\r\na\r\n0\r\nX: y\r\nZ:\r\n\r\n0", b"a", b"0"),
            (b"2\r\n\r\n\r\n0\r\n\r\n", b"\r\n", b""),
        ] {
            for step in 1..=body.len() {
                let expected = Ok(Some((data.to_vec(), left.to_vec())));
                assert_eq!(read(body, step), expected, "{} by {step}", body.escape_ascii());
            }
        }
    }

    #[test]
    fn unfinished_bodies() {
        let body = b"5;x\r\nhello\r\n0\r\nX: y\r\n\r\n";
        for end in 1..body.len() {
            assert_eq!(read(&body[..end], 3), Ok(None), "{end}");
        }
    }

    #[test]
    fn what_is_refused() {
        let long = [b"1;", &[b'x'; MAX_LINE][..], b"\r\na\r\n0\r\n\r\n"].concat();
        let trailers = [b"0\r\nX: ", &[b'x'; MAX_TRAILERS][..], b"\r\n\r\n"].concat();
        for (body, error) in [
            (&b"\r\n"[..], ChunkError::Size),
            (b"x\r\n", ChunkError::Size),
            (b"-1\r\n", ChunkError::Size),
            (b"+1\r\n", ChunkError::Size),
            (b" 1\r\n", ChunkError::Size),
            (b"0x1\r\n", ChunkError::Size),
            (b"1_0\r\n", ChunkError::Size),
            (b";x\r\n", ChunkError::Size),
            (b"1 \r\na", ChunkError::Size),
            (b"1 2\r\na", ChunkError::Size),
            (b"00000000000000001\r\n", ChunkError::Size),
            (b"11111111111111111\r\n", ChunkError::Size),
            (b"1\na", ChunkError::LineEnd),
            (b"1 \na", ChunkError::LineEnd),
            (b"1;x\na", ChunkError::LineEnd),
            (b"1\r\r\na", ChunkError::LineEnd),
            (b"1;\0\r\na", ChunkError::Extension),
            (b"1\r\nab\r\n", ChunkError::Data),
            (b"1\r\na\n0\r\n", ChunkError::Data),
            (b"1\r\na\rb", ChunkError::Data),
            (b"1\r\na0\r\n", ChunkError::Data),
            (b"0\r\nX: y\n\n", ChunkError::LineEnd),
            (b"0\r\n\n", ChunkError::LineEnd),
            (b"0\r\nno\r\n\r\n", ChunkError::Trailer(FieldError::Name)),
            (b"0\r\nX: y\r\n z\r\n\r\n", ChunkError::Trailer(FieldError::Folded)),
            (&long, ChunkError::Line),
            (&trailers, ChunkError::Trailers),
        ] {
            for step in (1..=body.len()).take(30) {
                let got = read(body, step);
                assert_eq!(got, Err(error), "{} by {step}", body.escape_ascii());
            }
        }
    }

    #[test]
    fn the_largest_size() {
        let mut input = &b"ffffffffffffffff\r\nabc"[..];
        let mut chunks = Dechunk::default();
        assert_eq!(chunks.next(&mut input), Ok(Chunk::Data(&b"abc"[..])));
        assert_eq!(chunks.next(&mut input), Ok(Chunk::More));
    }
}
