//! When a worker has done enough, and another one takes its place.

use std::time::Duration;

use crate::config::Surroundings;
use crate::config::reader::Reader;
use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;

/// What wears a worker out. What is `None` does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recycle {
    /// Requests finished.
    pub max_requests: Option<u64>,
    /// Each worker serves up to so many more.
    pub max_requests_jitter: u64,
    /// Time since it was ready.
    pub max_lifetime: Option<Duration>,
    /// Each worker lives up to so much longer.
    pub max_lifetime_jitter: Duration,
    /// Resident memory in bytes.
    pub max_rss: Option<u64>,
}

impl Recycle {
    pub(in crate::config) fn read<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<Self> {
        let max_requests: Option<u64> = reader.count(Key::MaxRequests);
        let max_requests_jitter = reader.count(Key::MaxRequestsJitter);
        let max_lifetime = reader.duration(Key::MaxLifetime);
        let max_lifetime_jitter = reader.duration(Key::MaxLifetimeJitter);
        let max_rss = reader.size(Key::MaxRss);
        Some(Self {
            max_requests: Some(max_requests?).filter(|most| *most > 0),
            max_requests_jitter: max_requests_jitter?,
            max_lifetime: Some(max_lifetime?).filter(|most| !most.is_zero()),
            max_lifetime_jitter: max_lifetime_jitter?,
            max_rss: Some(max_rss?).filter(|most| *most > 0),
        })
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[
    Setting {
        key: Key::MaxRequests,
        name: "max-requests",
        metavar: "N",
        kind: Kind::Count { min: 0, max: 1_000_000_000 },
        fallback: Fallback::Value("0"),
        group: Group::Workers,
        help: "Replace a worker once it has finished so many requests; 0: never. The new one is ready before the old one \
               stops taking requests",
        reason: "It is a bandage for applications that leak; most do not need it.",
    },
    Setting {
        key: Key::MaxRequestsJitter,
        name: "max-requests-jitter",
        metavar: "N",
        kind: Kind::Count { min: 0, max: 1_000_000_000 },
        fallback: Fallback::Value("0"),
        group: Group::Workers,
        help: "Let each worker finish up to N requests more than --max-requests, at random",
        reason: "Workers are replaced one after the other in any case (--reload-surge); with jitter they come to it at \
                 different times.",
    },
    Setting {
        key: Key::MaxLifetime,
        name: "max-lifetime",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("0"),
        group: Group::Workers,
        help: "Replace a worker that has been ready for so long, at most 24h; 0: never",
        reason: "As for --max-requests; for applications that age by the clock, with connections or caches that go stale.",
    },
    Setting {
        key: Key::MaxLifetimeJitter,
        name: "max-lifetime-jitter",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("0"),
        group: Group::Workers,
        help: "Let each worker live up to so much longer than --max-lifetime, at random",
        reason: "As for --max-requests-jitter.",
    },
    Setting {
        key: Key::MaxRss,
        name: "max-rss",
        metavar: "SIZE",
        kind: Kind::Size { min: 0, max: 1 << 50 },
        fallback: Fallback::Value("0"),
        group: Group::Workers,
        help: "Replace a worker whose resident memory is more than SIZE, as 500M or 2G; 0: never. It is looked at each \
               second; memory shared with other processes counts",
        reason: "Only who knows the application can tell how much is too much.",
    },
];
