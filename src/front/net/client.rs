//! What others tell the task of a client's connection: replies, control messages, the end of its request, the clock.

use std::cell::Cell;
use std::cell::RefCell;
use std::task::Waker;
use std::time::Instant;

use super::control::Ctl;
use crate::proto::ConnId;

/// How a request ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its peer died.
    Lost,
    /// No peer took it in time.
    NoPeer,
}

/// What has come for a connection since it last looked.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a message without content")]
pub(crate) struct Inbox {
    /// Bytes of handlers, for the client.
    pub(crate) bytes: Vec<u8>,
    /// No more will come: a handler closes the connection.
    pub(crate) close: bool,
    /// Bytes came that nobody had asked for: the connection ends.
    pub(crate) unasked: bool,
    /// The connection ends at once.
    pub(crate) cancel: bool,
    /// The request has ended.
    pub(crate) fate: Option<Fate>,
    /// More bytes of the upload may be sent.
    pub(crate) credits: u64,
    /// The handler is still at it.
    pub(crate) alive: bool,
    /// The deadline has passed.
    pub(crate) late: bool,
}

/// A client's connection as others see it.
#[derive(Debug)]
pub(crate) struct Client {
    /// Another one once its request goes to a second handler.
    pub(crate) id: Cell<ConnId>,
    inbox: RefCell<Inbox>,
    fresh: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    deadline: Cell<Option<Instant>>,
    /// Bytes that its task has not yet written.
    backlog: Cell<usize>,
}

impl Client {
    pub(crate) fn new(id: ConnId) -> Client {
        Client {
            id: Cell::new(id),
            inbox: RefCell::default(),
            fresh: Cell::new(false),
            waker: RefCell::new(None),
            deadline: Cell::new(None),
            backlog: Cell::new(0),
        }
    }

    /// Takes a reply; an empty one closes the connection. False if there would be more than `limit` bytes unwritten: then
    /// the connection is cut.
    pub(crate) fn deliver(&self, payload: &[u8], limit: u64) -> bool {
        let mut inbox = self.inbox.borrow_mut();
        if inbox.close {
            return true;
        }
        let waiting = self.backlog.get() + inbox.bytes.len() + payload.len();
        let fits = waiting as u64 <= limit;
        if payload.is_empty() {
            inbox.close = true;
        } else if fits {
            inbox.bytes.extend_from_slice(payload);
        } else {
            inbox.cancel = true;
        }
        drop(inbox);
        self.news();
        fits
    }

    /// Bytes have come that no request had asked for: they must not become a part of the next response.
    pub(crate) fn unasked(&self) {
        self.inbox.borrow_mut().unasked = true;
        self.news();
    }

    pub(crate) fn control(&self, ctl: Ctl) {
        let mut inbox = self.inbox.borrow_mut();
        inbox.cancel |= ctl.cancel;
        inbox.alive |= ctl.keep_alive;
        inbox.credits = inbox.credits.saturating_add(ctl.credits);
        drop(inbox);
        self.news();
    }

    pub(crate) fn end_with(&self, fate: Fate) {
        self.inbox.borrow_mut().fate = Some(fate);
        self.news();
    }

    pub(crate) fn cancel(&self) {
        self.inbox.borrow_mut().cancel = true;
        self.news();
    }

    pub(crate) fn look_at_the_clock(&self, now: Instant) {
        if self.deadline.get().is_some_and(|deadline| deadline <= now) {
            self.deadline.set(None);
            self.inbox.borrow_mut().late = true;
            self.news();
        }
    }

    /// Lets the task look.
    pub(crate) fn news(&self) {
        self.fresh.set(true);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Whether something has come since the last look; if not, the waker is told of it.
    pub(crate) fn poll_news(&self, waker: &Waker) -> bool {
        let mut kept = self.waker.borrow_mut();
        if kept.as_ref().is_none_or(|kept| !kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
        self.fresh.get()
    }

    /// Lends what has come. Bytes that are taken out of it count as its backlog, as the task will say.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Inbox) -> T) -> T {
        self.fresh.set(false);
        look(&mut self.inbox.borrow_mut())
    }

    /// When the task must look at the latest.
    pub(crate) fn until(&self, deadline: Option<Instant>) {
        self.deadline.set(deadline);
        self.inbox.borrow_mut().late = false;
    }

    pub(crate) fn set_backlog(&self, bytes: usize) {
        self.backlog.set(bytes);
    }
}
