//! Takes the chunks of a request's body apart (RFC 9112 section 7.1), in whatever pieces they come.
//!
//! Extensions and trailers are read over, up to a limit; trailers never become headers.

use super::Refusal;
use super::head::trim;

/// Longest line of a size with its extensions, and most bytes of trailers.
const LINE_MAX: usize = 4096;

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size,
    Data(u64),
    AfterData,
    Trailers(usize),
    Done,
}

/// A body in chunks that is being read.
#[derive(Debug)]
pub(crate) struct Chunks {
    state: State,
}

impl Chunks {
    pub(crate) fn new() -> Chunks {
        Chunks { state: State::Size }
    }

    /// Whether the body has ended.
    pub(crate) fn done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes what it can of `input`, hands data to `data`, and gives the number of bytes taken. What is left (a part of a
    /// line, or what follows the body) must come again with more.
    pub(crate) fn take(
        &mut self,
        input: &[u8],
        mut data: impl FnMut(&[u8]),
    ) -> Result<usize, Refusal> {
        let mut rest = input;
        loop {
            match self.state {
                State::Done => break,
                State::Size => {
                    let Some(line) = line(&mut rest, LINE_MAX)? else { break };
                    self.state = match size(line)? {
                        0 => State::Trailers(0),
                        size => State::Data(size),
                    };
                }
                State::Data(left) => {
                    let now = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    if now == 0 {
                        break;
                    }
                    let (piece, after) = rest.split_at(now);
                    data(piece);
                    rest = after;
                    let left = left - now as u64;
                    self.state = if left == 0 { State::AfterData } else { State::Data(left) };
                }
                State::AfterData => match rest {
                    [b'\r', b'\n', after @ ..] => (rest, self.state) = (after, State::Size),
                    [] | [b'\r'] => break,
                    _ => return Err(Refusal::Bad),
                },
                State::Trailers(so_far) => {
                    let most = LINE_MAX.saturating_sub(so_far);
                    let Some(line) = line(&mut rest, most)? else { break };
                    self.state = match line {
                        [] => State::Done,
                        _ if !line.contains(&b':') => return Err(Refusal::Bad),
                        _ => State::Trailers(so_far + line.len() + 2),
                    };
                }
            }
        }
        Ok(input.len() - rest.len())
    }
}

/// Splits off a line that ends with CR LF and has neither within; nothing while its end has not come.
fn line<'a>(rest: &mut &'a [u8], most: usize) -> Result<Option<&'a [u8]>, Refusal> {
    let Some(end) = memchr::memchr2(b'\r', b'\n', rest) else {
        return if rest.len() > most { Err(Refusal::HeadTooLarge) } else { Ok(None) };
    };
    if end > most {
        return Err(Refusal::HeadTooLarge);
    }
    let (line, after) = rest.split_at(end);
    match after {
        [b'\r', b'\n', after @ ..] => {
            *rest = after;
            Ok(Some(line))
        }
        [b'\r'] => Ok(None),
        _ => Err(Refusal::Bad),
    }
}

/// The size in front of a chunk: hexadecimal digits, and perhaps an extension.
fn size(line: &[u8]) -> Result<u64, Refusal> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (digits, extension) = line.split_at(end);
    let extension = trim(extension);
    let good = (1..=15).contains(&digits.len())
        && (extension.is_empty() || extension.starts_with(b";"))
        && !extension.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t')
        // Blanks are allowed before an extension only.
        && (!extension.is_empty() || end == line.len());
    if !good {
        return Err(Refusal::Bad);
    }
    Ok(digits
        .iter()
        .fold(0, |size, digit| size << 4 | u64::from(char::from(*digit).to_digit(16).unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds pieces of `step` bytes. The body, whether it has ended, and what was left over.
    fn read(text: &[u8], step: usize) -> Result<(Vec<u8>, bool, Vec<u8>), u16> {
        let (mut chunks, mut buffer, mut body) = (Chunks::new(), Vec::new(), Vec::new());
        for piece in text.chunks(step) {
            buffer.extend_from_slice(piece);
            let taken = chunks
                .take(&buffer, |data| body.extend_from_slice(data))
                .map_err(Refusal::status)?;
            buffer.drain(..taken);
        }
        Ok((body, chunks.done(), buffer))
    }

    #[test]
    fn in_any_pieces() {
        let text = b"5\r\nhello\r\n00A ;x=\"y\"\r\n0123456789\r\n0\r\nX: y\r\nZ:\r\n\r\nGET /";
        for step in 1..text.len() {
            let (body, done, left) = read(text, step).unwrap();
            assert_eq!(
                (&body[..], done, &left[..]),
                (&b"hello0123456789"[..], true, &b"GET /"[..]),
                "{step}"
            );
        }
        assert_eq!(read(b"0\r\n\r\n", 9), Ok((Vec::new(), true, Vec::new())));
        assert_eq!(read(b"3\r\nab", 9), Ok((b"ab".to_vec(), false, Vec::new())));
    }

    #[test]
    fn bad_sizes_and_lines() {
        for text in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1 \r\n",
            "1\n",
            "1\rx",
            "1 2\r\n",
            "1;\x01\r\n",
            "1000000000000000\r\n",
            "1\r\nab",
            "1\r\na\n",
            "1\r\na\rb",
            "0\r\nnocolon\r\n",
            "0\r\n\n",
        ] {
            assert_eq!(read(text.as_bytes(), 99), Err(400), "{text:?}");
        }
        let long = format!("1;{}", "x".repeat(LINE_MAX));
        assert_eq!(read(long.as_bytes(), 9999), Err(431));
        let many = format!("0\r\n{}", "A: bcd\r\n".repeat(LINE_MAX / 8 + 1));
        assert_eq!(read(many.as_bytes(), 9999), Err(431));
    }

    proptest! {
        #[test]
        fn what_is_read_does_not_depend_on_the_pieces(
            text in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'1'), Just(b';'), any::<u8>()], 0..60),
            step in 1usize..9,
        ) {
            let text = [b"2\r\nab\r\n", &text[..]].concat();
            match (read(&text, step), read(&text, text.len())) {
                (Ok(pieces), Ok(whole)) => prop_assert_eq!(pieces, whole),
                (Err(pieces), Err(whole)) => prop_assert_eq!(pieces, whole),
                (pieces, whole) => prop_assert!(false, "{:?} {:?}", pieces, whole),
            }
        }
    }
}
