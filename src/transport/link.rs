//! One link: its XPUB and its PULL, and the order in which they come and go.
//!
//! The XPUB is connected first and reconnects by itself; the PULL follows once the front end has subscribed (or after
//! [`SUBSCRIBE_WAIT`]), so that no first response is lost. The PULL reconnects by hand: libzmq's own reconnection would
//! let a front end that we are leaving deal us new work (`docs/decisions/0003-leaving.md`).
//!
//! A link does not look into messages, and it does not sleep.

use std::collections::HashSet;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::time::Duration;
use std::time::Instant;

use super::Context;
use super::Message;
use super::TransportError;
use super::monitor::Monitor;
use super::monitor::News;
use super::option;
use crate::config::LinkSpec;

/// How long the PULL waits for the first subscription. A single-threaded front end that blocks on its PUSH before it
/// touches its SUB waits for us as we wait for it, so the wait must end.
const SUBSCRIBE_WAIT: Duration = Duration::from_secs(2);

/// First and longest pause between two attempts to connect the PULL.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// libzmq's own reconnection of the PULL, in ms: an hour, which is never. Not -1: that would throw away what was
/// received but not yet read when a connection ends.
const NO_RECONNECT_MS: i32 = 3_600_000;

/// How long a front end may take to end a connection that we have half-closed before we stop waiting for it.
const LEAVE_WAIT: Duration = Duration::from_secs(2);

/// How long last responses may take to leave when the sockets are closed, in ms.
const LINGER_MS: i32 = 3_000;

/// Publications kept while a front end has never subscribed yet, or its high-water mark is reached. Beyond it, slots
/// wait ([`Link::congested`]).
const BACKLOG_BYTES: usize = 4 * 1024 * 1024;

/// How long publications are kept for a front end that has not subscribed yet.
const UNSUBSCRIBED_KEEP: Duration = Duration::from_secs(10);

/// What happened to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent {
    /// The front end has subscribed: responses reach it from now on.
    Subscribed,
    /// The front end (or its subscription) is gone: nothing that it asked for can be answered any more.
    Lost,
    /// Nobody has subscribed within two seconds; the link goes on trying.
    NoFrontEnd,
    /// The PULL is connected: requests come in.
    Connected,
    /// The front end has been left, and all that it had sent us has been received.
    Left,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pull {
    /// Not connected; waits for the subscription, at the latest until then (`None`: as long as it takes).
    Waiting(Option<Instant>),
    /// An attempt is under way.
    Connecting,
    /// The next attempt comes then.
    Pausing(Instant),
    /// A connection stands on this descriptor of libzmq's.
    Connected(RawFd),
    /// Half-closed; the front end ends the connection, at the latest then.
    Leaving(RawFd, Instant),
    /// Left for good.
    Left,
}

