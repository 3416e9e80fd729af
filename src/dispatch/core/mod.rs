//! The dispatcher's mind: connections, queue, exchanges, workers. No socket, no clock, no thread.
//!
//! Events go in with the time at which they happened; what is to be sent comes out in buffers ([`Core::publications`],
//! [`Core::bridge_out`]) that the loop empties. So every promise about requests can be tested without a front end, a worker
//! process or an interpreter.

mod account;
mod bodies;
mod intake;
mod overdue;
mod pulse;
mod results;
mod send;
mod snapshot;
mod streams;
mod sweep;
#[cfg(test)]
mod tests;
mod workers;

use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use super::Bounds;
use super::News;
use super::Settings;
use super::choice::Load;
use super::connection::Connection;
use super::spool::Spool;
use super::upload_file::Place;
use super::upload_file::Upload;
use crate::bridge::Board;
use crate::bridge::Ticket;
use crate::config::AccessFormat;
use crate::config::Delivery;
use crate::config::Limits;
use crate::config::Timeouts;
use crate::config::Uploads;
use crate::http::request_id::RequestIds;
use crate::proto::hash::Quick;
use crate::proto::ident::ConnId;
use crate::telemetry;
use crate::transport::Message;

pub use account::Fate;
pub use account::Times;
pub use overdue::Clock;
pub use snapshot::AtWork;
pub use snapshot::Snapshot;
pub use snapshot::WorkerView;
pub(crate) use streams::Part;
pub use workers::Loss;

use pulse::Pulse;

/// How long a connection with flow control is remembered when nothing happens on it: its end is not always told
/// (protocol section 5).
const FORGET: Duration = Duration::from_secs(3600);

/// How often time limits of connections are looked after, if none of them is shorter.
const SWEEP: Duration = Duration::from_secs(2);

/// Bytes published on a link in one turn before the turn of others, and before it is seen whether the front end takes them.
const TURN: usize = 4 << 20;

/// Names a worker of an instance; rises with each worker started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u32);

impl std::fmt::Display for WorkerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "worker {}", self.0)
    }
}

/// A client connection: ids of two front ends collide, so the link is part of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) link: usize,
    pub(crate) conn: ConnId,
}

/// One request at a worker.
#[derive(Debug)]
struct Exchange {
    key: Key,
    worker: WorkerId,
    ticket: Ticket,
    /// Kept until the end, to be handed to another worker if this one gives it back or dies before it has begun.
    message: Message,
    received: Instant,
    /// When it was handed to the worker.
    given: Instant,
    /// When it came to the head of its line.
    since: Option<Instant>,
    /// The file that is its body.
    upload: Option<Upload>,
    /// Whether its body is streamed.
    streamed: bool,
    /// Response bytes taken from the worker and not acknowledged yet.
    unacked: u64,
    /// The client is gone: nothing of this exchange may reach its connection id again.
    gone: bool,
    /// It was at work too long: since when that is so. Its end is awaited, its answer is not.
    late: Option<Instant>,
    /// It has had its answer and its access line from the instance.
    answered: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Loading,
    Ready,
    Draining,
}

#[derive(Debug)]
struct WorkerSide {
    load: Load,
    stage: Stage,
    board: Board,
    /// Tickets handed over and not ended, rising.
    tickets: VecDeque<Ticket>,
    finished: u64,
    /// Worn out when it has finished so many.
    wears_out: Option<u64>,
    /// Frames that have not been written yet.
    out: Vec<u8>,
    pulse: Pulse,
    /// It was told of as stuck.
    told_stuck: bool,
}

#[derive(Debug, Default)]
struct LinkSide {
    /// Replies to publish.
    out: Vec<Vec<u8>>,
    /// Their bytes in this turn.
    fresh: usize,
    congested: bool,
    /// Bytes that may be under way to one client, if this front end has shown that it does flow control.
    window: Option<u64>,
    /// Connections closed by us in this sweep and the one before. What their clients had sent before they knew is not
    /// run, since no answer could reach them (protocol section 4.7); ids are not used again by a living front end.
    closed: [HashSet<ConnId>; 2],
}

