//! Worker processes: started, heard of, buried, and followed by others.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::process::ExitStatus;
use std::time::Instant;

use nix::sys::signal::Signal;

use super::Exit;
use super::plan::Member;
use super::plan::Plan;
use super::plan::Stage;
use super::plan::Wanted;
use super::plan::plan;
use super::policy::End;
use super::policy::Verdict;
use super::reason::Reason;
use super::recycle::jittered;
use super::recycle::random;
use super::run::Phase;
use super::run::Supervisor;
use super::spawn;
use crate::dispatch::Command;
use crate::dispatch::Loss;
use crate::dispatch::News;
use crate::dispatch::WorkerId;
use crate::telemetry;

/// A worker process.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) child: Child,
    pub(super) generation: u32,
    /// It tells its application that there is no other worker.
    pub(super) alone: bool,
    pub(super) started: Instant,
    ready: Option<Instant>,
    /// It is to be replaced, and why.
    pub(super) leaving: Option<Reason>,
    /// It was told to end.
    pub(super) draining: bool,
    /// It gives no sign of life.
    pub(super) silent: bool,
    /// When it is killed: it loads or drains for too long.
    pub(super) patience: Option<Instant>,
    /// When it has lived long enough.
    pub(super) retires: Option<Instant>,
    load_failed: Option<String>,
    pub(super) exited: Option<ExitStatus>,
    gone: Option<Loss>,
}

impl Worker {
    /// Whether it has loaded the application and lives.
    pub(super) fn is_ready(&self) -> bool {
        self.ready.is_some() && self.exited.is_none()
    }

    /// Whether it has still to load the application.
    pub(super) fn is_loading(&self) -> bool {
        self.ready.is_none()
    }

    /// Whether it takes requests.
    pub(super) fn is_serving(&self) -> bool {
        self.ready.is_some() && !self.draining && self.exited.is_none()
    }
}

impl Supervisor {
    /// Starts the workers that are missing, and lets go those that are too many.
    pub(super) fn tend(&mut self) {
        while self.may_spawn() {
            let members: Vec<_> = self.workers.iter().map(|(id, w)| self.member(*id, w)).collect();
            let wanted = Wanted {
                workers: self.wanted,
                surge: self.newest_config().workers.reload_surge as usize,
                put_off: self.put_off.len(),
            };
            let Plan { start, drain } = plan(&members, wanted);
            for id in drain {
                self.let_go(id);
            }
            for _ in 0..start {
                self.spawn();
            }
            if !self.settle() {
                break;
            }
        }
    }

    fn member(&self, id: WorkerId, worker: &Worker) -> Member<WorkerId> {
        let stage = match worker {
            Worker { draining: true, .. } => Stage::Draining,
            Worker { ready: Some(_), .. } => Stage::Ready,
            _ => Stage::Loading,
        };
        // When the instance ends nobody is replaced any more.
        let is_stale = self.phase == Phase::Running
            && (worker.leaving.is_some() || self.reloads.is_old(worker.generation));
        Member { id, stage, stale: is_stale }
    }

    fn spawn(&mut self) {
        self.last_id += 1;
        let id = WorkerId(self.last_id);
        let config = self.newest_config();
        let (slots, patience) = (config.workers.threads as usize, config.workers.start_timeout);
        let recycle = &config.recycle;
        let more = recycle.max_requests_jitter;
        let wears_out = recycle.max_requests.map(|least| jittered(least, more, random()));
        let mut settings = config.worker_settings(id.0);
        settings.multiprocess = self.wanted > 1;
        let started = serde_json::to_vec(&settings).map_err(io::Error::other).and_then(|setup| {
            // Who the instance is stays as it was at its start.
            Ok((setup, spawn::spawn(&self.interpreter, &self.config.process, slots)?))
        });
        match started {
            Ok((setup, started)) => {
                let spawn::Started { child, bridge, board } = started;
                telemetry::debug!("{id} started (pid {})", child.id());
                let now = Instant::now();
                let worker = Worker {
                    child,
                    generation: self.reloads.generation(),
                    alone: !settings.multiprocess,
                    started: now,
                    ready: None,
                    leaving: None,
                    draining: false,
                    silent: false,
                    patience: now.checked_add(patience),
                    retires: None,
                    load_failed: None,
                    exited: None,
                    gone: None,
                };
                self.workers.insert(id, worker);
                self.dispatcher.tell(Command::AddWorker { id, bridge, board, setup });
                if let Some(most) = wears_out {
                    self.dispatcher.tell(Command::WearOut(id, most));
                }
            }
            Err(why) => {
                telemetry::error!("cannot start {id}: {why}");
                if !self.load_failed(self.reloads.generation(), &format!("cannot start it: {why}"))
                {
                    self.follow(End::NeverReady);
                }
            }
        }
    }

    /// While what was taken is being finished, a worker that dies is still replaced: somebody must finish it.
    pub(super) fn may_spawn(&self) -> bool {
        match self.phase {
            Phase::Running => true,
            Phase::Leaving(_) => self.exit == Exit::Stopped,
            Phase::Draining(_) => false,
        }
    }

