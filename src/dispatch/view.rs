//! How things stand, for whoever asks the dispatcher between two turns.

use std::fmt;
use std::time::Duration;

use nix::time::ClockId;

use super::Snapshot;
use super::core::Core;
use crate::config::LinkSpec;
use crate::transport::Link;

/// How things stand.
#[derive(Debug, Clone)]
pub struct View {
    /// The links, once they are open.
    pub links: Vec<LinkView>,
    /// Requests and workers.
    pub core: Snapshot,
    /// Access lines that could not be written.
    pub lost_lines: u64,
}

/// One link.
#[derive(Debug, Clone)]
pub struct LinkView {
    /// Its endpoints.
    pub spec: LinkSpec,
    /// Whether requests come in.
    pub connected: bool,
    /// Whether the front end gets what is published.
    pub subscribed: bool,
    /// Bytes that wait to be published.
    pub backlog: usize,
    /// Publications dropped because no front end was there for them.
    pub dropped: u64,
}

/// A question, with the way back for its answer. It is called in the dispatcher's thread and must not wait.
pub struct Look(Box<dyn FnOnce(View) + Send>);

impl Look {
    /// Asks; `tell` gets the answer.
    pub fn new(tell: impl FnOnce(View) + Send + 'static) -> Look {
        Look(Box::new(tell))
    }

    pub(super) fn at(self, links: &[Link], core: &mut Core, lost_lines: u64) {
        let clock = nix::time::clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
        let now_ns = clock.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        let links = links.iter().map(|link| LinkView {
            spec: link.spec().clone(),
            connected: link.connected(),
            subscribed: link.subscribed(),
            backlog: link.backlog_bytes(),
            dropped: link.dropped(),
        });
        (self.0)(View { links: links.collect(), core: core.snapshot(now_ns), lost_lines });
    }
}

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Look")
    }
}
