//! Connections of handlers that publish replies.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Context;
use std::task::Poll;

use super::conn::is_would_block;
use super::shared::Shared;
use super::stream::Stream;
use super::turns::Turns;
use super::wire::Ended;
use super::wire::Input;
use super::wire::shake_hands;
use crate::front::core::RouteId;
use crate::front::fellows::SubId;
use crate::front::pulse::Pulse;
use crate::front::zmtp;
use crate::front::zmtp::Command;
use crate::front::zmtp::Frame;
use crate::front::zmtp::Role;

/// Largest reply. Lurcher's own are below a megabyte; others send whole files.
const REPLY_MAX: u64 = 256 * 1024 * 1024;

/// Bytes that wait for a peer that only publishes. What it asks beyond them it does not want to know.
const WAITING_MAX: usize = 64 * 1024;

/// Serves such a connection, to its end.
pub(crate) async fn serve_publisher(shared: Rc<Shared>, route: RouteId, stream: Stream) {
    let mut input = Input::default();
    let remote = match shake_hands(&stream, Role::Sub, &mut input).await {
        Ok(remote) => remote,
        Err(error) => {
            shared.complain(|| format!("a connection for replies was refused: {error}"));
            return;
        }
    };
    let sub = shared.next_sub();
    let pulse = Rc::new(Pulse::new(remote.minor));
    shared.fellows.borrow_mut().publishes(sub, route, stream.source(), Rc::clone(&pulse));
    let mut publisher =
        Publisher { shared: &shared, sub, stream: &stream, pulse, input, out: Vec::new() };
    zmtp::put_subscribe(&mut publisher.out, remote.minor, shared.ident.as_bytes());
    if remote.minor == 0 {
        shared.may_answer(sub);
    } else {
        // Its answer shows that the subscription is there: what it publishes from then on is not lost.
        zmtp::put_ping(&mut publisher.out, 0);
    }
    let mut turns = Turns::default();
    let ended = loop {
        match poll_fn(|cx| publisher.turn(cx)).await {
            Ok(read) => turns.did(read).await,
            Err(ended) => break ended,
        }
    };
    let dead = shared.fellows.borrow_mut().silent(sub);
    for peer in dead {
        let lost = shared.gone(peer);
        if lost > 0 {
            let path = shared.path(route);
            crate::telemetry::warn!(
                "route {path}: a handler died as it left, with {lost} requests"
            );
        }
    }
    if !matches!(ended, Ended::Eof) {
        shared.complain(|| format!("a connection for replies ended: {ended}"));
    }
}

/// A connection that publishes.
struct Publisher<'a> {
    shared: &'a Shared,
    sub: SubId,
    stream: &'a Stream,
    pulse: Rc<Pulse>,
    input: Input,
    /// What is to be written to it.
    out: Vec<u8>,
}

impl Publisher<'_> {
    /// Takes replies, and says what there is to say. Gives the bytes that were read; an error is the end.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Ended>> {
        self.pulse.waits(cx.waker());
        if self.pulse.is_cut() {
            return Poll::Ready(Err(Ended::Mute));
        }
        if self.pulse.take_due() && self.out.is_empty() {
            zmtp::put_ping(&mut self.out, self.shared.time_to_live());
        }
        // What it does not take now it takes later.
        let _ = self.write(cx)?;
        loop {
            match self.input.read(self.stream) {
                Ok(0) => return Poll::Ready(Err(Ended::Eof)),
                Ok(read) => {
                    self.pulse.heard();
                    self.understand()?;
                    return Poll::Ready(Ok(read));
                }
                Err(error) if is_would_block(&error) => {
                    std::task::ready!(self.stream.poll_read_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(Ended::Io(error))),
            }
        }
    }

    fn understand(&mut self) -> Result<(), Ended> {
        while let Some((frame, length)) = Frame::split(self.input.rest(), REPLY_MAX)? {
            if frame.command {
                match Command::parse(frame.body)? {
                    Command::Ping(context) if self.out.len() < WAITING_MAX => {
                        zmtp::put_pong(&mut self.out, context);
                    }
                    Command::Pong => self.shared.may_answer(self.sub),
                    _ => {}
                }
            } else {
                self.shared.reply(self.sub, frame.body);
            }
            self.input.taken(length);
        }
        Ok(())
    }

    /// Writes what can be written. Pending while the peer takes no more.
    fn write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        while !self.out.is_empty() {
            match self.stream.try_write(&self.out) {
                Ok(written) => drop(self.out.drain(..written)),
                Err(error) if is_would_block(&error) => {
                    std::task::ready!(self.stream.poll_write_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(Ended::Io(error))),
            }
        }
        Poll::Ready(Ok(()))
    }
}
