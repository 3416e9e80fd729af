//! Tells the outside how the instance is, when that has changed, and now and then.
//!
//! A sign of life is given by the dispatcher's thread when the supervisor asks for it: it proves that both of them go on.

use std::time::Duration;
use std::time::Instant;

use super::run::Phase;
use super::run::Supervisor;
use crate::dispatch::Command;
use crate::dispatch::Look;
use crate::system::Herald;

/// How old what `systemctl status` shows may be.
const STATUS_EVERY: Duration = Duration::from_secs(10);

/// What was told, and when something is to be told again.
#[derive(Debug)]
pub(super) struct Announcer {
    herald: Herald,
    /// Ready workers, how many there should be, and the phase in a word: what the last status was about.
    told: Option<(usize, usize, &'static str)>,
    /// When the next sign of life is due, if anybody waits for one.
    next: Option<Instant>,
}

impl Announcer {
    pub(super) fn new(herald: Herald) -> Announcer {
        Announcer { herald, told: None, next: None }
    }

    /// A reload was over before it began: whoever has asked for it waits for both.
    pub(super) fn reload_refused(&self) {
        self.herald.reloading();
        self.herald.serving();
    }

    /// When [`Supervisor::announce`] has something to do even if nothing happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next
    }
}

impl Supervisor {
    /// To be called after whatever may have changed something.
    pub(super) fn announce(&mut self) {
        let now = Instant::now();
        let ready = self.workers.values().filter(|worker| worker.is_serving()).count();
        let phase = match self.phase {
            Phase::Running
                if ready == 0 && self.announcer.told.is_none_or(|told| told.2 == STARTING) =>
            {
                STARTING
            }
            Phase::Running if self.reloads.now.is_some() => RELOADING,
            Phase::Running => SERVING,
            Phase::Leaving(_) | Phase::Draining(_) => STOPPING,
        };
        let state = (ready, self.wanted, phase);
        let told = self.announcer.told.replace(state);
        let due = self.announcer.next.is_some_and(|at| at <= now);
        if told == Some(state) && !due {
            return;
        }
        let herald = &self.announcer.herald;
        if told.map(|told| told.2) != Some(phase) {
            match phase {
                SERVING => herald.serving(),
                RELOADING => herald.reloading(),
                STOPPING => herald.stopping(),
                _ => {}
            }
        }
        let Some(patience) = herald.patience() else { return };
        self.announcer.next = Some(now + STATUS_EVERY.min(patience / 2));
        let herald = herald.clone();
        self.dispatcher.tell(Command::Look(Look::new(move |view| {
            let core = view.core;
            herald.alive(&format!(
                "{phase}: {ready} of {} workers ready; requests: {}, of these waiting: {}",
                state.1, core.counters.requests, core.waiting
            ));
        })));
    }
}

const STARTING: &str = "starting";
const RELOADING: &str = "reloading";
const SERVING: &str = "serving";
const STOPPING: &str = "stopping";
