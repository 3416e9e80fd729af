//! A handler's response, made into the one that its client gets: parsed, checked, framed anew.
//!
//! What belongs to the handler's connection to us ends here (hop-by-hop headers, chunks, its version). A broken response
//! becomes an error before any of its bytes is out, or cuts the connection. Pure: bytes in, bytes out.

use crate::http::chunk;
use crate::http::chunk::SizeLine;
use crate::http::framing::Framing;
use crate::http::framing::Version;
use crate::http::framing::Wish;
use crate::http::response::Event;
use crate::http::response::ResponseError;
use crate::http::response::ResponseHead;
use crate::http::response::ResponseParser;

/// What the client has asked, as far as its response is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) head: bool,
    pub(crate) version: Version,
    pub(crate) wish: Wish,
}

impl Asked {
    /// Whether the client would have its connection live on.
    pub(crate) fn keeps(self) -> bool {
        match self.version {
            Version::Http11 => self.wish != Wish::Close,
            Version::Http10 => self.wish == Wish::KeepAlive,
        }
    }
}

/// How far a response has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// More must come.
    More,
    /// It is complete.
    Done {
        /// The connection may live on.
        keep: bool,
    },
    /// It is broken. If nothing of it has gone out, the client can be told; else its connection must be cut.
    Broken(ResponseError),
}

/// One response on its way.
#[derive(Debug)]
pub(crate) struct Relay {
    parser: ResponseParser,
    asked: Asked,
    framing: Framing,
    keep: bool,
    status: u16,
    body_bytes: u64,
    /// One more line of the head, with its end; empty for none.
    line: Vec<u8>,
}

impl Relay {
    /// For the first request of a connection.
    pub(crate) fn new() -> Relay {
        Relay {
            parser: ResponseParser::new(false),
            asked: Asked { head: false, version: Version::Http11, wish: Wish::None },
            framing: Framing::NoBody,
            keep: true,
            status: 0,
            body_bytes: 0,
            line: Vec::new(),
        }
    }

    /// Begins the response to a request. `may_keep` is false if the connection will not live on whatever it says.
    pub(crate) fn restart(&mut self, asked: Asked, may_keep: bool) {
        self.parser.restart(asked.head);
        self.asked = asked;
        self.keep = may_keep && asked.keeps();
        (self.status, self.body_bytes, self.framing) = (0, 0, Framing::NoBody);
    }

    /// The response gets this line (with its end) unless it has a field of that name.
    pub(crate) fn add_line(&mut self, line: Vec<u8>) {
        self.line = line;
    }

    /// What was asked.
    pub(crate) fn asked(&self) -> Asked {
        self.asked
    }

    /// The connection will not live on.
    pub(crate) fn must_close(&mut self) {
        self.keep = false;
    }

    /// The status, once the head has gone out.
    pub(crate) fn status(&self) -> Option<u16> {
        (self.status != 0).then_some(self.status)
    }

    /// Bytes of the body so far, without chunk lines.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Takes bytes of the handler's, and appends what they become to `out`.
    pub(crate) fn take(&mut self, mut input: &[u8], out: &mut Vec<u8>) -> Step {
        loop {
            match self.parser.next(&mut input) {
                Ok(Some(Event::Interim)) => self.put_interim(out),
                Ok(Some(Event::Head)) => self.put_head(out),
                Ok(Some(Event::Body(data))) => {
                    self.body_bytes += data.len() as u64;
                    if self.framing == Framing::Chunked {
                        out.extend_from_slice(SizeLine::new(data.len()).as_bytes());
                        out.extend_from_slice(data);
                        out.extend_from_slice(chunk::AFTER);
                    } else {
                        out.extend_from_slice(data);
                    }
                }
                Ok(Some(Event::End)) => {
                    if self.framing == Framing::Chunked {
                        out.extend_from_slice(chunk::LAST);
                    }
                    // What follows belongs to nobody.
                    return Step::Done { keep: self.keep && input.is_empty() };
                }
                Ok(Some(Event::Excess(_))) => return Step::Done { keep: false },
                Ok(None) => return Step::More,
                Err(error) => return Step::Broken(error),
            }
        }
    }

    /// The handler closes the connection.
    pub(crate) fn close(&mut self) -> Step {
        match self.parser.close() {
            Ok(()) => Step::Done { keep: false },
            Err(error) => Step::Broken(error),
        }
    }

    fn put_interim(&self, out: &mut Vec<u8>) {
        let head = self.parser.head();
        // The one that we send ourselves; and HTTP/1.0 has none of them.
        if head.status() == 100 || self.asked.version == Version::Http10 {
            return;
        }
        put_start(out, head);
        out.extend_from_slice(b"\r\n");
    }

