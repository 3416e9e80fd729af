//! Takes requests from a client: the head within its limits, the body as the protocol wants it, the message to a handler.

use std::rc::Rc;
use std::time::Duration;
use std::time::Instant;

use super::conn::Conn;
use super::conn::Next;
use super::conn::is_would_block;
use super::record::Line;
use super::respond::Answer;
use crate::front::core;
use crate::front::core::Placed;
use crate::front::core::RouteId;
use crate::front::forwarded::Forwarded;
use crate::front::http1::Refusal;
use crate::front::http1::framing;
use crate::front::http1::framing::Body;
use crate::front::http1::head;
use crate::front::http1::head::Head;
use crate::front::http1::target;
use crate::front::http1::target::Target;
use crate::front::message;
use crate::front::message::Own;
use crate::front::relay::Asked;
use crate::http::dechunk::Chunk;
use crate::http::dechunk::Dechunk;

/// The interim response that lets a body come.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoBody {
    /// The client is gone.
    Gone,
    /// It took too long.
    Late,
    /// It is not accepted.
    Refused(Refusal),
}

/// A request as it has been understood, while it is served.
#[derive(Debug)]
pub(super) struct Known<'a> {
    pub(super) head: &'a Head<'a>,
    pub(super) target: &'a Target<'a>,
    pub(super) route: RouteId,
    pub(super) asked: Asked,
    pub(super) expects: bool,
}

impl Conn {
    /// Serves one request.
    pub(super) async fn one(&mut self) -> Next {
        let length = match self.head().await {
            Ok(length) => length,
            Err(next) => return next,
        };
        // A handler may have gone on after the last response: what comes now must not be the answer to this request.
        if let Err(next) = self.quiet() {
            return next;
        }
        self.requests += 1;
        let began = Instant::now();
        let rest = self.input.split_off(length);
        let text = std::mem::replace(&mut self.input, rest);
        let head = match head::parse(&text) {
            Ok(head) => head,
            Err(refusal) => return self.refuse(refusal.status(), None),
        };
        let told =
            target::parse(head.target).and_then(|target| Ok((target, framing::read(&head)?)));
        let (target, rest) = match told {
            Ok(told) => told,
            Err(refusal) => return self.refuse(refusal.status(), Some(&head)),
        };
        let asked = Asked { head: head.method == b"HEAD", version: head.version, wish: rest.wish };
        let Some(route) = self.shared.route(target.path) else {
            return self.unrouted(&head, &target, asked, rest.body);
        };
        let known = Known { head: &head, target: &target, route, asked, expects: rest.expects };
        let answer = self.exchange(&known, rest.body).await;
        if let Some(answer) = answer.told {
            self.log(&head, answer, began);
        }
        answer.next
    }

