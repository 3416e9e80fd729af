//! What becomes known of a request when it is over: counted, timed, and told to the access log.

use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use super::Core;
use super::Exchange;
use super::WorkerId;
use crate::bridge::EndInfo;
use crate::bridge::Outcome;
use crate::bridge::Ticket;
use crate::config::AccessFormat;
use crate::dispatch::connection::Waiting;
use crate::dispatch::refuse;
use crate::proto::Value;
use crate::proto::request::Envelope;
use crate::telemetry::access;
use crate::telemetry::access::outcome;
use crate::telemetry::metrics::Histogram;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Its whole response went out.
    Ok,
    /// The application failed: the client got 500.
    ApplicationError,
    /// The response broke off: the client got a part of it.
    Cut,
    /// The client had gone before it was answered.
    ClientGone,
    /// The worker died: the client got 502, or a part of the response.
    WorkerDied,
    /// It took longer than it may: the client got 504, or a part of the response.
    TimedOut,
    /// Answered without the application.
    Refused,
}

impl Fate {
    /// All of them, in the order of their numbers.
    pub const ALL: [Fate; 7] = [
        Fate::Ok,
        Fate::ApplicationError,
        Fate::Cut,
        Fate::ClientGone,
        Fate::WorkerDied,
        Fate::TimedOut,
        Fate::Refused,
    ];

    /// Its name in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Fate::Ok => outcome::OK,
            Fate::ApplicationError => "application_error",
            Fate::Cut => outcome::CUT,
            Fate::ClientGone => outcome::CLIENT_GONE,
            Fate::WorkerDied => "worker_died",
            Fate::TimedOut => outcome::TIMED_OUT,
            Fate::Refused => outcome::REFUSED,
        }
    }

    fn of(outcome: Outcome) -> Fate {
        match outcome {
            Outcome::Ok => Fate::Ok,
            Outcome::AppError => Fate::ApplicationError,
            Outcome::Cut => Fate::Cut,
            Outcome::ClientGone => Fate::ClientGone,
            Outcome::Refused => Fate::Refused,
        }
    }
}

/// How long requests took.
#[derive(Debug, Clone)]
pub struct Times {
    /// From receiving a request to having all of its answer.
    pub request: Histogram,
    /// From receiving a request to handing it to a worker.
    pub queue: Histogram,
}

impl Times {
    pub(super) fn new(now: Instant) -> Times {
        Times { request: Histogram::new(now), queue: Histogram::new(now) }
    }
}

/// What is known of a request from its beginning.
#[derive(Clone, Copy)]
struct Asked<'a> {
    message: &'a [u8],
    ticket: Ticket,
    received: Instant,
}

impl<'a> Asked<'a> {
    fn of(exchange: &'a Exchange) -> Asked<'a> {
        let Exchange { message, ticket, received, .. } = exchange;
        Asked { message, ticket: *ticket, received: *received }
    }
}

impl Core {
    /// A worker has ended a request.
    pub(super) fn over(&mut self, exchange: &Exchange, end: &EndInfo, line: &[u8]) {
        if exchange.answered {
            return;
        }
        let fate = if exchange.gone { Fate::ClientGone } else { Fate::of(end.outcome) };
        self.count(fate, end.status, exchange.received);
        let waited = exchange.given.saturating_duration_since(exchange.received);
        self.times.queue.note(self.now, waited);
        if !self.want_access_lines {
            return;
        }
        if self.access_log_format == AccessFormat::Json {
            let had = Some((exchange.given, exchange.worker));
            self.log_json(Asked::of(exchange), fate, end.status, had, Some(end));
        } else if line.is_empty() {
            // It ended before its slot looked at it, or the slot lost its way.
            let line = refuse::access_line(&exchange.message, end.status);
            self.log(&line, exchange.received);
        } else {
            self.log(line, exchange.received);
        }
    }

    /// A request that a worker had is over without a word from it: the client got `status`, or nothing if that is 0.
    pub(super) fn over_without_worker(&mut self, exchange: &Exchange, fate: Fate, status: u16) {
        if exchange.answered {
            return;
        }
        let fate = if exchange.gone { Fate::ClientGone } else { fate };
        let had = Some((exchange.given, exchange.worker));
        self.finish(Asked::of(exchange), fate, status, had);
    }

    /// A request that no worker had is over: the client got `status`, or nothing if that is 0. `ticket` is
    /// one that was given to no other.
    pub(super) fn over_unrun(&mut self, item: &Waiting, ticket: Ticket, fate: Fate, status: u16) {
        let asked = Asked { message: &item.message, ticket, received: item.received };
        self.finish(asked, fate, status, None);
    }

    fn finish(
        &mut self,
        asked: Asked<'_>,
        fate: Fate,
        status: u16,
        had: Option<(Instant, WorkerId)>,
    ) {
        self.count(fate, status, asked.received);
        if !self.want_access_lines {
            return;
        }
        if self.access_log_format == AccessFormat::Json {
            self.log_json(asked, fate, status, had, None);
        } else {
            let line = refuse::access_line(asked.message, status);
            self.log(&line, asked.received);
        }
    }

    /// `had`: since when which worker had it.
    fn log_json(
        &mut self,
        asked: Asked<'_>,
        fate: Fate,
        status: u16,
        had: Option<(Instant, WorkerId)>,
        end: Option<&EndInfo>,
    ) {
        let Asked { message, ticket, received } = asked;
        let envelope = Envelope::parse(message).ok();
        let headers = envelope.as_ref().and_then(|e| e.headers().ok()).unwrap_or_default();
        let id = refuse::id(Some(&headers), &self.request_ids, ticket);
        let total = self.now.saturating_duration_since(received);
        self.access_lines.push(access::json_line(&access::Record {
            when: SystemTime::now().checked_sub(total).unwrap_or(SystemTime::UNIX_EPOCH),
            request_id: &id,
            remote: headers.own("REMOTE_ADDR"),
            method: headers.own("METHOD"),
            target: headers.own("URI").or(envelope.as_ref().map(|e| e.path)),
            protocol: headers.own("VERSION"),
            referer: headers.get(b"referer").map(Value::first),
            user_agent: headers.get(b"user-agent").map(Value::first),
            status,
            bytes: end.map(|end| end.body_bytes),
            way: access::Way::Instance {
                worker: had.map(|(_, worker)| worker.0),
                queue: had.map(|(given, _)| given.saturating_duration_since(received)),
                application: end.map(|end| Duration::from_nanos(end.service_ns)),
            },
            total,
            outcome: fate.as_str(),
        }));
    }

    fn count(&mut self, fate: Fate, status: u16, received: Instant) {
        let class = usize::from(status / 100).min(self.counters.answered.len() - 1);
        self.counters.answered[class] += 1;
        self.counters.fates[fate as usize] += 1;
        let took = self.now.saturating_duration_since(received);
        self.times.request.note(self.now, took);
    }

    fn log(&mut self, line: &[u8], received: Instant) {
        let micros = self.now.saturating_duration_since(received).as_micros();
        let mut line = line.to_vec();
        line.extend_from_slice(
            format!(" {}.{:06}", micros / 1_000_000, micros % 1_000_000).as_bytes(),
        );
        self.access_lines.push(line);
    }
}
