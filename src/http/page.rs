//! Ready-made error pages: a whole response in a few bytes, that gives nothing away.
//!
//! The text is the status and nothing more: no path, no version, no reason. What went wrong stands in the log.

use super::SERVER;
use super::date;

/// How a page is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Page<'a> {
    /// The request was HEAD: the head alone.
    pub head_only: bool,
    /// The connection stays open. If not, the page says `Connection: close`, and the caller must close.
    pub keep: bool,
    /// The request was HTTP/1.0, which must be told of a connection that stays open.
    pub version_10: bool,
    /// Seconds for a `Retry-After` header.
    pub retry_after: Option<u32>,
    /// One more line, where the status alone would leave the client's author guessing.
    pub note: Option<&'static str>,
    /// One more line of the head, with its end.
    pub line: Option<&'a [u8]>,
}

/// The reason phrase of a status that we send ourselves.
pub fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        404 => "Not Found",
        408 => "Request Timeout",
        413 => "Content Too Large",
        414 => "URI Too Long",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}

/// The whole response: head, and body unless only the head is wanted.
pub fn error(status: u16, page: Page<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    put(&mut out, status, page);
    out
}

/// As [`error`], appended to `out`. Returns the bytes of the body.
pub fn put(out: &mut Vec<u8>, status: u16, page: Page<'_>) -> u64 {
    let reason = reason(status);
    let mut body = format!("{status} {reason}\n");
    if let Some(note) = page.note {
        body.push_str(note);
        body.push('\n');
    }
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nServer: {SERVER}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n",
        body.len()
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(page.line.unwrap_or_default());
    out.extend_from_slice(b"Date: ");
    out.extend_from_slice(&date::now());
    if let Some(seconds) = page.retry_after {
        out.extend_from_slice(format!("\r\nRetry-After: {seconds}").as_bytes());
    }
    if !page.keep {
        out.extend_from_slice(b"\r\nConnection: close");
    } else if page.version_10 {
        out.extend_from_slice(b"\r\nConnection: keep-alive");
    }
    out.extend_from_slice(b"\r\n\r\n");
    if page.head_only {
        return 0;
    }
    out.extend_from_slice(body.as_bytes());
    body.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a page into head lines and body.
    fn parts(page: &[u8]) -> (Vec<String>, String) {
        let text = String::from_utf8(page.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split("\r\n").map(str::to_owned).collect(), body.to_owned())
    }

    #[test]
    fn pages_say_their_length() {
        for status in [400, 404, 408, 413, 414, 417, 431, 500, 501, 502, 503, 504, 505] {
            assert_ne!(reason(status), "Error");
            let (head, body) = parts(&error(status, Page::default()));
            assert_eq!(head[0], format!("HTTP/1.1 {status} {}", reason(status)));
            assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head:?}");
            assert!(head.contains(&"Connection: close".to_owned()));
            assert_eq!(body, format!("{status} {}\n", reason(status)));
        }
    }

    #[test]
    fn variants() {
        let (head, body) =
            parts(&error(503, Page { retry_after: Some(3), keep: true, ..Page::default() }));
        assert!(head.contains(&"Retry-After: 3".to_owned()));
        assert!(!head.iter().any(|line| line.starts_with("Connection")));
        assert_eq!(body.len(), 24);
        let (head, body) = parts(&error(
            404,
            Page {
                head_only: true,
                keep: true,
                version_10: true,
                retry_after: None,
                ..Page::default()
            },
        ));
        assert!(head.contains(&"Connection: keep-alive".to_owned()));
        assert!(head.contains(&"Content-Length: 14".to_owned()));
        assert_eq!(body, "");
    }
}
