//! The ends of worker processes: waited for, judged, and followed by others.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Instant;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::policy::End;
use super::policy::Verdict;
use super::process::reap_stranger;
use super::reason::Reason;
use super::run::Phase;
use super::run::Supervisor;
use super::template::Template;
use super::watch::count;
use crate::dispatch::Loss;
use crate::dispatch::WorkerId;
use crate::telemetry;

impl Supervisor {
    pub(super) fn reap(&mut self) {
        let mut ended = Vec::new();
        for (id, worker) in self.workers.iter_mut().filter(|(_, w)| w.exited.is_none()) {
            match worker.process.try_wait() {
                Ok(Some(status)) => ended.push((*id, status)),
                Ok(None) => {}
                Err(why) => telemetry::error!("cannot wait for {id}: {why}"),
            }
        }
        for (id, status) in ended {
            self.ended(id, status);
        }
        while let Some((pid, status)) = reap_stranger(|pid| self.knows(pid)) {
            // It may be a worker of which its template has not told yet.
            if self.workers.values().any(|w| w.process.awaited_from().is_some()) {
                self.strangers.insert(pid.as_raw(), status);
            } else {
                self.strangers.clear();
            }
        }
    }

    fn knows(&self, pid: Pid) -> bool {
        let workers = self.workers.values().filter(|w| w.exited.is_none()).map(|w| w.process.id());
        let templates = self.templates.iter().map(Template::pid);
        workers.map(|id| Pid::from_raw(id.cast_signed())).chain(templates).any(|known| known == pid)
    }

    /// A worker whose process has ended and whose requests have been seen to is history.
    pub(super) fn bury(&mut self, id: WorkerId) {
        let done = self.workers.get(&id).is_some_and(|w| w.exited.is_some() && w.gone.is_some());
        if !done {
            return;
        }
        let Some(worker) = self.workers.remove(&id) else { return };
        let (Some(status), Some(loss)) = (worker.exited, worker.gone) else { return };
        let pid = worker.process.id();
        let how = describe(status);
        if let Some(text) = &worker.load_failed {
            // When the first has ended the instance, the others have nothing to add.
            if self.may_spawn() && !worker.draining {
                let title = format!("{id} (pid {pid}): the application did not load");
                telemetry::error_block(&title, text);
                self.came_to_nothing(worker.generation, End::LoadFailed, text);
            }
        } else if let Some(ready) = worker.ready {
            let asked = worker.draining || self.phase != Phase::Running;
            let costs = costs(loss);
            if asked && costs.is_empty() {
                telemetry::info!("{id} (pid {pid}) has ended ({how})");
            } else {
                telemetry::error!("{id} (pid {pid}) died ({how}){costs}");
            }
            if !worker.draining {
                self.restarts.count(Reason::Died);
                self.follow(End::Died { lived: ready.elapsed(), finished: loss.finished });
            } else if self.workers.is_empty() && self.wanted == 0 {
                // Without keep-alive each of them was told to end.
                self.follow(End::Died { lived: ready.elapsed(), finished: loss.finished });
            }
        } else if worker.draining || self.phase != Phase::Running {
            telemetry::debug!("{id} (pid {pid}) was ended while it was loading");
        } else {
            let what = format!("{id} (pid {pid}) ended before the application was loaded ({how})");
            telemetry::error!("{what}");
            self.came_to_nothing(worker.generation, End::NeverReady, &what);
        }
    }

    pub(super) fn came_to_nothing(&mut self, generation: u32, end: End, why: &str) {
        self.restarts.count(Reason::NotLoaded);
        if self.files.are_watched() && self.reloads.is_old(generation) {
            // Newer code is being loaded already.
            return;
        }
        if !self.load_failed(generation, why) {
            self.follow(end);
        }
    }

    pub(super) fn follow(&mut self, end: End) {
        if !self.may_spawn() {
            return;
        }
        let others = self.workers.len();
        self.policy.watches = self.files.are_watched();
        match self.policy.judge(end, others, self.config.workers.keep_alive) {
            Verdict::GoOn => {
                telemetry::warn!("{} left", count(others, "worker"));
                self.wanted = self.wanted.saturating_sub(1);
            }
            Verdict::Replace(delay) if delay.is_zero() => {}
            Verdict::Replace(delay) => {
                telemetry::warn!("the next worker starts in {:.1} s", delay.as_secs_f64());
                self.put_off.push(Instant::now() + delay);
            }
            Verdict::Await => self.await_change(),
            Verdict::Stop(exit) => {
                telemetry::info!("cannot go on: ending with exit code {}", exit.code());
                self.fail(exit);
            }
        }
    }
}

/// What a worker's end did to requests, as the rest of a sentence; empty if nothing.
fn costs(loss: Loss) -> String {
    let begun = count(loss.begun, "request");
    let put_back = count(loss.put_back, "request");
    match (loss.begun, loss.put_back) {
        (0, 0) => String::new(),
        (_, 0) => format!(": {begun} begun and answered 502 or cut off"),
        (0, _) => format!(": {put_back} not begun and handed on"),
        _ => format!(
            ": {begun} begun and answered 502 or cut off, {put_back} not begun and handed on"
        ),
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (_, Some(signal)) => {
            let name = Signal::try_from(signal).map_or("unknown", Signal::as_str);
            format!("killed by signal {signal}, {name}")
        }
        _ => status.to_string(),
    }
}
