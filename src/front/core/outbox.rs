//! The bytes on their way to one peer, and where in them messages end.

use std::collections::VecDeque;

use crate::proto::ConnId;

/// Written bytes in front of others are let go when there are so many.
const COMPACT_AT: usize = 256 * 1024;

/// Memory that is kept for the next messages once all is written.
const SPARE: usize = 256 * 1024;

/// So many bytes on their way, and the peer is slower than we are: one that has stopped reading would take all memory.
const LONG: usize = 1024 * 1024;

/// Messages to one peer. Positions count all bytes there ever were.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// The position of the first byte of `bytes`.
    base: u64,
    written: u64,
    /// The end of the last message that was written whole.
    whole: u64,
    /// The end of each message that is not written, and the connection it is about.
    ends: VecDeque<(u64, ConnId)>,
}

impl Outbox {
    /// Adds a message (or several that stay together).
    pub(super) fn push(&mut self, message: &[u8], conn: ConnId) {
        self.bytes.extend_from_slice(message);
        let end = self.end();
        self.ends.push_back((end, conn));
    }

    /// The position after the last byte.
    pub(super) fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// The position after the last message that was written whole.
    pub(super) fn whole(&self) -> u64 {
        self.whole
    }

    fn index(&self, position: u64) -> usize {
        usize::try_from(position - self.base).unwrap_or(self.bytes.len())
    }

    /// What has to be written.
    pub(super) fn unwritten(&self) -> &[u8] {
        self.bytes.get(self.index(self.written)..).unwrap_or_default()
    }

    /// Whether so much is on its way that the peer should get nothing new.
    pub(super) fn is_long(&self) -> bool {
        self.unwritten().len() >= LONG
    }

    /// So many bytes of it were written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written = self.end().min(self.written + bytes as u64);
        while let Some((end, _)) = self.ends.front().filter(|(end, _)| *end <= self.written) {
            self.whole = *end;
            self.ends.pop_front();
        }
        // What is written in part stays whole: should the peer die, another one gets it.
        let done = self.index(self.whole);
        if done == self.bytes.len() {
            self.base = self.whole;
            self.bytes.clear();
            self.bytes.shrink_to(SPARE);
        } else if done >= COMPACT_AT {
            self.bytes.drain(..done);
            self.base = self.whole;
        }
    }

    /// The position up to which messages must be completed: the end of one that is written in part.
    pub(super) fn begun(&self) -> u64 {
        match self.ends.front() {
            Some((end, _)) if self.written > self.whole => *end,
            _ => self.written,
        }
    }

    /// Takes out the messages after `from`, where one must end, for which `wanted` says so, in order.
    pub(super) fn take(
        &mut self,
        from: u64,
        mut wanted: impl FnMut(ConnId, u64) -> bool,
    ) -> Vec<(ConnId, Vec<u8>)> {
        let mut taken = Vec::new();
        let mut kept = self.bytes.get(..self.index(from)).unwrap_or_default().to_vec();
        let mut ends = VecDeque::new();
        let mut start = from;
        for (end, conn) in std::mem::take(&mut self.ends) {
            if end <= from {
                ends.push_back((end, conn));
                continue;
            }
            let message = self.bytes.get(self.index(start)..self.index(end)).unwrap_or_default();
            if wanted(conn, end) {
                taken.push((conn, message.to_vec()));
            } else {
                kept.extend_from_slice(message);
                ends.push_back((self.base + kept.len() as u64, conn));
            }
            start = end;
        }
        self.bytes = kept;
        self.ends = ends;
        taken
    }
}
