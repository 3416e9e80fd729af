//! What the supervisor and the dispatcher say to each other. Neither waits for the other.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::Counters;
use super::Loss;
use super::WorkerId;
use super::stacks::AskStacks;
use super::view::Look;
use crate::bridge::Board;
use crate::config::AccessFormat;
use crate::config::Delivery;
use crate::config::FrontEnd;
use crate::config::Level;
use crate::config::Limits;
use crate::config::Timeouts;
use crate::config::Uploads;
use crate::telemetry::access::AccessLog;

/// What a dispatcher is made from.
#[derive(Debug)]
pub struct Settings {
    /// The front ends.
    pub front_end: FrontEnd,
    /// What is bounded.
    pub limits: Limits,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// What is accepted as a body.
    pub uploads: Uploads,
    /// How responses reach their clients.
    pub delivery: Delivery,
    /// Where access lines go.
    pub access_log: Option<AccessLog>,
    /// How they are written.
    pub access_log_format: AccessFormat,
    /// The header with the id of a request.
    pub request_id_header: Option<String>,
    /// Begins the ids that are made; workers must have the same.
    pub request_id_prefix: u64,
}

/// What may change while the dispatcher runs.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// How much.
    pub limits: Limits,
    /// For how long.
    pub timeouts: Timeouts,
    /// Of request bodies.
    pub uploads: Uploads,
}

/// What the supervisor tells the dispatcher.
#[derive(Debug)]
pub enum Command {
    /// A worker was started; this is our end of its bridge. It gets `setup` at once.
    AddWorker {
        /// Its name.
        id: WorkerId,
        /// Our end of its bridge.
        bridge: UnixStream,
        /// Its board.
        board: Board,
        /// Its settings, as JSON.
        setup: Vec<u8>,
    },
    /// When this worker has finished so many requests, [`News::Worn`] follows.
    WearOut(WorkerId, u64),
    /// This worker gets no more requests, finishes what it has, and ends.
    DrainWorker(WorkerId),
    /// The process of this worker has ended.
    WorkerExited(WorkerId),
    /// What is bounded is bounded so from now on.
    Bounds(Box<Bounds>),
    /// The access log is opened anew, and so does each worker with this log file; absent: there is none to be opened.
    ReopenLogs(Option<PathBuf>),
    /// Workers write records of this level and graver.
    LogLevel(Level),
    /// Leave the front ends and finish what was taken; [`News::Idle`] follows.
    Leave,
    /// Say how things stand, in this way.
    Look(Look),
    /// Ask the workers what their slots are doing.
    AskStacks(AskStacks),
    /// Answer 503 to all that waits or runs, and leave; [`News::Idle`] follows.
    GiveUp,
}

/// What the supervisor hears from the dispatcher.
#[derive(Debug)]
pub enum News {
    /// A worker has loaded the application.
    Ready(WorkerId),
    /// A worker could not load the application; the text is the traceback.
    LoadFailed(WorkerId, String),
    /// A worker was told by somebody else to end.
    WantsToLeave(WorkerId),
    /// A request of this worker has timed out and does not end; the words say which.
    Stuck(WorkerId, String),
    /// A worker that drains has nothing left but requests that have timed out and do not end.
    OnlyStuck(WorkerId),
    /// A worker gives no sign of its interpreter; told again after as long again.
    Silent {
        /// Which.
        id: WorkerId,
        /// Whether its reader answers, which needs no interpreter.
        reader: bool,
    },
    /// A silent worker has answered after all.
    Answers(WorkerId),
    /// A worker has finished so many requests ([`Command::WearOut`]).
    Worn(WorkerId, u64),
    /// The bridge of a worker has ended, and its requests have been seen to.
    Gone(WorkerId, Loss),
    /// All front ends are left and every request that was taken is answered.
    Idle(Counters),
    /// So many requests were answered 503 because of [`Command::GiveUp`].
    GivenUp(usize),
    /// The dispatcher cannot go on.
    Failed(String),
}
