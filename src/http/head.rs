//! A response head, checked and rendered while it is filled: status line, the application's headers, ours.
//!
//! Names go out byte for byte and in order, nothing is folded. What could split a response never gets in: CR, LF, NUL
//! and every other control character in a status, name or value is an error, not something to clean up.

use std::ops::Range;

use super::SERVER;
use super::date;
use super::field::is_hop_by_hop;
use super::framing::Connection;
use super::framing::Decision;
use super::framing::LengthHeader;
use super::framing::Wish;

/// What is wrong with a status or a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Not three digits, or no blank after them.
    #[error("status must be three digits, a blank and a reason")]
    Status,
    /// A control character in the reason.
    #[error("control character in the status")]
    StatusControl,
    /// The name is empty or not an HTTP token.
    #[error("header name is not an HTTP token")]
    Name,
    /// A control character in a value.
    #[error("control character in the value")]
    ValueControl,
    /// Not a number of bytes.
    #[error("content length is not a decimal number")]
    Length,
    /// More than one.
    #[error("more than one content length")]
    LengthTwice,
}

/// What [`Head::header`] did with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Took {
    /// It goes out.
    Sent,
    /// `Connection: close`: remembered as a wish.
    CloseWish,
    /// A hop-by-hop header, which is the server's business (PEP 3333, "Other HTTP Features"): dropped.
    Dropped,
}

/// A head being filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    text: Vec<u8>,
    status: u16,
    content_length: Option<u64>,
    length_line: Range<usize>,
    close: bool,
    has_date: bool,
    has_server: bool,
}

impl Head {
    /// Begins with a status such as `b"200 OK"`, reusing the memory of `text`. The reason may be empty.
    pub fn new(mut text: Vec<u8>, status: &[u8]) -> Result<Head, HeadError> {
        let Some((digits, rest)) = status.split_first_chunk::<3>() else {
            return Err(HeadError::Status);
        };
        if !digits.iter().all(u8::is_ascii_digit)
            || digits[0] == b'0'
            || !matches!(rest.first(), None | Some(b' '))
        {
            return Err(HeadError::Status);
        }
        if has_control(rest) {
            return Err(HeadError::StatusControl);
        }
        let code = digits.iter().fold(0, |code, &digit| code * 10 + u16::from(digit - b'0'));
        text.clear();
        text.extend_from_slice(b"HTTP/1.1 ");
        text.extend_from_slice(status);
        if rest.is_empty() {
            text.push(b' ');
        }
        text.extend_from_slice(b"\r\n");
        Ok(Head {
            text,
            status: code,
            content_length: None,
            length_line: 0..0,
            close: false,
            has_date: false,
            has_server: false,
        })
    }

    /// Adds one header of the application.
    pub fn header(&mut self, name: &[u8], value: &[u8]) -> Result<Took, HeadError> {
        if !is_token(name) {
            return Err(HeadError::Name);
        }
        if has_control(value) {
            return Err(HeadError::ValueControl);
        }
        let mut length = false;
        match special(name) {
            Special::No => {}
            Special::Length => {
                let number = decimal(value.trim_ascii()).ok_or(HeadError::Length)?;
                if self.content_length.replace(number).is_some() {
                    return Err(HeadError::LengthTwice);
                }
                length = true;
            }
            Special::Date => self.has_date = true,
            Special::Server => self.has_server = true,
            Special::Connection if Wish::None.and(value) == Wish::Close => {
                self.close = true;
                return Ok(Took::CloseWish);
            }
            Special::Connection | Special::HopByHop => return Ok(Took::Dropped),
        }
        let start = self.text.len();
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(b": ");
        self.text.extend_from_slice(value);
        self.text.extend_from_slice(b"\r\n");
        if length {
            self.length_line = start..self.text.len();
        }
        Ok(Took::Sent)
    }

    /// Adds `line`, a header with its end, unless the application has one of that name.
    pub fn add_missing(&mut self, line: &[u8]) {
        let name = line.iter().position(|&b| b == b':').map_or(line, |colon| &line[..=colon]);
        let same = |other: &[u8]| {
            other.len() >= name.len() && other[..name.len()].eq_ignore_ascii_case(name)
        };
        if !self.text.split(|&b| b == b'\n').skip(1).any(same) {
            self.text.extend_from_slice(line);
        }
    }

