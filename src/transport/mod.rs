//! A link's two `ZeroMQ` sockets: connect, wait for the subscription, receive, publish, leave.
//!
//! This is the only room that holds a `ZeroMQ` socket. It moves whole messages as bytes and knows when a front end is
//! there; it does not look into a message, and it never waits: [`wait`] is the one place where the caller sleeps.

mod link;
mod monitor;
mod option;
mod parcel;
mod publisher;

use std::os::fd::RawFd;
use std::time::Duration;

pub use link::Link;
pub use link::LinkEvent;

/// A fault of `ZeroMQ` that ends a link before it begins.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// A socket could not be made or an option not set.
    #[error("cannot {doing}: {why}")]
    Socket {
        /// What was tried.
        doing: &'static str,
        /// libzmq's reason.
        why: zmq::Error,
    },
    /// libzmq does not take an endpoint.
    #[error("cannot connect to {endpoint}: {why}")]
    Connect {
        /// The endpoint.
        endpoint: String,
        /// libzmq's reason.
        why: zmq::Error,
    },
}

/// One `ZeroMQ` context for all links of an instance.
#[derive(Default)]
pub struct Context(zmq::Context);

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Context")
    }
}

impl Context {
    /// A context with one I/O thread, which is enough for some hundred thousand messages a second.
    pub fn new() -> Context {
        Context::default()
    }
}

/// A message as it came from a front end. Owns libzmq's buffer: nothing is copied until it goes down a bridge.
pub struct Message(zmq::Message);

impl Message {
    /// A message from bytes (tests, and answers that never were on a wire).
    pub fn from_bytes(bytes: &[u8]) -> Message {
        Message(zmq::Message::from(bytes))
    }
}

impl std::ops::Deref for Message {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message({} bytes)", self.0.len())
    }
}

/// A descriptor to wait for beside the links.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    /// The descriptor.
    pub fd: RawFd,
    /// Also wait until it can be written.
    pub write: bool,
}

/// What [`wait`] saw of one [`Watch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// Bytes, or the end of the stream, or an error, can be read.
    pub read: bool,
    /// There is room to write.
    pub write: bool,
}

/// Sleeps until a link has something, one of `watches` is ready, or `timeout` is over (`None`: no limit). Puts one
/// [`Ready`] for each watch into `ready`; a link remembers by itself which of its sockets has something.
///
/// An interrupted wait counts as a wait that is over.
pub fn wait(
    links: &mut [Link],
    watches: &[Watch],
    ready: &mut Vec<Ready>,
    timeout: Option<Duration>,
) -> Result<(), TransportError> {
    let timeout =
        if links.iter_mut().any(Link::has_input) { Some(Duration::ZERO) } else { timeout };
    let millis = match timeout {
        None => -1,
        // Rounded up: a wait that ends before its deadline would spin.
        Some(t) => i64::try_from(t.as_micros().div_ceil(1000)).unwrap_or(i64::MAX),
    };
    let mut items: Vec<zmq::PollItem<'_>> = Vec::with_capacity(watches.len() + 3 * links.len());
    for watch in watches {
        let events = if watch.write { zmq::POLLIN | zmq::POLLOUT } else { zmq::POLLIN };
        items.push(zmq::PollItem::from_fd(watch.fd, events));
    }
    for fd in links.iter().flat_map(Link::descriptors) {
        items.push(zmq::PollItem::from_fd(fd, zmq::POLLIN));
    }
    match zmq::poll(&mut items, millis) {
        Ok(_) | Err(zmq::Error::EINTR) => {}
        Err(why) => return Err(TransportError::Socket { doing: "wait for events", why }),
    }
    ready.clear();
    ready.extend(items.iter().take(watches.len()).map(|item| Ready {
        read: item.is_readable() || item.is_error(),
        write: item.is_writable(),
    }));
    for (link, items) in links.iter_mut().zip(items[watches.len()..].chunks(Link::SOCKETS)) {
        link.woken(items.iter().map(zmq::PollItem::is_readable));
    }
    Ok(())
}
