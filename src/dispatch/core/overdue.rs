//! What takes too long: requests that wait for a slot beyond their time, or work beyond it.
//!
//! Waiting is timed only for what could have run: a pipelined request waits for its own connection first, and that is its
//! client's affair. Working is timed from what the board says: a request's time begins with its slot's, not with its
//! handing over.

use std::time::Duration;
use std::time::Instant;

use super::Core;
use super::Fate;
use super::Key;
use super::Stage;
use super::WorkerId;
use crate::bridge::Ticket;
use crate::bridge::frame;
use crate::bridge::frame::Kind;
use crate::dispatch::News;
use crate::dispatch::refuse;
use crate::dispatch::refuse::Refusal;
use crate::telemetry;

/// One moment on both clocks: ours, and the board's in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Ours.
    pub at: Instant,
    /// The board's.
    pub ns: u64,
}

impl Clock {
    /// When the board's clock stood at `ns`.
    fn instant(self, ns: u64) -> Instant {
        match ns.checked_sub(self.ns) {
            Some(later) => self.at + Duration::from_nanos(later),
            None => self.at,
        }
    }
}

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

    /// Answers for requests that are at work too long, and finds workers that do not get rid of them.
    pub(super) fn look_at_slots(&mut self, now: Instant) {
        let Some(limit) = self.timeouts.request.filter(|_| now >= self.look_at) else { return };
        // What begins after this look is due no earlier.
        let mut next = now + limit;
        let mut overdue = Vec::new();
        for (id, worker) in &self.workers {
            for slot in 0..worker.board.slots() {
                let Some((ticket, since)) = worker.board.slot(slot) else { continue };
                let began = self.clock.instant(since);
                if now < began + limit {
                    next = next.min(began + limit);
                } else if self.exchanges.get(&ticket).is_some_and(|e| e.late.is_none()) {
                    overdue.push((*id, ticket, now.duration_since(began)));
                }
            }
        }
        for (id, ticket, age) in overdue {
            self.time_out(id, ticket, age, now);
        }
        if let Some(at) = self.look_for_stuck(now) {
            next = next.min(at);
        }
        self.look_at = next;
    }

    /// When [`Core::look_at_slots`] has something to do at the earliest.
    pub(super) fn looks_at(&self) -> Option<Instant> {
        self.timeouts.request.filter(|_| !self.exchanges.is_empty()).map(|_| self.look_at)
    }

    fn time_out(&mut self, id: WorkerId, ticket: Ticket, age: Duration, now: Instant) {
        let Some(mut exchange) = self.exchanges.remove(&ticket) else { return };
        if let Some(worker) = self.workers.get_mut(&id) {
            let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
            frame::put(&mut worker.out, Kind::TimedOut, 0, ticket, &age.to_le_bytes());
        }
        self.counters.timed_out += 1;
        // Of who has left the worker's end will tell.
        if !exchange.gone {
            self.answer_for(&exchange, Fate::TimedOut, 504);
            exchange.answered = true;
            exchange.gone = true;
        }
        exchange.late = Some(now);
        // Its slot is busy all the same, and its worker still owes its end.
        self.exchanges.insert(ticket, exchange);
    }

    /// Tells of workers with a request that does not end although its grace is over, and of those that have nothing else
    /// left to do. Gives the time of the next look.
    fn look_for_stuck(&mut self, now: Instant) -> Option<Instant> {
        let grace = self.timeouts.request_grace;
        let mut next: Option<Instant> = None;
        for (id, worker) in &mut self.workers {
            let mut all = true;
            let mut stuck = None;
            for ticket in &worker.tickets {
                let Some(exchange) = self.exchanges.get(ticket) else { continue };
                match exchange.late {
                    Some(at) if now >= at + grace => stuck = Some((*ticket, exchange)),
                    late => {
                        all = false;
                        next = late.map(|at| at + grace).into_iter().chain(next).min();
                    }
                }
            }
            let Some((ticket, exchange)) = stuck else { continue };
            if worker.stage == Stage::Draining {
                if all {
                    self.news.push(News::OnlyStuck(*id));
                }
            } else if !std::mem::replace(&mut worker.told_stuck, true) {
                let request = refuse::request_line(&exchange.message);
                let what = format!("{} (ticket {ticket})", telemetry::Escaped(&request));
                self.news.push(News::Stuck(*id, what));
            }
        }
        next
    }
}