    /// Takes the body, asks a handler, answers.
    async fn exchange(&mut self, known: &Known<'_>, body: Body) -> Answer {
        let clients = &self.shared.config.clients;
        let (inline, most) = (clients.inline_limit, clients.body_limit);
        match body {
            Body::Length(length) if most.is_some_and(|most| length > most) => {
                self.refused(Refusal::TooLarge)
            }
            Body::Length(length) if length <= inline => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                if let Err(why) = self.whole(known, length).await {
                    return self.no_body(why);
                }
                let rest = self.input.split_off(length);
                let body = std::mem::replace(&mut self.input, rest);
                self.ask(known, &body, &[], &[]).await
            }
            Body::Length(length) => self.upload(known, Some(length), Vec::new(), None).await,
            Body::Chunked => match self.chunks(known).await {
                Ok((body, None)) => {
                    let length = body.len().to_string();
                    let replaced = [("content-length", length.as_bytes())];
                    self.ask(known, &body, &replaced, &["transfer-encoding"]).await
                }
                Ok((body, chunks)) => self.upload(known, None, body, chunks).await,
                Err(why) => self.no_body(why),
            },
        }
    }

    /// Waits until so many bytes of the body are there.
    async fn whole(&mut self, known: &Known<'_>, length: usize) -> Result<(), NoBody> {
        if self.input.len() >= length {
            return Ok(());
        }
        self.allow_body(known);
        self.input.reserve(length - self.input.len());
        while self.input.len() < length {
            self.more().await?;
        }
        Ok(())
    }

    /// Reads a body in chunks to its end, or until it is no longer one to send inline: then the reader comes with it.
    async fn chunks(&mut self, known: &Known<'_>) -> Result<(Vec<u8>, Option<Dechunk>), NoBody> {
        self.allow_body(known);
        let clients = &self.shared.config.clients;
        let (inline, most) = (clients.inline_limit, clients.body_limit);
        let (mut chunks, mut body) = (Dechunk::default(), Vec::new());
        loop {
            let mut rest = &self.input[..];
            let ended = loop {
                match chunks.next(&mut rest) {
                    Ok(Chunk::Data(data)) => body.extend_from_slice(data),
                    Ok(Chunk::End) => break true,
                    Ok(Chunk::More) => break false,
                    Err(_) => return Err(NoBody::Refused(Refusal::Bad)),
                }
            };
            let taken = self.input.len() - rest.len();
            self.input.drain(..taken);
            if most.is_some_and(|most| body.len() as u64 > most) {
                return Err(NoBody::Refused(Refusal::TooLarge));
            }
            if ended {
                return Ok((body, None));
            }
            if body.len() as u64 > inline {
                return Ok((body, Some(chunks)));
            }
            self.more().await?;
        }
    }

    /// Lets a client send its body that waits for leave to.
    pub(super) fn allow_body(&mut self, known: &Known<'_>) {
        if known.expects && self.input.is_empty() {
            self.out.extend_from_slice(CONTINUE);
        }
    }

    /// Waits for more of a body.
    pub(super) async fn more(&mut self) -> Result<(), NoBody> {
        self.client.until(Some(Instant::now() + self.shared.config.clients.body_timeout));
        loop {
            let all = self.write().map_err(|_| NoBody::Gone)?;
            match self.read() {
                Ok(0) => return Err(NoBody::Gone),
                Ok(read) => {
                    self.turns.did(read).await;
                    return Ok(());
                }
                Err(error) if is_would_block(&error) => self.wait(true, !all).await,
                Err(_) => return Err(NoBody::Gone),
            }
            if self.client.look(|inbox| inbox.cancel || inbox.unasked) {
                return Err(NoBody::Gone);
            }
            if self.client.look(|inbox| inbox.late) {
                return Err(NoBody::Late);
            }
        }
    }

    /// Answers a request whose body did not come.
    pub(super) fn no_body(&mut self, why: NoBody) -> Answer {
        match why {
            NoBody::Gone => Answer { told: None, next: Next::Close },
            NoBody::Late => self.error(408),
            NoBody::Refused(refusal) => self.refused(refusal),
        }
    }

    fn refused(&mut self, refusal: Refusal) -> Answer {
        self.shared.record.refused();
        self.error(refusal.status())
    }

    /// Sends a request with its whole body, and gives the response.
    async fn ask(
        &mut self,
        known: &Known<'_>,
        body: &[u8],
        replaced: &[Own<'_>],
        left_out: &[&'static str],
    ) -> Answer {
        match self.submit(known, body, replaced, left_out, &[], false) {
            Placed::Full => self.busy(known.asked),
            Placed::AtPeer | Placed::Queued => self.respond(known, None).await,
        }
    }

    /// Hands a request to the core. `keys` are those of ours that it has besides.
    pub(super) fn submit(
        &mut self,
        known: &Known<'_>,
        body: &[u8],
        replaced: &[Own<'_>],
        left_out: &[&'static str],
        keys: &[Own<'_>],
        open: bool,
    ) -> Placed {
        let shared = Rc::clone(&self.shared);
        let mut digits = itoa::Buffer::new();
        let mut own: Vec<Own<'_>> = keys.to_vec();
        if self.must_tell(known.route) {
            let window = shared.config.clients.client_window;
            own.push(("DOWNLOAD_CREDITS", digits.format(window).as_bytes()));
        }
        let (conn, route, method) = (self.client.id.get(), known.route, known.head.method);
        let repeatable = matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"PUT" | b"DELETE");
        self.with_message(known, body, replaced, left_out, &own, |frame| {
            let request = core::Request { route, conn, frame, repeatable, open };
            shared.with_core(|core| core.submit(Instant::now(), &request))
        })
    }

    /// Lends the message of a request, framed.
    pub(super) fn with_message<T>(
        &self,
        known: &Known<'_>,
        body: &[u8],
        replaced: &[Own<'_>],
        left_out: &[&'static str],
        keys: &[Own<'_>],
        act: impl FnOnce(&[u8]) -> T,
    ) -> T {
        let shared = &self.shared;
        let Known { head, target, route, .. } = known;
        let host = target.authority.or_else(|| head.first("host")).unwrap_or_default();
        let setting = &shared.config.clients.forwarded;
        let forwarded = Forwarded::new(setting, head, host, self.from, &self.remote);
        let mut fields: Vec<Own<'_>> = Vec::with_capacity(4);
        fields.extend(target.authority.map(|authority| ("host", authority)));
        fields.extend_from_slice(replaced);
        fields.extend(forwarded.fields());
        let mut out_of_it = left_out.to_vec();
        out_of_it.extend_from_slice(forwarded.left_out());
        let request = message::Request {
            head,
            target,
            pattern: shared.path(*route),
            remote_addr: &self.remote,
            replaced: &fields,
            left_out: &out_of_it,
            keys,
        };
        shared.with_frame(|frame| {
            message::put_request(frame, shared.address(self.client.id.get()), &request, body);
            act(frame)
        })
    }

    /// Whether the handler must be told of the client's window: on the first request of the connection as Mongrel2 does,
    /// and on each that may go to a peer that did not get that.
    fn must_tell(&mut self, route: RouteId) -> bool {
        if self.shared.config.clients.client_window == 0 {
            return false;
        }
        let (generation, peers) = {
            let core = self.shared.core.borrow();
            (core.generation(route), core.peers(route))
        };
        let tell = self.told.replace(generation) != Some(generation) || peers != 1;
        if tell {
            // All of it is free: nothing is under way.
            self.received = 0;
        }
        tell
    }

    fn log(&self, head: &Head<'_>, (status, bytes): (u16, u64), began: Instant) {
        let took = if self.shared.record.wants() { began.elapsed() } else { Duration::ZERO };
        self.shared.record.line(&Line {
            remote: &self.remote,
            head: Some(head),
            status,
            bytes,
            took,
        });
    }
}
