//! Workers that live and do not do what they should: with a request that never ends, or without a sign of life.
//!
//! Another one is ready before such a worker goes, as with any replacement. It is killed only when nothing is lost by it,
//! or when it cannot do anything any more.

use super::reason::Reason;
use super::run::Phase;
use super::run::Supervisor;
use super::watch::kill;
use crate::dispatch::WorkerId;
use crate::telemetry;

impl Supervisor {
    /// A request that has timed out does not end.
    pub(super) fn stuck(&mut self, id: WorkerId, request: &str) {
        let Some(worker) = self.workers.get(&id) else { return };
        let keep_alive = self.config.workers.keep_alive;
        let then = if keep_alive { "the worker is replaced" } else { "its slot is lost" };
        let pid = worker.process.id();
        telemetry::error!("{id} (pid {pid}): {request} has timed out and does not end: {then}");
        if keep_alive {
            self.replace(id, Reason::Stuck);
        }
    }

    /// All that this worker still has are requests that do not end; they have been answered.
    pub(super) fn only_stuck(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id) {
            telemetry::warn!(
                "{id} (pid {}) has nothing left but requests that do not end; killing it",
                worker.process.id()
            );
            kill(worker);
        }
    }

    /// A worker gives no sign of its interpreter. Told again and again while that is so.
    pub(super) fn silent(&mut self, id: WorkerId, reader: bool) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let pid = worker.process.id();
        let why = if reader {
            "something holds its interpreter (the GIL)"
        } else {
            "its process does not run"
        };
        let first = !std::mem::replace(&mut worker.silent, true);
        if let Some(tracer) = tracer(pid) {
            if first {
                telemetry::warn!(
                    "{id} (pid {pid}) gives no sign of life: {why}. Process {tracer} traces it, so it is left alone"
                );
            }
            return;
        }
        if first {
            let limit = self.config.timeouts.worker.unwrap_or_default().as_secs_f64();
            telemetry::error!("{id} (pid {pid}) has given no sign of life for {limit} s: {why}");
        }
        let worker_goes = self.phase != Phase::Running
            || self.workers.get(&id).is_some_and(|worker| worker.draining);
        if !worker_goes && self.config.workers.keep_alive {
            self.replace(id, Reason::Silent);
        } else if let Some(worker) = self.workers.get_mut(&id) {
            kill(worker);
        }
    }

    /// A silent worker has answered after all. If it is being replaced already, it goes in peace.
    pub(super) fn answers(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.silent = false;
            telemetry::info!("{id} (pid {}) gives signs of life again", worker.process.id());
        }
    }
}

/// Who traces a process, as a debugger does, if anybody.
fn tracer(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    tracer.trim().parse().ok().filter(|tracer| *tracer != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_traces_us() {
        // Under a debugger this fails, rightly.
        assert_eq!(tracer(std::process::id()), None);
        assert_eq!(tracer(u32::MAX), None, "no such process");
    }
}
