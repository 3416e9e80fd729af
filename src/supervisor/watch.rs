//! Worker processes: started, heard of, buried, and followed by others.

use std::io;
use std::process::ExitStatus;
use std::time::Instant;

use super::Exit;
use super::plan::Member;
use super::plan::Plan;
use super::plan::Stage;
use super::plan::Wanted;
use super::plan::plan;
use super::policy::End;
use super::process::Process;
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
    pub(super) process: Process,
    pub(super) generation: u32,
    /// It tells its application that there is no other worker.
    pub(super) alone: bool,
    pub(super) started: Instant,
    pub(super) ready: Option<Instant>,
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
    pub(super) load_failed: Option<String>,
    pub(super) exited: Option<ExitStatus>,
    pub(super) gone: Option<Loss>,
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
                put_off: if self.awaiting { self.wanted } else { self.put_off.len() },
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
        let id = WorkerId(self.last_id + 1);
        let config = self.newest_config();
        let (slots, patience) = (config.workers.threads as usize, config.workers.start_timeout);
        let recycle = &config.recycle;
        let more = recycle.max_requests_jitter;
        let wears_out = recycle.max_requests.map(|least| jittered(least, more, random()));
        let mut settings = config.worker_settings(id.0);
        settings.multiprocess = self.wanted > 1;
        let started = if config.loading.preload {
            match self.fork(id, slots) {
                Some(started) => started,
                None => return,
            }
        } else {
            // Who the instance is stays as it was at its start.
            spawn::spawn(&self.interpreter, &self.config.process, slots)
        };
        self.last_id = id.0;
        let setup = serde_json::to_vec(&settings).map_err(io::Error::other);
        let started = setup.and_then(|setup| Ok((setup, started?)));
        match started {
            Ok((setup, started)) => {
                let spawn::Started { process, bridge, board } = started;
                telemetry::debug!("{id} started");
                let now = Instant::now();
                let worker = Worker {
                    process,
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
                self.awaiting = false;
                let Some(generation) = self.workers.get(&id).map(|w| w.generation) else { return };
                self.loaded(generation);
                let now = Instant::now();
                let retires = self.retires(now);
                if let Some(worker) = self.workers.get_mut(&id) {
                    let took = worker.started.elapsed().as_secs_f64();
                    worker.ready = Some(now);
                    worker.retires = retires;
                    worker.patience = worker.patience.filter(|_| worker.draining);
                    telemetry::info!(
                        "{id} (pid {}) is ready after {took:.2} s",
                        worker.process.id()
                    );
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
        telemetry::info!("{id} (pid {}) was told to end", worker.process.id());
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
                let pid = worker.process.id();
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
}

pub(super) fn kill(worker: &mut Worker) {
    if worker.exited.is_none() {
        worker.process.kill();
    }
}

/// `1 worker`, `2 workers`.
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
