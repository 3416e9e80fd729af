//! What is written down of each request, and how often things happened.

use std::cell::Cell;
use std::cell::RefCell;
use std::time::Duration;
use std::time::SystemTime;

use crate::front::http1::head::Head;
use crate::http::framing::Version;
use crate::telemetry::access::AccessFields;
use crate::telemetry::access::AccessLog;

/// What is told about a request that is over.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) remote: &'a str,
    /// None if there was none that could be understood.
    pub(super) head: Option<&'a Head<'a>>,
    pub(super) status: u16,
    pub(super) bytes: u64,
    pub(super) took: Duration,
}

/// The access log, if there is one, and counters.
#[derive(Debug, Default)]
pub(crate) struct Record {
    log: Option<RefCell<AccessLog>>,
    refused: Cell<u64>,
    broken: Cell<u64>,
    bad_replies: Cell<u64>,
}

impl Record {
    pub(crate) fn new(log: Option<AccessLog>) -> Record {
        Record { log: log.map(RefCell::new), ..Record::default() }
    }

    /// Whether lines are written at all.
    pub(super) fn wants(&self) -> bool {
        self.log.is_some()
    }

    pub(super) fn line(&self, line: &Line<'_>) {
        let Some(log) = &self.log else { return };
        let head = line.head;
        let version: &[u8] = match head.map(|head| head.version) {
            None => b"",
            Some(Version::Http10) => b"HTTP/1.0",
            Some(Version::Http11) => b"HTTP/1.1",
        };
        let mut text = crate::telemetry::access::line(&AccessFields {
            remote_addr: line.remote.as_bytes(),
            user: None,
            method: head.map_or(b"", |head| head.method),
            uri: head.map_or(b"", |head| head.target),
            version,
            status: line.status,
            body_bytes: line.bytes,
            referer: head.and_then(|head| head.first("referer")),
            user_agent: head.and_then(|head| head.first("user-agent")),
            when: SystemTime::now(),
        });
        text.extend_from_slice(format!(" {:.6}", line.took.as_secs_f64()).as_bytes());
        log.borrow_mut().push(&text);
    }

    /// Opens the access log anew, as it was renamed.
    pub(crate) fn reopen(&self) {
        if let Some(log) = &self.log {
            log.borrow_mut().reopen();
        }
    }

    /// Writes the lines that wait.
    pub(crate) fn flush(&self) {
        if let Some(log) = &self.log {
            log.borrow_mut().flush();
        }
    }

    pub(super) fn refused(&self) {
        self.refused.set(self.refused.get() + 1);
    }

    pub(super) fn broken(&self) {
        self.broken.set(self.broken.get() + 1);
    }

    pub(super) fn bad_reply(&self) {
        self.bad_replies.set(self.bad_replies.get() + 1);
    }

    /// Requests refused for their form or size, responses that were broken, messages of handlers that were no replies.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [self.refused.get(), self.broken.get(), self.bad_replies.get()]
    }
}