/// One front end's pair of endpoints, connected.
pub struct Link {
    spec: LinkSpec,
    xpub: zmq::Socket,
    pull: zmq::Socket,
    monitor: Monitor,
    state: Pull,
    pause: Duration,
    subscriptions: HashSet<Vec<u8>>,
    opened: Instant,
    ever_subscribed: bool,
    backlog: VecDeque<Vec<u8>>,
    backlog_bytes: usize,
    dropped: u64,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("spec", &self.spec)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Link {
    /// Opens a link: connects its XPUB now, its PULL when the time has come.
    ///
    /// # Errors
    /// When libzmq refuses an endpoint or an option. That nobody listens there is no error.
    pub fn open(
        context: &Context,
        number: usize,
        spec: LinkSpec,
        now: Instant,
    ) -> Result<Link, TransportError> {
        let context = &context.0;
        let fault = |doing| move |why| TransportError::Socket { doing, why };
        let mut xpub = context.socket(zmq::XPUB).map_err(fault("make an XPUB"))?;
        // Without IMMEDIATE, responses published while a front end is away are kept for its successor, whose connection
        // ids start again at 1 (protocol section 9.5).
        xpub.set_immediate(true).map_err(fault("set IMMEDIATE"))?;
        xpub.set_linger(LINGER_MS).map_err(fault("set LINGER"))?;
        option::set_xpub_nodrop(&mut xpub).map_err(fault("set XPUB_NODROP"))?;
        let pull = context.socket(zmq::PULL).map_err(fault("make a PULL"))?;
        pull.set_rcvhwm(0).map_err(fault("set RCVHWM"))?;
        pull.set_reconnect_ivl(NO_RECONNECT_MS).map_err(fault("set RECONNECT_IVL"))?;
        pull.set_linger(0).map_err(fault("set LINGER"))?;
        for socket in [&xpub, &pull] {
            // A front end's host that vanishes without a FIN is noticed in minutes, not in hours.
            socket.set_tcp_keepalive(1).map_err(fault("set TCP_KEEPALIVE"))?;
            socket.set_tcp_keepalive_idle(60).map_err(fault("set TCP_KEEPALIVE_IDLE"))?;
        }
        for (socket, endpoint) in [(&xpub, &spec.send), (&pull, &spec.recv)] {
            let literal = endpoint.as_str().contains('[');
            socket.set_ipv6(literal).map_err(fault("set IPV6"))?;
        }
        let monitor = Monitor::start(context, &pull, &format!("lurcher-link-{number}"))?;
        connect(&xpub, spec.send.as_str())?;
        Ok(Link {
            spec,
            xpub,
            pull,
            monitor,
            state: Pull::Waiting(Some(now + SUBSCRIBE_WAIT)),
            pause: RETRY.0,
            subscriptions: HashSet::new(),
            opened: now,
            ever_subscribed: false,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            dropped: 0,
        })
    }

    /// The endpoints of this link.
    pub fn spec(&self) -> &LinkSpec {
        &self.spec
    }

    /// Whether the front end would get what is published now.
    pub fn subscribed(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    /// Whether what is published for `sender` reaches anyone: a SUB matches by prefix (protocol section 9.3).
    pub fn reaches(&self, sender: &[u8]) -> bool {
        self.subscriptions.iter().any(|prefix| sender.starts_with(prefix))
    }

    /// Whether publications pile up here: whoever makes them should wait.
    pub fn congested(&self) -> bool {
        self.backlog_bytes > BACKLOG_BYTES
    }

    /// Publications dropped because no front end was there for them.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Looks after subscriptions, connections and the backlog. Call it in each turn of the loop, and read all messages
    /// ([`Link::receive`]) *after* it: [`LinkEvent::Left`] comes only when nothing is left to read.
    pub fn service(
        &mut self,
        now: Instant,
        events: &mut Vec<LinkEvent>,
    ) -> Result<(), TransportError> {
        self.hear_subscriptions(events);
        self.hear_monitor(now, events);
        match self.state {
            Pull::Waiting(Some(until)) if now >= until => {
                if !self.subscribed() {
                    events.push(LinkEvent::NoFrontEnd);
                }
                self.connect_pull()?;
            }
            Pull::Waiting(_) if self.subscribed() => self.connect_pull()?,
            Pull::Pausing(until) if now >= until => self.connect_pull()?,
            Pull::Leaving(_, until) if now >= until => self.gone(events),
            _ => {}
        }
        self.flush(now);
        Ok(())
    }

    /// When [`Link::service`] must be called at the latest, even if nothing happens.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let state = match self.state {
            Pull::Waiting(until) => until,
            Pull::Pausing(until) | Pull::Leaving(_, until) => Some(until),
            _ => None,
        };
        // An XPUB at its high-water mark cannot be waited for: it always claims to be writable.
        let backlog = (!self.backlog.is_empty()).then(|| now + Duration::from_millis(2));
        state.into_iter().chain(backlog).min()
    }

    /// The next message of the front end, if there is one.
    pub fn receive(&mut self) -> Option<Message> {
        let mut message = zmq::Message::new();
        // The only errors here are EAGAIN and EINTR: both mean "not now".
        self.pull.recv(&mut message, zmq::DONTWAIT).ok()?;
        Some(Message(message))
    }

    /// Publishes one reply. It is kept when it cannot go out now (see [`Link::congested`]), and dropped when there is no
    /// front end that could have asked for it.
    pub fn publish(&mut self, reply: Vec<u8>) {
        if self.backlog.is_empty() && self.subscribed() {
            match self.xpub.send(&reply[..], zmq::DONTWAIT) {
                Ok(()) => return,
                Err(zmq::Error::EAGAIN | zmq::Error::EINTR) => {}
                Err(_) => {
                    self.dropped += 1;
                    return;
                }
            }
        } else if !self.subscribed() && self.ever_subscribed {
            self.dropped += 1;
            return;
        }
        self.backlog_bytes += reply.len();
        self.backlog.push_back(reply);
    }

    /// Begins to leave the front end: it deals us nothing new, and what it has dealt is still received.
    /// [`LinkEvent::Left`] tells when that is done; a front end that is not there is left at once, without an event.
    pub fn leave(&mut self, now: Instant) {
        self.state = match self.state {
            Pull::Connected(fd) => {
                // The descriptor is libzmq's; a half-close changes nothing that libzmq relies on: its next read sees the
                // front end's end of stream, as if the front end had closed by itself.
                match nix::sys::socket::shutdown(fd, nix::sys::socket::Shutdown::Write) {
                    Ok(()) => Pull::Leaving(fd, now + LEAVE_WAIT),
                    Err(_) => Pull::Leaving(fd, now),
                }
            }
            Pull::Leaving(..) | Pull::Left => return,
            _ => {
                // ENOENT: it never was connected.
                let _ = self.pull.disconnect(self.spec.recv.as_str());
                Pull::Left
            }
        };
    }

