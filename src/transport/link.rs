//! One link: its XPUB and its PULL, and the order in which they come and go.
//!
//! The XPUB is connected first and reconnects by itself; the PULL follows once the front end has subscribed (or after
//! [`SUBSCRIBE_WAIT`]), so that no first response is lost. The PULL reconnects by hand: libzmq's own reconnection would
//! let a front end that we are leaving deal us new work (`docs/decisions/0003-leaving.md`).
//!
//! A link does not look into messages, and it does not sleep.

use std::os::fd::RawFd;
use std::time::Duration;
use std::time::Instant;

use super::Context;
use super::Message;
use super::TransportError;
use super::monitor::Monitor;
use super::monitor::News;
use super::publisher::Heard;
use super::publisher::Publisher;
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

/// What happened to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent {
    /// The front end has subscribed: responses reach it from now on.
    Subscribed,
    /// The front end (or its subscription) is gone: nothing that it asked for can be answered any more.
    Lost,
    /// What was published was not what the front end has subscribed to: its `recv_ident` is no prefix of its `send_ident`.
    Unheard,
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
    publisher: Publisher,
    pull: zmq::Socket,
    monitor: Monitor,
    state: Pull,
    pause: Duration,
    descriptors: [RawFd; Link::SOCKETS],
    /// Which of the other two sockets may have something to read. `ZMQ_FD` tells of commands and only once, so a socket is
    /// read until it has nothing, and then left alone until its descriptor wakes us: each look in vain costs a system call.
    look_pull: bool,
    look_monitor: bool,
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
    /// Sockets of a link, and so descriptors to wait for.
    pub(super) const SOCKETS: usize = 3;

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
        let publisher = Publisher::open(context, spec.send.as_str(), now)?;
        let pull = context.socket(zmq::PULL).map_err(fault("make a PULL"))?;
        pull.set_rcvhwm(0).map_err(fault("set RCVHWM"))?;
        pull.set_reconnect_ivl(NO_RECONNECT_MS).map_err(fault("set RECONNECT_IVL"))?;
        pull.set_linger(0).map_err(fault("set LINGER"))?;
        let monitor = Monitor::start(context, &pull, &format!("lurcher-link-{number}"))?;
        let mut descriptors = [0; Link::SOCKETS];
        let found = [pull.get_fd(), publisher.fd(), monitor.socket().get_fd()];
        for (fd, found) in descriptors.iter_mut().zip(found) {
            *fd = found.map_err(fault("get a descriptor"))?;
        }
        Ok(Link {
            spec,
            publisher,
            pull,
            monitor,
            state: Pull::Waiting(Some(now + SUBSCRIBE_WAIT)),
            pause: RETRY.0,
            descriptors,
            look_pull: true,
            look_monitor: true,
        })
    }

    /// The endpoints of this link.
    pub fn spec(&self) -> &LinkSpec {
        &self.spec
    }

    /// Whether the front end would get what is published now.
    pub fn subscribed(&self) -> bool {
        self.publisher.subscribed()
    }

    /// Whether requests come in from the front end.
    pub fn connected(&self) -> bool {
        matches!(self.state, Pull::Connected(_) | Pull::Leaving(..))
    }

    /// Whether publications pile up here: whoever makes them should wait.
    pub fn congested(&self) -> bool {
        self.publisher.congested()
    }

    /// Publications dropped because no front end was there for them.
    pub fn dropped(&self) -> u64 {
        self.publisher.dropped()
    }

    /// Looks after subscriptions, connections and the backlog. Call it in each turn of the loop, and read all messages
    /// ([`Link::receive`]) *after* it: [`LinkEvent::Left`] comes only when nothing is left to read.
    pub fn service(
        &mut self,
        now: Instant,
        events: &mut Vec<LinkEvent>,
    ) -> Result<(), TransportError> {
        let mut lost = false;
        self.publisher.hear(|heard| match heard {
            Heard::Subscribed => events.push(LinkEvent::Subscribed),
            Heard::Lost => {
                lost = true;
                events.push(LinkEvent::Lost);
            }
        });
        // Also when it is back already: its ids have started again.
        if lost {
            self.lost(events);
        }
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
        if self.publisher.is_unheard() {
            events.push(LinkEvent::Unheard);
        }
        self.publisher.flush(now);
        Ok(())
    }

    /// Makes the next [`Link::service`] look at everything, whether something has told of it or not.
    pub fn look(&mut self) {
        self.woken(std::iter::empty());
    }

    /// When [`Link::service`] must be called at the latest, even if nothing happens.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let state = match self.state {
            Pull::Waiting(until) => until,
            Pull::Pausing(until) | Pull::Leaving(_, until) => Some(until),
            _ => None,
        };
        // An XPUB at its high-water mark cannot be waited for: it always claims to be writable.
        // Nor does libzmq tell when it has written.
        let waits = self.publisher.backlog_bytes() > 0 || self.congested();
        let backlog = waits.then(|| now + Duration::from_millis(2));
        state.into_iter().chain(backlog).min()
    }

    /// The next message of the front end, if there is one.
    pub fn receive(&mut self) -> Option<Message> {
        if !self.look_pull {
            return None;
        }
        let mut message = zmq::Message::new();
        match self.pull.recv(&mut message, zmq::DONTWAIT) {
            Ok(()) => return Some(Message(message)),
            Err(zmq::Error::EAGAIN) => self.look_pull = false,
            // Interrupted: asked again in the next turn.
            Err(_) => {}
        }
        None
    }

    /// Publishes one reply. It is kept when it cannot go out now (see [`Link::congested`]), and dropped when there is no
    /// front end that could have asked for it.
    pub fn publish(&mut self, reply: Vec<u8>) {
        self.publisher.publish(reply);
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
        self.publisher.backlog_bytes()
    }

    /// Whether there may be something to read before anything new happens.
    pub(super) fn has_input(&mut self) -> bool {
        self.publisher.has_input() || self.look_pull || self.look_monitor
    }

    pub(super) fn descriptors(&self) -> [RawFd; Link::SOCKETS] {
        self.descriptors
    }

    /// Tells which of [`Link::descriptors`] have woken us.
    pub(super) fn woken(&mut self, mut readable: impl Iterator<Item = bool>) {
        let mut next = || readable.next().unwrap_or(true);
        self.look_pull |= next();
        if next() {
            self.publisher.woken();
        }
        self.look_monitor |= next();
    }

    /// The front end is gone. What it had sent and we have not read yet is of its old life, whose connection ids mean
    /// strangers in its next one: it must not be read.
    fn lost(&mut self, events: &mut Vec<LinkEvent>) {
        self.look_pull = true;
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
        if !std::mem::take(&mut self.look_monitor) {
            return;
        }
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
        self.look_pull = true;
        // The old session, if there is one, waits for its hour; it must go, or there would be two.
        let _ = self.pull.disconnect(self.spec.recv.as_str());
        self.state = Pull::Connecting;
        connect(&self.pull, self.spec.recv.as_str())
    }

    fn gone(&mut self, events: &mut Vec<LinkEvent>) {
        self.state = Pull::Left;
        events.push(LinkEvent::Left);
    }
}

/// Connects a socket, whichever kind of TCP address the endpoint has.
pub(super) fn connect(socket: &zmq::Socket, endpoint: &str) -> Result<(), TransportError> {
    let connect = || {
        // A front end's host that vanishes without a FIN is noticed in minutes, not in hours.
        socket.set_tcp_keepalive(1)?;
        socket.set_tcp_keepalive_idle(60)?;
        socket.set_ipv6(endpoint.contains('['))?;
        socket.connect(endpoint)
    };
    connect().map_err(|why| TransportError::Connect { endpoint: endpoint.to_owned(), why })
}
