//! The instance's end of one bridge: reads and writes without waiting, and knows when the worker is gone.

use std::io;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::News;
use super::WorkerId;
use super::core::Core;
use super::stacks::Questions;
use crate::bridge::EndInfo;
use crate::bridge::Frame;
use crate::bridge::FrameError;
use crate::bridge::Inbox;
use crate::bridge::Kind;
use crate::bridge::frame;

/// Reads of one turn, so that a worker that writes without end does not keep the others waiting.
const READS: usize = 8;

/// Why a bridge is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum BridgeFault {
    /// The worker has closed it, as one does that ends.
    #[error("closed by the worker")]
    Closed,
    /// The worker's memory is no longer its own.
    #[error("the worker sent what is no frame: {0}")]
    Frame(#[from] FrameError),
    /// A frame that only the instance sends.
    #[error("the worker sent a frame of kind {0:?}")]
    Kind(Kind),
    /// The socket failed.
    #[error(transparent)]
    Io(io::Error),
}

/// One worker's bridge.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) id: WorkerId,
    stream: UnixStream,
    inbox: Inbox,
    writing: Vec<u8>,
    written: usize,
}

impl Port {
    pub(super) fn new(id: WorkerId, stream: UnixStream) -> io::Result<Port> {
        stream.set_nonblocking(true)?;
        let inbox = Inbox::new(frame::MAX_FROM_WORKER);
        Ok(Port { id, stream, inbox, writing: Vec::new(), written: 0 })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Whether the worker has not taken yet what it was sent.
    pub(super) fn wants_to_write(&self) -> bool {
        self.written < self.writing.len()
    }

    /// Takes in what the worker has sent: a fair share of it, or `all` when the worker is gone and this is the rest.
    pub(super) fn read(
        &mut self,
        core: &mut Core,
        news: &mut Vec<News>,
        questions: &mut Questions,
        now: Instant,
        all: bool,
    ) -> Result<(), BridgeFault> {
        let mut reads = 0;
        while all || reads < READS {
            reads += 1;
            let space = self.inbox.space();
            let room = space.len();
            let got = match self.stream.read(space) {
                Ok(0) => return Err(BridgeFault::Closed),
                Ok(got) => got,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(BridgeFault::Closed);
                }
                Err(e) => return Err(BridgeFault::Io(e)),
            };
            self.inbox.filled(got);
            while let Some(frame) = self.inbox.next()? {
                receive(self.id, frame, core, news, questions, now)?;
            }
            if got < room && !all {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Writes what the core has for this worker, as far as it takes it.
    pub(super) fn write(&mut self, core: &mut Core) -> Result<(), BridgeFault> {
        loop {
            if !self.wants_to_write() {
                self.writing.clear();
                self.written = 0;
                let Some(out) = core.bridge_out(self.id).filter(|out| !out.is_empty()) else {
                    // One large upload must not hold its memory for the life of the worker.
                    self.writing.shrink_to(256 * 1024);
                    return Ok(());
                };
                std::mem::swap(&mut self.writing, out);
            }
            match self.stream.write(&self.writing[self.written..]) {
                Ok(sent) => self.written += sent,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // It is gone; what it had written before is still to be read.
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Err(e) => return Err(BridgeFault::Io(e)),
            }
        }
    }
}

fn receive(
    id: WorkerId,
    frame: Frame<'_>,
    core: &mut Core,
    news: &mut Vec<News>,
    questions: &mut Questions,
    now: Instant,
) -> Result<(), BridgeFault> {
    match frame.kind {
        Kind::Data => core.data(id, frame.ticket, frame.payload, now),
        Kind::End => {
            let (end, line) = EndInfo::parse(frame.payload)?;
            core.ended(id, frame.ticket, &end, line, now);
        }
        Kind::BodyWant => {
            core.body_wanted(id, frame.ticket, frame.number().unwrap_or(0), now);
        }
        Kind::Recalled => core.recalled(id, frame.ticket),
        Kind::Ready => {
            core.worker_ready(id);
            news.push(News::Ready(id));
        }
        Kind::LoadFailed => {
            let text = String::from_utf8_lossy(frame.payload).into_owned();
            news.push(News::LoadFailed(id, text));
        }
        Kind::Pong => core.pong(id, frame.ticket, frame.flags & frame::FLAG_PYTHON != 0),
        Kind::Stacks => questions.answered(id, frame.ticket, frame.payload),
        Kind::Leaving => news.push(News::WantsToLeave(id)),
        kind => return Err(BridgeFault::Kind(kind)),
    }
    Ok(())
}
