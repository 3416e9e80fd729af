//! As much of HTTP as a collector of metrics needs: one GET or HEAD for a connection, which is closed after its answer.
//! It refuses everything else, and reads no body.

/// Longest head of a request; the longest that means anything has some hundred bytes.
pub const LONGEST_HEAD: usize = 8192;

/// The status of a page.
pub const OK: &str = "200 OK";
/// The status when there is none to be had.
pub const UNAVAILABLE: &str = "503 Service Unavailable";
const BAD: &str = "400 Bad Request";
const NOT_FOUND: &str = "404 Not Found";
const METHOD: &str = "405 Method Not Allowed";

/// One request.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// Only the head of the answer is wanted.
    pub head_only: bool,
    /// That it is for the page, or the status that says why it is not.
    pub page: Result<(), &'static str>,
}

impl Request {
    /// Reads a head, of which only the first line matters.
    pub fn parse(head: &[u8]) -> Request {
        let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let mut words = line.split(|&byte| byte == b' ');
        let (method, target, version) = (words.next(), words.next(), words.next());
        let head_only = method == Some(b"HEAD");
        let path = target.map(|target| target.split(|&byte| byte == b'?').next().unwrap_or(target));
        let page = match (method, path) {
            _ if !version.is_some_and(|version| version.starts_with(b"HTTP/1.")) => Err(BAD),
            (Some(b"GET" | b"HEAD"), Some(b"/metrics")) => Ok(()),
            (Some(b"GET" | b"HEAD"), _) => Err(NOT_FOUND),
            _ => Err(METHOD),
        };
        Request { head_only, page }
    }
}

/// Appends a whole response.
pub fn put_response(out: &mut Vec<u8>, status: &str, page: &str, head_only: bool) {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        page.len()
    );
    out.extend_from_slice(head.as_bytes());
    if !head_only {
        out.extend_from_slice(page.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_line_matters() {
        for (head, head_only, page) in [
            (&b"GET /metrics HTTP/1.1\r\nHost: x"[..], false, Ok(())),
            (b"HEAD /metrics?x=1 HTTP/1.0", true, Ok(())),
            (b"GET / HTTP/1.1", false, Err(NOT_FOUND)),
            (b"POST /metrics HTTP/1.1", false, Err(METHOD)),
            (b"GET /metrics", false, Err(BAD)),
            (b"\xff\0", false, Err(BAD)),
            (b"", false, Err(BAD)),
        ] {
            assert_eq!(Request::parse(head), Request { head_only, page });
        }
    }
}
