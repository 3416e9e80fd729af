//! How long things may take before the instance acts.

use std::time::Duration;

use crate::config::Surroundings;
use crate::config::reader::Reader;
use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;

/// The time limits. What is `None` has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// How long a request that may run may wait for a slot.
    pub queue: Option<Duration>,
    /// How long a request may be at work in its slot.
    pub request: Option<Duration>,
    /// How long one that was at work too long may take to end.
    pub request_grace: Duration,
    /// How long a worker may give no sign of life.
    pub worker: Option<Duration>,
}

impl Timeouts {
    pub(in crate::config) fn read<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<Self> {
        let some = |limit: Duration| (!limit.is_zero()).then_some(limit);
        let queue = reader.duration(Key::QueueTimeout);
        let request = reader.duration(Key::RequestTimeout);
        let request_grace = reader.duration(Key::RequestGrace);
        let worker = reader.duration(Key::WorkerTimeout);
        Some(Self {
            queue: some(queue?),
            request: some(request?),
            request_grace: request_grace?,
            worker: some(worker?),
        })
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[
    Setting {
        key: Key::QueueTimeout,
        name: "queue-timeout",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("30s"),
        group: Group::Limits,
        help: "How long a request may wait for a slot (as 30s, 500ms, 2m); then it gets 503 with Retry-After. 0: as long as \
               its client waits. A pipelined request waits only once those before it are answered",
        reason: "Half of the 60 s after which proxies and load balancers commonly give a request up: the client gets an \
                 answer that says why, and no slot works for somebody who has left.",
    },
    Setting {
        key: Key::RequestTimeout,
        name: "request-timeout",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("0"),
        group: Group::Limits,
        help: "How long a request may be at work, from its slot's beginning to the last byte of its response. Then its \
               client gets 504 (or a closed connection, if the response had begun), the log gets the stack of its thread, \
               and lurcher.RequestTimeout is raised there. 0: no limit",
        reason: "Only the application knows what is too long: a limit for pages would cut event streams and long \
                 downloads, for it counts them whole.",
    },
    Setting {
        key: Key::RequestGrace,
        name: "request-grace",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("5s"),
        group: Group::Limits,
        help: "How long a request that has timed out may take to end. Then its worker is replaced: the new one is ready \
               before the old one stops taking requests, and that one is killed once its other requests are done",
        reason: "Enough for a rollback; a thread that hangs outside of Python, as in a socket without a timeout, hangs on \
                 however long it is given.",
    },
    Setting {
        key: Key::WorkerTimeout,
        name: "worker-timeout",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("60s"),
        group: Group::Limits,
        help: "How long a worker may give no sign of its interpreter: its process stopped, or something holding the GIL. \
               Then it is replaced, and killed when the new one is ready. Not while it loads the application, nor while a \
               debugger holds it. 0: as long as it takes",
        reason: "Python code gives the GIL away every 5 ms, however much it computes, so that only a fault lasts so long; \
                 a machine that pages heavily needs some seconds.",
    },
];
