//! What an instance can be asked, and how the answer finds its way back.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use nix::sys::eventfd::EventFd;
use serde::Deserialize;
use serde::Serialize;

use super::Report;
use crate::config::Level;
use crate::dispatch::View;
use crate::dispatch::WorkerId;

/// What is wanted: a line on the control socket, such as `{"verb":"status"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Wish {
    /// How things stand.
    Status {},
    /// The Python stacks of all busy slots, as text.
    Stacks {},
    /// To finish what was taken, and end.
    Stop {},
    /// To load application and settings anew.
    Reload {},
    /// To have so many workers, from 1.
    Scale {
        /// How many.
        workers: u32,
    },
    /// To write records of this level and graver, in all processes.
    LogLevel {
        /// Which.
        level: Level,
    },
}

/// What comes back, as another line.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Whether it was done.
    pub ok: bool,
    /// What was done, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How things stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Box<Report>>,
}

/// What the supervisor knows of the instance.
#[derive(Debug, Clone)]
pub struct Instance {
    /// Process id.
    pub pid: u32,
    /// What is served.
    pub application: String,
    /// Where it is.
    pub app_path: PathBuf,
    /// For how long it runs.
    pub age: Duration,
    /// `running`, `leaving` or `draining`.
    pub state: &'static str,
    /// Most requests that may wait.
    pub queue_limit: usize,
    /// How many workers there ought to be.
    pub wanted: usize,
    /// Its worker processes, those that still load and those that end included.
    pub workers: BTreeMap<WorkerId, Process>,
    /// How many workers were replaced, by the reason.
    pub restarts: BTreeMap<&'static str, u64>,
}

/// One worker process.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Since it was started.
    pub age: Duration,
}

/// One thing that somebody asks for.
#[derive(Debug)]
pub struct Ask {
    /// What.
    pub wish: Wish,
    /// Who asks, for the log.
    pub asker: String,
    /// Where the answer goes.
    pub reply: Reply,
}

/// What goes back to the thread that asked.
#[derive(Debug)]
pub(super) enum Said {
    Done(String),
    Refused(String),
    /// This status of HTTP.
    Http(&'static str),
    Status(Box<Instance>, Box<View>),
}

/// The way back for one answer. Without one it tells that the instance is ending.
#[derive(Debug)]
pub struct Reply {
    pub(super) client: u64,
    pub(super) back: Option<Sender<(u64, Said)>>,
    pub(super) wake: Arc<EventFd>,
}

impl Reply {
    /// It is done; the text says what.
    pub fn done(self, text: impl Into<String>) {
        self.say(Said::Done(text.into()));
    }

    /// It is not done; the text says why not.
    pub fn refuse(self, why: impl Into<String>) {
        self.say(Said::Refused(why.into()));
    }

    /// So do things stand.
    pub fn status(self, instance: Box<Instance>, view: Box<View>) {
        self.say(Said::Status(instance, view));
    }

    fn say(mut self, said: Said) {
        self.send(said);
    }

    fn send(&mut self, said: Said) {
        if let Some(back) = self.back.take() {
            // A server that has ended has no clients to tell.
            let _ = back.send((self.client, said));
            // It fails only when the counter is full, and then it is awake.
            let _ = self.wake.write(1);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.send(Said::Refused("the instance is ending".to_owned()));
    }
}
