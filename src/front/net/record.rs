//! What becomes known of each request when it is over: counted, timed, and told to the access log. And how often other
//! things happened.
//!
//! Numbers of one thread, without locks. It refuses to read the clock more than once for a request.

use std::cell::Cell;
use std::cell::RefCell;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use crate::config::AccessFormat;
use crate::front::http1::head::Head;
use crate::http::framing::Version;
use crate::http::request_id::RequestIds;
use crate::http::response::ResponseError;
use crate::telemetry::access;
use crate::telemetry::access::AccessFields;
use crate::telemetry::access::AccessLog;
use crate::telemetry::access::Way;
use crate::telemetry::access::outcome;
use crate::telemetry::metrics::CLASSES;
use crate::telemetry::metrics::Histogram;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its whole response went out.
    Ok,
    /// Its handler closed the connection before the end of the response: the client got 502, or a part of it.
    Cut,
    /// The client had gone, or took nothing any more.
    ClientGone,
    /// Its handler died: the client got 502, or a part of the response.
    HandlerDied,
    /// What its handler sent is no response: likewise.
    BrokenResponse,
    /// No answer came in time: 504.
    TimedOut,
    /// No handler had room in time: 503.
    NoHandler,
    /// It was answered without a handler.
    Refused,
}

impl Outcome {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Outcome; 8] = [
        Outcome::Ok,
        Outcome::Cut,
        Outcome::ClientGone,
        Outcome::HandlerDied,
        Outcome::BrokenResponse,
        Outcome::TimedOut,
        Outcome::NoHandler,
        Outcome::Refused,
    ];

    /// Its name in metrics and logs.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Outcome::Ok => outcome::OK,
            Outcome::Cut => outcome::CUT,
            Outcome::ClientGone => outcome::CLIENT_GONE,
            Outcome::HandlerDied => "handler_died",
            Outcome::BrokenResponse => "broken_response",
            Outcome::TimedOut => outcome::TIMED_OUT,
            Outcome::NoHandler => "no_handler",
            Outcome::Refused => outcome::REFUSED,
        }
    }

    /// What a response that cannot be passed on ends with.
    pub(super) const fn of_broken(error: ResponseError) -> Outcome {
        match error {
            ResponseError::Nothing | ResponseError::Cut => Outcome::Cut,
            _ => Outcome::BrokenResponse,
        }
    }

    /// Whether a handler that writes an access log may have no line of the request, or one that tells of another end.
    const fn is_ours(self) -> bool {
        matches!(
            self,
            Outcome::HandlerDied | Outcome::TimedOut | Outcome::NoHandler | Outcome::Refused
        )
    }
}

/// A request that is over.
#[derive(Debug)]
pub(super) struct Over<'a> {
    pub(super) remote: &'a str,
    /// None if there was none that could be understood.
    pub(super) head: Option<&'a Head<'a>>,
    /// As [`Record::name`] gave it.
    pub(super) id: &'a [u8],
    /// None if it went to none.
    pub(super) route: Option<&'a str>,
    /// 0: the client got none.
    pub(super) status: u16,
    /// Bytes of the body.
    pub(super) bytes: u64,
    pub(super) outcome: Outcome,
    /// When its head was there.
    pub(super) began: Option<Instant>,
    /// When the first byte of its answer was written, if that was not just now.
    pub(super) first_byte: Option<Instant>,
}

/// How long requests took, from the end of their heads.
#[derive(Debug)]
pub(crate) struct Times {
    /// Until the last byte of the answer was written.
    pub(crate) request: Histogram,
    /// Until the first one was.
    pub(crate) first_byte: Histogram,
}

/// The access log, if there is one, and counters.
#[derive(Debug)]
pub(crate) struct Record {
    log: Option<RefCell<AccessLog>>,
    format: AccessFormat,
    own_lines: bool,
    pub(super) ids: RequestIds,
    number: Cell<u64>,
    answered: [Cell<u64>; CLASSES.len()],
    outcomes: [Cell<u64>; Outcome::ALL.len()],
    bad_replies: Cell<u64>,
    accepted: Cell<u64>,
    bytes_in: Cell<u64>,
    bytes_out: Cell<u64>,
    times: RefCell<Times>,
}

/// How often things happened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    /// Requests that are over, by [`CLASSES`].
    pub(crate) answered: [u64; CLASSES.len()],
    /// The same by [`Outcome`].
    pub(crate) outcomes: [u64; Outcome::ALL.len()],
    /// Messages of handlers that were no replies.
    pub(crate) bad_replies: u64,
    /// Connections of clients.
    pub(crate) accepted: u64,
    /// Bytes from clients.
    pub(crate) bytes_in: u64,
    /// Bytes to them.
    pub(crate) bytes_out: u64,
    /// Access lines that could not be written.
    pub(crate) lost_lines: u64,
}

