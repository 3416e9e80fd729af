//! How responses reach their clients: where they wait for slow ones, and for how long.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::Surroundings;
use crate::config::reader::Reader;
use crate::config::reader::quoted_path;
use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;

/// What is kept of responses that their clients take slowly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Bytes of one response kept in memory; at least one data frame of a bridge.
    pub response_memory: u64,
    /// Bytes of one response kept in a file beyond that; 0 = no file.
    pub response_spool: u64,
    /// Bytes of all these files together.
    pub response_spool_total: u64,
    /// Where they are; the system's directory for temporary files if unset.
    pub spool_dir: Option<PathBuf>,
    /// How long a client may take nothing before its connection is cut; unset = for ever.
    pub send_timeout: Option<Duration>,
    /// How often a front end is told that an unanswered connection is alive; unset = never.
    pub keepalive_interval: Option<Duration>,
}

impl Delivery {
    pub(in crate::config) fn read<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<Self> {
        let response_memory = reader.size(Key::ResponseMemory);
        let response_spool = reader.size(Key::ResponseSpool);
        let response_spool_total = reader.size(Key::ResponseSpoolTotal);
        let spool_dir = reader.get(Key::SpoolDir, Reader::directory, quoted_path);
        let send_timeout = reader.duration(Key::SendTimeout);
        let keepalive_interval = reader.duration(Key::KeepaliveInterval);
        let unless_zero = |time: Duration| Some(time).filter(|time| !time.is_zero());
        Some(Self {
            response_memory: response_memory?,
            response_spool: response_spool?,
            response_spool_total: response_spool_total?,
            spool_dir,
            send_timeout: unless_zero(send_timeout?),
            keepalive_interval: unless_zero(keepalive_interval?),
        })
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[
    Setting {
        key: Key::ResponseMemory,
        name: "response-memory",
        metavar: "SIZE",
        kind: Kind::Size { min: 64 << 10, max: 1 << 30 },
        fallback: Fallback::Value("256K"),
        group: Group::Delivery,
        help: "How much of one response is kept in memory while its client is slow (64K to 1G); beyond it a file is used",
        reason: "Nearly every page fits, and a thousand slow clients cost 256 MiB at most.",
    },
    Setting {
        key: Key::ResponseSpool,
        name: "response-spool",
        metavar: "SIZE",
        kind: Kind::Size { min: 0, max: 1 << 40 },
        fallback: Fallback::Value("64M"),
        group: Group::Delivery,
        help: "How much of one response is kept in a temporary file beyond --response-memory (0 to 1024G; 0: no file). \
               Only when both are full does the application wait for the client",
        reason: "Most downloads fit, so that their slots are free at once; it is little for a disk.",
    },
    Setting {
        key: Key::ResponseSpoolTotal,
        name: "response-spool-total",
        metavar: "SIZE",
        kind: Kind::Size { min: 0, max: 1 << 50 },
        fallback: Fallback::Value("1G"),
        group: Group::Delivery,
        help: "How much all these files together may take (0 to 1048576G); beyond it applications wait as if there were none",
        reason: "Sixteen of the largest; the directory for temporary files is often small, or in memory.",
    },
    Setting {
        key: Key::SpoolDir,
        name: "spool-dir",
        metavar: "DIR",
        kind: Kind::Path,
        fallback: Fallback::Unset("the system's directory for temporary files (TMPDIR, or /tmp)"),
        group: Group::Delivery,
        help: "Where temporary files are made. They have no name there, and go away with their request or the process",
        reason: "The system knows best; give a directory on a local disk if /tmp is small or in memory.",
    },
    Setting {
        key: Key::SendTimeout,
        name: "send-timeout",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("60s"),
        group: Group::Delivery,
        help: "How long a client may take nothing of what waits for it before its connection is cut (0: for ever). Without \
               the front end's flow control only the front end is seen, not the client",
        reason: "A client that reads 2 KB/s passes; one that has gone to sleep does not hold a slot or a file for long.",
    },
    Setting {
        key: Key::KeepaliveInterval,
        name: "keepalive-interval",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("30s"),
        group: Group::Delivery,
        help: "How often the front end is told that a connection whose request is unanswered is alive (0: never)",
        reason: "A quarter of the 120 s (limits.min_ping) after which Mongrel2 drops a silent connection.",
    },
];
