//! A streamed body on its way to the application: the reader puts parts in, a slot takes bytes out and says so.
//!
//! How much may wait here is the instance's affair: it lets the front end send no more than a window beyond what was
//! reported as taken. Nothing is asked for before the application reads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use crate::bridge::Kind;
use crate::bridge::Ticket;
use crate::bridge::frame;
use crate::wsgi::response::Gone;

use super::Outbox;
use super::Wait;

/// Bytes that are reported together, while there is something left to read.
const REPORT: u64 = 64 * 1024;

/// See the module's text.
#[derive(Debug)]
pub struct Inflow {
    outbox: Arc<Outbox>,
    ticket: Ticket,
    state: Mutex<State>,
    change: Condvar,
}

#[derive(Debug, Default)]
struct State {
    parts: VecDeque<Vec<u8>>,
    /// Bytes of the first part that are taken.
    start: usize,
    /// Bytes there.
    len: usize,
    /// The last part is there.
    whole: bool,
    /// The client has left, or the instance has given the request up.
    gone: bool,
    /// The front end was asked to send.
    asked: bool,
    /// Bytes taken and not reported.
    taken: u64,
}

impl Inflow {
    pub(super) fn new(outbox: Arc<Outbox>, ticket: Ticket, first: Vec<u8>) -> Inflow {
        let len = first.len();
        let parts = if len > 0 { VecDeque::from([first]) } else { VecDeque::new() };
        let state = Mutex::new(State { parts, len, ..State::default() });
        Inflow { outbox, ticket, state, change: Condvar::new() }
    }

    /// More of the body has come.
    pub(super) fn push(&self, bytes: &[u8], last: bool) {
        let mut state = self.lock();
        if !bytes.is_empty() {
            state.parts.push_back(bytes.to_vec());
            state.len += bytes.len();
        }
        state.whole |= last;
        drop(state);
        self.change.notify_all();
    }

    /// No more will come.
    pub(super) fn leave(&self) {
        self.lock().gone = true;
        self.change.notify_all();
    }

    /// Waits for bytes and moves at most `most` of them to `out`, none beyond the first byte `until`. Nothing is moved at
    /// the body's end only. Fails if the rest of the body will never come.
    pub fn take(
        &self,
        out: &mut Vec<u8>,
        most: usize,
        until: Option<u8>,
        wait: &impl Wait,
    ) -> Result<(), Gone> {
        if most == 0 {
            return Ok(());
        }
        let mut state = self.lock();
        while state.len == 0 && !state.whole {
            if state.gone {
                return Err(Gone);
            }
            let report = state.report(true);
            drop(state);
            self.tell(report);
            // What was written so far must not wait for what is read next.
            self.outbox.flush(wait);
            wait.wait(&mut || {
                let empty = |state: &mut State| state.len == 0 && !state.whole && !state.gone;
                drop(
                    self.change
                        .wait_while(self.lock(), empty)
                        .unwrap_or_else(PoisonError::into_inner),
                );
            });
            state = self.lock();
        }
        // Half a body that has no other half is an error at once, not when the half is read.
        if state.gone && !state.whole {
            return Err(Gone);
        }
        state.move_to(out, most, until);
        let report = state.report(false);
        drop(state);
        if report.is_some() {
            self.tell(report);
            self.outbox.flush(wait);
        }
        Ok(())
    }

    fn tell(&self, report: Option<u64>) {
        if let Some(taken) = report {
            let mut out = Vec::new();
            frame::put(&mut out, Kind::BodyWant, 0, self.ticket, &taken.to_le_bytes());
            self.outbox.append(&out);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn move_to(&mut self, out: &mut Vec<u8>, most: usize, until: Option<u8>) {
        let mut left = most;
        while left > 0 {
            let Some(part) = self.parts.front() else { break };
            let bytes = &part[self.start..];
            let bytes = &bytes[..bytes.len().min(left)];
            let found = until.and_then(|byte| memchr::memchr(byte, bytes));
            let bytes = found.map_or(bytes, |at| &bytes[..=at]);
            out.extend_from_slice(bytes);
            let moved = bytes.len();
            left -= moved;
            self.len -= moved;
            self.taken += moved as u64;
            self.start += moved;
            if self.start == part.len() {
                self.parts.pop_front();
                self.start = 0;
            }
            if found.is_some() {
                break;
            }
        }
    }

    /// What to report now, if there is any need.
    fn report(&mut self, waits: bool) -> Option<u64> {
        let due = !self.asked || self.taken >= REPORT || waits && self.taken > 0;
        if !due || self.whole || self.gone {
            return None;
        }
        self.asked = true;
        Some(std::mem::take(&mut self.taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::Inbox;
    use crate::worker::Bare;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    fn inflow(first: &[u8]) -> (Arc<Inflow>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let outbox = Arc::new(Outbox::new(theirs.as_raw_fd()));
        std::mem::forget(theirs);
        (Arc::new(Inflow::new(outbox, Ticket(7), first.to_vec())), ours)
    }

    fn want(ours: &mut UnixStream) -> u64 {
        let mut bytes = [0; frame::HEAD + 8];
        ours.read_exact(&mut bytes).unwrap();
        let mut inbox = Inbox::new(100);
        inbox.space()[..bytes.len()].copy_from_slice(&bytes);
        inbox.filled(bytes.len());
        let frame = inbox.next().unwrap().unwrap();
        assert_eq!((frame.kind, frame.ticket), (Kind::BodyWant, Ticket(7)));
        frame.number().unwrap()
    }

    fn take(body: &Inflow, most: usize, until: Option<u8>) -> Result<Vec<u8>, Gone> {
        let mut out = Vec::new();
        body.take(&mut out, most, until, &Bare).map(|()| out)
    }

    #[test]
    fn bytes_come_out_as_they_went_in_and_are_reported() {
        let (body, mut ours) = inflow(b"one\ntwo");
        assert_eq!(take(&body, 100, Some(b'\n')), Ok(b"one\n".to_vec()));
        assert_eq!(want(&mut ours), 4, "the first read asks for more");
        assert_eq!(take(&body, 2, None), Ok(b"tw".to_vec()));
        let reader = {
            let body = Arc::clone(&body);
            let read = move || (take(&body, 100, None), take(&body, 100, None));
            std::thread::Builder::new().spawn(read).unwrap()
        };
        assert_eq!(want(&mut ours), 3, "and so does one that has to wait");
        body.push(b"three", false);
        let (rest, next) = reader.join().unwrap();
        body.push(b"", true);
        assert_eq!(rest, Ok(b"o".to_vec()));
        assert_eq!(next, Ok(b"three".to_vec()));
        assert_eq!(take(&body, 100, None), Ok(Vec::new()), "the end");
    }

    #[test]
    fn half_a_body_is_an_error_and_a_whole_one_is_not() {
        let (body, _ours) = inflow(b"half");
        let waiter = {
            let body = Arc::clone(&body);
            let read = move || (take(&body, 9, None), take(&body, 9, None));
            std::thread::Builder::new().spawn(read).unwrap()
        };
        body.leave();
        assert_eq!(waiter.join().unwrap().1, Err(Gone));
        assert_eq!(take(&body, 9, None), Err(Gone));
        let (body, _ours) = inflow(b"half");
        body.push(b" and half", true);
        body.leave();
        assert_eq!(take(&body, 99, None), Ok(b"half and half".to_vec()));
    }
}
