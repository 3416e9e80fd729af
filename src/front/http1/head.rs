//! The head of a request, taken apart where it lies.

use super::Refusal;
use super::target::is_host;
use crate::http::framing::Version;
use crate::http::head::is_token;

/// Most fields of a head.
const FIELDS_MAX: usize = 256;

/// Longest method that is passed on (as Mongrel2's).
const METHOD_MAX: usize = 20;

/// A head; everything borrows from the bytes it was read from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub(crate) method: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) version: Version,
    /// Names as they came, values without the blanks around them.
    pub(crate) fields: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Head<'a> {
    /// The values of a field, in order; `name` in lower case.
    pub(crate) fn all<'h>(&'h self, name: &'h str) -> impl Iterator<Item = &'a [u8]> + 'h {
        let name = name.as_bytes();
        let is = move |field: &[u8]| field.len() == name.len() && field.eq_ignore_ascii_case(name);
        self.fields.iter().filter(move |(field, _)| is(field)).map(|(_, value)| *value)
    }

    /// The first value of a field.
    pub(crate) fn first(&self, name: &str) -> Option<&'a [u8]> {
        self.all(name).next()
    }
}

/// The length of the head with which `input` begins, the empty line included; nothing while that has not come. Empty
/// lines before a head belong to it. `seen` bytes have been looked at in vain before.
pub(crate) fn length(input: &[u8], seen: usize) -> Option<usize> {
    let from = seen.saturating_sub(3).max(blank_lines(input));
    let at = memchr::memmem::find(input.get(from..)?, b"\r\n\r\n")?;
    Some(from + at + 4)
}

/// Bytes of the empty lines with which `input` begins: some clients send one after a body (RFC 9112 section 2.2).
fn blank_lines(input: &[u8]) -> usize {
    let mut at = 0;
    while input.get(at..at + 2) == Some(b"\r\n") && at < 8 {
        at += 2;
    }
    at
}

/// Whether a head has begun: an empty line alone is none.
pub(crate) fn begins(input: &[u8]) -> bool {
    input.len() > blank_lines(input)
}

/// Whether what has come of a head can no longer become a good one, so that there is no use in waiting for the rest.
/// `seen` bytes have been looked at before.
pub(crate) fn hopeless(input: &[u8], seen: usize) -> bool {
    let bare = |at: usize| (seen + at).checked_sub(1).and_then(|at| input.get(at)) != Some(&b'\r');
    if memchr::memchr_iter(b'\n', input.get(seen..).unwrap_or_default()).any(bare) {
        return true;
    }
    let input = input.get(blank_lines(input)..).unwrap_or_default();
    let first = input.iter().take(METHOD_MAX + 1).position(|byte| !is_method_byte(*byte));
    match first {
        None => input.len() > METHOD_MAX,
        Some(at) => at == 0 && input != b"\r" || input.get(at) != Some(&b' ') && at > 0,
    }
}

/// Reads a whole head, as [`length`] has found it.
pub(crate) fn parse(input: &[u8]) -> Result<Head<'_>, Refusal> {
    let mut rest = input.get(blank_lines(input)..).unwrap_or_default();
    let line = take_line(&mut rest)?;
    let (method, line) = split_at_blank(line).ok_or(Refusal::Bad)?;
    let (target, version) = split_at_blank(line).ok_or(Refusal::Bad)?;
    if !(1..=METHOD_MAX).contains(&method.len()) || !method.iter().all(|b| is_method_byte(*b)) {
        return Err(Refusal::Bad);
    }
    let version = match version {
        b"HTTP/1.0" => Version::Http10,
        // A later 1.x is one that understands 1.1 (RFC 9110 section 2.5).
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9'] => Version::Http11,
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
            return Err(Refusal::Version);
        }
        _ => return Err(Refusal::Bad),
    };
    // Methods that stand for messages of another kind to handlers (protocol section 2.1) and CONNECT, which is for proxies.
    if matches!(method, b"JSON" | b"XML" | b"WEBSOCKET" | b"CONNECT") {
        return Err(Refusal::NotImplemented);
    }
    let mut fields = Vec::with_capacity(16);
    loop {
        let line = take_line(&mut rest)?;
        if line.is_empty() {
            break;
        }
        if fields.len() == FIELDS_MAX {
            return Err(Refusal::HeadTooLarge);
        }
        fields.push(field(line)?);
    }
    let mut hosts = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"host"));
    // RFC 9112 section 3.2: exactly one, and HTTP/1.0 may have none.
    let good = match (hosts.next(), hosts.next()) {
        (Some((_, host)), None) => is_host(host),
        (None, _) => version == Version::Http10,
        _ => false,
    };
    if !good {
        return Err(Refusal::Bad);
    }
    Ok(Head { method, target, version, fields })
}

/// Splits off a line; its end is CR LF, and neither may stand alone.
fn take_line<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Refusal> {
    let end = memchr::memchr2(b'\r', b'\n', rest).ok_or(Refusal::Bad)?;
    let (line, after) = rest.split_at_checked(end).ok_or(Refusal::Bad)?;
    *rest = after.strip_prefix(b"\r\n").ok_or(Refusal::Bad)?;
    Ok(line)
}

fn split_at_blank(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b' ', line)?;
    Some((line.get(..at)?, line.get(at + 1..)?))
}

fn is_method_byte(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-'
}

fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    let colon = memchr::memchr(b':', line).ok_or(Refusal::Bad)?;
    let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
    // A name that is a token has no blank before the colon, and a folded line has no token at its beginning.
    if !is_token(name) || value.iter().any(|byte| matches!(byte, 0 | 0x7f)) {
        return Err(Refusal::Bad);
    }
    Ok((name, value))
}

/// Without the blanks and TABs around it.
pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> Option<u16> {
        assert_eq!(length(text.as_bytes(), 0), Some(text.len()), "{text:?}");
        parse(text.as_bytes()).err().map(Refusal::status)
    }

    #[test]
    fn a_head_in_parts() {
        let text = b"GET /a?b HTTP/1.1\r\nHost: x\r\nX-A:\t 1 2 \r\nx-a:\r\n\r\nGET";
        assert_eq!(length(text, 0), Some(text.len() - 3));
        let head = parse(&text[..text.len() - 3]).unwrap();
        assert_eq!((head.method, head.target), (&b"GET"[..], &b"/a?b"[..]));
        assert_eq!(head.all("x-a").collect::<Vec<_>>(), [&b"1 2"[..], b""]);
        assert_eq!(head.first("host"), Some(&b"x"[..]));
        assert_eq!(head.first("y"), None);
    }

    #[test]
    fn it_is_found_whatever_pieces_it_comes_in() {
        let text = b"\r\n\r\nGET / HTTP/1.0\r\n\r\n";
        for seen in 0..text.len() {
            assert_eq!(length(&text[..seen], 0), None);
            assert_eq!(length(text, seen), Some(text.len()));
            assert!(!hopeless(&text[..seen], 0));
        }
        assert_eq!(parse(text).unwrap().method, b"GET");
    }

    #[test]
    fn what_no_good_head_begins_with() {
        for text in [
            "get / HTTP/1.0",
            "\x16\x03\x01",
            " GET",
            "GET\t/",
            "ABCDEFGHIJKLMNOPQRSTUVW",
            "\n",
            "{}",
            "GET / HTTP/1.1\nHost",
            "GET / HTTP/1.1\r\nHost: x\n",
        ] {
            assert!(hopeless(text.as_bytes(), 0), "{text:?}");
        }
        for text in ["", "G", "GET", "GET ", "GET /\x01", "M-SEARCH *"] {
            assert!(!hopeless(text.as_bytes(), 0), "{text:?}");
        }
    }

    #[test]
    fn shapes_that_two_readers_could_read_in_two_ways() {
        for head in [
            "GET  / HTTP/1.1",
            "GET / HTTP/1.1 ",
            "GET /\tHTTP/1.1",
            "GET / http/1.1",
            "GET / HTTP/1.1\nX: y",
            "GET / HTTP/1.1\rX: y",
            "GET /",
            "GET / HTTP/11",
            "get / HTTP/1.1",
            "ABCDEFGHIJABCDEFGHIJA / HTTP/1.1",
        ] {
            assert_eq!(refused(&format!("{head}\r\nHost: x\r\n\r\n")), Some(400), "{head:?}");
        }
        for field in [
            "X : y",
            "X\t: y",
            ": y",
            "X",
            " X: y",
            "X: y\r\n folded: z",
            "X: y\r\n\tz",
            "X: a\rb",
            "X: a\nb",
            "X: \0",
            "X: \x7f",
            "caf\u{e9}: y",
            "X\x01: y",
            "X(: y",
            "Host: y",
        ] {
            let text = format!("GET / HTTP/1.1\r\nHost: x\r\n{field}\r\n\r\n");
            assert_eq!(refused(&text), Some(400), "{field:?}");
        }
        assert_eq!(refused("GET / HTTP/1.1\r\nX: y\r\n\r\n"), Some(400), "no host");
    }

    #[test]
    fn what_is_taken() {
        for head in [
            "GET / HTTP/1.0\r\nX: \x01\x1b caf\u{e9}",
            "GET / HTTP/1.0\r\nX!#$%&'*+-.^_`|~9: v",
            "M-SEARCH * HTTP/1.0",
            "ABCDEFGHIJ0123456789 / HTTP/1.0",
            "GET / HTTP/1.5\r\nHost:",
        ] {
            assert_eq!(refused(&format!("{head}\r\n\r\n")), None, "{head:?}");
        }
    }

    #[test]
    fn other_statuses() {
        for (head, status) in [
            ("GET / HTTP/2.0", 505),
            ("GET / HTTP/0.9", 505),
            ("JSON / HTTP/1.0", 501),
            ("CONNECT a:1 HTTP/1.0", 501),
        ] {
            assert_eq!(refused(&format!("{head}\r\n\r\n")), Some(status), "{head:?}");
        }
        let many = "A: b\r\n".repeat(FIELDS_MAX + 1);
        assert_eq!(refused(&format!("GET / HTTP/1.0\r\n{many}\r\n")), Some(431));
    }

    proptest! {
        #[test]
        fn any_bytes_are_borne(bytes in proptest::collection::vec(any::<u8>(), 0..200), valid: bool) {
            let input = if valid { [b"GET / HTTP/1.0\r\n", &bytes[..], b"\r\n\r\n"].concat() } else { bytes };
            let _ = hopeless(&input, 0);
            if let Some(length) = length(&input, 0) {
                let _ = parse(&input[..length]);
            }
            let _ = parse(&input);
        }
    }
}
