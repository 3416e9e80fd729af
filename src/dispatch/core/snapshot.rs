//! What the core has and does at one moment, for those who look.

use std::time::Duration;

use super::Core;
use super::Counters;
use super::Stage;
use super::Times;
use super::WorkerId;
use crate::proto::request::Envelope;

/// Most running requests that are told of, and most bytes of each one's target: looking must stay cheap.
const MOST: usize = 1000;
const TARGET: usize = 300;

/// The core at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// What was counted.
    pub counters: Counters,
    /// How long things took.
    pub times: Box<Times>,
    /// Requests that wait in all lines.
    pub waiting: usize,
    /// How long the oldest of them has waited.
    pub oldest: Option<Duration>,
    /// Connections that are remembered.
    pub connections: usize,
    /// The workers, by their numbers.
    pub workers: Vec<WorkerView>,
}

/// One worker.
#[derive(Debug, Clone)]
pub struct WorkerView {
    /// Which.
    pub id: WorkerId,
    /// `loading`, `ready` or `draining`.
    pub state: &'static str,
    /// Slots that it has.
    pub slots: usize,
    /// Requests handed to it and not ended.
    pub at_work: usize,
    /// Requests it has finished.
    pub finished: u64,
    /// What its slots do; of many workers only the first thousand requests.
    pub busy: Vec<AtWork>,
    /// How many of its slots are busy.
    pub busy_slots: usize,
}

/// A request in a slot.
#[derive(Debug, Clone)]
pub struct AtWork {
    /// Which slot, from 1.
    pub slot: usize,
    /// For how long.
    pub age: Duration,
    /// As the client sent it.
    pub method: Vec<u8>,
    /// The request target, cut off after 300 bytes.
    pub target: Vec<u8>,
}

impl Core {
    /// What there is at this turn; `now_ns` is the monotonic clock, which the boards are written by.
    pub fn snapshot(&mut self, now_ns: u64) -> Snapshot {
        self.times.request.turn(self.now);
        self.times.queue.turn(self.now);
        let received = self.connections.values().filter_map(|c| c.line.front()).map(|w| w.received);
        let oldest = received.min().map(|at| self.now.saturating_duration_since(at));
        let mut told = 0;
        let mut ids: Vec<WorkerId> = self.workers.keys().copied().collect();
        ids.sort_unstable();
        let workers = ids.into_iter().filter_map(|id| self.view(id, now_ns, &mut told)).collect();
        Snapshot {
            counters: self.counters,
            times: Box::new(self.times.clone()),
            waiting: self.waiting,
            oldest,
            connections: self.connections.len(),
            workers,
        }
    }

    fn view(&self, id: WorkerId, now_ns: u64, told: &mut usize) -> Option<WorkerView> {
        let worker = self.workers.get(&id)?;
        let slots = worker.board.slots();
        let (mut busy, mut busy_slots) = (Vec::new(), 0);
        for slot in 0..slots {
            let Some((ticket, since)) = worker.board.slot(slot) else { continue };
            busy_slots += 1;
            // One that has just ended may still stand on the board.
            let Some(exchange) = self.exchanges.get(&ticket).filter(|_| *told < MOST) else {
                continue;
            };
            *told += 1;
            let envelope = Envelope::parse(&exchange.message).ok();
            let headers = envelope.as_ref().and_then(|e| e.headers().ok());
            let own = |key| headers.as_ref().and_then(|h| h.own(key)).unwrap_or_default();
            let target = own("URI");
            busy.push(AtWork {
                slot: slot + 1,
                age: Duration::from_nanos(now_ns.saturating_sub(since)),
                method: own("METHOD").to_vec(),
                target: target[..target.len().min(TARGET)].to_vec(),
            });
        }
        let state = match worker.stage {
            Stage::Loading => "loading",
            Stage::Ready => "ready",
            Stage::Draining => "draining",
        };
        let (at_work, finished) = (worker.tickets.len(), worker.finished);
        Some(WorkerView { id, state, slots, at_work, finished, busy, busy_slots })
    }
}
