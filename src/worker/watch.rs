//! What the instance asks about the slots of a worker, for a thread that can look into the interpreter.
//!
//! The reader must never wait for the interpreter, so it only hands the questions on; how long the answer takes is itself
//! an answer. Here is the part without Python.

use std::ffi::c_long;
use std::time::Duration;

use crate::bridge::Kind;
use crate::bridge::Ticket;
use crate::bridge::frame;

use super::AtWork;
use super::Bare;
use super::Shared;
use super::Turn;
use super::Wait;
use super::Worker;

/// A question, or the end of all questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// This request has been at work for so long, which is too long.
    TimedOut(Ticket, Duration),
    /// What are the slots doing? Answer with [`Worker::stacks`].
    Stacks(Ticket),
    /// Is the interpreter there? Answer with [`Worker::pong`].
    Ping(Ticket),
    /// There will be no more.
    End,
}

impl Shared {
    pub(super) fn ask(&self, ask: Ask) {
        // Without a watch, as in a test, nobody is there to answer.
        let _ = self.asks.send(ask);
    }

    pub(super) fn pong(&self, question: Ticket, flags: u8) {
        let mut out = Vec::new();
        frame::put(&mut out, Kind::Pong, flags, question, b"");
        self.outbox.append(&out);
    }
}

impl Worker {
    /// The next question; `None` when there will be no more.
    pub fn next_ask(&self, wait: &impl Wait) -> Option<Ask> {
        let mut ask = None;
        wait.wait(&mut || ask = self.asked.recv().ok());
        ask.filter(|ask| *ask != Ask::End)
    }

    /// Ends the questions.
    pub fn end_asks(&self) {
        self.shared.ask(Ask::End);
    }

    /// Tells the instance that the interpreter is there.
    pub fn pong(&self, question: Ticket) {
        self.shared.pong(question, frame::FLAG_PYTHON);
        self.shared.outbox.soon();
    }

    /// Tells the instance what the slots are doing, as JSON. What is longer than a frame is not sent.
    pub fn stacks(&self, question: Ticket, json: &[u8]) {
        let mut out = Vec::new();
        frame::put(&mut out, Kind::Stacks, 0, question, json);
        self.shared.outbox.append(&out);
        self.shared.outbox.flush(&Bare);
    }

    /// What slot `slot` (from 0) is at.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn turn(&self, slot: usize) -> &Turn {
        &self.shared.turns[slot]
    }

    /// What all slots are at, but for those that are idle.
    pub fn at_work(&self) -> Vec<AtWork> {
        let turns = self.shared.turns.iter().enumerate();
        turns.filter_map(|(slot, turn)| turn.look(slot)).collect()
    }

    /// Nanoseconds since the request of this slot has begun, if it is still this one.
    pub fn age_ns(&self, at: &AtWork) -> Option<u64> {
        let (ticket, since) = self.shared.board.slot(at.slot)?;
        (ticket == at.ticket).then(|| crate::bridge::monotonic_ns().saturating_sub(since))
    }

    /// See [`Turn`]: calls `interrupt` with the thread that is at this request, if it still is.
    pub fn interrupt(&self, at: &AtWork, interrupt: impl FnOnce(c_long)) -> bool {
        self.turn(at.slot).interrupt(at.ticket, interrupt)
    }
}
