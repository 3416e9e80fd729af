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
}

impl Timeouts {
    pub(in crate::config) fn read<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<Self> {
        let some = |limit: Duration| (!limit.is_zero()).then_some(limit);
        let queue = reader.duration(Key::QueueTimeout);
        Some(Self { queue: some(queue?) })
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[Setting {
    key: Key::QueueTimeout,
    name: "queue-timeout",
    metavar: "TIME",
    kind: Kind::Duration,
    fallback: Fallback::Value("30s"),
    group: Group::Limits,
    help: "How long a request may wait for a slot (as 30s, 500ms, 2m); then it gets 503 with Retry-After. 0: as long as its \
           client waits. A pipelined request waits only once those before it are answered",
    reason: "Half of the 60 s after which proxies and load balancers commonly give a request up: the client gets an \
             answer that says why, and no slot works for somebody who has left.",
}];
