//! What happens while `serve` runs: one thread that waits for signals, for what the instance says, and for the time.

use std::ffi::OsString;
use std::io;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use std::time::Instant;

use nix::sys::signal::Signal;
use signal_hook::consts::SIGCHLD;

use super::child::Process;
use super::listen::Listener;
use super::news::News;
use super::news::listen;
use super::place::Place;
use super::place::handed_on;
use super::place::says_ready;
use super::policy::Verdict;
use crate::cli::Both;
use crate::cli::BothAgain;
use crate::config::Bind;
use crate::supervisor::Exit;
use crate::supervisor::Interpreter;
use crate::system::Notify;
use crate::system::PidFile;
use crate::telemetry;

/// What an instance may take to end beyond the graceful timeout, which it keeps itself.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Signals that come so close together are one wish: `timeout` and some shells send to the process and to its group.
const SAME_WISH: Duration = Duration::from_millis(200);

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The application is being loaded; nobody can connect.
    Loading,
    Serving,
    /// The front end finishes what it has, at the latest then.
    FrontLeaves(Instant),
    /// The instance ends, at the latest then.
    InstanceLeaves(Instant),
}

/// What `serve` has of its system.
pub(super) struct Held {
    pub(super) pid_file: Option<PidFile>,
    pub(super) place: Place,
    /// Whoever wants to know how it is.
    pub(super) above: Option<Notify>,
    /// Whether a terminal started us; its end is then ours.
    pub(super) terminal: bool,
}

/// Everything that was started.
pub(super) struct Serve {
    listeners: Vec<Listener>,
    place: Place,
    pub(super) above: Option<Notify>,
    /// Removed with the rest.
    _pid_file: Option<PidFile>,
    interpreter: Interpreter,
    pub(super) again: BothAgain,
    pub(super) bind: Vec<Bind>,
    pub(super) log_file: Option<PathBuf>,
    instance_words: Vec<OsString>,
    front_words: Vec<OsString>,
    notify: PathBuf,
    account: Option<[(&'static str, OsString); 3]>,
    pub(super) front: Process,
    pub(super) instance: Process,
    phase: Phase,
    exit: u8,
    pub(super) grace: Duration,
    /// When it was told to end.
    asked: Instant,
    /// Whether a terminal started us; its end is then ours.
    terminal: bool,
    news: Receiver<News>,
}

impl Serve {
    pub(super) fn start(
        both: Both,
        listeners: Vec<Listener>,
        held: Held,
        interpreter: Interpreter,
    ) -> io::Result<Serve> {
        let Held { pid_file, place, above, terminal } = held;
        let (sender, news) = mpsc::channel();
        let (notices, notify) = place.notify()?;
        listen(sender, notices)?;
        let [requests, responses] = place.endpoints();
        let (any_upload, any_upload_dir) = (both.any_upload, both.any_upload_dir);
        let Both { config, front, mut instance_words, mut front_words, again, .. } = both;
        for (name, endpoint) in [("--recv", &requests), ("--send", &responses)] {
            instance_words.extend([name.into(), endpoint.into()]);
        }
        front_words.extend(["--route".into(), format!("/={requests},{responses}").into()]);
        // Bytes of a client's header that are not UTF-8 come through as they are, which JSON cannot do.
        front_words.push("--protocol=tnetstring".into());
        if any_upload {
            // Here both sides can reach a directory: a slow client then holds no slot while its body comes.
            front_words.push("--upload=files".into());
            if any_upload_dir {
                let mut words = OsString::from("--upload-dir=");
                words.push(place.uploads()?);
                front_words.push(words);
            }
        }
        let identity = config.process.identity.as_ref();
        let account = identity.and_then(|identity| identity.account.as_ref()).map(|account| {
            let name = OsString::from(&account.name);
            [("HOME", account.home.clone().into()), ("USER", name.clone()), ("LOGNAME", name)]
        });
        let mut serve = Serve {
            listeners,
            place,
            above,
            _pid_file: pid_file,
            interpreter,
            again,
            bind: front.clients.bind,
            log_file: config.log.log_file,
            instance_words,
            front_words,
            notify,
            account,
            front: Process::new("front end"),
            instance: Process::new("instance"),
            phase: Phase::Loading,
            exit: 0,
            grace: config.limits.graceful_timeout,
            asked: Instant::now(),
            terminal,
            news,
        };
        serve.start_instance()?;
        serve.start_front()?;
        Ok(serve)
    }

    /// Until everything has ended; gives the exit code.
    pub(super) fn run(mut self) -> u8 {
        while self.front.is_running() || self.instance.is_running() || !self.is_leaving() {
            let pause = self.deadline().map(|at| at.saturating_duration_since(Instant::now()));
            let news = match pause {
                Some(pause) => self.news.recv_timeout(pause),
                None => self.news.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match news {
                Ok(News::Signal(SIGCHLD)) => self.reap(),
                Ok(News::Signal(signal)) => self.signal(signal),
                Ok(News::Notice(message)) => self.notice(&message),
                Err(RecvTimeoutError::Timeout) => self.keep_time(),
                Err(RecvTimeoutError::Disconnected) => {
                    telemetry::error!("signals are no longer heard");
                    self.front.signal(Signal::SIGKILL);
                    self.instance.signal(Signal::SIGKILL);
                    return Exit::Internal.code();
                }
            }
        }
        self.exit
    }

    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::FrontLeaves(_) | Phase::InstanceLeaves(_))
    }

    fn deadline(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Loading | Phase::Serving => None,
            Phase::FrontLeaves(at) | Phase::InstanceLeaves(at) => Some(at),
        };
        [phase, self.front.again, self.instance.again].into_iter().flatten().min()
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        match self.phase {
            Phase::FrontLeaves(at) if now >= at => {
                telemetry::warn!(
                    "the front end does not end within the graceful timeout; killing it"
                );
                self.front.signal(Signal::SIGKILL);
                self.phase = Phase::FrontLeaves(now + LAST_WORDS);
            }
            Phase::InstanceLeaves(at) if now >= at => {
                telemetry::warn!("the instance does not end; killing it");
                self.instance.signal(Signal::SIGKILL);
                self.phase = Phase::InstanceLeaves(now + LAST_WORDS);
            }
            _ => {}
        }
        if due(self.front.again) {
            self.retry(Self::start_front);
        }
        if due(self.instance.again) {
            self.retry(Self::start_instance);
        }
    }

