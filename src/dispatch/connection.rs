//! One client connection as the dispatcher knows it: the line of its requests, and the bytes on their way to it.
//!
//! A connection id names a connection, not a request, and Mongrel2 forwards pipelined requests at once (protocol section
//! 4.7): so there is one exchange at work at a time, and answers leave in the order of the requests. Nothing is sent from
//! here; [`Connection::take`] says what may go out now.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use super::inflow::Inflow;
use super::outgoing::Outgoing;
use super::pace;
use super::pace::Pace;
use super::refuse::Refusal;
use super::spool::Spool;
use super::upload_file::Upload;
use crate::bridge::Ticket;
use crate::proto::ident::SenderUuid;
use crate::transport::Message;

/// Requests that may wait on one connection. A client that pipelines more is answered 503 and cut off.
pub(crate) const LINE: usize = 64;

/// With flow control: the credits of a connection for which nothing is under way, and so the longest possible message
/// (protocol section 7.2).
pub(crate) const CREDITS: u64 = 102_400;

/// A message is a quarter of that, so that the front end writes some while the credits of others are on their way back:
/// more than twice as fast as one message at a time.
const CREDIT_MESSAGE: u64 = CREDITS / 4;

/// One thing to be answered, in its turn.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The request.
    pub(crate) message: Message,
    /// When it was received.
    pub(crate) received: Instant,
    /// When it came to the head of its line, if it has: from then on it waits for a slot.
    pub(crate) since: Option<Instant>,
    /// The file that is its body.
    pub(crate) upload: Option<Upload>,
    /// Whether its body is streamed; then it is [`Connection::inflow`].
    pub(crate) streamed: bool,
    /// Answer it with this instead of letting a worker run it.
    pub(crate) refuse: Option<Refusal>,
}

impl Waiting {
    /// What has come in just now.
    pub(crate) fn new(
        message: Message,
        now: Instant,
        upload: Option<Upload>,
        refuse: Option<Refusal>,
    ) -> Waiting {
        Waiting { message, received: now, since: None, upload, streamed: false, refuse }
    }
}

/// What goes out next to a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The first so many bytes of [`Connection::out`].
    Bytes(usize),
    /// The closing of the connection; nothing follows it.
    Close,
}

/// One client connection.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is one independent fact")]
pub(crate) struct Connection {
    /// Whom to answer through.
    pub(crate) sender: SenderUuid,
    /// Requests that wait for their turn.
    pub(crate) line: VecDeque<Waiting>,
    /// The file that a body of it is being written to.
    pub(crate) uploading: Option<Upload>,
    /// The streamed body of its last request, until all of it has come.
    pub(crate) inflow: Option<Inflow>,
    /// The exchange at work.
    pub(crate) active: Option<Ticket>,
    /// Whether it stands in the dispatcher's queue.
    pub(crate) queued: bool,
    /// Bytes for the client that have not gone out.
    pub(crate) out: Outgoing,
    /// How many of them are of earlier exchanges than the one at work.
    mark: usize,
    /// Whether bytes of the exchange at work have gone out.
    published: bool,
    /// Bytes that the front end can take now, where it does flow control.
    pub(crate) credits: Option<u64>,
    /// Close it when everything has gone out. Nothing more is accepted from it.
    pub(crate) closing: bool,
    /// Whether it is on the list of those with something to send.
    pub(crate) listed: bool,
    /// When something last happened to it.
    pub(crate) touched: Instant,
    /// When the front end was last told that it is alive, or will find so by itself.
    pub(crate) kept_alive: Instant,
    /// When what waits in `out` began to wait, or last grew less.
    progress: Instant,
    pace: Pace,
}

impl Connection {
    pub(crate) fn new(sender: SenderUuid, now: Instant) -> Connection {
        Connection {
            sender,
            line: VecDeque::new(),
            uploading: None,
            inflow: None,
            active: None,
            queued: false,
            out: Outgoing::default(),
            mark: 0,
            published: false,
            credits: None,
            closing: false,
            listed: false,
            touched: now,
            kept_alive: now,
            progress: now,
            pace: Pace::new(now),
        }
    }

