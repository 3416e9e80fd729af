//! What takes too long: requests that wait for a slot beyond their time.
//!
//! Only what could have run is timed: a pipelined request waits for its own connection first, and that is its client's
//! affair.

use std::time::Instant;

use super::Core;
use super::Key;
use crate::dispatch::refuse::Refusal;
use crate::telemetry;

impl Core {
    /// Refuses what has waited too long for a slot.
    pub(super) fn expire(&mut self, now: Instant) {
        let Some(limit) = self.timeouts.queue else { return };
        let mut expired = 0_u64;
        while let Some((key, since)) = self.first_in_queue() {
            if now.duration_since(since) < limit {
                break;
            }
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.queued = false;
            }
            self.refuse_first(key, Refusal::Page(503));
            expired += 1;
        }
        if expired == 0 {
            return;
        }
        self.counters.waited_too_long += expired;
        if let Some(held) = self.waited_lines.allow(now) {
            telemetry::warn!(
                "no slot came free within --queue-timeout ({} s): {expired} of the requests that wait answered 503; \
                 {} still wait{held}",
                limit.as_secs_f64(),
                self.waiting,
            );
        }
    }

    /// When [`Core::expire`] has something to do at the earliest.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        Some(self.first_in_queue()?.1 + self.timeouts.queue?)
    }

    /// The connection whose first request has waited longest, and since when that could have run.
    fn first_in_queue(&self) -> Option<(Key, Instant)> {
        // Of connections that have left, an entry stays behind.
        self.queue.iter().find_map(|key| {
            let connection = self.connections.get(key).filter(|c| c.queued)?;
            Some((*key, connection.line.front()?.since?))
        })
    }

    /// Where in the queue something stands that could have run since then.
    pub(super) fn place_in_queue(&self, since: Option<Instant>) -> usize {
        let older = |key: &Key| {
            let waiting = self.connections.get(key).and_then(|c| c.line.front());
            waiting.is_none_or(|first| first.since < since)
        };
        self.queue.iter().position(|key| !older(key)).unwrap_or(self.queue.len())
    }
}