    fn retry(&mut self, start: fn(&mut Serve) -> io::Result<()>) {
        if let Err(error) = start(self) {
            telemetry::error!("cannot start it again: {error}");
            self.leave(Exit::Failed.code());
        }
    }

    fn start_instance(&mut self) -> io::Result<()> {
        let account = self.account.clone().into_iter().flatten();
        let settle = |command: &mut Command| {
            command.envs(account);
        };
        self.instance.start_instance(&self.interpreter, &self.instance_words, &self.notify, settle)
    }

    fn start_front(&mut self) -> io::Result<()> {
        self.place.clear_endpoints();
        let sockets = self.listeners.iter().map(Listener::copy).collect::<io::Result<_>>()?;
        self.front.start_front(&self.interpreter, &self.front_words, sockets)?;
        if self.phase == Phase::Serving {
            self.front.go();
        }
        Ok(())
    }

    fn notice(&mut self, message: &str) {
        if self.phase == Phase::Loading && says_ready(message) {
            for listener in &self.listeners {
                if let Err(error) = listener.open() {
                    telemetry::error!("cannot listen at {listener}: {error}");
                    return self.leave(Exit::Failed.code());
                }
            }
            self.front.go();
            self.phase = Phase::Serving;
            let lines = self
                .listeners
                .iter()
                .fold(String::new(), |lines, listener| lines + &format!("serving at {listener}\n"));
            // A reader that has gone away does not want to know.
            let _ = io::stdout().write_all(lines.as_bytes());
        }
        if let Some(above) = &self.above {
            above.send(&handed_on(message));
        }
    }

