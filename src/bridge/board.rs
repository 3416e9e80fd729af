//! The board: a small shared-memory page per worker, written by its slots, read by the instance.
//!
//! It answers one question that no message can answer for a process that has died: which of the requests that were
//! handed over had the application begun? Slots write without locks and without system calls; the instance keeps its
//! mapping after the worker is gone. The board carries no request data.
//!
//! This is one of the three places for unsafe code: atomics over memory that another process maps too.
#![allow(unsafe_code, reason = "atomics over a mapping shared with another process")]
#![allow(clippy::cast_ptr_alignment, reason = "a mapping begins on a page")]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use memmap2::MmapRaw;

use super::Ticket;

/// Says that the page is a board of this layout.
const MAGIC: u64 = 0x4c75_7263_6865_7201;
/// Words before the slots: magic, number of slots, highest ticket begun.
const HEAD_WORDS: usize = 3;
/// Words of a slot: the ticket at work (0 = idle), and since when (monotonic nanoseconds).
const SLOT_WORDS: usize = 2;

/// The monotonic clock in nanoseconds, as it stands on the board: the same one in all processes of a machine.
pub fn monotonic_ns() -> u64 {
    let clock = nix::time::ClockId::CLOCK_MONOTONIC;
    nix::time::clock_gettime(clock).map_or(0, |now| {
        let seconds = u64::try_from(now.tv_sec()).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(now.tv_nsec()).unwrap_or(0)
    })
}

/// One mapping of a board.
#[derive(Debug)]
pub struct Board {
    map: MmapRaw,
    file: File,
    slots: usize,
}

impl Board {
    /// Makes a new board for `slots` slots, in anonymous memory that only its descriptor names.
    pub fn create(slots: usize) -> io::Result<Board> {
        let fd = nix::sys::memfd::memfd_create(
            c"lurcher-board",
            nix::sys::memfd::MFdFlags::MFD_CLOEXEC,
        )?;
        let file = File::from(fd);
        file.set_len(((HEAD_WORDS + slots * SLOT_WORDS) * 8) as u64)?;
        let board = Board { map: MmapRaw::map_raw(&file)?, file, slots };
        board.word(1).store(slots as u64, Ordering::Relaxed);
        board.word(0).store(MAGIC, Ordering::Release);
        Ok(board)
    }

    /// Maps the board that the instance made.
    ///
    /// # Errors
    /// `InvalidData` if the descriptor is not a board.
    pub fn open(fd: OwnedFd) -> io::Result<Board> {
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let file = File::from(fd);
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| bad("board too large"))?;
        if len < HEAD_WORDS * 8 {
            return Err(bad("not a board: too short"));
        }
        let mut board = Board { map: MmapRaw::map_raw(&file)?, file, slots: 0 };
        if board.word(0).load(Ordering::Acquire) != MAGIC {
            return Err(bad("not a board: wrong first word"));
        }
        board.slots = (len / 8 - HEAD_WORDS) / SLOT_WORDS;
        Ok(board)
    }

    /// The descriptor to hand to the worker.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// How many slots it has room for.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// A slot begins `ticket`. Must come before the first line of application code runs for it.
    pub fn begin(&self, slot: usize, ticket: Ticket, now_ns: u64) {
        if slot < self.slots {
            self.word(HEAD_WORDS + slot * SLOT_WORDS + 1).store(now_ns, Ordering::Relaxed);
            self.word(HEAD_WORDS + slot * SLOT_WORDS).store(ticket.0, Ordering::Release);
        }
        // Slots take tickets in order, so one high-water mark is enough. A lower ticket that another slot has taken but
        // not yet marked counts as begun too: it is answered 502 where it could have been run again. Never the reverse.
        self.word(2).fetch_max(ticket.0, Ordering::Release);
    }

    /// A slot has nothing to do.
    pub fn idle(&self, slot: usize) {
        if slot < self.slots {
            self.word(HEAD_WORDS + slot * SLOT_WORDS).store(0, Ordering::Release);
        }
    }

    /// The highest ticket that was begun: every lower one of this worker was begun, given back, or is lost with it.
    pub fn begun(&self) -> Ticket {
        Ticket(self.word(2).load(Ordering::Acquire))
    }

    /// What a slot does: the ticket and its start, or `None` when idle.
    pub fn slot(&self, slot: usize) -> Option<(Ticket, u64)> {
        if slot >= self.slots {
            return None;
        }
        let ticket = self.word(HEAD_WORDS + slot * SLOT_WORDS).load(Ordering::Acquire);
        let since = self.word(HEAD_WORDS + slot * SLOT_WORDS + 1).load(Ordering::Relaxed);
        (ticket != 0).then_some((Ticket(ticket), since))
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!((index + 1) * 8 <= self.map.len(), "word {index} lies outside the board");
        // SAFETY: the mapping is page-aligned, lives as long as `self`, and the index was checked just above. Both
        // processes touch these words through atomics only. The file is never shrunk, so no access can fault.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast::<u64>().add(index)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_mappings_see_the_same() {
        let ours = Board::create(3).unwrap();
        let theirs = Board::open(ours.fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(theirs.slots(), 3);
        assert_eq!(ours.begun(), Ticket(0));
        theirs.begin(1, Ticket(9), 77);
        theirs.begin(0, Ticket(8), 78);
        assert_eq!(ours.begun(), Ticket(9), "a lower ticket does not lower the mark");
        assert_eq!(ours.slot(1), Some((Ticket(9), 77)));
        theirs.idle(1);
        assert_eq!(ours.slot(1), None);
        assert_eq!(ours.begun(), Ticket(9));
        drop(theirs);
        assert_eq!(ours.slot(0), Some((Ticket(8), 78)), "it outlives the worker's mapping");
    }

    #[test]
    fn something_else_is_no_board() {
        let file = tempfile::tempfile().unwrap();
        assert!(Board::open(file.try_clone().unwrap().into()).is_err());
        file.set_len(4096).unwrap();
        assert!(Board::open(file.into()).is_err());
    }
}
