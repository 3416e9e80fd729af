//! The supervisor's loop: start, watch, replace, stop.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::sys::stat::umask;
use signal_hook::consts::SIGCHLD;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::consts::SIGTTIN;
use signal_hook::consts::SIGTTOU;
use signal_hook::consts::SIGUSR1;
use signal_hook::consts::SIGUSR2;
use signal_hook::iterator::Signals;

use super::Exit;
use super::Interpreter;
use super::announce::Announcer;
use super::files::Files;
use super::policy::Policy;
use super::reason::Restarts;
use super::reload::Reloads;
use super::template::Sayings;
use super::template::Template;
use super::watch::Worker;
use super::watch::count;
use super::watch::kill;
use crate::admin;
use crate::admin::Ask;
use crate::config::Config;
use crate::config::Process;
use crate::dispatch::Command;
use crate::dispatch::Counters;
use crate::dispatch::Dispatcher;
use crate::dispatch::News;
use crate::dispatch::Settings;
use crate::dispatch::WorkerId;
use crate::system;
use crate::system::Herald;
use crate::system::PidFile;
use crate::telemetry;
use crate::telemetry::access::AccessLog;

/// How long last answers may take on their way to the front ends once everything else has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// Front ends are being left and what was taken is finished, until then.
    Leaving(Instant),
    /// Workers end, until then.
    Draining(Instant),
}

pub(super) struct Supervisor {
    pub(super) config: Config,
    pub(super) interpreter: Interpreter,
    pub(super) dispatcher: Dispatcher,
    pub(super) news: Receiver<News>,
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    pub(super) last_id: u32,
    pub(super) policy: Policy,
    /// Workers that should take requests.
    pub(super) wanted: usize,
    /// When workers are started that wait because those before them came to nothing.
    pub(super) put_off: Vec<Instant>,
    pub(super) reread: Reread,
    pub(super) files: Files,
    /// No worker is started before one of them has changed.
    pub(super) awaiting: bool,
    pub(super) reloads: Reloads,
    pub(super) restarts: Restarts,
    pub(super) templates: Vec<Template>,
    pub(super) last_template: u32,
    pub(super) said: Sayings,
    /// The newest generation that has loaded.
    pub(super) proven: u32,
    /// Children that have ended and that may turn out to be workers.
    pub(super) strangers: BTreeMap<i32, ExitStatus>,
    /// When the memory of workers is looked at, if that is wanted.
    pub(super) memory_at: Option<Instant>,
    pub(super) phase: Phase,
    pub(super) exit: Exit,
    pub(super) began: Instant,
    /// Removed with the supervisor, after the last worker has ended.
    _pid_file: Option<PidFile>,
    pub(super) announcer: Announcer,
    /// What is asked over the control socket.
    asks: Receiver<Ask>,
    /// Last: whoever waits for our end sees it when this is dropped.
    _admin: Option<admin::Server>,
}

/// Resolves the settings anew. If they are wrong it gives what is, one line each.
pub type Reread = Box<dyn Fn() -> Result<Config, Vec<String>>>;

/// Runs an instance until it is stopped or cannot go on. Signals: TERM and INT stop it, a second one at once; HUP reloads
/// application and settings (`reread`); TTIN and TTOU ask for one worker more or less;
/// USR1 opens the logs anew.
pub fn run(config: Config, interpreter: Interpreter, reread: Reread, herald: Herald) -> Exit {
    match start(config, interpreter, reread, herald) {
        Ok((supervisor, signals)) => supervisor.run(&signals),
        Err((what, why)) => {
            telemetry::error!("{what}: {why}");
            Exit::Failed
        }
    }
}