    pub(super) fn heard(&mut self, news: News) {
        match news {
            News::Ready(id) => {
                self.policy.ready();
                let Some(generation) = self.workers.get(&id).map(|w| w.generation) else { return };
                self.loaded(generation);
                let now = Instant::now();
                let retires = self.retires(now);
                if let Some(worker) = self.workers.get_mut(&id) {
                    let took = worker.started.elapsed().as_secs_f64();
                    worker.ready = Some(now);
                    worker.retires = retires;
                    worker.patience = worker.patience.filter(|_| worker.draining);
                    telemetry::info!("{id} (pid {}) is ready after {took:.2} s", worker.child.id());
                }
            }
            News::LoadFailed(id, text) => {
                if let Some(worker) = self.workers.get_mut(&id) {
                    worker.load_failed = Some(text);
                }
            }
            News::Worn(id, requests) => self.worn(id, requests),
            News::WantsToLeave(id) => self.wants_to_leave(id),
            News::Stuck(id, request) => self.stuck(id, &request),
            News::OnlyStuck(id) => self.only_stuck(id),
            News::Silent { id, reader } => self.silent(id, reader),
            News::Answers(id) => self.answers(id),
            News::Gone(id, loss) => {
                if let Some(worker) = self.workers.get_mut(&id) {
                    worker.gone = Some(loss);
                    if !worker.draining && worker.load_failed.is_none() && worker.exited.is_none() {
                        // Without its bridge it is of no use. It may be ending by itself: then this changes nothing.
                        kill(worker);
                    }
                }
                self.bury(id);
            }
            News::Idle(counters) => self.idle(counters),
            News::GivenUp(0) => {}
            News::GivenUp(answered) => {
                telemetry::warn!("{} answered 503 or cut off", count(answered, "request"));
            }
            News::Failed(why) => {
                telemetry::error!("the dispatcher cannot go on: {why}");
                self.fail(Exit::Internal);
            }
        }
    }

    /// Somebody else has told a worker to end (SIGTERM). Its replacement comes first.
    fn wants_to_leave(&mut self, id: WorkerId) {
        if self.phase != Phase::Running {
            // The whole process group was told to end: this worker is needed to finish what was taken.
            return;
        }
        let Some(worker) = self.workers.get_mut(&id).filter(|w| !w.draining) else { return };
        telemetry::info!("{id} (pid {}) was told to end", worker.child.id());
        if !self.config.workers.keep_alive {
            self.wanted = self.wanted.saturating_sub(1);
        }
        self.replace(id, Reason::Told);
    }

    /// Lets a worker go because the plan says so.
    fn let_go(&mut self, id: WorkerId) {
        let old = self.workers.get(&id).is_some_and(|w| self.reloads.is_old(w.generation));
        if old {
            self.replace(id, Reason::Reload);
        }
        self.drain(id);
    }

    pub(super) fn drain(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.draining = true;
        if worker.silent {
            kill(worker);
        } else if worker.ready.is_some() {
            worker.patience = Instant::now().checked_add(self.config.limits.graceful_timeout);
            self.dispatcher.tell(Command::DrainWorker(id));
        } else {
            // It is busy loading and has begun nothing.
            kill(worker);
        }
    }

    /// Kills what has had its time.
    pub(super) fn end_patience(&mut self, now: Instant) {
        for (id, worker) in &mut self.workers {
            if worker.patience.is_some_and(|at| at <= now) {
                worker.patience = None;
                let pid = worker.child.id();
                if worker.draining {
                    telemetry::warn!("{id} (pid {pid}) does not come to an end; killing it");
                } else {
                    let took = worker.started.elapsed().as_secs_f64();
                    telemetry::error!(
                        "{id} (pid {pid}) is not ready after {took:.1} s; killing it"
                    );
                }
                kill(worker);
            }
        }
    }

    /// A worker whose process has ended and whose requests have been seen to is history.
    pub(super) fn bury(&mut self, id: WorkerId) {
        let done = self.workers.get(&id).is_some_and(|w| w.exited.is_some() && w.gone.is_some());
        if !done {
            return;
        }
        let Some(worker) = self.workers.remove(&id) else { return };
        let (Some(status), Some(loss)) = (worker.exited, worker.gone) else { return };
        let pid = worker.child.id();
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

    fn came_to_nothing(&mut self, generation: u32, end: End, why: &str) {
        self.restarts.count(Reason::NotLoaded);
        if !self.load_failed(generation, why) {
            self.follow(end);
        }
    }

    fn follow(&mut self, end: End) {
        if !self.may_spawn() {
            return;
        }
        let others = self.workers.len();
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
            Verdict::Stop(exit) => {
                telemetry::info!("cannot go on: ending with exit code {}", exit.code());
                self.fail(exit);
            }
        }
    }
}

pub(super) fn kill(worker: &mut Worker) {
    if worker.exited.is_none() {
        // It fails only for a process that has ended already.
        let _ = worker.child.kill();
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

/// `1 worker`, `2 workers`.
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
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
