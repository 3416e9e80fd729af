//! The worker processes.

use std::time::Duration;

use crate::config::Surroundings;
use crate::config::reader::Reader;
use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;

/// How many there are, and what becomes of one that dies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workers {
    /// Worker processes, 1 to 512.
    pub workers: u32,
    /// Slots of each worker, 1 to 256.
    pub threads: u32,
    /// Whether a worker that died is replaced.
    pub keep_alive: bool,
    /// How long a worker may load before it counts as failed.
    pub start_timeout: Duration,
    /// Most worker processes beyond `workers` while some are replaced, 1 to 512.
    pub reload_surge: u32,
}

impl Workers {
    pub(in crate::config) fn read<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<Self> {
        let workers = reader.count(Key::Workers);
        let threads = reader.count(Key::Threads);
        let keep_alive = reader.switch(Key::KeepAlive);
        let start_timeout = reader.duration(Key::StartTimeout);
        let reload_surge = reader.count(Key::ReloadSurge);
        Some(Self {
            workers: workers?,
            threads: threads?,
            keep_alive: keep_alive?,
            start_timeout: start_timeout?,
            reload_surge: reload_surge?,
        })
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[
    Setting {
        key: Key::Workers,
        name: "workers",
        metavar: "N",
        kind: Kind::Count { min: 1, max: 512 },
        fallback: Fallback::Value("1"),
        group: Group::Workers,
        help: "Worker processes, each with the application loaded (1 to 512)",
        reason: "wsgid's default; a second one doubles the memory. The limit keeps a slip of the finger from filling a \
                 machine with processes.",
    },
    Setting {
        key: Key::Threads,
        name: "threads",
        metavar: "N",
        kind: Kind::Count { min: 1, max: 256 },
        fallback: Fallback::Value("4"),
        group: Group::Workers,
        help: "Requests that each worker serves at the same time, each in a thread (1 to 256); 1 for an application that \
               is not thread-safe",
        reason: "A few let one request compute while others wait for a database; with many they only wait for the \
                 interpreter.",
    },
    Setting {
        key: Key::KeepAlive,
        name: "keep-alive",
        metavar: "",
        kind: Kind::Switch { off: "no-keep-alive" },
        fallback: Fallback::Value("true"),
        group: Group::Workers,
        help: "Replace workers that die; with --no-keep-alive lurcher ends when the last one has died",
        reason: "wsgid's default, and what operators expect. It is about processes: HTTP connections are kept alive in \
                 any case.",
    },
    Setting {
        key: Key::StartTimeout,
        name: "start-timeout",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("5m"),
        group: Group::Workers,
        help: "How long a worker may take until the application is loaded, at most 24h; what takes longer has failed",
        reason: "A large application on a cold disk takes a minute. What waits for a database that never answers should \
                 not hold up a reload for ever.",
    },
    Setting {
        key: Key::ReloadSurge,
        name: "reload-surge",
        metavar: "N",
        kind: Kind::Count { min: 1, max: 512 },
        fallback: Fallback::Value("1"),
        group: Group::Workers,
        help: "Worker processes beyond --workers that there may be while old ones are replaced (1 to 512), those included \
               that still finish their last requests",
        reason: "One more costs the least memory. As many as --workers replace all at once, which is quicker.",
    },
];
