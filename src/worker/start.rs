//! Opening a worker: its settings from the bridge's first frame, then its threads.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::SigSet;
use nix::sys::socket::MsgFlags;

use crate::bridge::Board;
use crate::bridge::FrameError;
use crate::bridge::Inbox;
use crate::bridge::Kind;
use crate::bridge::frame;
use crate::config::Underscore as Setting;
use crate::config::WorkerSettings;
use crate::http::request_id::RequestIds;
use crate::wsgi::environ::Rules;
use crate::wsgi::environ::Underscore;

use super::Outbox;
use super::Shared;
use super::Turn;
use super::Worker;
use super::flusher;
use super::queue::Queue;
use super::reader::Reader;

/// Why a process cannot be a worker. It was probably not started by an instance.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The descriptor is no board.
    #[error("the board cannot be opened: {0}")]
    Board(io::Error),
    /// The bridge cannot be read.
    #[error("the bridge cannot be read: {0}")]
    Bridge(Errno),
    /// The instance has gone before it said anything.
    #[error("the instance has gone")]
    Gone,
    /// What came is no frame.
    #[error("the bridge brings no frames: {0}")]
    Frame(#[from] FrameError),
    /// The first frame is not the settings.
    #[error("the first frame on the bridge is not the settings")]
    First,
    /// The settings cannot be read.
    #[error("the settings cannot be read: {0}")]
    Settings(serde_json::Error),
    /// A thread cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(io::Error),
}

impl Worker {
    /// Takes over the two descriptors, which stay open until the process ends, waits for the settings, and starts the
    /// reader and the flusher.
    pub fn open(bridge: RawFd, board: RawFd) -> Result<(Worker, WorkerSettings), OpenError> {
        // Owning a descriptor that is only a number is unsafe; opening it anew is not.
        let board = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/self/fd/{board}"))
            .and_then(|file| Board::open(file.into()))
            .map_err(OpenError::Board)?;
        let mut inbox = Inbox::new(frame::MAX_FROM_INSTANCE);
        let settings = settings(bridge, &mut inbox)?;

        let outbox = Arc::new(Outbox::new(bridge));
        flusher::start(Arc::clone(&outbox)).map_err(OpenError::Thread)?;
        let (asks, asked) = crossbeam_channel::unbounded();
        let turns = (0..settings.threads).map(|_| Turn::default()).collect();
        let shared = Arc::new(Shared {
            outbox,
            board,
            turns,
            asks,
            orphan: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
        });
        let queue = Arc::new(Queue::default());
        let reader = Reader {
            bridge,
            shared: Arc::clone(&shared),
            queue: Arc::clone(&queue),
            rules: rules(&settings),
            controls: HashMap::new(),
            sweep_at: Reader::SWEEP,
            grace: Duration::from_millis(settings.graceful_timeout_ms),
            limits: super::reader::Limits::default(),
        };
        let thread = std::thread::Builder::new().name("lurcher-reader".to_owned());
        thread.spawn(move || reader.run(inbox)).map_err(OpenError::Thread)?;
        Ok((Worker { shared, queue, asked }, settings))
    }
}

/// Reads until the first frame is there.
fn settings(bridge: RawFd, inbox: &mut Inbox) -> Result<WorkerSettings, OpenError> {
    loop {
        if let Some(frame) = inbox.next()? {
            if frame.kind != Kind::Setup {
                return Err(OpenError::First);
            }
            return serde_json::from_slice(frame.payload).map_err(OpenError::Settings);
        }
        match read(bridge, inbox) {
            Ok(0) => return Err(OpenError::Gone),
            Ok(_) => {}
            Err(error) => return Err(OpenError::Bridge(error)),
        }
    }
}

/// One read; 0 is the end.
pub(super) fn read(bridge: RawFd, inbox: &mut Inbox) -> Result<usize, Errno> {
    loop {
        match nix::sys::socket::recv(bridge, inbox.space(), MsgFlags::empty()) {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
            Ok(n) => {
                inbox.filled(n);
                return Ok(n);
            }
        }
    }
}

fn rules(settings: &WorkerSettings) -> Rules {
    Rules {
        script_name: settings.script_name.trim_end_matches('/').as_bytes().to_vec(),
        server_name: settings.server_name.as_deref().map(|name| name.as_bytes().to_vec()),
        underscore: match settings.underscore_headers {
            Setting::Drop => Underscore::Drop,
            Setting::Refuse => Underscore::Refuse,
            Setting::Allow => Underscore::Allow,
        },
        ids: RequestIds::new(settings.request_id_header.as_deref(), settings.request_id_prefix),
    }
}

/// Signals are for the main thread, where Python handles them. A slot must not do this: what its application starts
/// would inherit it.
pub(super) fn block_signals() {
    // Cannot fail with a full set; and if it did, a signal would only be handled a little later.
    let _ = SigSet::all().thread_block();
}