    /// A message of this connection has come in.
    pub(crate) fn arrived(&mut self, now: Instant) {
        self.touched = now;
        // Mongrel2 counts a request as a sign of life.
        self.kept_alive = now;
        if self.active.is_none() && self.line.is_empty() && self.out.is_empty() {
            self.pace.idle(now);
        }
    }

    /// An exchange begins.
    pub(crate) fn begin(&mut self, ticket: Ticket) {
        self.active = Some(ticket);
        self.mark = self.out.len();
        self.published = false;
    }

    /// The exchange is over, and what it had to say is in `out`. Returns how many waiting requests were given up.
    pub(crate) fn end(&mut self, keep: bool) -> usize {
        self.active = None;
        if keep { 0 } else { self.close() }
    }

    /// The exchange failed: `page` goes out if nothing of its response has, and the connection closes in any case. Returns
    /// how many waiting requests were given up.
    pub(crate) fn fail(&mut self, page: &[u8]) -> usize {
        // Nothing that an earlier exchange has said may be lost, and nothing be said twice.
        if self.published {
            self.out.replace_from(0, b"");
        } else {
            self.out.replace_from(self.mark, page);
        }
        self.end(false)
    }

    /// Close after what is there; what waits in line is given up. Returns how many requests that were.
    pub(crate) fn close(&mut self) -> usize {
        self.closing = true;
        let given_up = self.line.len();
        self.line.clear();
        given_up
    }

    /// Whether nothing that comes now will be run: a refusal is in line, and closes the connection.
    pub(crate) fn will_close(&self) -> bool {
        self.closing || self.line.iter().any(|item| item.refuse.is_some())
    }

    /// Bytes of the exchange at work, or of an answer of our own, have come.
    pub(crate) fn push(&mut self, bytes: &[u8], spool: &mut Spool) {
        if self.out.is_empty() {
            self.progress = spool.now();
        }
        self.out.push(bytes, spool);
    }

