//! How long a request's body is, and what its client expects.

use super::Refusal;
use super::head::Head;
use super::head::trim;
use crate::http::framing::Version;
use crate::http::framing::Wish;
use crate::http::head::decimal;

/// A body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
}

/// What a head says about the rest of its request, and about its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) body: Body,
    /// The client waits for `100 Continue` before it sends its body.
    pub(crate) expects: bool,
    pub(crate) wish: Wish,
}

/// Reads it (RFC 9112 sections 6.1 to 6.3, stricter where that is allowed).
pub(crate) fn read(head: &Head<'_>) -> Result<Rest, Refusal> {
    let mut length = None;
    let mut coded = false;
    let mut rest = Rest { body: Body::Length(0), expects: false, wish: Wish::None };
    for (name, value) in &head.fields {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        match name.len() {
            14 if is("content-length") => {
                let number = decimal(value).filter(|number| i64::try_from(*number).is_ok());
                if length.replace(number.ok_or(Refusal::Bad)?).is_some() {
                    return Err(Refusal::Bad);
                }
            }
            17 if is("transfer-encoding") => {
                if head.version == Version::Http10 || std::mem::replace(&mut coded, true) {
                    return Err(Refusal::Bad);
                }
                coding(value)?;
            }
            6 if is("expect") => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(Refusal::Expectation);
                }
                rest.expects = head.version == Version::Http11;
            }
            10 if is("connection") => rest.wish = rest.wish.and(value),
            _ => {}
        }
    }
    rest.body = match (length, coded) {
        (Some(_), true) => return Err(Refusal::Bad),
        (_, true) => Body::Chunked,
        (length, false) => Body::Length(length.unwrap_or(0)),
    };
    rest.expects &= rest.body != Body::Length(0);
    Ok(rest)
}

/// Accepts `chunked` alone. Another coding is not implemented; one that ends otherwise has no length.
fn coding(value: &[u8]) -> Result<(), Refusal> {
    let mut codings = value.split(|byte| *byte == b',').map(trim);
    let last = codings.next_back().unwrap_or_default();
    if !last.eq_ignore_ascii_case(b"chunked") {
        return Err(Refusal::Bad);
    }
    match codings.next() {
        None => Ok(()),
        Some(first) if first.eq_ignore_ascii_case(b"chunked") || first.is_empty() => {
            Err(Refusal::Bad)
        }
        Some(_) => Err(Refusal::NotImplemented),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::http1::head;

    fn told(version: &str, fields: &str) -> Result<Rest, u16> {
        let text = format!("POST / HTTP/{version}\r\nHost: x\r\n{fields}\r\n\r\n");
        read(&head::parse(text.as_bytes()).unwrap()).map_err(Refusal::status)
    }

    #[test]
    fn lengths() {
        for (fields, body) in [
            ("X: y", Body::Length(0)),
            ("Content-Length: 0", Body::Length(0)),
            ("content-length:  12 ", Body::Length(12)),
            ("Content-Length: 007", Body::Length(7)),
            ("Content-Length: 9223372036854775807", Body::Length(i64::MAX as u64)),
            ("Transfer-Encoding: chunked", Body::Chunked),
            ("TRANSFER-ENCODING: Chunked", Body::Chunked),
        ] {
            assert_eq!(told("1.1", fields).unwrap().body, body, "{fields}");
        }
    }

    #[test]
    fn shapes_of_smuggling() {
        for fields in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 5",
            "Content-Length: 3\r\nContent-Length: 3",
            "Content-Length: 3, 3",
            "Content-Length: +3",
            "Content-Length: -3",
            "Content-Length: 3x",
            "Content-Length: 0x3",
            "Content-Length:",
            "Content-Length: 3 3",
            "Content-Length: 9223372036854775808",
            "Content-Length: 99999999999999999999",
            "Transfer-Encoding: gzip",
            "Transfer-Encoding: identity",
            "Transfer-Encoding:",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: chunked;q=1",
            "Transfer-Encoding: \x0bchunked",
            "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: chunked, gzip",
            "Transfer-Encoding: , chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        ] {
            assert_eq!(told("1.1", fields), Err(400), "{fields}");
        }
        assert_eq!(told("1.0", "Transfer-Encoding: chunked"), Err(400), "1.0 has no chunks");
        assert_eq!(told("1.1", "Transfer-Encoding: gzip, chunked"), Err(501));
    }

    #[test]
    fn expectations_and_wishes() {
        assert_eq!(told("1.1", "Expect: 200-ok"), Err(417));
        assert_eq!(told("1.1", "Expect:"), Err(417));
        let expects = |version, fields| told(version, fields).unwrap().expects;
        assert!(expects("1.1", "Expect: 100-Continue\r\nContent-Length: 1"));
        assert!(expects("1.1", "Expect: 100-continue\r\nTransfer-Encoding: chunked"));
        assert!(!expects("1.1", "Expect: 100-continue"), "there is no body to wait for");
        assert!(!expects("1.0", "Expect: 100-continue\r\nContent-Length: 1"));
        assert_eq!(
            told("1.1", "Connection: te\r\nConnection: x, Close").unwrap().wish,
            Wish::Close
        );
    }
}