impl LinkSide {
    /// Whether the front end has enough to do for now.
    fn is_full(&self) -> bool {
        self.congested || self.fresh > TURN
    }

    fn remembers(&self) -> bool {
        self.closed.iter().any(|ids| !ids.is_empty())
    }
}

/// What the dispatcher counts.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counters {
    /// Requests received.
    pub requests: u64,
    /// Answers given by the instance itself instead of a worker.
    pub refused: u64,
    /// Messages that did not parse.
    pub malformed: u64,
    /// Connections that ended while a request of theirs waited or ran.
    pub clients_gone: u64,
    /// Requests that waited too long for a slot.
    pub waited_too_long: u64,
    /// Requests that were at work too long.
    pub timed_out: u64,
    /// Requests that came on a connection after we had closed it.
    pub after_close: u64,
    /// Requests that are over, by the class of the status that was sent: `[5]` are 5xx, `[0]` got none.
    pub answered: [u64; 6],
    /// Requests that are over, by [`Fate`].
    pub fates: [u64; Fate::ALL.len()],
    /// Bytes of all messages received from front ends.
    pub bytes_in: u64,
    /// Bytes of responses published, heads included.
    pub bytes_out: u64,
    /// Connections cut because their client, or their front end, took nothing for `--send-timeout`.
    pub send_timeouts: u64,
    /// Requests given up because their client sent nothing more of a streamed body for `--upload-timeout`.
    pub upload_timeouts: u64,
    /// Parts of streamed bodies for connections of which this instance knows nothing.
    pub strange_parts: u64,
    /// Bytes that temporary files of responses take now.
    pub spooled_now: u64,
    /// Bytes ever written to them.
    pub spooled: u64,
}

/// See the module's text.
#[derive(Debug)]
pub struct Core {
    links: Vec<LinkSide>,
    workers: HashMap<WorkerId, WorkerSide, Quick>,
    connections: HashMap<Key, Connection, Quick>,
    exchanges: HashMap<Ticket, Exchange, Quick>,
    /// Connections whose first waiting request may be run, in the order in which these came to the head of their line.
    queue: VecDeque<Key>,
    /// Requests in all lines.
    waiting: usize,
    limits: Limits,
    timeouts: Timeouts,
    uploads: Uploads,
    upload_place: Place,
    delivery: Delivery,
    spool: Spool,
    last_ticket: u64,
    /// Requests that were named without a ticket.
    last_unrun: u64,
    /// Connections with something to send.
    sending: Vec<Key>,
    /// Some of them could not be served in this turn only because others were.
    hurry: bool,
    /// Something may wait for a client that takes nothing.
    probing: bool,
    swept: Instant,
    clock: Clock,
    /// When slots are looked at next.
    look_at: Instant,
    /// When workers are asked for a sign of life next.
    beats_at: Instant,
    news: Vec<News>,
    /// When the oldest closed connections were last forgotten.
    forgot: Instant,
    cut_lines: telemetry::Limited,
    slow_lines: telemetry::Limited,

    want_access_lines: bool,
    access_log_format: AccessFormat,
    request_ids: RequestIds,
    access_lines: Vec<Vec<u8>>,
    worn: Vec<(WorkerId, u64)>,
    counters: Counters,
    times: Times,
    /// When the present turn began.
    now: Instant,
    malformed_lines: telemetry::Limited,
    waited_lines: telemetry::Limited,
}

impl Core {
    /// A dispatcher without workers.
    pub fn new(settings: &Settings, clock: Clock) -> Core {
        Core {
            links: (0..settings.front_end.links.len()).map(|_| LinkSide::default()).collect(),
            workers: HashMap::default(),
            connections: HashMap::default(),
            exchanges: HashMap::default(),
            queue: VecDeque::new(),
            waiting: 0,
            limits: settings.limits.clone(),
            timeouts: settings.timeouts.clone(),
            uploads: settings.uploads.clone(),
            upload_place: Place {
                root: settings.front_end.mongrel2_chroot.clone(),
                dir: settings.uploads.upload_dir.clone(),
            },
            delivery: settings.delivery.clone(),
            spool: Spool::new(&settings.delivery, clock.at),
            last_ticket: 0,
            last_unrun: 0,
            sending: Vec::new(),
            hurry: false,
            probing: false,
            swept: clock.at,
            forgot: clock.at,
            cut_lines: telemetry::Limited::new(),
            slow_lines: telemetry::Limited::new(),
            clock,
            look_at: clock.at,
            beats_at: clock.at,
            news: Vec::new(),
            want_access_lines: settings.access_log.is_some(),
            access_log_format: settings.access_log_format,
            request_ids: RequestIds::new(
                settings.request_id_header.as_deref(),
                settings.request_id_prefix,
            ),
            access_lines: Vec::new(),
            worn: Vec::new(),
            counters: Counters::default(),
            times: Times::new(clock.at),
            now: clock.at,
            malformed_lines: telemetry::Limited::new(),
            waited_lines: telemetry::Limited::new(),
        }
    }

