//! Workers that have done enough: after so many requests, so long, or with so much memory another one takes their place.
//!
//! It only marks them; the plan has the new one ready before, and no more replaced at once than `--reload-surge` allows.

use std::hash::BuildHasher;
use std::hash::Hasher;
use std::hash::RandomState;
use std::time::Duration;
use std::time::Instant;

use super::reason::Reason;
use super::run::Phase;
use super::run::Supervisor;
use crate::dispatch::WorkerId;
use crate::telemetry;

/// How often the memory of workers is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// A number from `least` to `least + jitter`.
pub(super) fn jittered(least: u64, jitter: u64, random: u64) -> u64 {
    let more = jitter.checked_add(1).map_or(random, |choices| random % choices);
    least.saturating_add(more)
}

/// A number that nobody can guess or needs to.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Resident memory of a process in bytes; nothing when it is gone.
pub(super) fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

impl Supervisor {
    /// When a worker that is ready now has lived long enough.
    pub(super) fn retires(&self, now: Instant) -> Option<Instant> {
        let recycle = &self.config.recycle;
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let jitter = nanos(recycle.max_lifetime_jitter);
        let lives = jittered(nanos(recycle.max_lifetime?), jitter, random());
        now.checked_add(Duration::from_nanos(lives))
    }

    /// A worker has finished as many requests as it may.
    pub(super) fn worn(&mut self, id: WorkerId, requests: u64) {
        self.recycle(id, Reason::Requests, &format!("has finished {requests} requests"));
    }

    /// Marks workers that have lived long enough, or have too much memory.
    pub(super) fn look_for_worn(&mut self, now: Instant) {
        let old: Vec<WorkerId> = self
            .workers
            .iter()
            .filter(|(_, w)| w.retires.is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in old {
            if let Some(worker) = self.workers.get_mut(&id) {
                worker.retires = None;
            }
            self.recycle(id, Reason::Lifetime, "has lived long enough");
        }
        let Some(most) = self.config.recycle.max_rss else { return };
        if self.memory_at.is_some_and(|at| at > now) {
            return;
        }
        self.memory_at = now.checked_add(LOOK);
        let ready = self.workers.iter().filter(|(_, w)| w.is_ready() && w.leaving.is_none());
        let large: Vec<_> = ready
            .filter_map(|(id, w)| Some((*id, resident(w.process.id())?)))
            .filter(|(_, bytes)| *bytes > most)
            .collect();
        for (id, bytes) in large {
            let what = format!("has {} MiB of memory", bytes >> 20);
            self.recycle(id, Reason::Memory, &what);
        }
    }

    fn recycle(&mut self, id: WorkerId, reason: Reason, what: &str) {
        let Some(worker) = self.workers.get(&id) else { return };
        if self.phase == Phase::Running && !worker.draining && worker.leaving.is_none() {
            telemetry::info!("{id} (pid {}) {what}: replacing it", worker.process.id());
            self.replace(id, reason);
        }
    }

    /// When [`Supervisor::look_for_worn`] has something to do.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let memory = self.memory_at.filter(|_| self.config.recycle.max_rss.is_some());
        self.workers.values().filter_map(|w| w.retires).chain(memory).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_process() {
        assert!(resident(std::process::id()).is_some_and(|bytes| bytes > 100_000));
        assert_eq!(resident(0), None);
    }

    #[test]
    fn jitter_adds_and_never_takes_away() {
        for (least, jitter, random, expected) in [
            (100, 0, 12345, 100),
            (100, 10, 0, 100),
            (100, 10, 10, 110),
            (100, 10, 11, 100),
            (1, u64::MAX, 7, 8),
            (u64::MAX, 5, 3, u64::MAX),
        ] {
            assert_eq!(jittered(least, jitter, random), expected);
        }
    }
}
