//! The dispatcher's body: a thread with links, bridges and one wait.
//!
//! The supervisor tells it what to do with [`Command`]s and hears of workers by [`News`]; neither waits for the other.

use std::io;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use crossbeam_channel::TryRecvError;
use nix::sys::eventfd::EfdFlags;
use nix::sys::eventfd::EventFd;

use super::Command;
use super::Loss;
use super::News;
use super::Settings;
use super::core::Clock;
use super::core::Core;
use super::port::BridgeFault;
use super::port::Port;
use super::stacks::Questions;
use crate::bridge;
use crate::bridge::Kind;
use crate::config::FrontEnd;
use crate::telemetry;
use crate::telemetry::access::AccessLog;
use crate::transport;
use crate::transport::Context;
use crate::transport::Link;
use crate::transport::LinkEvent;
use crate::transport::Ready;
use crate::transport::TransportError;
use crate::transport::Watch;

/// Messages taken from one link in one turn, so that a flood on one does not keep the others waiting.
const MESSAGES: usize = 1024;

/// After so long a turn, links are looked at again before anything is published. Half of what libzmq waits before it connects
/// anew: a front end that went and came back meanwhile must not get answers of its old life.
const LONG: Duration = Duration::from_millis(50);

/// The supervisor's hold on the dispatcher thread. Dropping it ends the thread.
#[derive(Debug)]
pub struct Dispatcher {
    commands: Option<Sender<Command>>,
    wake: Arc<EventFd>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Dispatcher {
    /// Starts the thread. The links are opened when the first worker is ready: until then a request is better off with
    /// another instance, or in the front end.
    pub fn start(settings: Settings, news: Sender<News>) -> io::Result<Dispatcher> {
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let (sender, commands) = crossbeam_channel::unbounded();
        let theirs = Arc::clone(&wake);
        let thread =
            thread::Builder::new().name("lurcher-dispatch".to_owned()).spawn(move || {
                let told = news.clone();
                if let Err(fault) = Body::new(settings, commands, theirs, news).run() {
                    // The supervisor may be gone already; then nobody needs to know.
                    let _ = told.send(News::Failed(fault.to_string()));
                }
            })?;
        Ok(Dispatcher { commands: Some(sender), wake, thread: Some(thread) })
    }

    /// Tells it something. A dispatcher that has ended has said so by [`News::Failed`].
    pub fn tell(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command);
            // It fails only when the counter is full, and then it is awake.
            let _ = self.wake.write(1);
        }
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.commands = None;
        let _ = self.wake.write(1);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            telemetry::error!("the dispatcher has panicked");
        }
    }
}

struct Body {
    context: Context,
    front_end: FrontEnd,
    links: Vec<Link>,
    opened: bool,
    leaving: bool,
    idle_told: bool,
    core: Core,
    ports: Vec<Port>,
    questions: Questions,
    commands: Receiver<Command>,
    wake: Arc<EventFd>,
    news: Sender<News>,
    access_log: Option<AccessLog>,
}

impl Body {
    fn new(
        settings: Settings,
        commands: Receiver<Command>,
        wake: Arc<EventFd>,
        news: Sender<News>,
    ) -> Body {
        let clock = Clock { at: Instant::now(), ns: bridge::monotonic_ns() };
        let core = Core::new(&settings, clock);
        let Settings { front_end, access_log, .. } = settings;
        Body {
            context: Context::new(),
            core,
            front_end,
            links: Vec::new(),
            opened: false,
            leaving: false,
            idle_told: false,
            ports: Vec::new(),
            questions: Questions::default(),
            commands,
            wake,
            news,
            access_log,
        }
    }

