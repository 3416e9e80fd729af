//! Where the answer to one request goes: cut into frames, held to the window, ended exactly once.

use std::sync::Arc;

use crate::bridge::EndInfo;
use crate::bridge::Kind;
use crate::bridge::Outcome;
use crate::bridge::Ticket;
use crate::bridge::frame;
use crate::bridge::frame::FLAG_MORE;
use crate::bridge::frame::MAX_DATA;
use crate::bridge::monotonic_ns;
use crate::wsgi::response::Ending;
use crate::wsgi::response::Gone;
use crate::wsgi::response::How;

use super::Control;
use super::Shared;
use super::Wait;
use super::outbox;

/// Knows whether the client of one request has left, also after the request is over.
#[derive(Debug)]
pub struct Watch {
    control: Arc<Control>,
    outbox: Arc<outbox::Outbox>,
}

impl Watch {
    /// Whether the client, or the instance, has left.
    pub fn is_gone(&self) -> bool {
        self.control.is_gone() || self.outbox.is_broken()
    }
}

/// The way out for one request.
#[derive(Debug)]
pub struct Out {
    shared: Arc<Shared>,
    control: Arc<Control>,
    ticket: Ticket,
    slot: usize,
    began: u64,
    /// Payload bytes so far, and how many there may be.
    sent: u64,
    limit: u64,
    /// Frames not yet in the outbox.
    frames: Vec<u8>,
    ended: bool,
}

impl Out {
    pub(super) fn new(
        shared: Arc<Shared>,
        control: Arc<Control>,
        ticket: Ticket,
        slot: usize,
        began: u64,
    ) -> Out {
        let limit = frame::WINDOW;
        let frames = Vec::new();
        Out { shared, control, ticket, slot, began, sent: 0, limit, frames, ended: false }
    }

    /// Lends memory to build frames in; get it back with [`Out::end`].
    pub fn lend(&mut self, memory: Vec<u8>) {
        self.frames = memory;
        self.frames.clear();
    }

    /// The request's ticket.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// What the reader knows the request by.
    pub fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// Whether the client, or the instance, has left.
    pub fn is_gone(&self) -> bool {
        self.control.is_gone() || self.shared.outbox.is_broken()
    }

    /// Tells, from anywhere and at any time, whether the client is still there.
    pub fn watch(&self) -> Watch {
        Watch { control: Arc::clone(&self.control), outbox: Arc::clone(&self.shared.outbox) }
    }

    /// Takes one block, in pieces. Waits for the window where the client is slower than the application.
    pub fn block(&mut self, pieces: &[&[u8]], wait: &impl Wait) -> Result<(), Gone> {
        let mut left: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut pieces = pieces.iter();
        let mut piece: &[u8] = b"";
        while left > 0 {
            let len = left.min(MAX_DATA);
            self.wait_for_window(len as u64, wait)?;
            left -= len;
            let flags = if left > 0 { FLAG_MORE } else { 0 };
            // The head of the frame first, then its payload out of as many pieces as it takes.
            put_head(&mut self.frames, flags, self.ticket, len);
            let mut room = len;
            while room > 0 {
                if piece.is_empty() {
                    piece = pieces.next().copied().unwrap_or_default();
                    continue;
                }
                let (now, later) = piece.split_at(room.min(piece.len()));
                self.frames.extend_from_slice(now);
                room -= now.len();
                piece = later;
            }
            self.sent += len as u64;
            if self.frames.len() > outbox::FULL {
                self.push(wait);
            }
        }
        Ok(())
    }

    fn wait_for_window(&mut self, len: u64, wait: &impl Wait) -> Result<(), Gone> {
        if self.is_gone() {
            return Err(Gone);
        }
        let total = self.sent + len;
        if total <= self.limit {
            return Ok(());
        }
        self.limit = self.control.limit();
        if total > self.limit {
            self.push(wait);
            self.shared.outbox.flush(wait);
            wait.wait(&mut || self.control.wait_for(total));
            self.limit = self.control.limit();
        }
        if self.is_gone() { Err(Gone) } else { Ok(()) }
    }

    /// Hands over what is there, because the application may take its time before it yields more.
    pub fn push(&mut self, wait: &impl Wait) {
        if self.frames.is_empty() {
            return;
        }
        let waiting = self.shared.outbox.append_with_room(&self.frames, wait);
        self.frames.clear();
        if waiting > outbox::FULL {
            self.shared.outbox.flush(wait);
        } else {
            self.shared.outbox.soon();
        }
    }

    /// Nanoseconds since the slot began.
    pub fn elapsed_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.began)
    }

    /// Ends the request. Gives back the memory. What is in the outbox goes out when the slot asks for its next request.
    pub fn end(mut self, ending: &Ending, access_line: &[u8], wait: &impl Wait) -> Vec<u8> {
        let info = EndInfo {
            outcome: match ending.how {
                How::Whole => Outcome::Ok,
                How::Failed => Outcome::AppError,
                How::Cut => Outcome::Cut,
                How::Gone => Outcome::ClientGone,
                How::Refused => Outcome::Refused,
            },
            keep: ending.keep,
            status: ending.status,
            service_ns: self.elapsed_ns(),
            body_bytes: ending.body,
        };
        info.put(&mut self.frames, self.ticket, access_line);
        let waiting = self.shared.outbox.append_with_room(&self.frames, wait);
        self.close();
        if waiting > outbox::FULL {
            self.shared.outbox.flush(wait);
        }
        std::mem::take(&mut self.frames)
    }

    fn close(&mut self) {
        self.ended = true;
        self.control.done();
        self.shared.board.idle(self.slot);
    }
}

impl Drop for Out {
    /// A slot that lost its way (a panic) still owes an end.
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let info = EndInfo {
            outcome: Outcome::Cut,
            keep: false,
            status: 0,
            service_ns: self.elapsed_ns(),
            body_bytes: 0,
        };
        info.put(&mut self.frames, self.ticket, b"");
        self.shared.outbox.append(&self.frames);
        self.shared.outbox.soon();
        self.close();
    }
}

fn put_head(out: &mut Vec<u8>, flags: u8, ticket: Ticket, len: usize) {
    let start = out.len();
    out.reserve(frame::HEAD + len);
    frame::put(out, Kind::Data, flags, ticket, b"");
    // At most `MAX_DATA`, so it fits.
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}
