//! Bytes on their way to one client: a little in memory, what does not fit in a temporary file, and a last window in
//! memory again where a file cannot be had.
//!
//! It takes everything it is given, in order: [`Outgoing::has_room`] says when the application should wait, which is early
//! enough that what its worker may still send fits.

use std::io;

use super::spool::Ring;
use super::spool::Spool;
use crate::bridge::frame::WINDOW;

/// Memory that an emptied store keeps for the next bytes; what is no more than that is small.
const KEEP: usize = 64 * 1024;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// The oldest bytes, from `start` on.
    head: Vec<u8>,
    start: usize,
    /// What came after them.
    ring: Option<Ring>,
    /// What came after that, and found no room in a file.
    tail: Vec<u8>,
}

impl Outgoing {
    /// How many bytes wait.
    pub(crate) fn len(&self) -> usize {
        let spooled = usize::try_from(self.spooled()).unwrap_or(usize::MAX);
        self.head.len() - self.start + spooled + self.tail.len()
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn spooled(&self) -> u64 {
        self.ring.as_ref().map_or(0, Ring::len)
    }

    /// Whether the worker may send on.
    pub(crate) fn has_room(&self, spool: &Spool) -> bool {
        let window = usize::try_from(WINDOW).unwrap_or(usize::MAX);
        self.tail.is_empty()
            && (spool.has_room(self.ring.as_ref())
                || self.len() <= spool.memory.saturating_sub(window).max(spool.memory / 2))
    }

    /// Adds bytes.
    pub(crate) fn push(&mut self, bytes: &[u8], spool: &mut Spool) {
        if self.tail.is_empty() && self.spooled() == 0 {
            let waiting = self.head.len() - self.start;
            if waiting + bytes.len() <= spool.memory || !spool.push(&mut self.ring, bytes) {
                self.push_head(bytes);
            }
        } else if !self.tail.is_empty() || !spool.push(&mut self.ring, bytes) {
            self.tail.extend_from_slice(bytes);
        }
    }

    fn push_head(&mut self, bytes: &[u8]) {
        if self.start > self.head.len() / 2 {
            self.head.drain(..self.start);
            self.start = 0;
        }
        self.head.extend_from_slice(bytes);
    }

    /// Whether what waits is little, and all in memory.
    pub(crate) fn is_small(&self) -> bool {
        self.tail.is_empty() && self.len() == self.head.len() - self.start && self.len() <= KEEP
    }

    /// Replaces all that waits but its first `keep` bytes, which must have been small ([`Outgoing::is_small`]).
    pub(crate) fn replace_from(&mut self, keep: usize, bytes: &[u8]) {
        self.ring = None;
        self.tail.clear();
        self.head.truncate(self.start + keep);
        self.head.extend_from_slice(bytes);
    }

    /// Moves the first `count` bytes to the end of `out`; there must be as many.
    ///
    /// # Errors
    /// When they cannot be read back. The store is of no use then.
    pub(crate) fn pop(&mut self, count: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let from_head = count.min(self.head.len() - self.start);
        out.extend_from_slice(&self.head[self.start..self.start + from_head]);
        self.start += from_head;
        if self.start == self.head.len() {
            self.head.clear();
            // One large response must not hold its memory for the life of a keep-alive connection.
            self.head.shrink_to(KEEP);
            self.start = 0;
        }
        let count = count - from_head;
        if count == 0 {
            return Ok(());
        }
        let mut from_ring = 0;
        if let Some(ring) = &mut self.ring {
            from_ring = count.min(usize::try_from(ring.len()).unwrap_or(usize::MAX));
            let end = out.len();
            out.resize(end + from_ring, 0);
            ring.pop(&mut out[end..])?;
            if ring.is_spent() {
                self.ring = None;
            }
        }
        if self.spooled() == 0 && !self.tail.is_empty() {
            self.head = std::mem::take(&mut self.tail);
            let count = count - from_ring;
            out.extend_from_slice(&self.head[..count]);
            self.start = count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Delivery;
    use std::time::Instant;

    fn spool(dir: &std::path::Path, memory: u64, each: u64) -> Spool {
        let settings = Delivery {
            spool_dir: Some(dir.to_owned()),
            response_memory: memory,
            response_spool: each,
            ..crate::config::example().delivery
        };
        Spool::new(&settings, Instant::now())
    }

    #[test]
    fn bytes_come_out_as_they_went_in_whatever_holds_them() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        for (place, memory, each) in [
            (dir.path(), 1000, 0),
            (dir.path(), 1000, 2000),
            (dir.path(), 0, 5000),
            (gone.as_path(), 1000, 5000),
        ] {
            let mut spool = spool(place, memory, each);
            let mut store = Outgoing::default();
            let bytes: Vec<u8> = (0..=250).cycle().take(60_000).collect();
            let (mut given, mut got) = (0, Vec::new());
            for turn in 0.. {
                // More comes than goes at first, then the other way round.
                let piece = &bytes[given..(given + 700).min(bytes.len())];
                store.push(piece, &mut spool);
                given += piece.len();
                let count = store.len().min(if turn < 12 { 230 } else { 1100 });
                store.pop(count, &mut got).unwrap();
                assert_eq!(store.len(), given - got.len());
                if got.len() == bytes.len() {
                    break;
                }
            }
            assert!(got == bytes, "memory {memory}, file {each}");
            assert!(store.is_empty());
        }
    }

    #[test]
    fn the_application_waits_when_both_are_full() {
        let dir = tempfile::tempdir().unwrap();
        let (memory, each) = (WINDOW, 4 * WINDOW);
        let mut spool = spool(dir.path(), memory, each);
        let mut store = Outgoing::default();
        let block = vec![0; 64 * 1024];
        while store.has_room(&spool) {
            store.push(&block, &mut spool);
        }
        // What its worker may still send has room too.
        for _ in 0..3 {
            store.push(&block, &mut spool);
        }
        assert!(store.tail.is_empty() && store.head.len() <= 256 * 1024);
        assert_eq!(store.len() as u64, memory + each);
        let mut out = Vec::new();
        store.pop(512 * 1024, &mut out).unwrap();
        assert!(store.has_room(&spool), "and goes on when a window is free");
    }

    #[test]
    fn without_a_file_the_window_is_half_of_the_memory() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = spool(dir.path(), WINDOW, 0);
        let mut store = Outgoing::default();
        store.push(&vec![0; 128 * 1024], &mut spool);
        assert!(store.has_room(&spool));
        store.push(&[0], &mut spool);
        assert!(!store.has_room(&spool));
    }
}