    fn run(mut self) -> Result<(), TransportError> {
        let mut ready: Vec<Ready> = Vec::new();
        let mut watches: Vec<Watch> = Vec::new();
        loop {
            let now = Instant::now();
            self.core.begin_turn(now);
            let go_on = self.obey(now);
            self.serve_links(now)?;
            self.serve_bridges(&ready, now);
            self.core.turn(now);
            self.questions.turn(now);
            for (id, requests) in self.core.worn() {
                self.tell(News::Worn(id, requests));
            }
            if now.elapsed() > LONG {
                self.links.iter_mut().for_each(Link::look);
                self.serve_links(Instant::now())?;
            }
            self.hand_on();
            self.write_access_lines();
            if !go_on {
                return Ok(());
            }
            self.tell_idle();
            watches.clear();
            watches.push(Watch { fd: self.wake.as_fd().as_raw_fd(), write: false });
            watches
                .extend(self.ports.iter().map(|p| Watch { fd: p.fd(), write: p.wants_to_write() }));
            let timeout = self.timeout(now);
            transport::wait(&mut self.links, &watches, &mut ready, timeout)?;
            if ready.first().is_some_and(|r| r.read) {
                // An error means that there was nothing to read.
                let _ = self.wake.read();
            }
        }
    }

    fn timeout(&self, now: Instant) -> Option<Duration> {
        let links = self.links.iter().filter_map(|l| l.deadline(now));
        let deadline = links.chain(self.core.deadline()).chain(self.questions.deadline()).min();
        deadline.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Does what the supervisor says. False: it is gone, and so are we, after a last turn.
    fn obey(&mut self, now: Instant) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.command(command, now),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn command(&mut self, command: Command, now: Instant) {
        match command {
            Command::AddWorker { id, bridge, board, setup } => match Port::new(id, bridge) {
                Ok(port) => {
                    self.core.add_worker(id, board, &setup);
                    self.ports.push(port);
                }
                Err(why) => {
                    telemetry::error!("cannot use the bridge of {id}: {why}");
                    self.tell(News::Gone(id, Loss::default()));
                }
            },
            Command::WearOut(id, requests) => self.core.wear_out(id, requests),
            Command::DrainWorker(id) => self.core.drain_worker(id),
            Command::WorkerExited(id) => {
                if let Some(index) = self.ports.iter().position(|p| p.id == id) {
                    self.read_port(index, now, true);
                    // A child of the worker may hold the bridge open; the worker is gone all the same.
                    if let Some(index) = self.ports.iter().position(|p| p.id == id) {
                        self.close_port(index);
                    }
                }
            }
            Command::AskStacks(ask) => self.questions.ask(ask, &mut self.core, now),
            Command::Bounds(bounds) => self.core.set_bounds(*bounds),
            Command::ReopenLogs(path) => {
                // What was answered before belongs into the old one.
                self.write_access_lines();
                if let Some(log) = &mut self.access_log {
                    log.reopen();
                }
                if let Some(path) = path {
                    self.core.tell_all(Kind::Reopen, path.as_os_str().as_bytes());
                }
            }
            Command::LogLevel(level) => self.core.tell_all(Kind::Level, level.as_str().as_bytes()),
            Command::Leave => self.leave(now),
            Command::Look(look) => {
                let lost = self.access_log.as_ref().map_or(0, AccessLog::lost);
                look.at(&self.links, &mut self.core, lost);
            }
            Command::GiveUp => {
                self.leave(now);
                let answered = self.core.give_up();
                self.tell(News::GivenUp(answered));
            }
        }
    }

    fn leave(&mut self, now: Instant) {
        self.leaving = true;
        self.links.iter_mut().for_each(|link| link.leave(now));
    }

    fn open_links(&mut self, now: Instant) -> Result<(), TransportError> {
        self.opened = true;
        for (number, spec) in self.front_end.links.iter().enumerate() {
            self.links.push(Link::open(&self.context, number, spec.clone(), now)?);
        }
        Ok(())
    }

    fn serve_links(&mut self, now: Instant) -> Result<(), TransportError> {
        let mut events = Vec::new();
        for (index, link) in self.links.iter_mut().enumerate() {
            link.service(now, &mut events)?;
            for event in events.drain(..) {
                let (recv, send) = (&link.spec().recv, &link.spec().send);
                match event {
                    LinkEvent::Subscribed => telemetry::info!("front end at {send} has subscribed"),
                    LinkEvent::Connected => telemetry::info!("receiving requests from {recv}"),
                    LinkEvent::NoFrontEnd => telemetry::warn!(
                        "no front end has subscribed yet; trying {send} (its recv_spec) and {recv} \
                         (its send_spec) until there is one"
                    ),
                    LinkEvent::Unheard => telemetry::error!(
                        "the front end at {send} has not subscribed to what it is answered: its \
                         recv_ident must equal its send_ident; its clients get nothing"
                    ),
                    LinkEvent::Lost => {
                        if self.front_end.of_serve {
                            telemetry::debug!("front end at {send} is gone");
                        } else {
                            telemetry::warn!("front end at {send} is gone; waiting for it");
                        }
                        self.core.link_lost(index);
                    }
                    LinkEvent::Left => {
                        telemetry::info!("left the front end at {recv}");
                        self.core.link_left(index);
                    }
                }
            }
            for _ in 0..MESSAGES {
                let Some(message) = link.receive() else { break };
                self.core.received(index, message, now);
            }
        }
        Ok(())
    }

    fn serve_bridges(&mut self, ready: &[Ready], now: Instant) {
        // The first watch is the wake-up; workers added since the wait have not been watched yet.
        let readable: Vec<_> = self
            .ports
            .iter()
            .zip(ready.iter().skip(1))
            .filter_map(|(port, ready)| ready.read.then_some(port.id))
            .collect();
        for id in readable {
            if let Some(index) = self.ports.iter().position(|p| p.id == id) {
                self.read_port(index, now, false);
            }
        }
    }

    fn read_port(&mut self, index: usize, now: Instant, all: bool) {
        let mut news = Vec::new();
        let result =
            self.ports[index].read(&mut self.core, &mut news, &mut self.questions, now, all);
        for item in news {
            let first_ready = matches!(item, News::Ready(_)) && !self.opened && !self.leaving;
            // Whoever hears that a worker is ready may rely on the links.
            if first_ready && let Err(fault) = self.open_links(now) {
                self.tell(News::Failed(fault.to_string()));
            }
            self.tell(item);
        }
        match result {
            Ok(()) => {}
            Err(BridgeFault::Closed) => self.close_port(index),
            Err(fault) => {
                telemetry::error!("{}: bridge closed: {fault}", self.ports[index].id);
                self.close_port(index);
            }
        }
    }

    fn close_port(&mut self, index: usize) {
        let port = self.ports.swap_remove(index);
        let loss = self.core.worker_gone(port.id);
        self.tell(News::Gone(port.id, loss));
    }

    /// Brings what the core has to say to bridges and links.
    fn hand_on(&mut self) {
        for news in std::mem::take(self.core.news()) {
            self.tell(news);
        }
        let mut broken = Vec::new();
        for port in &mut self.ports {
            if let Err(fault) = port.write(&mut self.core) {
                telemetry::error!("{}: bridge closed: {fault}", port.id);
                broken.push(port.id);
            }
        }
        for id in broken {
            if let Some(index) = self.ports.iter().position(|p| p.id == id) {
                self.close_port(index);
            }
        }
        for (index, link) in self.links.iter_mut().enumerate() {
            for reply in self.core.publications(index).drain(..) {
                link.publish(reply);
            }
            self.core.set_congested(index, link.congested());
        }
    }

    fn write_access_lines(&mut self) {
        if let Some(log) = &mut self.access_log {
            for line in self.core.access_lines().drain(..) {
                log.push(&line);
            }
            log.flush();
        }
    }

    fn tell_idle(&mut self) {
        let done = self.leaving
            && !self.idle_told
            && self.links.iter().all(|link| link.left() && link.backlog_bytes() == 0)
            && self.core.idle();
        if done {
            self.idle_told = true;
            let counters = self.core.counters();
            self.tell(News::Idle(counters));
        }
    }

    fn tell(&self, news: News) {
        // A supervisor that is gone has dropped the commands too, which ends the loop.
        let _ = self.news.send(news);
    }
}
