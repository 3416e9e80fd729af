//! The supervisor's loop: start, watch, replace, stop.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use nix::sys::signal::Signal;
use signal_hook::consts::SIGCHLD;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

use super::Exit;
use super::Interpreter;
use super::policy::End;
use super::policy::Policy;
use super::policy::Verdict;
use super::spawn;
use crate::config::Config;
use crate::dispatch::Command;
use crate::dispatch::Counters;
use crate::dispatch::Dispatcher;
use crate::dispatch::Loss;
use crate::dispatch::News;
use crate::dispatch::Settings;
use crate::dispatch::WorkerId;
use crate::telemetry;
use crate::telemetry::access::AccessLog;

/// How long last answers may take on their way to the front ends once everything else has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A worker process.
#[derive(Debug)]
struct Worker {
    child: Child,
    started: Instant,
    ready: Option<Instant>,
    /// It was told to end.
    draining: bool,
    load_failed: Option<String>,
    exited: Option<ExitStatus>,
    gone: Option<Loss>,
}

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Front ends are being left and what was taken is finished, until then.
    Leaving(Instant),
    /// Workers end, until then.
    Draining(Instant),
}

struct Supervisor {
    config: Config,
    interpreter: Interpreter,
    dispatcher: Dispatcher,
    news: Receiver<News>,
    workers: BTreeMap<WorkerId, Worker>,
    last_id: u32,
    policy: Policy,
    /// When workers that have died are replaced.
    replacements: Vec<Instant>,
    phase: Phase,
    exit: Exit,
    began: Instant,
}

/// Runs an instance until it is stopped or cannot go on. Signals: TERM, INT and HUP stop it, a second one at once.
pub fn run(config: Config, interpreter: Interpreter) -> Exit {
    match start(config, interpreter) {
        Ok((supervisor, signals)) => supervisor.run(&signals),
        Err((what, why)) => {
            telemetry::error!("{what}: {why}");
            Exit::Failed
        }
    }
}

