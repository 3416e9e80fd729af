//! Frames on their way to the instance: one buffer for all slots, and whoever finds nobody writing writes it out.
//!
//! It never blocks while its lock is held, and never waits but through a [`Wait`]. Once a write has failed the instance
//! is gone, and everything is thrown away.

use std::os::fd::RawFd;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use nix::errno::Errno;
use nix::sys::socket::MsgFlags;

use super::Bare;
use super::Wait;
use super::flusher::Bell;

/// A buffer this full is written at once: joining more would save no system calls worth the delay.
pub(super) const FULL: usize = 32 * 1024;

/// While the socket takes nothing, slots wait when this much is there.
const HIGH: usize = 256 * 1024;

/// After so many rounds a writer leaves what others have added meanwhile to the flusher, so that no slot is kept from
/// its own requests for long.
const ROUNDS: usize = 4;

/// The buffer.
#[derive(Debug)]
pub struct Outbox {
    socket: RawFd,
    state: Mutex<State>,
    change: Condvar,
    broken: AtomicBool,
    pub(super) bell: Bell,
}

#[derive(Debug, Default)]
struct State {
    frames: Vec<u8>,
    /// The other of two buffers that take turns, so that steady work allocates nothing.
    spare: Vec<u8>,
    writing: bool,
}

impl Outbox {
    /// For the bridge at `socket`, which must stay open for the life of the process.
    pub fn new(socket: RawFd) -> Outbox {
        Outbox {
            socket,
            state: Mutex::default(),
            change: Condvar::new(),
            broken: AtomicBool::new(false),
            bell: Bell::default(),
        }
    }

    /// Adds whole frames, without waiting.
    pub fn append(&self, frames: &[u8]) {
        if !self.is_broken() {
            self.lock().frames.extend_from_slice(frames);
        }
    }

    /// Adds whole frames, after waiting for room. Says how much is there now.
    pub fn append_with_room(&self, frames: &[u8], wait: &impl Wait) -> usize {
        if self.is_broken() {
            return 0;
        }
        let mut state = self.lock();
        // Only a writer makes room.
        while state.frames.len() > HIGH && state.writing && !self.is_broken() {
            drop(state);
            wait.wait(&mut || {
                let state = self.lock();
                let full = |s: &mut State| s.frames.len() > HIGH && s.writing && !self.is_broken();
                drop(self.change.wait_while(state, full).unwrap_or_else(PoisonError::into_inner));
            });
            state = self.lock();
        }
        state.frames.extend_from_slice(frames);
        state.frames.len()
    }

    /// Has what is there written soon, by the flusher.
    pub fn soon(&self) {
        self.bell.ring();
    }

    /// Writes what is there, unless somebody is writing, who then takes it along.
    pub fn flush(&self, wait: &impl Wait) {
        if self.is_broken() {
            return;
        }
        let mut state = self.lock();
        if state.writing || state.frames.is_empty() {
            return;
        }
        state.writing = true;
        for round in 0.. {
            let mut batch = std::mem::take(&mut state.spare);
            std::mem::swap(&mut batch, &mut state.frames);
            drop(state);
            if !self.is_broken() && self.send(&batch, wait).is_err() {
                self.give_up();
            }
            batch.clear();
            // A rare huge batch must not hold its memory for ever.
            batch.shrink_to(HIGH);
            state = self.lock();
            state.spare = batch;
            self.change.notify_all();
            if state.frames.is_empty() {
                break;
            }
            if round >= ROUNDS {
                self.soon();
                break;
            }
        }
        state.writing = false;
        drop(state);
        self.change.notify_all();
    }

    fn send(&self, mut batch: &[u8], wait: &impl Wait) -> Result<(), Errno> {
        while !batch.is_empty() {
            match nix::sys::socket::send(
                self.socket,
                batch,
                MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
            ) {
                Ok(n) => batch = &batch[n..],
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    let mut sent = Ok(0);
                    wait.wait(&mut || {
                        sent = nix::sys::socket::send(self.socket, batch, MsgFlags::MSG_NOSIGNAL);
                    });
                    match sent {
                        Ok(n) => batch = &batch[n..],
                        Err(Errno::EINTR) => {}
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The instance is gone.
    pub fn give_up(&self) {
        self.abandon();
        drop(self.lock());
        self.change.notify_all();
    }

    /// Writes nothing more. Takes no lock: after a fork a thread that is not there any more may hold it.
    pub fn abandon(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// Whether the instance is gone, or no business of this process.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Writes everything, and ends the flusher.
    pub fn finish(&self) {
        loop {
            self.flush(&Bare);
            let state = self.lock();
            let writing = |s: &mut State| s.writing;
            let state =
                self.change.wait_while(state, writing).unwrap_or_else(PoisonError::into_inner);
            if state.frames.is_empty() || self.is_broken() {
                break;
            }
        }
        self.bell.stop();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
