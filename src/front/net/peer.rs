//! Connections of handlers that take requests.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;
use std::time::Instant;

use super::conn::is_would_block;
use super::shared::Shared;
use super::stream::Stream;
use super::wire::Ended;
use super::wire::Input;
use super::wire::shake_hands;
use crate::front::core::PeerId;
use crate::front::core::RouteId;
use crate::front::message;
use crate::front::pulse::Pulse;
use crate::front::zmtp;
use crate::front::zmtp::Command;
use crate::front::zmtp::Frame;
use crate::front::zmtp::Role;
use crate::proto::ConnId;

/// Most bytes of a frame of a peer that only pulls.
const COMMAND_MAX: u64 = 8192;

/// How long a handler that takes requests is waited for to publish too, before others on its route may do it in its place.
const ALONE: Duration = Duration::from_secs(2);

/// Serves such a connection, to its end.
pub(crate) async fn serve_puller(shared: Rc<Shared>, route: RouteId, stream: Stream) {
    let mut input = Input::default();
    let pulse = match shake_hands(&stream, Role::Push, &mut input).await {
        Ok(remote) => Rc::new(Pulse::new(remote.minor)),
        Err(error) => {
            shared.complain(|| format!("a connection for requests was refused: {error}"));
            return;
        }
    };
    let peer = shared.with_core(|core| core.arrived(route));
    shared.fellows.borrow_mut().pulls(peer, route, stream.source(), Rc::clone(&pulse));
    let mut puller = Puller {
        shared: &shared,
        peer,
        route,
        stream: &stream,
        pulse,
        input,
        begins: Some(Instant::now() + ALONE),
        warned: false,
        leaving: false,
    };
    let ended = poll_fn(|cx| puller.turn(cx)).await;
    shared.no_writer(peer);
    match ended {
        Ok(()) => {
            // It has half-closed, and got all that belongs to it: now it may have the end of our half.
            stream.shutdown();
            shared.with_core(|core| core.left(peer));
            let path = shared.path(route);
            crate::telemetry::info!("route {path}: a handler has left; it finishes what it has");
        }
        Err(error) => {
            let lost = shared.gone(peer);
            let path = shared.path(route);
            crate::telemetry::warn!(
                "route {path}: a handler is gone with {lost} requests: {error}"
            );
        }
    }
}

/// A connection that takes requests.
struct Puller<'a> {
    shared: &'a Shared,
    peer: PeerId,
    route: RouteId,
    stream: &'a Stream,
    pulse: Rc<Pulse>,
    input: Input,
    /// It is given nothing yet; from then on it is whoever publishes on its route.
    begins: Option<Instant>,
    /// It has been said that nobody publishes.
    warned: bool,
    /// It has half-closed.
    leaving: bool,
}

impl Puller<'_> {
    /// Does what there is to do. Ready when it is gone, or has left and nothing is to be written any more.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        let Puller { shared, peer, stream, .. } = *self;
        shared.writer(peer, cx.waker());
        self.pulse.waits(cx.waker());
        if self.pulse.is_cut() {
            return Poll::Ready(Err(Ended::Mute));
        }
        self.begin();
        if self.pulse.take_due() && !self.leaving {
            let mut ping = Vec::new();
            zmtp::put_ping(&mut ping, shared.time_to_live());
            shared.with_core(|core| core.tell(peer, ConnId(0), &ping));
        }
        while !self.leaving {
            match self.read() {
                Ok(()) => match stream.poll_read_ready(cx) {
                    Poll::Ready(ready) => ready?,
                    Poll::Pending => break,
                },
                Err(Ended::Eof) => {
                    (self.leaving, self.begins) = (true, None);
                    if shared.fellows.borrow_mut().ended(peer) {
                        return Poll::Ready(Err(Ended::Eof));
                    }
                    shared.with_core(|core| core.leaving(Instant::now(), peer));
                    shared.release(peer);
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.write(cx)
    }

    /// Lets it have requests once its replies can reach us. What it answered before would be lost.
    fn begin(&mut self) {
        let Some(alone) = self.begins else { return };
        let late = Instant::now() >= alone;
        let path = self.shared.path(self.route);
        if self.shared.fellows.borrow().may_begin(self.peer, late) {
            self.begins = None;
            self.shared.with_core(|core| core.begin(self.peer));
            crate::telemetry::info!("route {path}: a handler has come; it takes requests");
        } else if late && !std::mem::replace(&mut self.warned, true) {
            crate::telemetry::warn!(
                "route {path}: a handler would take requests, but none publishes replies; it is given none"
            );
        }
    }

    /// Reads what a peer says that only pulls: PINGs, PONGs, and at last its end.
    fn read(&mut self) -> Result<(), Ended> {
        loop {
            while let Some((frame, length)) = Frame::split(self.input.rest(), COMMAND_MAX)? {
                if frame.command
                    && let Command::Ping(context) = Command::parse(frame.body)?
                {
                    let mut pong = Vec::new();
                    zmtp::put_pong(&mut pong, context);
                    self.shared.with_core(|core| core.tell(self.peer, ConnId(0), &pong));
                }
                self.input.taken(length);
            }
            match self.input.read(self.stream) {
                Ok(0) => return Err(Ended::Eof),
                Ok(_) => self.pulse.heard(),
                Err(error) if is_would_block(&error) => return Ok(()),
                Err(error) => return Err(Ended::Io(error)),
            }
        }
    }

    /// Writes what there is for it. Ready when it may be left.
    fn write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        let Puller { peer, stream, .. } = *self;
        loop {
            let written = {
                let core = self.shared.core.borrow();
                let bytes = core.unwritten(peer);
                if bytes.is_empty() {
                    return if core.may_close(peer) { Poll::Ready(Ok(())) } else { Poll::Pending };
                }
                stream.try_write(bytes)
            };
            match written {
                Ok(written) => self.shared.with_core(|core| core.wrote(peer, written)),
                Err(error) if is_would_block(&error) => match stream.poll_write_ready(cx) {
                    Poll::Ready(ready) => ready?,
                    Poll::Pending => return Poll::Pending,
                },
                Err(error) => return Poll::Ready(Err(Ended::Io(error))),
            }
        }
    }
}

impl Shared {
    /// The path of a route, for the log.
    pub(crate) fn path(&self, route: RouteId) -> &str {
        self.routes().get(route.0).map_or("", |route| &route.path)
    }

    /// A peer is leaving, and no event will reach it when its connection has ended. It is told now that its clients take
    /// what it has.
    fn release(&self, peer: PeerId) {
        let config = self.config();
        if config.clients.client_window == 0 {
            return;
        }
        let conns = self.core.borrow().under_way_at(peer);
        for conn in conns {
            let bytes = config.clients.reply_limit / 2;
            self.tell(peer, conn, |frame, to| message::put_credits(frame, to, bytes));
        }
    }
}
