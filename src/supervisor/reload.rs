//! Reload and scaling: new workers with the newest code and settings, and old ones let go only when these are ready.
//!
//! Nothing changes before the first new worker has loaded the application: until then its settings are a candidate, and
//! if it fails they are forgotten with it. One reload at a time; further ones asked for meanwhile are one more after it.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use super::reason::Reason;
use super::run::Phase;
use super::run::Supervisor;
use super::watch::count;
use crate::config::Config;
use crate::config::Level;
use crate::dispatch::Bounds;
use crate::dispatch::Command;
use crate::dispatch::WorkerId;
use crate::telemetry;
use crate::telemetry::Escaped;

/// Workers in a row that may fail to load once one has loaded, before the reload is given up.
const FAILURES: u32 = 3;

/// Most workers of an instance; the limit of the setting too.
pub(super) const MOST_WORKERS: usize = 512;

/// What became of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reloaded {
    /// All workers are new.
    Done,
    /// The old workers stay; the text says why, with the traceback if the application did not load.
    Failed(String),
}

/// Hears what became of a reload.
pub(super) struct Told(Box<dyn FnOnce(&Reloaded)>);

impl Told {
    pub(super) fn new(hear: impl FnOnce(&Reloaded) + 'static) -> Told {
        Told(Box::new(hear))
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told")
    }
}

/// A reload under way.
#[derive(Debug)]
pub(super) struct Reload {
    /// What new workers are started with; what holds once one of them is ready. What needs a restart is as it was.
    config: Config,
    began: Instant,
    /// A worker has loaded the application.
    proven: bool,
    failures: u32,
    told: Vec<Told>,
}

/// What a supervisor knows about reloads.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    pub(super) now: Option<Reload>,
    /// Another one was asked for, by these.
    next: Option<Vec<Told>>,
    /// Rises with each reload; workers of a lower one are old while a reload is under way.
    generation: u32,
}

impl Reloads {
    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether a worker of this generation is to be replaced by the reload that is under way.
    pub(super) fn is_old(&self, generation: u32) -> bool {
        self.now.is_some() && generation < self.generation
    }
}

impl Supervisor {
    /// Loads application and settings anew. `told` hears what became of it, also when that is decided at once.
    pub(super) fn reload(&mut self, told: Option<Told>) {
        self.reload_for(told.into_iter().collect());
    }

    fn reload_for(&mut self, told: Vec<Told>) {
        if self.phase != Phase::Running {
            tell(told, &Reloaded::Failed("the instance is about to end".to_owned()));
            return;
        }
        if self.reloads.now.is_some() {
            telemetry::info!("a reload is under way; another one follows it");
            self.reloads.next.get_or_insert_default().extend(told);
            return;
        }
        match (self.reread)() {
            Ok(config) => self.begin_reload(config, told),
            Err(faults) => {
                for fault in &faults {
                    telemetry::error!("{fault}");
                }
                telemetry::error!("reload failed: the settings are wrong; nothing has changed");
                self.announcer.reload_refused();
                tell(told, &Reloaded::Failed(faults.join("\n")));
            }
        }
    }

    /// A file of the application has changed.
    pub(super) fn file_changed(&mut self, file: &Path) {
        if self.phase == Phase::Running {
            telemetry::info!("{} has changed: reloading", Escaped(file.as_os_str().as_bytes()));
            self.reload(None);
        }
    }

    /// There is no worker, and none is started before a file has changed.
    pub(super) fn await_change(&mut self) {
        let why = "the application did not load; the log says why";
        self.end_reload(&Reloaded::Failed(why.to_owned()));
        if !std::mem::replace(&mut self.awaiting, true) {
            telemetry::warn!("waiting for a change of the application's files");
        }
    }

    fn begin_reload(&mut self, config: Config, told: Vec<Told>) {
        for warning in config.warnings.iter().filter(|line| !self.config.warnings.contains(line)) {
            telemetry::warn!("{warning}");
        }
        for name in self.config.frozen_changes(&config) {
            telemetry::warn!("{name} has changed: it needs a restart, and stays as it was");
        }
        telemetry::info!("reloading: {} to replace", count(self.workers.len(), "worker"));
        self.reloads.generation += 1;
        let mut next = self.config.clone();
        next.adopt(config);
        let (proven, failures) = (false, 0);
        let reload = Reload { config: next, began: Instant::now(), proven, failures, told };
        self.reloads.now = Some(reload);
        self.awaiting = false;
    }

    /// The settings of workers that start now.
    pub(super) fn newest_config(&self) -> &Config {
        self.reloads.now.as_ref().map_or(&self.config, |reload| &reload.config)
    }

