//! Why workers are replaced, and how often each reason was one.

use std::collections::BTreeMap;
use std::fmt;

/// Why a worker is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Its process ended, and nobody had told it to.
    Died,
    /// It did not load the application, or not in time.
    NotLoaded,
    /// Somebody told its process to end (SIGTERM).
    Told,
    /// It had finished `--max-requests` requests.
    Requests,
    /// It had been ready for `--max-lifetime`.
    Lifetime,
    /// It had more memory than `--max-rss`.
    Memory,
    /// It had told its application that there is no other worker (`wsgi.multiprocess`), and now there are more.
    Alone,
    /// One of its requests has timed out and does not end.
    Stuck,
    /// It gave no sign of life.
    Silent,
    /// The application, or the settings of workers, were loaded anew.
    Reload,
}

impl Reason {
    /// As it is called in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Died => "died",
            Self::NotLoaded => "not-loaded",
            Self::Told => "told",
            Self::Requests => "max-requests",
            Self::Lifetime => "max-lifetime",
            Self::Memory => "max-rss",
            Self::Alone => "alone",
            Self::Stuck => "stuck",
            Self::Silent => "silent",
            Self::Reload => "reload",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How many workers were replaced, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restarts(BTreeMap<Reason, u64>);

impl Restarts {
    /// One more.
    pub(super) fn count(&mut self, reason: Reason) {
        *self.0.entry(reason).or_default() += 1;
    }

    /// The reasons there have been, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> {
        self.0.iter().map(|(reason, times)| (*reason, *times))
    }
}
