//! The instance's side of the control socket: one thread that waits for clients and for answers, and for nothing else.

use std::collections::BTreeMap;
use std::io;
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

use super::Ask;
use super::PlaceError;
use super::Reply;
use super::ask::Said;
use super::connection::Client;
use super::connection::Next;
use super::connection::Speaks;
use super::listen::Listener;
use super::place::Place;
use crate::config::Admin;
use crate::config::Bind;
use crate::config::ControlPlace;
use crate::telemetry;

/// Most clients at once of each kind. They are people, their scripts, and what collects metrics.
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
    /// The address for metrics cannot be had.
    #[error("--metrics {address}: {error}")]
    Metrics {
        /// Which.
        address: Bind,
        /// What the system said.
        error: io::Error,
    },
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
            ControlPlace::Off => None,
            ControlPlace::At(path) => Some(Place::open(path)?),
            ControlPlace::Usual => match Place::open_usual(|name| std::env::var_os(name)) {
                Ok(place) => Some(place),
                Err(error) => {
                    telemetry::info!("no control socket: {error}");
                    None
                }
            },
        };
        if let Some(place) = &place {
            telemetry::debug!("control socket: {}", place.path.display());
        }
        let metrics = settings.metrics.as_ref().map(|at| {
            Listener::open(at).map_err(|error| StartError::Metrics { address: at.clone(), error })
        });
        let metrics = metrics.transpose()?;
        if place.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let wake = Arc::new(
            EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
                .map_err(io::Error::from)?,
        );
        let ended = Arc::new(AtomicBool::new(false));
        let (back, said) = crossbeam_channel::unbounded();
        let body = Body {
            place,
            metrics,
            wake: Arc::clone(&wake),
            ended: Arc::clone(&ended),
            asks,
            back,
            said,
            clients: BTreeMap::new(),
            last: 0,
            not_before: Instant::now(),
            strangers: telemetry::Limited::new(),
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
    place: Option<Place>,
    metrics: Option<Listener>,
    wake: Arc<EventFd>,
    ended: Arc<AtomicBool>,
    asks: Sender<Ask>,
    back: Sender<(u64, Said)>,
    said: Receiver<(u64, Said)>,
    clients: BTreeMap<u64, Client>,
    last: u64,
    /// No client is taken before.
    not_before: Instant,
    /// Holds back lines about users that are refused.
    strangers: telemetry::Limited,
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
                    client.hear(said, now);
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
            let control = self.place.iter().map(|place| place.listener.as_fd());
            let listeners = control.chain(self.metrics.iter().map(Listener::as_fd));
            fds.extend(listeners.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        }
        for client in self.clients.values() {
            let mut events = PollFlags::empty();
            events.set(PollFlags::POLLIN, client.reads());
            events.set(PollFlags::POLLOUT, client.writes());
            // One that waits for its answer is not looked at: a hang-up would wake us again and again.
            if !events.is_empty() {
                fds.push(PollFd::new(client.as_fd(), events));
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
        while let Some(accepted) = self.place.as_ref().map(|place| place.listener.accept()) {
            match accepted {
                Ok((stream, _)) => self.admit_control(stream, now),
                Err(error) if self.accept_later(&error, now) => break,
                Err(_) => {}
            }
        }
        while let Some(accepted) = self.metrics.as_ref().map(Listener::accept) {
            match accepted {
                Ok((stream, peer)) => {
                    self.admit(Client::new(stream, Speaks::Http, peer, now), None, now);
                }
                Err(error) if self.accept_later(&error, now) => break,
                Err(_) => {}
            }
        }
    }

    /// Whether a failure to take a client means that there is none now.
    fn accept_later(&mut self, error: &io::Error, now: Instant) -> bool {
        match error.kind() {
            io::ErrorKind::WouldBlock => true,
            io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => false,
            _ => {
                telemetry::warn!("cannot take a client of the control socket: {error}");
                self.not_before = now + PAUSE;
                true
            }
        }
    }

    fn admit_control(&mut self, stream: UnixStream, now: Instant) {
        let Ok(peer) = getsockopt(&stream, PeerCredentials) else { return };
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let who = format!("pid {}, user {}", peer.pid(), peer.uid());
        let client = Client::new(OwnedFd::from(stream), Speaks::Control, who, now);
        let stranger = peer.uid() != 0 && peer.uid() != geteuid().as_raw();
        if stranger && let Some(held) = self.strangers.allow(now) {
            telemetry::warn!("control socket: {} refused{held}", client.asker);
        }
        self.admit(client, stranger.then_some("only the instance's own user and root may"), now);
    }

    fn admit(&mut self, mut client: Client, refused: Option<&str>, now: Instant) {
        let alike = self.clients.values().filter(|other| other.speaks == client.speaks).count();
        let full = alike >= CLIENTS && !self.make_room(client.speaks, now);
        if let Some(why) = refused.or(full.then_some("there are too many clients")) {
            client.hear(Said::Refused(why.to_owned()), now);
            // A short answer always fits into a new socket.
            let _ = client.flush(now);
            return;
        }
        self.last += 1;
        self.clients.insert(self.last, client);
    }

    /// Lets the client go that has done nothing for longest, if it is long enough.
    fn make_room(&mut self, speaks: Speaks, now: Instant) -> bool {
        let idle = |client: &Client| now.saturating_duration_since(client.active) >= PATIENCE;
        let alike = self.clients.iter().filter(|(_, client)| client.speaks == speaks);
        let clients = alike.filter(|(_, client)| !client.asked && idle(client));
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
        loop {
            match client.next(now) {
                Next::Nothing => break,
                Next::Answered => {}
                Next::Wish(wish) => {
                    client.asked = true;
                    let back = Some(self.back.clone());
                    let reply = Reply { client: id, back, wake: Arc::clone(&self.wake) };
                    let asker = client.asker.clone();
                    // A supervisor that has gone drops the ask, which answers it.
                    let _ = self.asks.send(Ask { wish, asker, reply });
                }
            }
            if client.flush(now).is_err() {
                return false;
            }
        }
        if client.flush(now).is_err() {
            return false;
        }
        client.asked || !client.last_words || client.writes()
    }
}