    /// Whether the front end has been left.
    pub fn left(&self) -> bool {
        self.state == Pull::Left
    }

    /// Bytes that wait to be published.
    pub fn backlog_bytes(&self) -> usize {
        self.backlog_bytes
    }

    pub(super) fn has_input(&self) -> bool {
        [&self.pull, &self.xpub, self.monitor.socket()]
            .iter()
            .any(|socket| socket.get_events().is_ok_and(|events| events.contains(zmq::POLLIN)))
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> + use<> {
        [self.pull.get_fd(), self.xpub.get_fd(), self.monitor.socket().get_fd()]
            .into_iter()
            .filter_map(Result::ok)
    }

    fn hear_subscriptions(&mut self, events: &mut Vec<LinkEvent>) {
        while let Ok(news) = self.xpub.recv_bytes(zmq::DONTWAIT) {
            let before = self.subscribed();
            match news.split_first() {
                Some((1, prefix)) => {
                    self.subscriptions.insert(prefix.to_vec());
                }
                Some((0, prefix)) => {
                    self.subscriptions.remove(prefix);
                }
                // A SUB that speaks to us in its own words (ZMQ 3.x allows it); nobody listens.
                _ => continue,
            }
            if self.subscribed() == before {
                continue;
            }
            if self.subscribed() {
                self.ever_subscribed = true;
                events.push(LinkEvent::Subscribed);
            } else {
                self.lost(events);
            }
        }
    }

    /// The front end is gone. What it had sent and we have not read yet is of its old life, whose connection ids mean
    /// strangers in its next one: it must not be read.
    fn lost(&mut self, events: &mut Vec<LinkEvent>) {
        events.push(LinkEvent::Lost);
        self.dropped += self.backlog.len() as u64;
        self.backlog.clear();
        self.backlog_bytes = 0;
        match self.state {
            Pull::Left => {}
            Pull::Leaving(..) => self.gone(events),
            _ => {
                let _ = self.pull.disconnect(self.spec.recv.as_str());
                self.state = Pull::Waiting(None);
            }
        }
    }

    fn hear_monitor(&mut self, now: Instant, events: &mut Vec<LinkEvent>) {
        while let Some(news) = self.monitor.next() {
            match (news, self.state) {
                (News::Connected(fd), Pull::Connecting) => {
                    self.state = Pull::Connected(fd);
                    self.pause = RETRY.0;
                    events.push(LinkEvent::Connected);
                }
                (News::Refused, Pull::Connecting) => self.pause_pull(now),
                (News::Disconnected(fd), Pull::Connected(ours)) if fd == ours => {
                    // What was received before the end is kept: the pipe is thrown away only when the next attempt
                    // comes, and everything is read before that.
                    self.pause = RETRY.0;
                    self.state = Pull::Pausing(now + self.pause);
                }
                (News::Disconnected(fd), Pull::Leaving(ours, _)) if fd == ours => self.gone(events),
                // News of a connection that we have given up ourselves.
                _ => {}
            }
        }
    }

    fn pause_pull(&mut self, now: Instant) {
        let _ = self.pull.disconnect(self.spec.recv.as_str());
        self.state = Pull::Pausing(now + self.pause);
        self.pause = (self.pause * 2).min(RETRY.1);
    }

    fn connect_pull(&mut self) -> Result<(), TransportError> {
        // The old session, if there is one, waits for its hour; it must go, or there would be two.
        let _ = self.pull.disconnect(self.spec.recv.as_str());
        self.state = Pull::Connecting;
        connect(&self.pull, self.spec.recv.as_str())
    }

    fn gone(&mut self, events: &mut Vec<LinkEvent>) {
        self.state = Pull::Left;
        events.push(LinkEvent::Left);
    }

    fn flush(&mut self, now: Instant) {
        if !self.subscribed() {
            if now.duration_since(self.opened) > UNSUBSCRIBED_KEEP + SUBSCRIBE_WAIT {
                self.dropped += self.backlog.len() as u64;
                self.backlog.clear();
                self.backlog_bytes = 0;
            }
            return;
        }
        while let Some(reply) = self.backlog.front() {
            match self.xpub.send(&reply[..], zmq::DONTWAIT) {
                Err(zmq::Error::EAGAIN | zmq::Error::EINTR) => return,
                Ok(()) => {}
                Err(_) => self.dropped += 1,
            }
            self.backlog_bytes -= reply.len();
            self.backlog.pop_front();
        }
    }
}

fn connect(socket: &zmq::Socket, endpoint: &str) -> Result<(), TransportError> {
    socket
        .connect(endpoint)
        .map_err(|why| TransportError::Connect { endpoint: endpoint.to_owned(), why })
}
