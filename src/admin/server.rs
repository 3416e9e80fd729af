//! The instance's side of the control socket: one thread that waits for clients and for answers, and for nothing else.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::sys::eventfd::EfdFlags;
use nix::sys::eventfd::EventFd;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;

use super::Answer;
use super::Ask;
use super::PlaceError;
use super::Reply;
use super::Report;
use super::Wish;
use super::ask::Said;
use super::place::Place;
use crate::config::Admin;
use crate::config::ControlPlace;
use crate::telemetry;

/// The longest request. The longest that means anything has some fifty bytes.
const LINE_MAX: usize = 4096;

/// Most clients at once. They are people and their scripts.
const CLIENTS: usize = 16;

/// A client that has done nothing for so long makes room for a new one when there are too many.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long no client is taken after one could not be, as without descriptors.
const PAUSE: Duration = Duration::from_secs(1);

/// Why an instance cannot be asked things.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The socket that was named cannot be had.
    #[error("control socket: {0}")]
    Place(#[from] PlaceError),
    /// There is no thread, or nothing to wake it with.
    #[error("control socket: {0}")]
    Io(#[from] io::Error),
}

/// The thread. Dropping it ends it and removes the socket.
#[derive(Debug)]
pub struct Server {
    wake: Arc<EventFd>,
    ended: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Opens what the settings ask for; `asks` gets what clients want. None if nothing is asked for, or if none of the
    /// usual places can be had, which is said in the log.
    pub fn start(settings: &Admin, asks: Sender<Ask>) -> Result<Option<Server>, StartError> {
        let place = match &settings.control {
            ControlPlace::Off => return Ok(None),
            ControlPlace::At(path) => Place::open(path)?,
            ControlPlace::Usual => match Place::open_usual(|name| std::env::var_os(name)) {
                Ok(place) => place,
                Err(error) => {
                    telemetry::info!("no control socket: {error}");
                    return Ok(None);
                }
            },
        };
        telemetry::debug!("control socket: {}", place.path.display());
        let wake = Arc::new(
            EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
                .map_err(io::Error::from)?,
        );
        let ended = Arc::new(AtomicBool::new(false));
        let (back, said) = crossbeam_channel::unbounded();
        let body = Body {
            place,
            wake: Arc::clone(&wake),
            ended: Arc::clone(&ended),
            asks,
            back,
            said,
            clients: BTreeMap::new(),
            last: 0,
            not_before: Instant::now(),
        };
        let builder = thread::Builder::new().name("lurcher-admin".to_owned());
        let thread = builder.spawn(move || body.run())?;
        Ok(Some(Server { wake, ended, thread: Some(thread) }))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // It fails only when the counter is full, and then it is awake.
        let _ = self.wake.write(1);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            telemetry::error!("the control socket's thread has panicked");
        }
    }
}

struct Body {
    place: Place,
    wake: Arc<EventFd>,
    ended: Arc<AtomicBool>,
    asks: Sender<Ask>,
    back: Sender<(u64, Said)>,
    said: Receiver<(u64, Said)>,
    clients: BTreeMap<u64, Client>,
    last: u64,
    /// No client is taken before.
    not_before: Instant,
}

/// One connection.
struct Client {
    stream: File,
    asker: String,
    input: Vec<u8>,
    output: Vec<u8>,
    /// An answer is awaited.
    asked: bool,
    /// Nothing more is read; it goes when its answer has gone out.
    last_words: bool,
    /// When something last came or went.
    active: Instant,
}

impl Body {
    fn run(mut self) {
        loop {
            if let Err(error) = self.wait() {
                telemetry::error!("the control socket cannot be waited for: {error}");
                return;
            }
            // An error means that there was nothing to read.
            let _ = self.wake.read();
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            let now = Instant::now();
            if now >= self.not_before {
                self.accept(now);
            }
            while let Ok((id, said)) = self.said.try_recv() {
                if let Some(client) = self.clients.get_mut(&id) {
                    client.answer(&answer(said), now);
                }
            }
            let ids: Vec<u64> = self.clients.keys().copied().collect();
            for id in ids {
                if !self.serve(id, now) {
                    self.clients.remove(&id);
                }
            }
        }
    }

