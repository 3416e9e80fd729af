//! Connections of handlers: those that take requests, and those that publish replies.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use std::time::Instant;

use super::shared::Shared;
use super::stream::Stream;
use super::turns::Turns;
use crate::front::core::PeerId;
use crate::front::core::RouteId;
use crate::front::fellows::SubId;
use crate::front::message;
use crate::front::zmtp;
use crate::front::zmtp::Command;
use crate::front::zmtp::Frame;
use crate::front::zmtp::Handshake;
use crate::front::zmtp::Remote;
use crate::front::zmtp::Role;
use crate::front::zmtp::ZmtpError;
use crate::proto::ConnId;

/// How long a handshake may take.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Most bytes of a frame of a peer that only pulls.
const COMMAND_MAX: u64 = 8192;

/// Largest reply. Lurcher's own are below a megabyte; others send whole files.
const REPLY_MAX: u64 = 256 * 1024 * 1024;

/// What is read at once.
const READ_AT_ONCE: usize = 256 * 1024;

/// Why a connection of a handler ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Protocol(#[from] ZmtpError),
    #[error("it was closed")]
    Eof,
    #[error("it said nothing for {} s", HANDSHAKE_TIME.as_secs())]
    Silent,
}

thread_local! {
    /// Where bytes are read to before they are known to be needed.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_AT_ONCE]);
}

/// What has been read and not yet understood.
#[derive(Debug, Default)]
struct Input {
    bytes: Vec<u8>,
    at: usize,
}

impl Input {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn taken(&mut self, bytes: usize) {
        self.at += bytes;
        if self.at >= self.bytes.len() {
            self.at = 0;
            self.bytes.clear();
            self.bytes.shrink_to(READ_AT_ONCE);
        } else if self.at > READ_AT_ONCE {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
    }