    fn put_head(&mut self, out: &mut Vec<u8>) {
        let head = self.parser.head();
        self.status = head.status();
        self.keep &= self.parser.keeps();
        self.framing = match self.parser.framing() {
            None => Framing::UntilClose,
            Some(Framing::Chunked) if self.asked.version == Version::Http10 => {
                self.keep = false;
                Framing::UntilClose
            }
            Some(framing) => framing,
        };
        put_start(out, head);
        if !self.line.is_empty() {
            let name = self.line.split(|byte| *byte == b':').next().unwrap_or_default();
            if !head.end_to_end().any(|(field, _)| field.eq_ignore_ascii_case(name)) {
                out.extend_from_slice(&self.line);
            }
            self.line.clear();
        }
        if self.framing == Framing::Chunked {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        match (self.keep, self.asked.version) {
            (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
            (true, Version::Http10) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
            (true, Version::Http11) => {}
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// The status line, and the headers that are the client's.
fn put_start(out: &mut Vec<u8>, head: &ResponseHead) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(head.status()).as_bytes());
    out.push(b' ');
    out.extend_from_slice(head.reason());
    out.extend_from_slice(b"\r\n");
    for (name, value) in head.end_to_end() {
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: Asked = Asked { head: false, version: Version::Http11, wish: Wish::None };
    const OLD: Asked = Asked { head: false, version: Version::Http10, wish: Wish::KeepAlive };

    /// What the client of a request gets of a response in pieces of `step` bytes, and the last step.
    fn sent(asked: Asked, response: &str, step: usize) -> (String, Step) {
        let mut relay = Relay::new();
        relay.restart(asked, true);
        let mut out = Vec::new();
        let mut last = Step::More;
        for piece in response.as_bytes().chunks(step) {
            if last == Step::More {
                last = relay.take(piece, &mut out);
            }
        }
        (String::from_utf8(out).unwrap(), last)
    }

    #[test]
    fn responses_as_clients_get_them() {
        let kept = Step::Done { keep: true };
        let closed = Step::Done { keep: false };
        for (asked, response, expected, last) in [
            (
                GET,
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: x\r\n\r\nok",
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                kept,
            ),
            (
                OLD,
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok",
                kept,
            ),
            (
                Asked { wish: Wish::Close, ..GET },
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
                closed,
            ),
            (
                GET,
                "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n",
                "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                closed,
            ),
            (
                OLD,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok",
                closed,
            ),
            (
                Asked { head: true, ..GET },
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
                kept,
            ),
            (
                GET,
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
                "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
                kept,
            ),
            (
                GET,
                "HTTP/1.1 200 OK\r\n\r\nuntil",
                "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil",
                Step::More,
            ),
        ] {
            for step in [1, 7, response.len()] {
                assert_eq!(
                    sent(asked, response, step),
                    (expected.to_owned(), last),
                    "{response:?} by {step}"
                );
            }
        }
    }

    #[test]
    fn chunks_are_framed_anew() {
        let response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n5;a=b\r\nhello\r\n0\r\nx: y\r\n\r\n";
        let expected =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        assert_eq!(
            sent(GET, response, response.len()),
            (expected.to_owned(), Step::Done { keep: true })
        );
    }

    #[test]
    fn what_follows_the_end_reaches_nobody() {
        let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 Forged\r\n\r\n";
        let (text, last) = sent(GET, response, response.len());
        assert!(text.ends_with("\r\n\r\nok"), "{text}");
        assert_eq!(last, Step::Done { keep: false });
    }

    #[test]
    fn broken_ones_say_nothing() {
        for response in ["hello", "HTTP/1.1 200 OK\nX: y\r\n\r\n", "HTTP/1.1 101 Switching\r\n\r\n"]
        {
            let (text, last) = sent(GET, response, 5);
            assert_eq!(text, "");
            assert!(matches!(last, Step::Broken(_)), "{response:?}");
        }
    }

    #[test]
    fn a_close_ends_what_has_no_length_and_cuts_the_rest() {
        let mut relay = Relay::new();
        let mut out = Vec::new();
        relay.restart(GET, true);
        assert_eq!(relay.take(b"HTTP/1.1 200 OK\r\n\r\nab", &mut out), Step::More);
        assert_eq!(relay.close(), Step::Done { keep: false });
        assert_eq!((relay.status(), relay.body_bytes()), (Some(200), 2));
        relay.restart(GET, true);
        assert_eq!(
            relay.take(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", &mut out),
            Step::More
        );
        assert!(matches!(relay.close(), Step::Broken(_)));
        relay.restart(GET, true);
        assert!(matches!(relay.close(), Step::Broken(_)));
        assert_eq!(relay.status(), None);
    }
}
