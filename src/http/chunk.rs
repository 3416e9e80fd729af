//! Chunked transfer coding (RFC 9112 section 7.1), the writing half: no extensions, no trailers.

/// Ends a chunked body. Written once, and only when the body is complete: its absence is how a client learns that it
/// is not.
pub const LAST: &[u8] = b"0\r\n\r\n";

/// Follows the data of each chunk.
pub const AFTER: &[u8] = b"\r\n";

/// The line before a chunk's data, on the stack.
#[derive(Debug, Clone, Copy)]
pub struct SizeLine {
    bytes: [u8; Self::MOST],
    start: usize,
}

impl SizeLine {
    /// Sixteen hexadecimal digits and CR LF.
    const MOST: usize = 18;

    /// The size line of a chunk of `len` bytes. `len` must not be zero: a chunk of nothing is [`LAST`], and ends the
    /// body.
    pub fn new(len: usize) -> SizeLine {
        debug_assert!(len > 0, "an empty chunk would end the body");
        let mut bytes = [0; Self::MOST];
        bytes[Self::MOST - 2] = b'\r';
        bytes[Self::MOST - 1] = b'\n';
        let mut start = Self::MOST - 2;
        let mut left = len;
        loop {
            start -= 1;
            bytes[start] = b"0123456789abcdef"[left % 16];
            left /= 16;
            if left == 0 {
                return SizeLine { bytes, start };
            }
        }
    }

    /// The line, CR LF included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_lines() {
        for (len, line) in [
            (1, "1\r\n"),
            (15, "f\r\n"),
            (16, "10\r\n"),
            (65_536, "10000\r\n"),
            (usize::MAX, "ffffffffffffffff\r\n"),
        ] {
            assert_eq!(SizeLine::new(len).as_bytes(), line.as_bytes(), "{len}");
        }
    }
}
