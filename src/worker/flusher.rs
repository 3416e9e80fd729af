//! A thread that writes the outbox a little after it was asked to, so that frames of several slots share a write.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread::Thread;
use std::time::Duration;

use super::Bare;
use super::Outbox;

/// Long enough for a few quick requests to end, too short for anyone to notice.
const DELAY: Duration = Duration::from_micros(100);

/// Wakes the flusher. Ringing a bell that rings already costs one atomic operation.
#[derive(Debug, Default)]
pub(super) struct Bell {
    ringing: AtomicBool,
    stopped: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Bell {
    /// Asks for a write.
    pub(super) fn ring(&self) {
        if !self.ringing.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Starts the thread.
pub(super) fn start(outbox: Arc<Outbox>) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("lurcher-flusher".to_owned());
    thread.spawn(move || {
        super::start::block_signals();
        // Set here, so that no bell can ring before there is somebody to wake.
        let _ = outbox.bell.thread.set(std::thread::current());
        while !outbox.bell.stopped.load(Ordering::Acquire) {
            if outbox.bell.ringing.load(Ordering::Acquire) {
                std::thread::sleep(DELAY);
                outbox.bell.ringing.store(false, Ordering::Release);
                outbox.flush(&Bare);
            } else {
                std::thread::park();
            }
        }
    })?;
    Ok(())
}
