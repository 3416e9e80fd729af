//! What the reader and a slot must agree on about one request: who has it, whether its client is still there, and how
//! many response bytes may be on their way.

use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering;

use crate::bridge::frame::WINDOW;

use super::Inflow;

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const RECALLED: u8 = 2;
const DONE: u8 = 3;

/// The state of one request.
#[derive(Debug, Default)]
pub struct Control {
    state: AtomicU8,
    gone: AtomicBool,
    /// The body, if it is streamed.
    inflow: Option<Arc<Inflow>>,
    acked: Mutex<u64>,
    change: Condvar,
}

impl Control {
    /// Of a request with a streamed body.
    pub(super) fn with(inflow: Arc<Inflow>) -> Control {
        Control { inflow: Some(inflow), ..Control::default() }
    }

    /// The body, if it is streamed.
    pub(super) fn inflow(&self) -> Option<&Inflow> {
        self.inflow.as_deref()
    }

    /// A slot takes the request. False if it was recalled before.
    pub fn claim(&self) -> bool {
        self.step(WAITING, BEGUN)
    }

    /// The instance takes it back. False if a slot has begun it.
    pub fn recall(&self) -> bool {
        self.step(WAITING, RECALLED)
    }

    fn step(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The slot has answered it.
    pub fn done(&self) {
        self.state.store(DONE, Ordering::Release);
    }

    /// Whether nothing more can happen to it.
    pub fn is_past(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), RECALLED | DONE)
    }

    /// The client, or the instance, has left.
    pub fn leave(&self) {
        let guard = self.lock();
        self.gone.store(true, Ordering::Release);
        drop(guard);
        self.change.notify_all();
        if let Some(inflow) = &self.inflow {
            inflow.leave();
        }
    }

    /// Whether it has.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// `bytes` more of the response may come.
    pub fn ack(&self, bytes: u64) {
        let mut acked = self.lock();
        *acked = acked.saturating_add(bytes);
        drop(acked);
        self.change.notify_all();
    }

    /// How many response bytes may have been sent in all.
    pub fn limit(&self) -> u64 {
        self.lock().saturating_add(WINDOW)
    }

    /// Waits until `sent` bytes in all may have been sent, or the client has left.
    pub fn wait_for(&self, sent: u64) {
        let guard = self.lock();
        let blocked = |acked: &mut u64| acked.saturating_add(WINDOW) < sent && !self.is_gone();
        drop(self.change.wait_while(guard, blocked).unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.acked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn one_of_two_gets_it() {
        let control = Control::default();
        assert!(control.claim());
        assert!(!control.recall());
        assert!(!control.is_past());
        control.done();
        assert!(control.is_past());
        let control = Control::default();
        assert!(control.recall());
        assert!(!control.claim());
        assert!(control.is_past());
    }

    #[test]
    fn waiting_ends_with_an_ack_or_with_the_client() {
        for leaves in [false, true] {
            let control = Arc::new(Control::default());
            assert_eq!(control.limit(), WINDOW);
            control.wait_for(WINDOW);
            let waiter = {
                let control = Arc::clone(&control);
                std::thread::Builder::new().spawn(move || control.wait_for(WINDOW + 10)).unwrap()
            };
            control.ack(9);
            if leaves {
                control.leave();
            } else {
                control.ack(1);
            }
            waiter.join().unwrap();
            assert_eq!(control.is_gone(), leaves);
        }
    }
}
