//! What a slot is at, as the watch may see it: the request, and the thread that works on it.
//!
//! The one question in here that must never be answered wrongly is "is this thread still at this request?": an exception
//! meant for a request that takes too long must not reach the next one. So both sides ask under one lock.

use std::ffi::c_long;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use crate::bridge::Ticket;

use super::Control;

/// One slot's.
#[derive(Debug, Default)]
pub struct Turn {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    at_work: Option<(Ticket, Arc<Control>)>,
    thread: c_long,
    /// `GET /path`, as the client wrote it. Its memory stays.
    line: Vec<u8>,
    /// The request's id. Its memory stays.
    id: Vec<u8>,
    interrupted: bool,
}

/// A request at work in a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtWork {
    /// Which slot, from 0.
    pub slot: usize,
    /// Which request.
    pub ticket: Ticket,
    /// What Python calls the thread (`threading.get_ident()`).
    pub thread: c_long,
    /// `GET /path`, as the client wrote it.
    pub line: Vec<u8>,
    /// The request's id.
    pub id: Vec<u8>,
}

impl Turn {
    /// The application is about to be called.
    pub fn begin(
        &self,
        ticket: Ticket,
        control: Arc<Control>,
        thread: c_long,
        (method, uri): (&[u8], &[u8]),
        id: &[u8],
    ) {
        let mut state = self.lock();
        state.at_work = Some((ticket, control));
        state.thread = thread;
        state.interrupted = false;
        state.line.clear();
        state.line.extend_from_slice(method);
        state.line.push(b' ');
        state.line.extend_from_slice(uri);
        state.id.clear();
        state.id.extend_from_slice(id);
    }

    /// The call is over. True if it was interrupted: then an exception may be pending in the calling thread.
    pub fn end(&self) -> bool {
        let mut state = self.lock();
        state.at_work = None;
        std::mem::take(&mut state.interrupted)
    }

    /// Calls `interrupt` with the thread, if it is still at this request, and lets no end come between. From then on
    /// what the request writes fails. `interrupt` must neither wait nor run the application's code.
    pub(super) fn interrupt(&self, ticket: Ticket, interrupt: impl FnOnce(c_long)) -> bool {
        let mut state = self.lock();
        let Some((_, control)) = state.at_work.as_ref().filter(|(at, _)| *at == ticket) else {
            return false;
        };
        let control = Arc::clone(control);
        state.interrupted = true;
        interrupt(state.thread);
        drop(state);
        control.leave();
        true
    }

    pub(super) fn look(&self, slot: usize) -> Option<AtWork> {
        let state = self.lock();
        let (ticket, _) = state.at_work.as_ref()?;
        let State { thread, line, id, .. } = &*state;
        Some(AtWork { slot, ticket: *ticket, thread: *thread, line: line.clone(), id: id.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_request_that_is_meant_is_interrupted() {
        let turn = Turn::default();
        let control = Arc::new(Control::default());
        turn.begin(Ticket(1), Arc::clone(&control), 77, (b"GET", b"/a"), b"id");
        assert!(!turn.interrupt(Ticket(2), |_| panic!("another one")));
        assert!(!turn.end());
        assert!(!turn.interrupt(Ticket(1), |_| panic!("it is over")));
        turn.begin(Ticket(2), Arc::clone(&control), 77, (b"GET", b"/b"), b"id");
        let mut met = 0;
        assert!(turn.interrupt(Ticket(2), |thread| met = thread));
        assert_eq!(met, 77);
        assert!(control.is_gone());
        assert!(turn.end());
        assert!(!turn.end(), "told once");
    }

    #[test]
    fn what_is_at_work_can_be_looked_at() {
        let turn = Turn::default();
        assert_eq!(turn.look(3), None);
        turn.begin(Ticket(5), Arc::default(), 77, (b"GET", b"/a?b"), b"id");
        let (line, id) = (b"GET /a?b".to_vec(), b"id".to_vec());
        assert_eq!(turn.look(3), Some(AtWork { slot: 3, ticket: Ticket(5), thread: 77, line, id }));
        turn.end();
        assert_eq!(turn.look(3), None);
    }
}
