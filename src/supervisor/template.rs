//! Templates: Python processes that have the application loaded and fork workers of it (`--preload`).
//!
//! There is one for the code that is served, and during a reload one for the new code, which so is proven before anything
//! else is touched. A template forks twice: its workers become children of the instance (the subreaper), which waits for
//! them as for any other, and lives on with them when the template dies.

use std::io;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::process::ExitStatus;
use std::thread;
use std::time::Instant;

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use nix::sys::socket::AddressFamily;
use nix::sys::socket::ControlMessage;
use nix::sys::socket::MsgFlags;
use nix::sys::socket::Shutdown;
use nix::sys::socket::SockFlag;
use nix::sys::socket::SockType;
use nix::unistd::Pid;
use serde::Deserialize;

use super::policy::End;
use super::process::Process;
use super::run::Supervisor;
use super::spawn;
use super::watch::Worker;
use crate::bridge::Board;
use crate::dispatch::Command;
use crate::dispatch::WorkerId;
use crate::telemetry;

/// No message of a template is longer.
const LONGEST: usize = 512 * 1024;

/// What a template says.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Said {
    /// It has loaded the application.
    Ready { ready: bool },
    /// It cannot, or must not be forked.
    Failed { failed: String },
    /// A worker was forked.
    Forked { worker: u32, pid: i32 },
    /// A worker could not be forked.
    Refused { worker: u32, refused: String },
    /// It has gone.
    #[serde(skip)]
    Ended,
}

/// What templates say, by their number; both ends.
pub(super) type Sayings = (Sender<(u32, Said)>, Receiver<(u32, Said)>);

/// A template process. Dropping it ends it; its workers live on.
#[derive(Debug)]
pub(super) struct Template {
    number: u32,
    /// Of the code it has loaded.
    pub(super) generation: u32,
    child: Child,
    control: OwnedFd,
    started: Instant,
    ready: bool,
    /// When it is killed because it still loads.
    pub(super) patience: Option<Instant>,
}