type Fault = (&'static str, String);

fn start(config: Config, interpreter: Interpreter) -> Result<(Supervisor, Receiver<i32>), Fault> {
    let access_log = match &config.access_log {
        Some(target) => Some(
            AccessLog::open(target).map_err(|e| ("cannot open the access log", e.to_string()))?,
        ),
        None => None,
    };
    let signals = listen().map_err(|e| ("cannot listen to signals", e.to_string()))?;
    let (sender, news) = crossbeam_channel::unbounded();
    let settings =
        Settings { links: config.links.clone(), queue_limit: config.queue_limit, access_log };
    let dispatcher = Dispatcher::start(settings, sender)
        .map_err(|e| ("cannot start the dispatcher", e.to_string()))?;
    let supervisor = Supervisor {
        config,
        interpreter,
        dispatcher,
        news,
        workers: BTreeMap::new(),
        last_id: 0,
        policy: Policy::default(),
        replacements: Vec::new(),
        phase: Phase::Running,
        exit: Exit::Stopped,
        began: Instant::now(),
    };
    Ok((supervisor, signals))
}

/// Signals as messages. The handler itself only writes to a pipe.
fn listen() -> io::Result<Receiver<i32>> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGCHLD])?;
    let (sender, receiver): (Sender<i32>, _) = crossbeam_channel::unbounded();
    thread::Builder::new().name("lurcher-signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if sender.send(signal).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

impl Supervisor {
    fn run(mut self, signals: &Receiver<i32>) -> Exit {
        let Config { workers, threads, links, wsgi_app, .. } = &self.config;
        telemetry::info!(
            "lurcher {}: {wsgi_app}, {workers} worker(s) of {threads} thread(s), {} link(s)",
            env!("CARGO_PKG_VERSION"),
            links.len(),
        );
        for _ in 0..self.config.workers {
            self.spawn();
        }
        while !self.finished() {
            let pause = self.deadline().map(|at| at.saturating_duration_since(Instant::now()));
            let timer = pause.map_or_else(crossbeam_channel::never, crossbeam_channel::after);
            crossbeam_channel::select_biased! {
                recv(signals) -> signal => if let Ok(signal) = signal { self.signal(signal) },
                recv(self.news) -> news => match news {
                    Ok(news) => self.heard(news),
                    Err(_) => self.dispatcher_ended(),
                },
                recv(timer) -> _ => {}
            }
            self.keep_time();
        }
        // Its end lets last answers out.
        drop(self.dispatcher);
        telemetry::info!("ended after {:.1} s", self.began.elapsed().as_secs_f64());
        self.exit
    }

    fn finished(&self) -> bool {
        self.workers.is_empty() && matches!(self.phase, Phase::Draining(_))
    }

    fn deadline(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Running => None,
            Phase::Leaving(at) | Phase::Draining(at) => Some(at),
        };
        phase.into_iter().chain(self.replacements.iter().copied()).min()
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        let due = self.replacements.iter().filter(|at| **at <= now).count();
        self.replacements.retain(|at| *at > now);
        for _ in 0..due {
            self.spawn();
        }
        match self.phase {
            Phase::Leaving(at) if now >= at => self.enough("the graceful timeout is over"),
            Phase::Draining(at) if now >= at => {
                for (id, worker) in &mut self.workers {
                    telemetry::warn!("{id} (pid {}) does not end; killing it", worker.child.id());
                    kill(worker);
                }
                // Killed processes end; SIGCHLD tells.
                self.phase = Phase::Draining(now + Duration::from_secs(1));
            }
            _ => {}
        }
    }

    fn spawn(&mut self) {
        if self.phase != Phase::Running {
            return;
        }
        self.last_id += 1;
        let id = WorkerId(self.last_id);
        let setup = serde_json::to_vec(&self.config.worker_settings(id.0));
        let started = setup
            .map_err(io::Error::other)
            .and_then(|setup| Ok((setup, spawn::spawn(&self.interpreter, self.slots())?)));
        match started {
            Ok((setup, started)) => {
                let spawn::Started { child, bridge, board } = started;
                telemetry::debug!("{id} started (pid {})", child.id());
                let worker = Worker {
                    child,
                    started: Instant::now(),
                    ready: None,
                    draining: false,
                    load_failed: None,
                    exited: None,
                    gone: None,
                };
                self.workers.insert(id, worker);
                self.dispatcher.tell(Command::AddWorker { id, bridge, board, setup });
            }
            Err(why) => {
                telemetry::error!("cannot start {id}: {why}");
                self.follow(End::NeverReady);
            }
        }
    }

    fn slots(&self) -> usize {
        self.config.threads as usize
    }

    fn signal(&mut self, signal: i32) {
        if signal == SIGCHLD {
            self.reap();
            return;
        }
        let name = Signal::try_from(signal).map_or("a signal", Signal::as_str);
        if self.phase == Phase::Running {
            let limit = self.config.graceful_timeout;
            telemetry::info!("{name}: stopping; requests have {} s", limit.as_secs_f64());
            self.stop(Exit::Stopped);
        } else {
            self.exit = Exit::Failed;
            self.enough(name);
        }
    }

    /// Leaves the front ends, lets what was taken be finished, and ends.
    fn stop(&mut self, exit: Exit) {
        self.exit = exit;
        self.replacements.clear();
        self.phase = Phase::Leaving(Instant::now() + self.config.graceful_timeout);
        self.dispatcher.tell(Command::Leave);
    }

    /// Ends at once: what is still unanswered is answered 503, or cut off.
    fn enough(&mut self, why: &str) {
        telemetry::warn!("{why}: ending at once");
        self.replacements.clear();
        self.dispatcher.tell(Command::GiveUp);
        self.workers.values_mut().for_each(kill);
        self.phase = Phase::Draining(Instant::now() + LAST_WORDS);
    }

    /// The instance cannot go on.
    fn fail(&mut self, exit: Exit) {
        if self.phase == Phase::Running {
            self.exit = exit;
            self.replacements.clear();
            self.dispatcher.tell(Command::GiveUp);
            self.phase = Phase::Leaving(Instant::now() + LAST_WORDS);
        }
    }

    fn heard(&mut self, news: News) {
        match news {
            News::Ready(id) => {
                self.policy.ready();
                if let Some(worker) = self.workers.get_mut(&id) {
                    let took = worker.started.elapsed().as_secs_f64();
                    worker.ready = Some(Instant::now());
                    telemetry::info!("{id} (pid {}) is ready after {took:.2} s", worker.child.id());
                }
            }
            News::LoadFailed(id, text) => {
                if let Some(worker) = self.workers.get_mut(&id) {
                    worker.load_failed = Some(text);
                }
            }
            News::WantsToLeave(id) => self.drain(id),
            News::Gone(id, loss) => {
                if let Some(worker) = self.workers.get_mut(&id) {
                    worker.gone = Some(loss);
                    if !worker.draining && worker.load_failed.is_none() && worker.exited.is_none() {
                        // Without its bridge it is of no use. It may be ending by itself: then this changes nothing.
                        kill(worker);
                    }
                }
                self.bury(id);
            }
            News::Idle(counters) => self.idle(counters),
            News::GivenUp(0) => {}
            News::GivenUp(answered) => {
                telemetry::warn!("{answered} request(s) were answered 503 or cut off");
            }
            News::Failed(why) => {
                telemetry::error!("the dispatcher cannot go on: {why}");
                self.fail(Exit::Internal);
            }
        }
    }

    fn idle(&mut self, counters: Counters) {
        telemetry::info!(
            "{} request(s) received, {} answered by the instance itself, {} malformed",
            counters.requests,
            counters.refused,
            counters.malformed,
        );
        if let Phase::Leaving(until) = self.phase {
            // Its last words may not outlast the graceful timeout, but they get a moment in any case.
            self.phase = Phase::Draining(until.max(Instant::now() + LAST_WORDS));
            let ids: Vec<_> = self.workers.keys().copied().collect();
            ids.into_iter().for_each(|id| self.drain(id));
        }
    }

    fn drain(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.draining = true;
        if worker.ready.is_some() {
            self.dispatcher.tell(Command::DrainWorker(id));
        } else {
            // It is busy loading and has begun nothing.
            kill(worker);
        }
    }

    fn dispatcher_ended(&mut self) {
        telemetry::error!("the dispatcher has ended");
        self.exit = Exit::Internal;
        self.workers.values_mut().for_each(kill);
        self.phase = Phase::Draining(Instant::now() + LAST_WORDS);
        // A closed channel is ready for ever.
        self.news = crossbeam_channel::never();
    }

    fn reap(&mut self) {
        let mut ended = Vec::new();
        for (id, worker) in self.workers.iter_mut().filter(|(_, w)| w.exited.is_none()) {
            match worker.child.try_wait() {
                Ok(Some(status)) => {
                    worker.exited = Some(status);
                    ended.push(*id);
                }
                Ok(None) => {}
                Err(why) => telemetry::error!("cannot wait for {id}: {why}"),
            }
        }
        for id in ended {
            self.dispatcher.tell(Command::WorkerExited(id));
            self.bury(id);
        }
    }

    /// A worker whose process has ended and whose requests have been seen to is history.
    fn bury(&mut self, id: WorkerId) {
        let done = self.workers.get(&id).is_some_and(|w| w.exited.is_some() && w.gone.is_some());
        if !done {
            return;
        }
        let Some(worker) = self.workers.remove(&id) else { return };
        let (Some(status), Some(loss)) = (worker.exited, worker.gone) else { return };
        let pid = worker.child.id();
        let how = describe(status);
        if let Some(text) = &worker.load_failed {
            telemetry::error_block(
                &format!("{id} (pid {pid}): the application did not load"),
                text,
            );
            self.follow(End::LoadFailed);
        } else if let Some(ready) = worker.ready {
            let asked = worker.draining || self.phase != Phase::Running;
            if asked && loss.begun + loss.put_back == 0 {
                telemetry::info!("{id} (pid {pid}) has ended ({how})");
            } else {
                telemetry::error!(
                    "{id} (pid {pid}) died ({how}): {} request(s) it had begun got 502 or were cut \
                     off, {} it had not begun go to another worker",
                    loss.begun,
                    loss.put_back,
                );
            }
            self.follow(End::Died { lived: ready.elapsed(), finished: loss.finished });
        } else if worker.draining || self.phase != Phase::Running {
            telemetry::debug!("{id} (pid {pid}) was ended while it was loading");
        } else {
            telemetry::error!("{id} (pid {pid}) ended before the application was loaded ({how})");
            self.follow(End::NeverReady);
        }
    }

    fn follow(&mut self, end: End) {
        if self.phase != Phase::Running {
            return;
        }
        let others = self.workers.len();
        match self.policy.judge(end, others, self.config.keep_alive) {
            Verdict::GoOn => telemetry::warn!("{others} worker(s) left"),
            Verdict::Replace(delay) => {
                if !delay.is_zero() {
                    telemetry::warn!("the next worker starts in {:.1} s", delay.as_secs_f64());
                }
                self.replacements.push(Instant::now() + delay);
            }
            Verdict::Stop(exit) => {
                telemetry::error!("cannot go on (exit code {})", exit.code());
                self.fail(exit);
            }
        }
    }
}

fn kill(worker: &mut Worker) {
    if worker.exited.is_none() {
        // It fails only for a process that has ended already.
        let _ = worker.child.kill();
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (_, Some(signal)) => {
            let name = Signal::try_from(signal).map_or("unknown", Signal::as_str);
            format!("killed by signal {signal}, {name}")
        }
        _ => status.to_string(),
    }
}
