//! How things stand, as it travels to a client and as `lurcher status --json` prints it. Fields are only ever added.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;

use super::Instance;
use super::proc;
use crate::dispatch::AtWork;
use crate::dispatch::Fate;
use crate::dispatch::LinkView;
use crate::dispatch::View;
use crate::dispatch::WorkerView;
use crate::telemetry::Escaped;
use crate::telemetry::metrics::CLASSES;
use crate::telemetry::metrics::Histogram;

/// Everything. Times are in seconds, sizes in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Of lurcher.
    pub version: String,
    /// Of the instance.
    pub pid: u32,
    /// `running`, `leaving` or `draining`.
    pub state: String,
    /// For how long it runs.
    pub uptime: f64,
    /// As `--wsgi-app`.
    pub application: String,
    /// As `--app-path`.
    pub app_path: String,
    /// The front ends; none before the first worker is ready.
    pub links: Vec<Link>,
    /// What waits.
    pub queue: Queue,
    /// How many workers there ought to be.
    pub workers_wanted: usize,
    /// Those that there are.
    pub workers: Vec<Worker>,
    /// Workers that were replaced, by the reason.
    pub restarts: BTreeMap<String, u64>,
    /// Counted since the start.
    pub totals: Totals,
    /// How long requests took in the last one to two minutes.
    pub times: Times,
}

/// One front end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Where requests come from.
    pub recv: String,
    /// Where responses go.
    pub send: String,
    /// Whether requests come in.
    pub connected: bool,
    /// Whether responses go out.
    pub subscribed: bool,
    /// Response bytes that the front end has not taken.
    pub backlog: usize,
    /// Responses dropped because the front end was gone.
    pub dropped: u64,
}

/// Requests that wait in the instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// How many.
    pub length: usize,
    /// How many may.
    pub limit: usize,
    /// For how long the oldest has.
    pub oldest: Option<f64>,
    /// Client connections that are remembered.
    pub connections: usize,
}

/// One worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Its number, as in the log.
    pub number: u32,
    /// Its process.
    pub pid: u32,
    /// `loading`, `ready` or `draining`.
    pub state: String,
    /// For how long it has run.
    pub age: f64,
    /// Requests it has finished.
    pub requests: u64,
    /// Its resident memory.
    pub rss: Option<u64>,
    /// Its slots.
    pub slots: usize,
    /// Those that are busy.
    pub busy: usize,
    /// Requests handed to it and not ended.
    pub at_work: usize,
    /// What its busy slots do.
    pub requests_at_work: Vec<Current>,
}

/// What a slot does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Current {
    /// From 1.
    pub slot: usize,
    /// For how long.
    pub age: f64,
    /// As the client sent it, escaped as in the log.
    pub method: String,
    /// Likewise, and cut off.
    pub target: String,
}

/// What was counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests received.
    pub requests: u64,
    /// Those that are over, by what the client got: `2xx` and so on, `none` without a response.
    pub answered: BTreeMap<String, u64>,
    /// Those that are over, by how they ended.
    pub outcomes: BTreeMap<String, u64>,
    /// Answered by the instance itself.
    pub refused: u64,
    /// Messages that did not parse.
    pub malformed: u64,
    /// Requests that came on a connection that was closed already.
    pub after_close: u64,
    /// Bytes of messages received.
    pub bytes_in: u64,
    /// Bytes of responses published.
    pub bytes_out: u64,
    /// Access lines that could not be written.
    pub lost_access_lines: u64,
}

/// How long requests took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// From receiving a request to having all of its answer.
    pub request: Percentiles,
    /// From receiving a request to handing it to a worker.
    pub queue: Percentiles,
}

/// Times that so many percent did not exceed, right to an eighth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub count: u64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

impl Report {
    /// Puts together what supervisor and dispatcher said. Looks at `/proc` for each worker.
    pub(super) fn new(instance: &Instance, view: &View) -> Report {
        let counters = &view.core.counters;
        let classes = CLASSES.iter().map(|name| (*name).to_owned()).zip(counters.answered);
        let fates = Fate::ALL.iter().map(|fate| fate.as_str().to_owned()).zip(counters.fates);
        let worker = |(id, process): (&crate::dispatch::WorkerId, &super::Process)| {
            let view = view.core.workers.iter().find(|view| view.id == *id);
            Worker::new(id.0, *process, view)
        };
        Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: instance.pid,
            state: instance.state.to_owned(),
            uptime: seconds(instance.age),
            application: instance.application.clone(),
            app_path: instance.app_path.to_string_lossy().into_owned(),
            links: view.links.iter().map(Link::new).collect(),
            queue: Queue {
                length: view.core.waiting,
                limit: instance.queue_limit,
                oldest: view.core.oldest.map(seconds),
                connections: view.core.connections,
            },
            workers_wanted: instance.wanted,
            workers: instance.workers.iter().map(worker).collect(),
            restarts: instance.restarts.iter().map(|(why, n)| ((*why).to_owned(), *n)).collect(),
            totals: Totals {
                requests: counters.requests,
                answered: classes.collect(),
                outcomes: fates.collect(),
                refused: counters.refused,
                malformed: counters.malformed,
                after_close: counters.after_close,
                bytes_in: counters.bytes_in,
                bytes_out: counters.bytes_out,
                lost_access_lines: view.lost_lines,
            },
            times: Times {
                request: Percentiles::new(&view.core.times.request),
                queue: Percentiles::new(&view.core.times.queue),
            },
        }
    }
}

impl Link {
    fn new(view: &LinkView) -> Link {
        Link {
            recv: view.spec.recv.to_string(),
            send: view.spec.send.to_string(),
            connected: view.connected,
            subscribed: view.subscribed,
            backlog: view.backlog,
            dropped: view.dropped,
        }
    }
}

impl Worker {
    fn new(number: u32, process: super::Process, view: Option<&WorkerView>) -> Worker {
        Worker {
            number,
            pid: process.pid,
            // Its bridge ends a little before its process.
            state: view.map_or("ending", |view| view.state).to_owned(),
            age: seconds(process.age),
            requests: view.map_or(0, |view| view.finished),
            rss: proc::resident(process.pid),
            slots: view.map_or(0, |view| view.slots),
            busy: view.map_or(0, |view| view.busy_slots),
            at_work: view.map_or(0, |view| view.at_work),
            requests_at_work: view
                .map(|view| view.busy.iter().map(Current::new).collect())
                .unwrap_or_default(),
        }
    }
}

impl Current {
    fn new(at_work: &AtWork) -> Current {
        Current {
            slot: at_work.slot,
            age: seconds(at_work.age),
            method: Escaped(&at_work.method).to_string(),
            target: Escaped(&at_work.target).to_string(),
        }
    }
}

impl Percentiles {
    fn new(times: &Histogram) -> Percentiles {
        let (count, [p50, p90, p99, max]) = times.recent([0.5, 0.9, 0.99, 1.0]);
        let [p50, p90, p99, max] = [p50, p90, p99, max].map(seconds);
        Percentiles { count, p50, p90, p99, max }
    }
}

/// To the microsecond: more digits would only be noise.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e6
}