    /// The status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The application's `Content-Length`.
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Whether the application wishes the connection closed.
    pub fn close(&self) -> bool {
        self.close
    }

    /// The finished head, with what the decision and the server add, and the empty line.
    pub fn finish(self, decision: &Decision) -> Vec<u8> {
        let mut text = self.text;
        match decision.length {
            LengthHeader::Leave => {}
            LengthHeader::Remove => drop(text.drain(self.length_line)),
            LengthHeader::Add(length) => {
                text.extend_from_slice(b"Content-Length: ");
                text.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
                text.extend_from_slice(b"\r\n");
            }
        }
        if decision.framing == super::framing::Framing::Chunked {
            text.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        match decision.connection {
            Connection::Silent => {}
            Connection::Close => text.extend_from_slice(b"Connection: close\r\n"),
            Connection::KeepAlive => text.extend_from_slice(b"Connection: keep-alive\r\n"),
        }
        if !self.has_server {
            text.extend_from_slice(b"Server: ");
            text.extend_from_slice(SERVER.as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        if !self.has_date {
            text.extend_from_slice(b"Date: ");
            text.extend_from_slice(&date::now());
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"\r\n");
        text
    }
}

/// What a header name means to the server.
enum Special {
    No,
    Length,
    Date,
    Server,
    Connection,
    HopByHop,
}

fn special(name: &[u8]) -> Special {
    // By length first: the names that matter have few lengths, and most headers are none of them.
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    match name.len() {
        4 if is("date") => Special::Date,
        6 if is("server") => Special::Server,
        10 if is("connection") => Special::Connection,
        14 if is("content-length") => Special::Length,
        _ if is_hop_by_hop(name) => Special::HopByHop,
        _ => Special::No,
    }
}

/// True of a control character other than TAB: those never go into a head.
pub(super) fn has_control(text: &[u8]) -> bool {
    text.iter().any(|&b| (b < 0x20 && b != b'\t') || b == 0x7f)
}

/// An HTTP token (RFC 9110 section 5.6.2): what a field name must be.
pub fn is_token(name: &[u8]) -> bool {
    /// One table look-up a byte: every header of every request and response comes through here.
    const TOKEN: [bool; 256] = {
        let mut table = [false; 256];
        let set = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let mut at = 0;
        while at < set.len() {
            table[set[at] as usize] = true;
            at += 1;
        }
        table
    };
    !name.is_empty() && name.iter().all(|&b| TOKEN[usize::from(b)])
}

/// A decimal number of bytes: digits and nothing else, within `u64`.
pub fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, &b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::framing::Framing;

    const PLAIN: Decision = Decision {
        framing: Framing::Length(2),
        keep: true,
        connection: Connection::Silent,
        length: LengthHeader::Leave,
    };

    fn render(headers: &[(&str, &[u8])], decision: Decision) -> String {
        let mut head = Head::new(Vec::new(), b"200 OK").unwrap();
        for (name, value) in headers {
            head.header(name.as_bytes(), value).unwrap();
        }
        String::from_utf8_lossy(&head.finish(&decision)).into_owned()
    }

    #[test]
    fn names_and_order_are_kept() {
        let text = render(
            &[
                ("P3P", b"x"),
                ("eTag", b"y"),
                ("Set-Cookie", b"1"),
                ("set-cookie", b"2"),
                ("DATE", b"d"),
                ("server", b"s"),
            ],
            PLAIN,
        );
        assert_eq!(
            text,
            "HTTP/1.1 200 OK\r\nP3P: x\r\neTag: y\r\nSet-Cookie: 1\r\nset-cookie: 2\r\nDATE: d\r\nserver: s\r\n\r\n"
        );
    }

    #[test]
    fn what_the_server_adds() {
        let chunked = Decision {
            framing: Framing::Chunked,
            keep: false,
            connection: Connection::Close,
            length: LengthHeader::Leave,
        };
        let text = render(&[], chunked);
        let lines: Vec<_> = text.split("\r\n").collect();
        assert_eq!(
            &lines[..3],
            ["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Connection: close"]
        );
        assert_eq!(lines[3], format!("Server: {SERVER}"));
        assert!(lines[4].starts_with("Date: ") && lines[4].ends_with(" GMT"));
        assert_eq!(&lines[5..], ["", ""]);
        let added =
            Decision { connection: Connection::KeepAlive, length: LengthHeader::Add(7), ..PLAIN };
        let text = render(&[], added);
        assert!(text.contains("\r\nContent-Length: 7\r\nConnection: keep-alive\r\n"));
        let removed = Decision { length: LengthHeader::Remove, ..PLAIN };
        let text = render(&[("A", b"1"), ("Content-length", b"5"), ("B", b"2")], removed);
        assert!(text.starts_with("HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\n"), "{text}");
        assert!(render(&[("A", b"1")], removed).starts_with("HTTP/1.1 200 OK\r\nA: 1\r\n"));
    }

    #[test]
    fn what_is_the_servers_business_is_dropped() {
        let mut head = Head::new(Vec::new(), b"200 OK").unwrap();
        assert_eq!(head.header(b"connection", b"keep-alive"), Ok(Took::Dropped));
        assert!(!head.close());
        assert_eq!(head.header(b"Connection", b" Close"), Ok(Took::CloseWish));
        assert!(head.close());
        assert_eq!(head.header(b"Connection", b"x-trace, CLOSE"), Ok(Took::CloseWish));
        assert_eq!(head.header(b"Connection", b"closed"), Ok(Took::Dropped));
        for name in
            ["Keep-Alive", "Transfer-Encoding", "Upgrade", "TE", "Trailer", "Proxy-Authenticate"]
        {
            assert_eq!(head.header(name.as_bytes(), b"chunked"), Ok(Took::Dropped), "{name}");
        }
    }

    #[test]
    fn statuses() {
        for (status, code) in
            [("200 OK", 200), ("404 ", 404), ("204", 204), ("299 caf\u{e9}", 299), ("999 x", 999)]
        {
            assert_eq!(Head::new(Vec::new(), status.as_bytes()).unwrap().status(), code);
        }
        for status in [
            "", "20", "OK", "099 x", "2000 x", "200OK", "200\tOK", "-20 x", " 200 OK", "None",
            "2 00",
        ] {
            assert_eq!(
                Head::new(Vec::new(), status.as_bytes()),
                Err(HeadError::Status),
                "{status:?}"
            );
        }
        for status in ["200 OK\r\nX: y", "200 OK\n", "200 O\0K", "200 \x7f"] {
            assert_eq!(Head::new(Vec::new(), status.as_bytes()), Err(HeadError::StatusControl));
        }
    }

    #[test]
    fn nothing_splits_a_response() {
        let mut head = Head::new(Vec::new(), b"200 OK").unwrap();
        for value in [&b"a\r\nSet-Cookie: x=1"[..], b"a\nb", b"a\rb", b"a\0b", b"\x1b[31m", b"\x7f"]
        {
            assert_eq!(head.header(b"X", value), Err(HeadError::ValueControl), "{value:?}");
        }
        for name in [&b"A\r\nB"[..], b"", b"A B", b"A:", b"A\0", b"caf\xe9", b"(x)"] {
            assert_eq!(head.header(name, b"v"), Err(HeadError::Name), "{name:?}");
        }
        assert_eq!(head.header(b"X", b"a\tb \xe0"), Ok(Took::Sent));
    }

    #[test]
    fn lengths() {
        for bad in ["", "abc", "-1", "+5", "5, 5", "5 5", "0x5", "99999999999999999999"] {
            let mut head = Head::new(Vec::new(), b"200 OK").unwrap();
            assert_eq!(
                head.header(b"Content-Length", bad.as_bytes()),
                Err(HeadError::Length),
                "{bad:?}"
            );
        }
        let mut head = Head::new(Vec::new(), b"200 OK").unwrap();
        assert_eq!(head.header(b"content-LENGTH", b"18446744073709551615"), Ok(Took::Sent));
        assert_eq!(head.content_length(), Some(u64::MAX));
        assert_eq!(head.header(b"Content-Length", b"5"), Err(HeadError::LengthTwice));
    }
}
