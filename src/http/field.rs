//! Header lines (RFC 9112 section 5): one line taken apart, and the names that end at each hop.
//!
//! A folded line is refused, not joined (section 5.2), and so is every control character but TAB: what is given out
//! can be written into another message as it is.

use super::head::has_control;
use super::head::is_token;

/// What is wrong with a header line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The line begins with a blank: it continues the one before it.
    #[error("header line is folded")]
    Folded,
    /// No colon, or what stands before it is not an HTTP token.
    #[error("header name is not an HTTP token")]
    Name,
    /// A control character, NUL and bare CR included.
    #[error("control character in a header value")]
    Value,
}

/// Name and value of a line that comes without its line end. Blanks round the value are cut, and so are those
/// between name and colon, which a response may bring and must lose here (section 5.1).
pub fn split(line: &[u8]) -> Result<(&[u8], &[u8]), FieldError> {
    if line.first().is_some_and(|&b| is_blank(b)) {
        return Err(FieldError::Folded);
    }
    let colon = memchr::memchr(b':', line).ok_or(FieldError::Name)?;
    let name = trim_end(&line[..colon]);
    if !is_token(name) {
        return Err(FieldError::Name);
    }
    let value = trim(&line[colon + 1..]);
    if has_control(value) {
        return Err(FieldError::Value);
    }
    Ok((name, value))
}

/// Whether a header of this name is meant for the next hop alone: RFC 9110 section 7.6.1, and what PEP 3333 ("Other
/// HTTP Features") takes from RFC 2616 besides. Those that a `Connection` header lists are for the caller to know.
pub fn is_hop_by_hop(name: &[u8]) -> bool {
    // By length first: most headers are none of them.
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    match name.len() {
        2 => is("te"),
        7 => is("trailer") || is("upgrade"),
        8 => is("trailers"),
        10 => is("connection") || is("keep-alive"),
        16 => is("proxy-connection"),
        17 => is("transfer-encoding"),
        18 => is("proxy-authenticate"),
        19 => is("proxy-authorization"),
        _ => false,
    }
}

/// Blank or TAB, which HTTP calls optional white space. CR and LF are none.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn trim_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&b| !is_blank(b)).map_or(0, |last| last + 1);
    &text[..end]
}

fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&b| !is_blank(b)).unwrap_or(text.len());
    trim_end(&text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        for (line, name, value) in [
            (&b"A: b"[..], &b"A"[..], &b"b"[..]),
            (b"a:b", b"a", b"b"),
            (b"a:", b"a", b""),
            (b"a: \t ", b"a", b""),
            (b"a : b", b"a", b"b"),
            (b"a\t:\tb c\t", b"a", b"b c"),
            (b"a: b:c", b"a", b"b:c"),
            (b"a: caf\xe9", b"a", b"caf\xe9"),
            (b"a: b\tc", b"a", b"b\tc"),
        ] {
            assert_eq!(split(line), Ok((name, value)), "{}", line.escape_ascii());
        }
        for (line, error) in [
            (&b" a: b"[..], FieldError::Folded),
            (b"\ta: b", FieldError::Folded),
            (b"", FieldError::Name),
            (b"nocolon", FieldError::Name),
            (b": b", FieldError::Name),
            (b"a b: c", FieldError::Name),
            (b"a\r: c", FieldError::Name),
            (b"caf\xe9: c", FieldError::Name),
            (b"a: b\rc", FieldError::Value),
            (b"a: b\r", FieldError::Value),
            (b"a: \0", FieldError::Value),
            (b"a: \x7f", FieldError::Value),
        ] {
            assert_eq!(split(line), Err(error), "{}", line.escape_ascii());
        }
    }

    #[test]
    fn names_of_one_hop() {
        for name in ["TE", "Trailer", "Upgrade", "Connection", "Keep-Alive", "Transfer-Encoding"] {
            assert!(is_hop_by_hop(name.as_bytes()), "{name}");
            assert!(is_hop_by_hop(name.to_lowercase().as_bytes()), "{name}");
        }
        for name in ["", "Date", "Content-Length", "Set-Cookie", "Connections", "Keep-Alivf"] {
            assert!(!is_hop_by_hop(name.as_bytes()), "{name}");
        }
    }
}
