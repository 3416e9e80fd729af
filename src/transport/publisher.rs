//! The publishing half of a link: an XPUB that knows who listens, and never drops what somebody waits for.
//!
//! It reconnects by itself. What cannot go out now is kept ([`Publisher::congested`] tells when it is too much); what
//! nobody could have asked for is dropped and counted.

use std::collections::HashSet;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use super::TransportError;
use super::option;
use super::parcel;

/// How long last responses may take to leave when the socket is closed, in ms.
const LINGER_MS: i32 = 3_000;

/// Publications kept here and in libzmq, because a front end has never subscribed yet, or takes them slowly. Beyond it,
/// responses wait where they are.
const BACKLOG_BYTES: usize = 8 * 1024 * 1024;

/// A publication of so many bytes is handed over without a copy, and counted until it is written.
const PARCEL: usize = 16 * 1024;

/// How long publications are kept for a front end that has not subscribed yet. Longer than the PULL waits for it.
const UNSUBSCRIBED_KEEP: Duration = Duration::from_secs(12);

/// What became of the listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The first has come.
    Subscribed,
    /// The last is gone.
    Lost,
}

/// See the module's text.
pub(super) struct Publisher {
    socket: zmq::Socket,
    subscriptions: HashSet<Vec<u8>>,
    opened: Instant,
    ever_subscribed: bool,
    backlog: VecDeque<Vec<u8>>,
    backlog_bytes: usize,
    /// Bytes that libzmq has and has not written.
    under_way: Arc<AtomicUsize>,
    dropped: u64,
    /// Something was published that nobody has subscribed to: `Some(true)` until it is told.
    unheard: Option<bool>,
    /// There may be news to read.
    look: bool,
    /// The socket was sent on, which may have swallowed its wake-up.
    sent: bool,
}

impl Publisher {
    pub(super) fn open(
        context: &zmq::Context,
        endpoint: &str,
        now: Instant,
    ) -> Result<Publisher, TransportError> {
        let fault = |doing| move |why| TransportError::Socket { doing, why };
        let mut socket = context.socket(zmq::XPUB).map_err(fault("make an XPUB"))?;
        // Without IMMEDIATE, responses published while a front end is away are kept for its successor, whose connection
        // ids start again at 1 (protocol section 9.5).
        socket.set_immediate(true).map_err(fault("set IMMEDIATE"))?;
        socket.set_linger(LINGER_MS).map_err(fault("set LINGER"))?;
        // A subscription is told again when it comes again: see `hear`.
        socket.set_xpub_verbose(true).map_err(fault("set XPUB_VERBOSE"))?;
        option::set_xpub_nodrop(&mut socket).map_err(fault("set XPUB_NODROP"))?;
        super::link::connect(&socket, endpoint)?;
        Ok(Publisher {
            socket,
            subscriptions: HashSet::new(),
            opened: now,
            ever_subscribed: false,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            under_way: Arc::default(),
            dropped: 0,
            unheard: None,
            look: true,
            sent: false,
        })
    }

    pub(super) fn fd(&self) -> Result<RawFd, zmq::Error> {
        self.socket.get_fd()
    }

    pub(super) fn subscribed(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    pub(super) fn congested(&self) -> bool {
        self.backlog_bytes + self.under_way.load(Ordering::Relaxed) > BACKLOG_BYTES
    }

    pub(super) fn backlog_bytes(&self) -> usize {
        self.backlog_bytes
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether, since the last time it was asked, it has become clear that nobody hears what is published.
    pub(super) fn is_unheard(&mut self) -> bool {
        let news = self.unheard == Some(true);
        if news {
            self.unheard = Some(false);
        }
        news
    }

    /// Takes in who has come and gone.
    pub(super) fn hear(&mut self, mut tell: impl FnMut(Heard)) {
        while self.look {
            let news = match self.socket.recv_bytes(zmq::DONTWAIT) {
                Ok(news) => news,
                Err(error) => {
                    self.look = error != zmq::Error::EAGAIN;
                    return;
                }
            };
            let before = self.subscribed();
            match news.split_first() {
                // libzmq lets go of a connection in several steps, and may have the next one before the last of them, if we
                // were away meanwhile. Then nothing is told of the one that has gone, as somebody is still there.
                Some((1, prefix)) if self.subscriptions.contains(prefix) => {
                    self.unheard = None;
                    self.forget();
                    tell(Heard::Lost);
                    tell(Heard::Subscribed);
                    continue;
                }
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
            self.unheard = None;
            if self.subscribed() {
                self.ever_subscribed = true;
                tell(Heard::Subscribed);
            } else {
                self.forget();
                tell(Heard::Lost);
            }
        }
    }

    /// Publishes one reply, now or when it is possible.
    pub(super) fn publish(&mut self, reply: Vec<u8>) {
        let mut reply = reply;
        if self.backlog.is_empty() && self.subscribed() {
            match self.send(reply) {
                Ok(()) => return,
                Err(back) => reply = back,
            }
        } else if !self.subscribed() && self.ever_subscribed {
            self.dropped += 1;
            return;
        }
        self.backlog_bytes += reply.len();
        self.backlog.push_back(reply);
    }

    /// Publishes what was kept, as far as that is possible.
    pub(super) fn flush(&mut self, now: Instant) {
        if !self.subscribed() {
            if now.duration_since(self.opened) > UNSUBSCRIBED_KEEP {
                self.forget();
            }
            return;
        }
        while let Some(reply) = self.backlog.pop_front() {
            let len = reply.len();
            if let Err(back) = self.send(reply) {
                self.backlog.push_front(back);
                return;
            }
            self.backlog_bytes -= len;
        }
    }

    /// Gives it back if it cannot go now.
    fn send(&mut self, reply: Vec<u8>) -> Result<(), Vec<u8>> {
        // A SUB matches by prefix (protocol section 9.3).
        if !self.subscriptions.iter().any(|prefix| reply.starts_with(prefix)) {
            self.unheard.get_or_insert(true);
            self.dropped += 1;
            return Ok(());
        }
        self.sent = true;
        let sent = if reply.len() >= PARCEL {
            parcel::send(&mut self.socket, reply, &self.under_way)
        } else {
            self.socket.send(&reply, zmq::DONTWAIT).map_err(|why| (why, reply))
        };
        match sent {
            Err((zmq::Error::EAGAIN | zmq::Error::EINTR, reply)) => return Err(reply),
            Ok(()) => {}
            Err(_) => self.dropped += 1,
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.dropped += self.backlog.len() as u64;
        self.backlog.clear();
        self.backlog_bytes = 0;
    }

    /// Whether there may be something to hear before anything new happens.
    pub(super) fn has_input(&mut self) -> bool {
        if std::mem::take(&mut self.sent) {
            self.look |= self.socket.get_events().is_ok_and(|e| e.contains(zmq::POLLIN));
        }
        self.look
    }

    /// Its descriptor has woken us.
    pub(super) fn woken(&mut self) {
        self.look = true;
    }
}