    fn signal(&mut self, signal: i32) {
        let name = Signal::try_from(signal).unwrap_or(Signal::SIGTERM);
        match name {
            Signal::SIGTTIN | Signal::SIGTTOU => return self.instance.signal(name),
            Signal::SIGHUP if !self.terminal => return self.reload(),
            Signal::SIGUSR1 => return self.reopen_logs(),
            // What other servers take as a wish that we do not have.
            Signal::SIGUSR2 => return,
            _ => {}
        }
        if self.is_leaving() {
            if self.asked.elapsed() < SAME_WISH {
                return;
            }
            telemetry::warn!("{name}: ending at once");
            self.exit = Exit::Failed.code();
            self.front.signal(Signal::SIGKILL);
            self.instance.signal(Signal::SIGTERM);
            if let Phase::InstanceLeaves(_) = self.phase {
                self.phase = Phase::InstanceLeaves(Instant::now() + LAST_WORDS);
            } else {
                self.grace = Duration::ZERO;
            }
            return;
        }
        telemetry::info!("{name}: stopping; requests have {} s", self.grace.as_secs_f64());
        self.asked = Instant::now();
        self.leave(Exit::Stopped.code());
    }

    /// Begins to end: the front end first, with the instance still there to answer.
    fn leave(&mut self, exit: u8) {
        if self.is_leaving() {
            return;
        }
        self.exit = exit;
        (self.front.again, self.instance.again) = (None, None);
        // Clients that come now are refused, and not left waiting in the kernel.
        self.listeners.clear();
        self.phase = Phase::FrontLeaves(Instant::now() + self.grace);
        if self.front.is_running() {
            self.front.signal(Signal::SIGTERM);
        } else {
            self.leave_instance();
        }
    }

    fn leave_instance(&mut self) {
        self.phase = Phase::InstanceLeaves(Instant::now() + self.grace + LAST_WORDS);
        self.instance.signal(Signal::SIGTERM);
    }

    fn reap(&mut self) {
        match self.front.ended() {
            Ok(Some((_, _))) if matches!(self.phase, Phase::FrontLeaves(_)) => {
                self.leave_instance();
            }
            Ok(Some((status, lived))) if !self.is_leaving() => {
                telemetry::error!("the front end died ({status}); its connections are lost");
                match self.front.deaths.died(lived) {
                    Verdict::Again(pause) => self.front.again = Some(Instant::now() + pause),
                    Verdict::Enough => {
                        telemetry::error!("it dies again and again: ending");
                        self.leave(Exit::Failed.code());
                    }
                }
            }
            Ok(_) => {}
            Err(error) => telemetry::error!("cannot wait for the front end: {error}"),
        }
        match self.instance.ended() {
            Ok(Some((status, lived))) => self.instance_ended(status, lived),
            Ok(None) => {}
            Err(error) => telemetry::error!("cannot wait for the instance: {error}"),
        }
    }

    /// An instance that ends with an exit code knows why: all ends with it. One that was killed is started again.
    fn instance_ended(&mut self, status: std::process::ExitStatus, lived: Duration) {
        match (status.code(), self.phase) {
            (Some(code), Phase::InstanceLeaves(_)) => {
                if self.exit == 0 {
                    self.exit = u8::try_from(code).unwrap_or(Exit::Failed.code());
                }
            }
            (Some(code), _) => self.leave(u8::try_from(code).unwrap_or(Exit::Failed.code())),
            (None, Phase::Loading | Phase::Serving) => {
                let signal = status.signal().and_then(|signal| Signal::try_from(signal).ok());
                let by = signal.map_or("a signal", Signal::as_str);
                telemetry::error!("the instance died ({by}); what it had is answered 502");
                match self.instance.deaths.died(lived) {
                    Verdict::Again(pause) => self.instance.again = Some(Instant::now() + pause),
                    Verdict::Enough => {
                        telemetry::error!("it dies again and again: ending");
                        self.leave(Exit::Failed.code());
                    }
                }
            }
            (None, _) => self.exit = Exit::Failed.code(),
        }
    }
}
