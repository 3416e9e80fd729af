//! Which worker gets the next request, and how many it may hold beyond its slots: pure policy.
//!
//! The worker with the fewest requests at work is taken, the most recently used one among equals (warm caches). A worker may
//! be handed a few requests more than it has slots, so that a slot need not wait for the dispatcher's turn, but only as
//! many as it will reach within about a millisecond: quick applications get a short prefetch, slow ones none.

use std::time::Duration;
use std::time::Instant;

/// How long a prefetched request may have to wait for a slot, by the mean so far.
const REACH_NS: u64 = 1_000_000;

/// Most requests handed to a worker beyond its slots, however quick they are.
const MOST: usize = 16;

/// A worker that has not finished anything for this long while its slots were busy is no quick worker, whatever its mean
/// says: it gets nothing beyond its slots, and what it was given before is taken back.
pub(crate) const STALLED: Duration = Duration::from_millis(5);

/// What the policy knows of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    slots: usize,
    /// Mean service time in nanoseconds, the last sixteen or so requests; 0 = unknown.
    mean_ns: u64,
    last_end: Option<Instant>,
    /// Requests handed over and not ended.
    pub(crate) at_work: usize,
    /// Rises with each use, over all workers.
    last_use: u64,
    /// Whether what waits beyond its slots has been asked back already.
    asked_back: bool,
}

impl Load {
    pub(crate) fn new(slots: usize) -> Load {
        Load { slots, mean_ns: 0, last_end: None, at_work: 0, last_use: 0, asked_back: false }
    }

    /// A request was handed over; `turn` rises with each handing of the instance.
    pub(crate) fn given(&mut self, turn: u64) {
        self.at_work += 1;
        self.last_use = turn;
    }

    /// A request ended after `service_ns` in its slot.
    pub(crate) fn ended(&mut self, now: Instant, service_ns: u64) {
        self.returned();
        self.asked_back = false;
        self.last_end = Some(now);
        self.mean_ns = if self.mean_ns == 0 {
            service_ns.max(1)
        } else {
            (self.mean_ns - self.mean_ns / 16 + service_ns / 16).max(1)
        };
    }

    /// A request was given back unbegun.
    pub(crate) fn returned(&mut self) {
        self.at_work = self.at_work.saturating_sub(1);
    }

    /// Whether requests beyond its slots wait here for slots that do not come free.
    pub(crate) fn stalled(&self, now: Instant) -> bool {
        self.at_work > self.slots
            && !self.asked_back
            && self.last_end.is_none_or(|end| now.duration_since(end) >= STALLED)
    }

    /// What waits beyond its slots was asked back; once is enough until it finishes something again.
    pub(crate) fn asked_back(&mut self) {
        self.asked_back = true;
    }

    /// When [`Load::stalled`] may become true.
    pub(crate) fn stalls_at(&self) -> Option<Instant> {
        if self.at_work <= self.slots || self.asked_back {
            return None;
        }
        self.last_end.map(|end| end + STALLED)
    }

    /// How many more requests it may be handed.
    pub(crate) fn room(&self, now: Instant) -> usize {
        let quick = self.last_end.is_some_and(|end| now.duration_since(end) < STALLED);
        let ahead = match self.mean_ns {
            mean if mean > 0 && quick => usize::try_from(REACH_NS / mean).unwrap_or(MOST).min(MOST),
            _ => 0,
        };
        (self.slots + ahead).saturating_sub(self.at_work)
    }
}

/// The worker that should have the next request, if any has room.
pub(crate) fn choose<'a, Id: Copy + 'a>(
    workers: impl Iterator<Item = (Id, &'a Load)>,
    now: Instant,
) -> Option<Id> {
    workers
        .filter(|(_, load)| load.room(now) > 0)
        .min_by_key(|(_, load)| (load.at_work, std::cmp::Reverse(load.last_use)))
        .map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_work(slots: usize, at_work: usize, last_use: u64) -> Load {
        Load { at_work, last_use, ..Load::new(slots) }
    }

    #[test]
    fn fewest_first_then_the_warmest() {
        let now = Instant::now();
        let workers = [at_work(4, 1, 9), at_work(4, 0, 3), at_work(4, 0, 5), at_work(4, 4, 1)];
        assert_eq!(choose(workers.iter().enumerate(), now), Some(2));
        let full = [at_work(4, 4, 9), at_work(2, 2, 3)];
        assert_eq!(choose(full.iter().enumerate(), now), None);
    }

    #[test]
    fn only_quick_workers_get_more_than_they_have_slots() {
        let now = Instant::now();
        for (service, expected) in [
            (Duration::from_micros(10), 16),
            (Duration::from_micros(200), 5),
            (Duration::from_micros(900), 1),
            (Duration::from_millis(2), 0),
            (Duration::from_secs(1), 0),
        ] {
            let mut load = at_work(4, 5, 0);
            load.ended(now, u64::try_from(service.as_nanos()).unwrap());
            assert_eq!(load.room(now), expected, "{service:?}");
            assert_eq!(load.room(now + STALLED), 0, "{service:?}, later");
        }
    }

    #[test]
    fn a_stuck_worker_is_found() {
        let now = Instant::now();
        let mut load = at_work(2, 4, 0);
        load.ended(now, 10_000);
        assert!(!load.stalled(now));
        assert_eq!(load.stalls_at(), Some(now + STALLED));
        assert!(load.stalled(now + STALLED));
        load.returned();
        assert!(!load.stalled(now + STALLED), "nothing waits beyond the slots");
    }
}