impl Drop for Template {
    fn drop(&mut self) {
        // The reader of what it says ends by this, whoever else may hold the other end.
        let _ = nix::sys::socket::shutdown(self.control.as_raw_fd(), Shutdown::Both);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Template {
    /// Its process.
    pub(super) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Asks for a worker. Both descriptors are the worker's to keep.
    fn ask(&self, id: WorkerId, bridge: &OwnedFd, board: &Board) -> io::Result<()> {
        let fds = [bridge.as_raw_fd(), board.fd().as_raw_fd()];
        let number = id.0.to_string();
        nix::sys::socket::sendmsg::<()>(
            self.control.as_raw_fd(),
            &[IoSlice::new(number.as_bytes())],
            &[ControlMessage::ScmRights(&fds)],
            MsgFlags::MSG_NOSIGNAL,
            None,
        )?;
        Ok(())
    }

    /// Gives it the log file that was opened anew, for itself and those that it forks.
    pub(super) fn hand_log(&self, log: BorrowedFd<'_>) -> io::Result<()> {
        nix::sys::socket::sendmsg::<()>(
            self.control.as_raw_fd(),
            &[IoSlice::new(b"log")],
            &[ControlMessage::ScmRights(&[log.as_raw_fd()])],
            MsgFlags::MSG_NOSIGNAL,
            None,
        )?;
        Ok(())
    }
}

/// Hands on what a template says, until it has gone.
fn listen(number: u32, control: &OwnedFd, said: &Sender<(u32, Said)>) {
    let mut buffer = vec![0; LONGEST];
    loop {
        let message =
            match nix::sys::socket::recv(control.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Err(nix::errno::Errno::EINTR) => continue,
                Ok(len) if len > 0 => serde_json::from_slice(&buffer[..len]).unwrap_or(Said::Ended),
                Ok(_) | Err(_) => Said::Ended,
            };
        let ended = matches!(message, Said::Ended);
        if said.send((number, message)).is_err() || ended {
            return;
        }
    }
}

impl Supervisor {
    /// What has loaded the code that new workers are to have, once it has; starts it if it is not there.
    fn template(&mut self) -> Option<&Template> {
        let generation = self.template_generation();
        let there = self.templates.iter().position(|t| t.generation == generation);
        // After a failure a pause is made, as with workers.
        if there.is_none() && self.put_off.is_empty() {
            self.start_template(generation);
        }
        let template = there.and_then(|at| self.templates.get(at));
        template.filter(|template| template.ready)
    }

    /// Outside of a reload the newest code that was proven.
    fn template_generation(&self) -> u32 {
        if self.reloads.now.is_some() { self.reloads.generation() } else { self.proven }
    }

    fn start_template(&mut self, generation: u32) {
        self.last_template += 1;
        let number = self.last_template;
        match self.try_start_template(number, generation) {
            Ok(template) => self.templates.push(template),
            Err(why) => {
                telemetry::error!("cannot start a template: {why}");
                self.came_to_nothing(generation, End::NeverReady, &why.to_string());
            }
        }
    }

    fn try_start_template(&self, number: u32, generation: u32) -> io::Result<Template> {
        nix::sys::prctl::set_child_subreaper(true)?;
        let (control, theirs) = nix::sys::socket::socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?;
        let config = self.newest_config();
        let settings = serde_json::to_vec(&config.worker_settings(0)).map_err(io::Error::other)?;
        let child = spawn::spawn_template(&self.interpreter, &self.config.process, theirs)?;
        let ours = control.as_fd().try_clone_to_owned()?;
        nix::sys::socket::send(control.as_raw_fd(), &settings, MsgFlags::MSG_NOSIGNAL)?;
        let said = self.said.0.clone();
        let thread = thread::Builder::new().name("lurcher-template".to_owned());
        thread.spawn(move || listen(number, &ours, &said))?;
        let started = Instant::now();
        let patience = started.checked_add(config.workers.start_timeout);
        Ok(Template { number, generation, child, control, started, ready: false, patience })
    }

    /// Asks for a worker with these settings. None: the template is not ready, and its news lead to another try.
    pub(super) fn fork(
        &mut self,
        id: WorkerId,
        slots: usize,
    ) -> Option<io::Result<spawn::Started>> {
        let template = self.template()?;
        let fork = || {
            let (bridge, theirs) = spawn::bridge()?;
            let board = Board::create(slots)?;
            template.ask(id, &theirs, &board)?;
            Ok(spawn::Started { process: Process::asked_for(template.number), bridge, board })
        };
        Some(fork())
    }

    /// A template has said something.
    pub(super) fn template_said(&mut self, number: u32, said: Said) {
        match said {
            Said::Forked { worker, pid } => self.forked(WorkerId(worker), Pid::from_raw(pid)),
            Said::Refused { worker, refused } => {
                telemetry::error!("{} cannot be forked: {refused}", WorkerId(worker));
                self.unborn(WorkerId(worker));
            }
            Said::Ready { ready } => {
                if let Some(template) = self.templates.iter_mut().find(|t| t.number == number) {
                    let took = template.started.elapsed().as_secs_f64();
                    template.ready = ready;
                    template.patience = None;
                    let pid = template.child.id();
                    telemetry::info!(
                        "the template (pid {pid}) has loaded the application after {took:.2} s"
                    );
                }
            }
            Said::Failed { failed } => {
                if let Some(template) = self.remove_template(number) {
                    let title = format!(
                        "template (pid {}): the application did not load",
                        template.child.id()
                    );
                    telemetry::error_block(&title, &failed);
                    self.came_to_nothing(template.generation, End::LoadFailed, &failed);
                }
            }
            Said::Ended => {
                if let Some(template) = self.remove_template(number) {
                    let (pid, ready) = (template.child.id(), template.ready);
                    if self.may_spawn() {
                        telemetry::error!("the template (pid {pid}) has died; its workers go on");
                    }
                    let generation = template.generation;
                    drop(template);
                    if !ready {
                        let why = "the template died before it had loaded the application";
                        self.came_to_nothing(generation, End::NeverReady, why);
                    }
                }
                self.forget_unborn(number);
                self.reap();
            }
        }
    }

    fn remove_template(&mut self, number: u32) -> Option<Template> {
        let at = self.templates.iter().position(|t| t.number == number)?;
        Some(self.templates.swap_remove(at))
    }

    fn forked(&mut self, id: WorkerId, pid: Pid) {
        let status = self.strangers.remove(&pid.as_raw());
        let Some(worker) = self.workers.get_mut(&id) else { return };
        telemetry::debug!("{id} forked (pid {pid})");
        worker.process.is_pid(pid, status.is_none());
        if let Some(status) = status {
            // It has died before we knew it.
            self.ended(id, status);
        }
    }

    /// This one will not come to be.
    fn unborn(&mut self, id: WorkerId) {
        self.ended(id, ExitStatus::from_raw(1 << 8));
    }

    /// Who was asked for and not named by a template that is gone.
    fn forget_unborn(&mut self, template: u32) {
        let nameless =
            self.workers.iter().filter(|(_, w)| w.process.awaited_from() == Some(template));
        let nameless: Vec<WorkerId> = nameless.map(|(id, _)| *id).collect();
        for id in nameless {
            self.unborn(id);
        }
    }

    /// The template of this generation is the one for new workers from now on; others are of no use any more.
    pub(super) fn keep_template(&mut self, generation: u32) {
        self.proven = generation;
        self.templates.retain(|template| template.generation == generation);
    }

    /// A process has ended that was to be a worker.
    pub(super) fn ended(&mut self, id: WorkerId, status: ExitStatus) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.exited = Some(status);
            self.dispatcher.tell(Command::WorkerExited(id));
            self.bury(id);
        }
    }

    /// Ends templates that load for too long.
    pub(super) fn end_templates(&mut self, now: Instant) {
        let late = |w: &Worker| w.patience.is_some_and(|at| at <= now);
        let stuck: Vec<u32> = self
            .workers
            .values()
            .filter(|w| late(w))
            .filter_map(|w| w.process.awaited_from())
            .collect();
        for template in &mut self.templates {
            if stuck.contains(&template.number) {
                telemetry::error!("the template forks no workers; killing it");
                let _ = template.child.kill();
            }
            if template.patience.is_some_and(|at| at <= now) {
                template.patience = None;
                let took = template.started.elapsed().as_secs_f64();
                telemetry::error!("the template is not ready after {took:.1} s; killing it");
                let _ = template.child.kill();
            }
        }
    }
}