    /// Waits until there is something to do.
    fn wait(&self) -> io::Result<()> {
        let now = Instant::now();
        let paused = now < self.not_before;
        let mut fds = vec![PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)];
        if !paused {
            fds.push(PollFd::new(self.place.listener.as_fd(), PollFlags::POLLIN));
        }
        for client in self.clients.values() {
            let mut events = PollFlags::empty();
            events.set(PollFlags::POLLIN, client.reads());
            events.set(PollFlags::POLLOUT, !client.output.is_empty());
            // One that waits for its answer is not looked at: a hang-up would wake us again and again.
            if !events.is_empty() {
                fds.push(PollFd::new(client.stream.as_fd(), events));
            }
        }
        let timeout = if paused {
            let wait = self.not_before.saturating_duration_since(now) + Duration::from_millis(1);
            PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX)
        } else {
            PollTimeout::NONE
        };
        match nix::poll::poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn accept(&mut self, now: Instant) {
        loop {
            match self.place.listener.accept() {
                Ok((stream, _)) => self.admit(stream, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    telemetry::warn!("cannot take a client of the control socket: {error}");
                    self.not_before = now + PAUSE;
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: UnixStream, now: Instant) {
        let Ok(peer) = getsockopt(&stream, PeerCredentials) else { return };
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let refused = if peer.uid() != 0 && peer.uid() != geteuid().as_raw() {
            telemetry::warn!("control socket: user {} (pid {}) refused", peer.uid(), peer.pid());
            Some("only the instance's own user and root may")
        } else if self.clients.len() >= CLIENTS && !self.make_room(now) {
            Some("there are too many clients")
        } else {
            None
        };
        let mut client = Client {
            stream: File::from(OwnedFd::from(stream)),
            asker: format!("pid {}, user {}", peer.pid(), peer.uid()),
            input: Vec::new(),
            output: Vec::new(),
            asked: false,
            last_words: false,
            active: now,
        };
        if let Some(why) = refused {
            client.answer(&refusal(why), now);
            // A short line always fits into a new socket.
            let _ = client.flush(now);
            return;
        }
        self.last += 1;
        self.clients.insert(self.last, client);
    }

    /// Lets the client go that has done nothing for longest, if it is long enough.
    fn make_room(&mut self, now: Instant) -> bool {
        let idle = |client: &Client| now.saturating_duration_since(client.active) >= PATIENCE;
        let clients = self.clients.iter().filter(|(_, client)| !client.asked && idle(client));
        let Some(longest) = clients.min_by_key(|(_, client)| client.active).map(|(id, _)| *id)
        else {
            return false;
        };
        self.clients.remove(&longest).is_some()
    }

    /// Does for a client what can be done now. False: it is to go.
    fn serve(&mut self, id: u64, now: Instant) -> bool {
        let Some(client) = self.clients.get_mut(&id) else { return false };
        let Ok(()) = client.flush(now) else { return false };
        if client.reads() {
            match client.read(now) {
                Ok(true) => {}
                Ok(false) => client.last_words = true,
                Err(_) => return false,
            }
        }
        while let Some(line) = client.next_line() {
            match serde_json::from_slice::<Wish>(&line) {
                Ok(wish) => {
                    client.asked = true;
                    let back = Some(self.back.clone());
                    let reply = Reply { client: id, back, wake: Arc::clone(&self.wake) };
                    let asker = client.asker.clone();
                    // A supervisor that has gone drops the ask, which answers it.
                    let _ = self.asks.send(Ask { wish, asker, reply });
                }
                Err(error) => client.answer(&refusal(&format!("no request: {error}")), now),
            }
            if client.flush(now).is_err() {
                return false;
            }
        }
        if client.input.len() >= LINE_MAX {
            client.answer(&refusal("the request is too long"), now);
            client.last_words = true;
            client.input.clear();
            let _ = client.flush(now);
        }
        client.asked || !client.last_words || !client.output.is_empty()
    }
}

impl Client {
    /// One thing after the other: while an answer is under way, nothing is read.
    fn reads(&self) -> bool {
        !self.asked && !self.last_words && self.output.is_empty() && self.input.len() < LINE_MAX
    }

    /// False at the end of what comes.
    fn read(&mut self, now: Instant) -> io::Result<bool> {
        let mut piece = [0; 512];
        while self.input.len() < LINE_MAX {
            match self.stream.read(&mut piece) {
                Ok(0) => return Ok(false),
                Ok(got) => {
                    self.active = now;
                    self.input.extend_from_slice(&piece[..got]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        if self.asked || !self.output.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', &self.input)?;
        Some(self.input.drain(..=end).collect())
    }

    fn answer(&mut self, answer: &Answer, now: Instant) {
        self.asked = false;
        self.active = now;
        match serde_json::to_writer(&mut self.output, answer) {
            Ok(()) => self.output.push(b'\n'),
            // Numbers and texts always can be; and if not, the client hears no half answer.
            Err(_) => self.last_words = true,
        }
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(written) => {
                    self.active = now;
                    self.output.drain(..written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn answer(said: Said) -> Answer {
    match said {
        Said::Done(text) => Answer { ok: true, text: Some(text), ..Answer::default() },
        Said::Refused(why) => refusal(&why),
        Said::Status(instance, view) => {
            let report = Box::new(Report::new(&instance, &view));
            Answer { ok: true, status: Some(report), ..Answer::default() }
        }
    }
}

fn refusal(why: &str) -> Answer {
    Answer { ok: false, error: Some(why.to_owned()), ..Answer::default() }
}
