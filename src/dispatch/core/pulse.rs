//! Whether workers give a sign of life: pings, and what became of them.
//!
//! Time is counted in beats that this loop really made, not in seconds: an instance that was itself stopped for a while
//! must not find all its workers dead.

use std::time::Duration;
use std::time::Instant;

use super::Core;
use super::Stage;
use super::WorkerId;
use crate::bridge::Ticket;
use crate::bridge::frame;
use crate::bridge::frame::Kind;
use crate::dispatch::News;

/// Beats of one `--worker-timeout`.
const BEATS: u32 = 8;

/// What is known of one worker's life.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// The last question.
    asked: u64,
    /// The last one that its reader has answered.
    reader: u64,
    /// The last one that its interpreter has answered.
    python: u64,
    /// Beats since the question that has no answer yet.
    missed: u32,
    /// It was told of as silent.
    pub(super) silent: bool,
}

impl Core {
    /// Asks workers for a sign of life, and tells of those that give none.
    pub(super) fn beat(&mut self, now: Instant) {
        let Some(interval) = self.beat_interval().filter(|_| now >= self.beats_at) else { return };
        self.beats_at = now + interval;
        // While a worker loads, an import may hold the interpreter for as long as it likes.
        for (id, worker) in self.workers.iter_mut().filter(|(_, w)| w.stage != Stage::Loading) {
            let pulse = &mut worker.pulse;
            if pulse.python == pulse.asked {
                pulse.asked += 1;
                pulse.missed = 0;
                frame::put(&mut worker.out, Kind::Ping, 0, Ticket(pulse.asked), b"");
                continue;
            }
            pulse.missed += 1;
            // Again after as long again: whoever hears it may have had a reason to wait.
            if pulse.missed.is_multiple_of(BEATS) {
                pulse.silent = true;
                self.news.push(News::Silent { id: *id, reader: pulse.reader == pulse.asked });
            }
        }
    }

    /// A worker answers. `python` tells whether its interpreter did.
    pub fn pong(&mut self, id: WorkerId, question: Ticket, python: bool) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let pulse = &mut worker.pulse;
        if question.0 != pulse.asked {
            return;
        }
        if !python {
            pulse.reader = question.0;
            return;
        }
        pulse.python = question.0;
        if std::mem::take(&mut pulse.silent) {
            self.news.push(News::Answers(id));
        }
    }

    /// Asks all workers that have loaded the application what their slots are doing. Says which those are, in order.
    pub fn ask_stacks(&mut self, question: Ticket) -> Vec<WorkerId> {
        let mut asked = Vec::new();
        for (id, worker) in self.workers.iter_mut().filter(|(_, w)| w.stage != Stage::Loading) {
            frame::put(&mut worker.out, Kind::AskStacks, 0, question, b"");
            asked.push(*id);
        }
        asked.sort_unstable();
        asked
    }

    /// Sends all workers this frame about themselves.
    pub fn tell_all(&mut self, kind: Kind, payload: &[u8]) {
        for worker in self.workers.values_mut() {
            frame::put(&mut worker.out, kind, 0, Ticket(0), payload);
        }
    }

    /// When [`Core::beat`] has something to do.
    pub(super) fn next_beat(&self) -> Option<Instant> {
        self.beat_interval().filter(|_| !self.workers.is_empty()).map(|_| self.beats_at)
    }

    fn beat_interval(&self) -> Option<Duration> {
        self.timeouts.worker.map(|limit| limit / BEATS)
    }
}
