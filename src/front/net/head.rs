//! Waits for heads of requests, within their limits; refuses what is none.

use std::rc::Rc;
use std::time::Duration;
use std::time::Instant;

use super::conn::Conn;
use super::conn::Next;
use super::conn::is_would_block;
use super::record::Line;
use crate::front::http1::Refusal;
use crate::front::http1::framing::Body;
use crate::front::http1::head;
use crate::front::http1::head::Head;
use crate::front::http1::target::Target;
use crate::front::relay::Asked;
use crate::http::framing::Version;
use crate::http::page;
use crate::http::page::Page;

/// How a client of TLS begins: a handshake record of version 3.
const TLS: &[u8] = &[0x16, 3];

impl Conn {
    /// Waits for a head and gives its length.
    pub(super) async fn head(&mut self) -> Result<usize, Next> {
        let shared = Rc::clone(&self.shared);
        let clients = &shared.config.clients;
        let now = Instant::now();
        let mut began = !self.input.is_empty();
        let patience =
            if began || self.requests == 0 { clients.head_timeout } else { clients.idle_timeout };
        self.client.until(Some(now + patience));
        let mut seen = 0;
        loop {
            if let Some(length) = head::length(&self.input, seen) {
                return if length <= clients.head_limit {
                    Ok(length)
                } else {
                    Err(self.too_large())
                };
            }
            if head::hopeless(&self.input, seen) {
                if self.input.starts_with(TLS) {
                    self.shared
                        .complain(|| "a client speaks TLS to an address for plain HTTP".to_owned());
                }
                return Err(self.refuse(400, None));
            }
            if self.input.len() > clients.head_limit {
                return Err(self.too_large());
            }
            if self.eof {
                return Err(Next::Close);
            }
            seen = self.input.len();
            match self.read() {
                Ok(0) => {}
                Ok(_) => {
                    if !began {
                        began = true;
                        self.client.until(Some(Instant::now() + clients.head_timeout));
                    }
                }
                Err(error) if is_would_block(&error) => {
                    if !began {
                        // An idle connection costs no buffers.
                        (self.input, self.out) = (Vec::new(), Vec::new());
                    }
                    if self.shared.stopping() && !began {
                        return Err(Next::Close);
                    }
                    self.wait(true, false).await;
                    self.between(began)?;
                }
                Err(_) => return Err(Next::Close),
            }
        }
    }

    /// Looks what has come while no request is under way.
    fn between(&mut self, began: bool) -> Result<(), Next> {
        self.quiet()?;
        match (self.client.look(|inbox| inbox.late), began) {
            (true, true) => Err(self.refuse(408, None)),
            (true, false) => Err(Next::Close),
            (false, _) => Ok(()),
        }
    }

    /// Makes sure that no handler has sent anything, or closed the connection, while no request is under way.
    pub(super) fn quiet(&mut self) -> Result<(), Next> {
        let (ends, unasked) =
            self.client.look(|inbox| (inbox.close || inbox.cancel, inbox.unasked));
        if !ends && !unasked {
            return Ok(());
        }
        self.known_closed |= ends;
        Err(Next::Close)
    }

    /// The head has more bytes than are taken.
    fn too_large(&mut self) -> Next {
        let line = memchr::memchr(b'\n', &self.input);
        let target = line.is_none_or(|end| end > self.shared.config.clients.head_limit);
        let refusal = if target { Refusal::TargetTooLong } else { Refusal::HeadTooLarge };
        self.refuse(refusal.status(), None)
    }

    /// Answers with an error, and ends the connection.
    pub(super) fn refuse(&mut self, status: u16, head: Option<&Head<'_>>) -> Next {
        let head_only = head.is_some_and(|head| head.method == b"HEAD");
        let bytes = page::put(&mut self.out, status, Page { head_only, ..Page::default() });
        self.shared.record.refused();
        let line = Line { remote: &self.remote, head, status, bytes, took: Duration::ZERO };
        self.shared.record.line(&line);
        Next::Linger
    }

    /// Answers what no handler is there for.
    pub(super) fn unrouted(
        &mut self,
        head: &Head<'_>,
        target: &Target<'_>,
        asked: Asked,
        body: Body,
    ) -> Next {
        if target.path != b"*" || head.method != b"OPTIONS" {
            return self.refuse(404, Some(head));
        }
        // RFC 9110 section 9.3.7: a ping of the server as a whole.
        let keep = asked.keeps() && body == Body::Length(0) && !self.shared.stopping();
        self.out.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n");
        self.out.extend_from_slice(match (keep, asked.version) {
            (false, _) => b"Connection: close\r\n\r\n",
            (true, Version::Http10) => b"Connection: keep-alive\r\n\r\n",
            (true, Version::Http11) => b"\r\n",
        });
        let line = Line {
            remote: &self.remote,
            head: Some(head),
            status: 200,
            bytes: 0,
            took: Duration::ZERO,
        };
        self.shared.record.line(&line);
        if keep && self.write().is_ok_and(|all| all) { Next::Again } else { Next::Linger }
    }
}
