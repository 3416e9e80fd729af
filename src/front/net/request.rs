//! Takes requests from a client: the head within its limits, the body as the protocol wants it, the message to a handler.

use std::rc::Rc;
use std::time::Instant;

use super::conn::Conn;
use super::conn::Next;
use super::conn::is_would_block;
use super::record::Outcome;
use super::record::Over;
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

/// What is known of a request when it is over.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asking<'a> {
    pub(super) head: Option<&'a Head<'a>>,
    pub(super) route: Option<RouteId>,
    /// When the head was there.
    pub(super) began: Option<Instant>,
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
        // It may have waited long for this head.
        self.config = self.shared.config();
        let began = Instant::now();
        let asking = Asking { began: Some(began), ..Asking::default() };
        let rest = self.input.split_off(length);
        let text = std::mem::replace(&mut self.input, rest);
        let head = match head::parse(&text) {
            Ok(head) => head,
            Err(refusal) => return self.refuse(refusal.status(), asking),
        };
        let asking = Asking { head: Some(&head), ..asking };
        let told =
            target::parse(head.target).and_then(|target| Ok((target, framing::read(&head)?)));
        let (target, rest) = match told {
            Ok(told) => told,
            Err(refusal) => return self.refuse(refusal.status(), asking),
        };
        let asked = Asked { head: head.method == b"HEAD", version: head.version, wish: rest.wish };
        let Some(route) = self.shared.route(target.path) else {
            return self.unrouted(asking, &target, asked, rest.body);
        };
        let known = Known { head: &head, target: &target, route, asked, expects: rest.expects };
        self.begin(Some(&head));
        self.relay.restart(asked, true);
        self.relay.add_line(self.id_line());
        let answer = self.exchange(&known, rest.body).await;
        self.over(Asking { route: Some(route), ..asking }, answer)
    }

    /// Gives the request its name. A client's own is believed as what it says of proxies is.
    pub(super) fn begin(&mut self, head: Option<&Head<'_>>) {
        let shared = &self.shared;
        let said = shared.record.ids.header_name().and_then(|name| {
            let trusted = shared.config().clients.forwarded.trusts(self.from);
            head.filter(|_| trusted)?.first(name)
        });
        self.id = shared.record.name(said);
        self.first_byte = None;
    }

    /// The line that tells the client the name, with its end; empty if clients are not told.
    pub(super) fn id_line(&self) -> Vec<u8> {
        self.shared.record.ids.line(&self.id).unwrap_or_default()
    }

    /// The request is over: takes it down.
    pub(super) fn over(&mut self, asking: Asking<'_>, answer: Answer) -> Next {
        let (status, bytes) = answer.told.unwrap_or((0, 0));
        self.shared.record.over(&Over {
            remote: &self.remote,
            head: asking.head,
            id: &self.id,
            route: asking.route.map(|route| self.shared.path(route)),
            status,
            bytes,
            outcome: answer.outcome,
            began: asking.began,
            first_byte: self.first_byte,
        });
        answer.next
    }

    /// Takes the body, asks a handler, answers.
    async fn exchange(&mut self, known: &Known<'_>, body: Body) -> Answer {
        let clients = &self.config.clients;
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
        let clients = &self.config.clients;
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
        self.client.until(Some(Instant::now() + self.config.clients.body_timeout));
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
            NoBody::Gone => Answer { told: None, outcome: Outcome::ClientGone, next: Next::Close },
            NoBody::Late => self.error(408, Outcome::Refused),
            NoBody::Refused(refusal) => self.refused(refusal),
        }
    }

    fn refused(&mut self, refusal: Refusal) -> Answer {
        self.error(refusal.status(), Outcome::Refused)
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
            Placed::Full => self.busy(known.asked, Outcome::NoHandler),
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
            own.push(("DOWNLOAD_CREDITS", digits.format(self.window).as_bytes()));
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
        let setting = &self.config.clients.forwarded;
        let forwarded = Forwarded::new(setting, head, host, self.from, &self.remote);
        let mut fields: Vec<Own<'_>> = Vec::with_capacity(4);
        fields.extend(shared.record.ids.header_name().map(|name| (name, self.id.as_slice())));
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
            scheme: forwarded.scheme(),
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
        if self.window == 0 {
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
}