type Fault = (&'static str, String);

fn start(
    config: Config,
    interpreter: Interpreter,
    reread: Reread,
    herald: Herald,
) -> Result<(Supervisor, Receiver<i32>), Fault> {
    let pid_file = arrive(&config.process)?;
    let access_log = match &config.log.access_log {
        Some(target) => Some(
            AccessLog::open(target).map_err(|e| ("cannot open the access log", e.to_string()))?,
        ),
        None => None,
    };
    if let Some(log) = &access_log {
        system::give(log, config.process.identity.as_ref())
            .map_err(|e| ("cannot give the access log to another user", e.to_string()))?;
    }
    // Whatever only root can open is open by now, and there is no second thread yet.
    if let Some(identity) = &config.process.identity {
        system::become_identity(identity)
            .map_err(|e| ("cannot become another user", e.to_string()))?;
    }
    let signals = listen().map_err(|e| ("cannot listen to signals", e.to_string()))?;
    let (sender, news) = crossbeam_channel::unbounded();
    let settings = Settings {
        front_end: config.front_end.clone(),
        limits: config.limits.clone(),
        timeouts: config.timeouts.clone(),
        uploads: config.uploads.clone(),
        delivery: config.delivery.clone(),
        access_log,
        access_log_format: config.log.access_log_format,
        request_id_header: config.log.request_id_header.clone(),
        request_id_prefix: crate::config::request_id_prefix(),
    };
    let dispatcher = Dispatcher::start(settings, sender)
        .map_err(|e| ("cannot start the dispatcher", e.to_string()))?;
    let (asker, asks) = crossbeam_channel::unbounded();
    let admin = admin::Server::start(&config.admin, asker)
        .map_err(|e| ("cannot be asked anything", e.to_string()))?;
    // Without a server nobody asks; a closed channel would be ready for ever.
    let asks = if admin.is_some() { asks } else { crossbeam_channel::never() };
    let files = Files::watch(&config)
        .map_err(|e| ("cannot watch the application's files", e.to_string()))?;
    let wanted = config.workers.workers as usize;
    let supervisor = Supervisor {
        config,
        interpreter,
        dispatcher,
        news,
        workers: BTreeMap::new(),
        last_id: 0,
        policy: Policy::default(),
        wanted,
        put_off: Vec::new(),
        reread,
        files,
        awaiting: false,
        reloads: Reloads::default(),
        restarts: Restarts::default(),
        templates: Vec::new(),
        last_template: 0,
        said: crossbeam_channel::unbounded(),
        proven: 0,
        strangers: BTreeMap::new(),
        memory_at: Some(Instant::now()),
        phase: Phase::Running,
        exit: Exit::Stopped,
        began: Instant::now(),
        _pid_file: pid_file,
        announcer: Announcer::new(herald),
        asks,
        _admin: admin,
    };
    Ok((supervisor, signals))
}

/// Takes the instance's place in the system.
fn arrive(process: &Process) -> Result<Option<PidFile>, Fault> {
    if let Some(mask) = process.umask {
        umask(Mode::from_bits_truncate(mask));
    }
    let Some(path) = &process.pid_file else { return Ok(None) };
    let (pid_file, old) =
        PidFile::take(path).map_err(|e| ("cannot have the pid file", e.to_string()))?;
    if let Some(old) = old {
        telemetry::info!("{}: was left behind by pid {old}; taken over", path.display());
    }
    Ok(Some(pid_file))
}

/// Signals as messages. The handler itself only writes to a pipe.
fn listen() -> io::Result<Receiver<i32>> {
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2, SIGCHLD])?;
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
        let Config { workers, application, front_end, .. } = &self.config;
        telemetry::info!(
            "lurcher {}: {}, {} of {}, {}",
            env!("CARGO_PKG_VERSION"),
            application.wsgi_app,
            count(workers.workers as usize, "worker"),
            count(workers.threads as usize, "thread"),
            count(front_end.links.len(), "link"),
        );
        self.tend();
        self.announce();
        while !self.finished() {
            let pause = self.deadline().map(|at| at.saturating_duration_since(Instant::now()));
            let timer = pause.map_or_else(crossbeam_channel::never, crossbeam_channel::after);
            crossbeam_channel::select_biased! {
                recv(signals) -> signal => if let Ok(signal) = signal { self.signal(signal) },
                recv(self.news) -> news => match news {
                    Ok(news) => self.heard(news),
                    Err(_) => self.dispatcher_ended(),
                },
                recv(self.said.1) -> said => if let Ok((number, said)) = said {
                    self.template_said(number, said);
                },
                recv(self.files.changes) -> file => match file {
                    Ok(file) => self.file_changed(&file),
                    Err(_) => self.files.lost(),
                },
                recv(self.asks) -> ask => match ask {
                    Ok(ask) => self.asked(ask),
                    // Its thread has failed, and said so.
                    Err(_) => self.asks = crossbeam_channel::never(),
                },
                recv(timer) -> _ => {}
            }
            self.keep_time();
            self.tend();
            self.announce();
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
        let patience = self.workers.values().filter_map(|w| w.patience);
        let templates = self.templates.iter().filter_map(|t| t.patience);
        let patience = patience.chain(templates);
        let look = self.next_look().filter(|_| self.phase == Phase::Running);
        let told = self.announcer.deadline();
        let others = self.put_off.iter().copied().chain(patience);
        phase.into_iter().chain(others).chain(look).chain(told).min()
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        self.put_off.retain(|at| *at > now);
        self.end_templates(now);
        self.end_patience(now);
        self.look_for_worn(now);
        match self.phase {
            Phase::Leaving(at) if now >= at => self.enough("the graceful timeout is over"),
            Phase::Draining(at) if now >= at => {
                for (id, worker) in &mut self.workers {
                    telemetry::warn!("{id} (pid {}) does not end; killing it", worker.process.id());
                    kill(worker);
                }
                // Killed processes end; SIGCHLD tells.
                self.phase = Phase::Draining(now + Duration::from_secs(1));
            }
            _ => {}
        }
    }

    fn signal(&mut self, signal: i32) {
        let name = Signal::try_from(signal).map_or("a signal", Signal::as_str);
        let running = self.phase == Phase::Running;
        match signal {
            SIGCHLD => return self.reap(),
            SIGUSR1 => return self.reopen_logs(),
            SIGHUP => {
                telemetry::info!("{name}: reload");
                return self.reload(None);
            }
            SIGTTIN if running => return self.scale(self.wanted + 1),
            SIGTTOU if running => return self.scale(self.wanted.saturating_sub(1)),
            // Other servers are upgraded by the last one; here it means nothing.
            SIGTTIN | SIGTTOU | SIGUSR2 => return,
            _ => {}
        }
        if self.phase == Phase::Running {
            let limit = self.config.limits.graceful_timeout;
            telemetry::info!("{name}: stopping; requests have {} s", limit.as_secs_f64());
            self.stop(Exit::Stopped);
        } else {
            self.exit = Exit::Failed;
            self.enough(name);
        }
    }

    /// Leaves the front ends, lets what was taken be finished, and ends.
    pub(super) fn stop(&mut self, exit: Exit) {
        self.exit = exit;
        self.put_off.clear();
        self.forget_reloads();
        self.phase = Phase::Leaving(Instant::now() + self.config.limits.graceful_timeout);
        self.dispatcher.tell(Command::Leave);
    }

    /// Ends at once: what is still unanswered is answered 503, or cut off.
    fn enough(&mut self, why: &str) {
        telemetry::warn!("{why}: ending at once");
        self.put_off.clear();
        self.dispatcher.tell(Command::GiveUp);
        self.workers.values_mut().for_each(kill);
        self.phase = Phase::Draining(Instant::now() + LAST_WORDS);
    }

    /// The instance cannot go on.
    pub(super) fn fail(&mut self, exit: Exit) {
        if self.may_spawn() {
            self.exit = exit;
            self.forget_reloads();
            self.put_off.clear();
            self.dispatcher.tell(Command::GiveUp);
            self.phase = Phase::Leaving(Instant::now() + LAST_WORDS);
        }
    }

    pub(super) fn idle(&mut self, counters: Counters) {
        telemetry::info!(
            "requests received: {}, of these answered by the instance itself: {}; clients that left: {}; \
             malformed messages: {}",
            counters.requests,
            counters.refused,
            counters.clients_gone,
            counters.malformed,
        );
        if let Phase::Leaving(until) = self.phase {
            // Its last words may not outlast the graceful timeout, but they get a moment in any case.
            self.phase = Phase::Draining(until.max(Instant::now() + LAST_WORDS));
            let ids: Vec<_> = self.workers.keys().copied().collect();
            for id in ids {
                self.drain(id);
            }
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
}
