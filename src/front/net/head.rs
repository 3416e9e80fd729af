//! Waits for heads of requests, within their limits; refuses what is none.

use std::rc::Rc;
use std::time::Instant;

use super::conn::Conn;
use super::conn::Next;
use super::conn::is_would_block;
use super::record::Outcome;
use super::request::Asking;
use super::respond::Answer;
use crate::front::http1::Refusal;
use crate::front::http1::framing::Body;
use crate::front::http1::head;
use crate::front::http1::target::Target;
use crate::front::relay::Asked;
use crate::http::SERVER;
use crate::http::date;
use crate::http::framing::Version;

/// How a client of TLS begins: a handshake record of version 3.
const TLS: &[u8] = &[0x16, 3];

impl Conn {
    /// Waits for a head and gives its length.
    pub(super) async fn head(&mut self) -> Result<usize, Next> {
        self.config = self.shared.config();
        let config = Rc::clone(&self.config);
        let clients = &config.clients;
        let now = Instant::now();
        let mut began = head::begins(&self.input);
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
                return Err(self.refuse(400, Asking::default()));
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
                    if !began && head::begins(&self.input) {
                        began = true;
                        self.client.until(Some(Instant::now() + clients.head_timeout));
                    }
                }
                Err(error) if is_would_block(&error) => {
                    if !began {
                        // An idle connection costs no buffers.
                        (self.input, self.out) = (Vec::new(), Vec::new());
                        seen = 0;
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
            (true, true) => Err(self.refuse(408, Asking::default())),
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
        let target = line.is_none_or(|end| end > self.config.clients.head_limit);
        let refusal = if target { Refusal::TargetTooLong } else { Refusal::HeadTooLarge };
        self.refuse(refusal.status(), Asking::default())
    }

    /// Answers with an error, and ends the connection.
    pub(super) fn refuse(&mut self, status: u16, asking: Asking<'_>) -> Next {
        let head_only = asking.head.is_some_and(|head| head.method == b"HEAD");
        self.begin(asking.head);
        let answer = self.page(status, head_only, Outcome::Refused);
        self.over(asking, answer)
    }

    /// Answers what no handler is there for.
    pub(super) fn unrouted(
        &mut self,
        asking: Asking<'_>,
        target: &Target<'_>,
        asked: Asked,
        body: Body,
    ) -> Next {
        if target.path != b"*" || asking.head.is_none_or(|head| head.method != b"OPTIONS") {
            return self.refuse(404, asking);
        }
        // RFC 9110 section 9.3.7: a ping of the server as a whole.
        let keep = asked.keeps() && body == Body::Length(0) && !self.shared.stopping();
        self.begin(asking.head);
        self.out.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nServer: ");
        self.out.extend_from_slice(SERVER.as_bytes());
        self.out.extend_from_slice(b"\r\nDate: ");
        self.out.extend_from_slice(&date::now());
        self.out.extend_from_slice(b"\r\n");
        self.out.extend_from_slice(&self.id_line());
        self.out.extend_from_slice(match (keep, asked.version) {
            (false, _) => b"Connection: close\r\n\r\n",
            (true, Version::Http10) => b"Connection: keep-alive\r\n\r\n",
            (true, Version::Http11) => b"\r\n",
        });
        let written = keep && self.write().is_ok_and(|all| all);
        let next = if written { Next::Again } else { Next::Linger };
        self.over(asking, Answer { told: Some((200, 0)), outcome: Outcome::Ok, next })
    }
}
