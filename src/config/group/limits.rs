//! How much, and for how long.

use std::time::Duration;

use crate::config::Surroundings;
use crate::config::reader::Reader;
use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;

/// What is bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Requests that may wait for a worker, at least 1; one more gets 503.
    pub queue_limit: usize,
    /// How long requests may go on after the instance was told to stop.
    pub graceful_timeout: Duration,
}

impl Limits {
    pub(in crate::config) fn read<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<Self> {
        let queue_limit = reader.count(Key::QueueLimit);
        let graceful_timeout = reader.duration(Key::GracefulTimeout);
        Some(Self { queue_limit: queue_limit?, graceful_timeout: graceful_timeout? })
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[
    Setting {
        key: Key::QueueLimit,
        name: "queue-limit",
        metavar: "N",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        fallback: Fallback::Value("1024"),
        group: Group::Limits,
        help: "Requests that may wait for a worker (1 to 1000000); further ones get 503 with Retry-After at once",
        reason: "Some seconds of work for a quick application; what waits longer has mostly been given up by its client.",
    },
    Setting {
        key: Key::GracefulTimeout,
        name: "graceful-timeout",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("30s"),
        group: Group::Limits,
        help: "How long requests may take to end after SIGTERM or SIGINT: 30 or 30s, 500ms, 2m, at most 24h. What still \
               runs then is cut off",
        reason: "Longer than nearly every request, shorter than the 90 s after which systemd kills.",
    },
];