    /// Reads what is there: 0 is the end.
    fn read(&mut self, stream: &Stream) -> io::Result<usize> {
        SCRATCH.with_borrow_mut(|scratch| {
            let got = stream.try_read(scratch)?;
            self.bytes.extend_from_slice(scratch.get(..got).unwrap_or_default());
            Ok(got)
        })
    }
}

/// Writes all of `bytes`, and waits for it.
async fn write_all(stream: &Stream, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.try_write(rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll_fn(|cx| stream.poll_write_ready(cx)).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Both sides say who they are.
async fn shake_hands(stream: &Stream, role: Role, input: &mut Input) -> Result<Remote, Ended> {
    let shaking = async {
        write_all(stream, &zmtp::greeting()).await?;
        let mut handshake = Handshake::new(role);
        loop {
            let mut out = Vec::new();
            let (taken, remote) = handshake.advance(input.rest(), &mut out)?;
            input.taken(taken);
            write_all(stream, &out).await?;
            if let Some(remote) = remote {
                return Ok(remote);
            }
            if taken == 0 {
                match input.read(stream) {
                    Ok(0) => return Err(Ended::Eof),
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        poll_fn(|cx| stream.poll_read_ready(cx)).await?;
                    }
                    Err(error) => return Err(Ended::Io(error)),
                }
            }
        }
    };
    tokio::time::timeout(HANDSHAKE_TIME, shaking).await.unwrap_or(Err(Ended::Silent))
}

/// Serves a connection that takes requests, to its end.
pub(crate) async fn serve_puller(shared: Rc<Shared>, route: RouteId, stream: Stream) {
    let mut input = Input::default();
    if let Err(error) = shake_hands(&stream, Role::Push, &mut input).await {
        shared.complain(|| format!("a connection for requests was refused: {error}"));
        return;
    }
    let source = stream.source();
    let peer = shared.with_core(|core| core.joined(route));
    shared.fellows.borrow_mut().pulls(peer, route, source);
    crate::telemetry::info!("route {}: a handler has come; it takes requests", shared.path(route));
    let ended = pull(&shared, peer, &stream, &mut input).await;
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

/// Writes to a peer until it is gone, or has left and nothing is to be written any more.
async fn pull(
    shared: &Rc<Shared>,
    peer: PeerId,
    stream: &Stream,
    input: &mut Input,
) -> Result<(), Ended> {
    let mut leaving = false;
    poll_fn(|cx| {
        shared.writer(peer, cx.waker());
        while !leaving {
            match read_commands(shared, peer, stream, input) {
                Ok(()) => match stream.poll_read_ready(cx) {
                    Poll::Ready(ready) => ready?,
                    Poll::Pending => break,
                },
                Err(Ended::Eof) => {
                    leaving = true;
                    if shared.fellows.borrow_mut().ended(peer) {
                        return Poll::Ready(Err(Ended::Eof));
                    }
                    shared.with_core(|core| core.leaving(Instant::now(), peer));
                    shared.release(peer);
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        write(shared, peer, stream, cx)
    })
    .await
}

/// Writes what there is for a peer. Ready when it may be left.
fn write(
    shared: &Shared,
    peer: PeerId,
    stream: &Stream,
    cx: &mut std::task::Context<'_>,
) -> Poll<Result<(), Ended>> {
    loop {
        let written = {
            let core = shared.core.borrow();
            let bytes = core.unwritten(peer);
            if bytes.is_empty() {
                return if core.may_close(peer) { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
            stream.try_write(bytes)
        };
        match written {
            Ok(written) => shared.with_core(|core| core.wrote(peer, written)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match stream.poll_write_ready(cx) {
                    Poll::Ready(ready) => ready?,
                    Poll::Pending => return Poll::Pending,
                }
            }
            Err(error) => return Poll::Ready(Err(Ended::Io(error))),
        }
    }
}

/// Reads what a peer says that only pulls: PINGs, and at last its end.
fn read_commands(
    shared: &Shared,
    peer: PeerId,
    stream: &Stream,
    input: &mut Input,
) -> Result<(), Ended> {
    loop {
        while let Some((frame, length)) = Frame::split(input.rest(), COMMAND_MAX)? {
            if frame.command
                && let Command::Ping(context) = Command::parse(frame.body)?
            {
                let mut pong = Vec::new();
                zmtp::put_pong(&mut pong, context);
                shared.with_core(|core| core.tell(peer, ConnId(0), &pong));
            }
            input.taken(length);
        }
        match input.read(stream) {
            Ok(0) => return Err(Ended::Eof),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(Ended::Io(error)),
        }
    }
}

/// Serves a connection that publishes replies, to its end.
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
    shared.fellows.borrow_mut().publishes(sub, route, stream.source());
    let mut out = Vec::new();
    zmtp::put_subscribe(&mut out, remote.minor, shared.ident.as_bytes());
    let mut ended = match write_all(&stream, &out).await {
        Ok(()) => None,
        Err(error) => Some(Ended::Io(error)),
    };
    let mut turns = Turns::default();
    while ended.is_none() {
        match read_replies(&shared, sub, &stream, &mut input).await {
            Ok(read) => turns.did(read).await,
            Err(error) => ended = Some(error),
        }
    }
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
    match ended {
        None | Some(Ended::Eof) => {}
        Some(error) => shared.complain(|| format!("a connection for replies ended: {error}")),
    }
}

/// Takes what there is of replies, or waits for more. Gives the bytes that were read.
async fn read_replies(
    shared: &Rc<Shared>,
    sub: SubId,
    stream: &Stream,
    input: &mut Input,
) -> Result<usize, Ended> {
    let read = match input.read(stream) {
        Ok(0) => return Err(Ended::Eof),
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            poll_fn(|cx| stream.poll_read_ready(cx)).await?;
            return Ok(0);
        }
        Err(error) => return Err(Ended::Io(error)),
    };
    let mut pong = Vec::new();
    while let Some((frame, length)) = Frame::split(input.rest(), REPLY_MAX)? {
        if !frame.command {
            shared.reply(sub, frame.body);
        } else if let Command::Ping(context) = Command::parse(frame.body)? {
            zmtp::put_pong(&mut pong, context);
        }
        input.taken(length);
    }
    write_all(stream, &pong).await?;
    Ok(read)
}

impl Shared {
    /// The path of a route, for the log.
    pub(crate) fn path(&self, route: RouteId) -> &str {
        self.config.handlers.routes.get(route.0).map_or("", |route| &route.path)
    }

    /// A peer is leaving, and no event will reach it when its connection has ended. It is told now that its clients take
    /// what it has.
    fn release(&self, peer: PeerId) {
        if self.config.clients.client_window == 0 {
            return;
        }
        let conns = self.core.borrow().under_way_at(peer);
        for conn in conns {
            let bytes = self.config.clients.reply_limit / 2;
            self.tell(peer, conn, |frame, to| message::put_credits(frame, to, bytes));
        }
    }
}