    /// What may go out now. Call [`Connection::taken`] when it has, and ask again.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Piece> {
        let waiting = self.out.len();
        if waiting == 0 {
            return (self.closing && self.active.is_none()).then_some(Piece::Close);
        }
        if let Some(credits) = self.credits {
            let most = usize::try_from(credits.min(CREDIT_MESSAGE)).unwrap_or(usize::MAX);
            return (most > 0).then_some(Piece::Bytes(waiting.min(most)));
        }
        let last = self.active.is_none() && (self.line.is_empty() || self.closing);
        self.pace.allows(now, waiting, last).map(Piece::Bytes)
    }

    /// That many bytes have gone out.
    pub(crate) fn taken(&mut self, now: Instant, bytes: usize) {
        self.published |= self.active.is_some() && bytes > self.mark;
        self.mark = self.mark.saturating_sub(bytes);
        self.progress = now;
        match &mut self.credits {
            Some(credits) => *credits -= (bytes as u64).min(*credits),
            None => self.pace.sent(now, bytes),
        }
    }

    /// The front end can take more.
    pub(crate) fn credited(&mut self, bytes: u64, now: Instant) {
        if let Some(credits) = &mut self.credits {
            *credits = credits.saturating_add(bytes);
            self.progress = now;
            self.touched = now;
        }
    }

    /// When to ask [`Connection::take`] again; `None` if only an event can change its answer.
    pub(crate) fn again(&self) -> Option<Instant> {
        (!self.out.is_empty() && self.credits.is_none()).then(|| self.pace.again())
    }

    /// Whether without flow control so much is under way that it is not known when the client will have read it.
    pub(crate) fn is_held(&self) -> bool {
        self.credits.is_none() && self.out.len() >= pace::MESSAGE && self.pace.is_full()
    }

    /// How long the front end has taken nothing of what waits for it. `congested` says that it takes nothing at all;
    /// else, without flow control, it is we who wait.
    pub(crate) fn stuck(&self, now: Instant, congested: bool) -> Duration {
        if congested || self.credits.is_some() { self.waits(now) } else { Duration::ZERO }
    }

    /// How long nothing of what waits for the client has gone out.
    pub(crate) fn waits(&self, now: Instant) -> Duration {
        if self.out.is_empty() {
            return Duration::ZERO;
        }
        now.saturating_duration_since(self.progress)
    }

    /// Whether its next request may be begun: when the answer to the one before is delivered, or is so small that it
    /// only waits to go out together with the next.
    pub(crate) fn is_free(&self) -> bool {
        let delivered = self.out.is_empty() || self.credits.is_none() && self.out.is_small();
        self.active.is_none() && !self.queued && !self.closing && delivered
    }

    /// Whether nothing of it needs to be remembered.
    pub(crate) fn forgettable(&self) -> bool {
        self.active.is_none()
            && self.line.is_empty()
            && self.out.is_empty()
            && self.credits.is_none()
            && self.uploading.is_none()
            && self.inflow.is_none()
            && !self.closing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(now: Instant) -> Connection {
        Connection::new(SenderUuid::try_from(&b"me"[..]).unwrap(), now)
    }

    fn spool(now: Instant) -> Spool {
        Spool::new(&crate::config::example().delivery, now)
    }

    fn text(c: &mut Connection) -> Vec<u8> {
        let mut out = Vec::new();
        c.out.pop(c.out.len(), &mut out).unwrap();
        out
    }

    #[test]
    fn a_whole_response_is_one_message() {
        let now = Instant::now();
        let mut c = connection(now);
        c.begin(Ticket(1));
        c.push(b"hello", &mut spool(now));
        c.end(true);
        assert_eq!(c.take(now), Some(Piece::Bytes(5)));
        assert_eq!(text(&mut c), b"hello");
        c.taken(now, 5);
        assert_eq!(c.take(now), None);
        assert!(c.forgettable());
    }

    #[test]
    fn a_failure_replaces_what_has_not_gone_out() {
        let now = Instant::now();
        let mut c = connection(now);
        c.begin(Ticket(2));
        c.push(b"half", &mut spool(now));
        c.fail(b"502");
        assert_eq!(text(&mut c), b"502");
        assert!(c.closing);
    }

    #[test]
    fn a_failure_leaves_alone_what_an_earlier_answer_has_said() {
        let now = Instant::now();
        let mut c = connection(now);
        c.push(b"of the one before", &mut spool(now));
        assert!(c.is_free(), "it is small");
        c.begin(Ticket(2));
        c.push(b"half", &mut spool(now));
        c.fail(b"502");
        assert_eq!(text(&mut c), b"of the one before502");
    }

    #[test]
    fn a_failure_after_the_first_byte_only_closes() {
        let now = Instant::now();
        let mut c = connection(now);
        c.begin(Ticket(2));
        c.push(b"half", &mut spool(now));
        c.out.pop(2, &mut Vec::new()).unwrap();
        c.taken(now, 2);
        c.fail(b"502");
        assert_eq!(c.take(now), Some(Piece::Close));
    }

    #[test]
    fn credits_are_honoured_to_the_byte() {
        let now = Instant::now();
        let mut c = connection(now);
        c.credits = Some(102_400);
        c.begin(Ticket(1));
        c.push(&vec![b'x'; 250_000], &mut spool(now));
        for _ in 0..4 {
            assert_eq!(c.take(now), Some(Piece::Bytes(25_600)));
            c.taken(now, 25_600);
        }
        assert_eq!(c.take(now), None);
        assert_eq!(c.stuck(now + Duration::from_secs(9), false), Duration::from_secs(9));
        c.credited(7, now + Duration::from_secs(9));
        assert_eq!(c.take(now), Some(Piece::Bytes(7)));
        c.taken(now, 7);
        assert_eq!(c.take(now), None);
        assert!(c.again().is_none(), "only an event frees credits");
    }

    #[test]
    fn without_flow_control_only_the_front_end_can_be_stuck() {
        let now = Instant::now();
        let later = now + Duration::from_secs(100);
        let mut c = connection(now);
        c.begin(Ticket(1));
        assert_eq!(c.stuck(later, true), Duration::ZERO, "nothing waits");
        c.push(b"x", &mut spool(now));
        assert_eq!(c.stuck(later, false), Duration::ZERO);
        assert_eq!(c.stuck(later, true), Duration::from_secs(100));
    }
}