    /// Other bounds hold from now on. What is beyond a smaller one already stays.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        Bounds { limits: self.limits, timeouts: self.timeouts, uploads: self.uploads } = bounds;
        self.look_at = self.now;
        self.beats_at = self.now;
    }

    /// A turn of the loop begins.
    pub fn begin_turn(&mut self, now: Instant) {
        self.now = now;
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        let (spooled_now, spooled) = self.spool.bytes();
        Counters { spooled_now, spooled, ..self.counters }
    }

    /// Replies to publish on a link, in order. The caller empties it.
    pub fn publications(&mut self, link: usize) -> &mut Vec<Vec<u8>> {
        &mut self.links[link].out
    }

    /// Frames to write to a worker. The caller empties it.
    pub fn bridge_out(&mut self, worker: WorkerId) -> Option<&mut Vec<u8>> {
        self.workers.get_mut(&worker).map(|w| &mut w.out)
    }

    /// Access lines to write. The caller empties it.
    pub fn access_lines(&mut self) -> &mut Vec<Vec<u8>> {
        &mut self.access_lines
    }

    /// What the supervisor should hear. The caller empties it.
    pub fn news(&mut self) -> &mut Vec<News> {
        &mut self.news
    }

    /// A number for a request that no worker gets, to name it: no other request has it.
    fn unrun_ticket(&mut self) -> Ticket {
        self.last_unrun += 1;
        Ticket(1 << 63 | self.last_unrun)
    }

    /// Whether every request has been answered and every answer handed to its link.
    pub fn idle(&self) -> bool {
        self.waiting == 0
            && self.exchanges.values().all(|e| e.late.is_some())
            && self.connections.values().all(|c| c.out.is_empty() && !c.closing)
            && self.links.iter().all(|link| link.out.is_empty())
    }

    /// Requests that wait, and requests at work.
    pub fn load(&self) -> (usize, usize) {
        (self.waiting, self.exchanges.len())
    }

    /// Hands waiting requests to workers that have room, sends what can be sent, and looks after what is overdue. Call it
    /// once in each turn of the loop, after all events.
    pub fn turn(&mut self, now: Instant) {
        self.beat(now);
        self.look_at_slots(now);
        self.spool.at(now);
        self.recall(now);
        self.assign(now);
        self.expire(now);
        // Before sending: what it ends must be told now.
        if now.duration_since(self.swept) >= self.sweep_interval() {
            self.sweep(now);
        }
        if self.send(now) {
            // What was delivered has let the next of its line have its turn.
            self.assign(now);
        }
    }

    /// When [`Core::turn`] must be called at the latest, even if nothing happens.
    pub fn deadline(&self) -> Option<Instant> {
        let stalls = self.workers.values().filter_map(|w| w.load.stalls_at());
        let sending = self.sending.iter().filter(|k| !self.links[k.link].congested);
        let sending = sending.filter_map(|k| self.connections.get(k)?.again());
        let hurry = self.hurry.then_some(self.swept);
        let busy = !self.connections.is_empty() || self.links.iter().any(LinkSide::remembers);
        let sweep = busy.then(|| self.swept + self.sweep_interval());
        stalls
            .chain(sending)
            .chain(hurry)
            .chain(sweep)
            .chain(self.expires_at())
            .chain(self.looks_at())
            .chain(self.next_beat())
            .min()
    }
}
