//! The worker process, but for Python: its end of the bridge, its queue, and what a slot needs to serve a request.
//!
//! Threads here: the *reader* takes frames from the bridge and prepares requests; the *flusher* joins the frames of
//! several slots into one write; neither ever touches Python. Slots are Python threads that call [`Worker::next`] and
//! answer through an [`Out`]. The *watch* is one more, for what the instance asks about slots ([`Worker::next_ask`]). Wherever a slot may wait it does so through [`Wait`], so that the interpreter is free
//! meanwhile.
//!
//! What holds whatever happens: each request taken gets exactly one end frame or is given back, also if the code
//! between panics.

mod body;
mod control;
mod flusher;
mod inflow;
mod out;
mod outbox;
mod queue;
mod reader;
mod start;
mod turn;
mod watch;

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use crate::bridge::Board;
use crate::bridge::Kind;
use crate::bridge::monotonic_ns;
use crate::wsgi::refusal::Refused;
use crate::wsgi::request::Request;
use crate::wsgi::response::Ending;
use crate::wsgi::response::How;
use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;

pub use crate::bridge::Ticket;
pub use body::Input;
pub use control::Control;
pub use inflow::Inflow;
pub use out::Out;
pub use out::Watch;
pub use outbox::Outbox;
pub use start::OpenError;
pub use turn::AtWork;
pub use turn::Turn;
pub use watch::Ask;

use queue::Next;
use queue::Queue;

/// How a slot waits: with the interpreter released, if it holds one.
pub trait Wait {
    /// Runs `blocking`, which may take its time.
    fn wait(&self, blocking: &mut (dyn FnMut() + Send));
}

/// Waits where no interpreter is held.
#[derive(Debug, Clone, Copy)]
pub struct Bare;

impl Wait for Bare {
    fn wait(&self, blocking: &mut (dyn FnMut() + Send)) {
        blocking();
    }
}

/// A request on its way from the reader to a slot.
#[derive(Debug)]
struct Item {
    ticket: Ticket,
    control: Arc<Control>,
    work: Work,
    input: Input,
    when: SystemTime,
}

/// What is to be done for a request.
pub type Work = Result<Box<Request>, Box<Refused>>;

/// What all threads of a worker share.
#[derive(Debug)]
struct Shared {
    outbox: Arc<Outbox>,
    board: Board,
    /// One for each slot.
    turns: Vec<Turn>,
    /// For the watch.
    asks: Sender<Ask>,
    /// The instance is gone: begin nothing more.
    orphan: AtomicBool,
    leaving: AtomicBool,
    /// This is a copy of the worker's process.
    abandoned: AtomicBool,
}

/// A worker's end of the bridge.
#[derive(Debug)]
pub struct Worker {
    shared: Arc<Shared>,
    queue: Arc<Queue<Item>>,
    asked: Receiver<Ask>,
}

/// A request that a slot has begun.
#[derive(Debug)]
pub struct Begun {
    /// What to do.
    pub work: Work,
    /// Where the body is.
    pub input: Input,
    /// Where the answer goes.
    pub out: Out,
    /// When the request came in.
    pub when: SystemTime,
}

impl Worker {
    /// Tells the instance that the application is loaded.
    pub fn ready(&self) {
        self.tell(Kind::Ready, b"");
    }

    /// Tells the instance why the application is not loaded.
    pub fn load_failed(&self, traceback: &str) {
        let mut end = traceback.len().min(crate::bridge::frame::MAX_FROM_WORKER);
        while !traceback.is_char_boundary(end) {
            end -= 1;
        }
        self.tell(Kind::LoadFailed, &traceback.as_bytes()[..end]);
    }

    /// Asks the instance, once, to be drained.
    pub fn leave(&self) {
        if !self.shared.leaving.swap(true, Ordering::Relaxed) {
            self.tell(Kind::Leaving, b"");
        }
    }

    /// For a process that an application has forked off a slot: it must neither answer nor take requests.
    pub fn abandon(&self) {
        self.shared.abandoned.store(true, Ordering::Relaxed);
        self.shared.outbox.abandon();
    }

    fn tell(&self, kind: Kind, payload: &[u8]) {
        let mut frame = Vec::new();
        crate::bridge::frame::put(&mut frame, kind, 0, Ticket(0), payload);
        self.shared.outbox.append(&frame);
        self.shared.outbox.flush(&Bare);
    }

    /// Gives the calling thread, slot `slot` (from 0), the name that Python knows it by, so that `top`, `gdb` and the
    /// kernel show it. Python itself does so from 3.14 on.
    pub fn name_slot(&self, slot: usize) {
        if let Ok(name) = CString::new(format!("lurcher-slot-{}", slot + 1)) {
            // A name is a convenience; the kernel cuts off what is longer than it keeps.
            let _ = nix::sys::prctl::set_name(&name);
        }
    }

    /// The next request for slot `slot` (from 0), begun: it stands on the board. `None` when there will be no more.
    pub fn next(&self, slot: usize, wait: &impl Wait) -> Option<Begun> {
        loop {
            if self.shared.abandoned.load(Ordering::Relaxed) {
                return None;
            }
            let next = match self.queue.take() {
                Next::Item(item) => {
                    // There is more to do at once: what was just answered can be joined with what follows.
                    self.shared.outbox.soon();
                    Next::Item(item)
                }
                Next::Empty => {
                    self.shared.outbox.flush(wait);
                    self.queue.rest(wait)
                }
                Next::Closed => Next::Closed,
            };
            let item = match next {
                Next::Item(item) => item,
                Next::Empty => continue,
                Next::Closed => {
                    self.shared.outbox.flush(wait);
                    return None;
                }
            };
            // Recalled ones are done with; of a dead instance nobody takes an answer.
            if self.shared.orphan.load(Ordering::Relaxed) || !item.control.claim() {
                continue;
            }
            let began = monotonic_ns();
            let gone = item.control.is_gone();
            let out = Out::new(Arc::clone(&self.shared), item.control, item.ticket, slot, began);
            if gone {
                // Nobody waits for this answer, and nothing was begun.
                let (how, keep) = (How::Gone, false);
                out.end(&Ending { how, keep, status: 0, body: 0, fault: None }, b"", wait);
                continue;
            }
            self.shared.board.begin(slot, item.ticket, began);
            return Some(Begun { work: item.work, input: item.input, out, when: item.when });
        }
    }

    /// Writes out what is left. For the end, when all slots have ended.
    pub fn finish(&self) {
        self.shared.outbox.finish();
    }
}

impl Drop for Worker {
    /// With no slot left to take them, requests go back.
    fn drop(&mut self) {
        // In a copy of the process a thread that is not there may hold the queue's lock.
        if !self.shared.abandoned.load(Ordering::Relaxed) {
            self.queue.close();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