impl Record {
    /// `own_lines`: there are lines only of what handlers do not tell of.
    pub(crate) fn new(
        log: Option<AccessLog>,
        format: AccessFormat,
        own_lines: bool,
        ids: RequestIds,
    ) -> Record {
        let now = Instant::now();
        Record {
            log: log.map(RefCell::new),
            format,
            own_lines,
            ids,
            number: Cell::new(0),
            answered: Default::default(),
            outcomes: Default::default(),
            bad_replies: Cell::new(0),
            accepted: Cell::new(0),
            bytes_in: Cell::new(0),
            bytes_out: Cell::new(0),
            times: RefCell::new(Times {
                request: Histogram::new(now),
                first_byte: Histogram::new(now),
            }),
        }
    }

    /// The name of the next request, if anybody is to know it. `said`: what a client says that is to be believed.
    pub(super) fn name(&self, said: Option<&[u8]>) -> Vec<u8> {
        let logged = self.log.is_some() && self.format == AccessFormat::Json;
        if self.ids.header().is_none() && !logged {
            return Vec::new();
        }
        add(&self.number, 1);
        self.ids.id(said, self.number.get())
    }

    /// Takes down a request that is over.
    pub(super) fn over(&self, over: &Over<'_>) {
        let now = Instant::now();
        let class = usize::from(over.status / 100).min(CLASSES.len() - 1);
        add(&self.answered[class], 1);
        add(&self.outcomes[over.outcome as usize], 1);
        if let Some(began) = over.began {
            let mut times = self.times.borrow_mut();
            times.request.note(now, now.saturating_duration_since(began));
            if over.status != 0 {
                let first = over.first_byte.unwrap_or(now);
                times.first_byte.note(now, first.saturating_duration_since(began));
            }
        }
        if let Some(log) = &self.log
            && (!self.own_lines || over.route.is_none() || over.outcome.is_ours())
        {
            let line = match self.format {
                AccessFormat::Combined => combined(over, now),
                AccessFormat::Json => json(over, now),
            };
            log.borrow_mut().push(&line);
        }
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

    pub(super) fn bad_reply(&self) {
        add(&self.bad_replies, 1);
    }

    pub(super) fn accepted(&self) {
        add(&self.accepted, 1);
    }

    pub(super) fn read(&self, bytes: usize) {
        add(&self.bytes_in, bytes as u64);
    }

    pub(super) fn wrote(&self, bytes: usize) {
        add(&self.bytes_out, bytes as u64);
    }

    /// How often things happened until now.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            answered: std::array::from_fn(|at| self.answered[at].get()),
            outcomes: std::array::from_fn(|at| self.outcomes[at].get()),
            bad_replies: self.bad_replies.get(),
            accepted: self.accepted.get(),
            bytes_in: self.bytes_in.get(),
            bytes_out: self.bytes_out.get(),
            lost_lines: self.log.as_ref().map_or(0, |log| log.borrow().lost()),
        }
    }

    /// Lends the times.
    pub(crate) fn with_times<T>(&self, look: impl FnOnce(&Times) -> T) -> T {
        look(&self.times.borrow())
    }
}

impl Counts {
    /// Requests that ended so.
    pub(crate) fn of(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }
}

fn add(counter: &Cell<u64>, number: u64) {
    counter.set(counter.get().wrapping_add(number));
}

fn version(head: Option<&Head<'_>>) -> &'static [u8] {
    match head.map(|head| head.version) {
        None => b"",
        Some(Version::Http10) => b"HTTP/1.0",
        Some(Version::Http11) => b"HTTP/1.1",
    }
}

fn combined(over: &Over<'_>, now: Instant) -> Vec<u8> {
    let head = over.head;
    let mut text = access::line(&AccessFields {
        remote_addr: over.remote.as_bytes(),
        user: None,
        method: head.map_or(b"", |head| head.method),
        uri: head.map_or(b"", |head| head.target),
        version: version(head),
        status: over.status,
        body_bytes: over.bytes,
        referer: head.and_then(|head| head.first("referer")),
        user_agent: head.and_then(|head| head.first("user-agent")),
        when: SystemTime::now(),
    });
    let took = over.began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
    text.extend_from_slice(format!(" {}.{:06}", took.as_secs(), took.subsec_micros()).as_bytes());
    text
}

fn json(over: &Over<'_>, now: Instant) -> Vec<u8> {
    let head = over.head;
    let since =
        |from: Option<Instant>, to: Instant| from.map(|at| to.saturating_duration_since(at));
    let total = since(over.began, now).unwrap_or_default();
    let first_byte = since(over.began, over.first_byte.unwrap_or(now));
    access::json_line(&access::Record {
        when: SystemTime::now().checked_sub(total).unwrap_or(SystemTime::UNIX_EPOCH),
        request_id: over.id,
        remote: Some(over.remote.as_bytes()),
        method: head.map(|head| head.method),
        target: head.map(|head| head.target),
        protocol: head.map(|_| version(head)),
        referer: head.and_then(|head| head.first("referer")),
        user_agent: head.and_then(|head| head.first("user-agent")),
        status: over.status,
        bytes: (over.status != 0).then_some(over.bytes),
        way: Way::Front { route: over.route, first_byte: first_byte.filter(|_| over.status != 0) },
        total,
        outcome: over.outcome.as_str(),
    })
}