    /// What is written at least, now and by workers that start later; a reload that begins later says otherwise.
    pub(super) fn put_log_level(&mut self, level: Level) {
        self.config.log.log_level = level;
        if let Some(reload) = &mut self.reloads.now {
            reload.config.log.log_level = level;
        }
    }

    /// A worker of this generation has loaded the application.
    pub(super) fn loaded(&mut self, generation: u32) {
        if generation < self.reloads.generation {
            return;
        }
        let Some(reload) = &mut self.reloads.now else { return };
        reload.failures = 0;
        if !std::mem::replace(&mut reload.proven, true) {
            let new = reload.config.clone();
            if new.workers.workers != self.config.workers.workers {
                self.wanted = new.workers.workers as usize;
            }
            self.config.adopt(new);
            self.keep_template(generation);
            self.files.adapt(&self.config);
            telemetry::set_format(self.config.log.log_format);
            telemetry::set_level(self.config.log.log_level);
            let Config { limits, timeouts, uploads, .. } = self.config.clone();
            self.dispatcher.tell(Command::Bounds(Box::new(Bounds { limits, timeouts, uploads })));
        }
    }

    /// A worker of this generation has come to nothing. True if that has ended a reload, and with it the matter.
    pub(super) fn load_failed(&mut self, generation: u32, why: &str) -> bool {
        let old_ones = self.workers.values().any(|w| w.generation < self.reloads.generation);
        let Some(reload) = self.reloads.now.as_mut() else { return false };
        if generation < self.reloads.generation {
            return false;
        }
        reload.failures += 1;
        if !reload.proven && old_ones || reload.failures >= FAILURES {
            telemetry::error!("reload failed: the old workers stay");
            self.end_reload(&Reloaded::Failed(why.to_owned()));
            let proven = self.proven;
            self.keep_template(proven);
            // Those that still load would come to the same end.
            let loading: Vec<WorkerId> =
                self.workers.iter().filter(|(_, w)| w.is_loading()).map(|(id, _)| *id).collect();
            for id in loading {
                self.drain(id);
            }
            return true;
        }
        false
    }

    /// Ends a reload whose work is done. True if there is more to do now.
    pub(super) fn settle(&mut self) -> bool {
        let Some(reload) = &self.reloads.now else {
            let Some(told) = self.reloads.next.take() else { return false };
            self.reload_for(told);
            return true;
        };
        let generation = self.reloads.generation;
        let serving = |new: bool| {
            let takes = self.workers.values().filter(|w| !w.draining);
            takes.filter(|w| (w.generation == generation) == new && w.is_ready()).count()
        };
        if !reload.proven || serving(false) > 0 || serving(true) < self.wanted {
            return false;
        }
        let took = reload.began.elapsed().as_secs_f64();
        telemetry::info!("reloaded: {} new after {took:.2} s", count(serving(true), "worker"));
        self.end_reload(&Reloaded::Done);
        true
    }

    /// The instance ends before the reload has.
    pub(super) fn forget_reloads(&mut self) {
        let outcome = Reloaded::Failed("the instance was told to stop".to_owned());
        tell(self.reloads.next.take().unwrap_or_default(), &outcome);
        self.end_reload(&outcome);
    }

    fn end_reload(&mut self, outcome: &Reloaded) {
        if let Some(reload) = self.reloads.now.take() {
            tell(reload.told, outcome);
        }
    }

    /// So many workers are wanted from now on, 1 to 512, until the setting itself is changed.
    pub(super) fn scale(&mut self, workers: usize) {
        let workers = workers.clamp(1, MOST_WORKERS);
        if workers == self.wanted {
            telemetry::info!("{} already", count(workers, "worker"));
        } else {
            telemetry::info!("scaling from {} to {}", self.wanted, count(workers, "worker"));
            self.wanted = workers;
            let lone = self.workers.iter().filter(|(_, w)| w.alone && workers > 1);
            let lone: Vec<WorkerId> = lone.map(|(id, _)| *id).collect();
            for id in lone {
                self.replace(id, Reason::Alone);
            }
        }
    }

    /// Has a worker replaced: when another one is ready, it gets no more requests and ends. Nothing happens if it is
    /// about to be replaced already, or the instance is about to end.
    pub(super) fn replace(&mut self, id: WorkerId, reason: Reason) {
        if self.phase != Phase::Running {
            return;
        }
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if !worker.draining && worker.leaving.is_none() {
            worker.leaving = Some(reason);
            self.restarts.count(reason);
        }
    }
}

fn tell(told: Vec<Told>, outcome: &Reloaded) {
    for Told(hear) in told {
        hear(outcome);
    }
}
