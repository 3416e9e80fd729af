//! The two processes: how they are started, signalled and waited for.
//!
//! Each is the same command run again, in a process group of its own: a Ctrl-C reaches `serve` alone, which ends them in
//! order. They read nothing from the terminal.

use std::ffi::OsString;
use std::io;
use std::io::PipeWriter;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::time::Instant;

use command_fds::CommandFdExt;
use command_fds::FdMapping;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::policy::Deaths;
use crate::supervisor::Interpreter;
use crate::telemetry;

/// The first descriptor that a front end inherits.
const FIRST_FD: i32 = 3;

/// One of the two, running or not.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) name: &'static str,
    child: Option<Child>,
    began: Instant,
    pub(super) deaths: Deaths,
    /// When it is to be started again.
    pub(super) again: Option<Instant>,
    /// The other end is the front end's: a byte tells it to accept clients, the end that nobody is there any more.
    go: Option<PipeWriter>,
}

impl Process {
    pub(super) fn new(name: &'static str) -> Process {
        let (child, again, go) = (None, None, None);
        Process { name, child, began: Instant::now(), deaths: Deaths::default(), again, go }
    }

    fn started(&mut self, child: Child) {
        telemetry::debug!("{} started (pid {})", self.name, child.id());
        self.child = Some(child);
        self.began = Instant::now();
        self.again = None;
    }

    pub(super) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Starts the instance. `notify` is the path of the socket on which it is to say that it is ready.
    pub(super) fn start_instance(
        &mut self,
        interpreter: &Interpreter,
        words: &[OsString],
        notify: &Path,
        settle: impl FnOnce(&mut Command),
    ) -> io::Result<()> {
        let mut command = again(interpreter);
        command.args(words).env("NOTIFY_SOCKET", notify).env_remove("WATCHDOG_PID");
        settle(&mut command);
        self.started(command.spawn()?);
        Ok(())
    }

    /// Starts the front end with copies of the clients' sockets.
    pub(super) fn start_front(
        &mut self,
        interpreter: &Interpreter,
        words: &[OsString],
        sockets: Vec<OwnedFd>,
    ) -> io::Result<()> {
        let (theirs, go) = io::pipe()?;
        let mut command = again(interpreter);
        command.arg("front").args(words).env_remove("NOTIFY_SOCKET");
        // The protocol of systemd's socket activation, but for the process id, which nobody knows yet.
        command.args(["--bind", "systemd", "--wait"]).stdin(theirs);
        command.env("LISTEN_FDS", sockets.len().to_string());
        let mappings = (FIRST_FD..)
            .zip(sockets)
            .map(|(child_fd, parent_fd)| FdMapping { parent_fd, child_fd })
            .collect();
        command.fd_mappings(mappings).map_err(io::Error::other)?;
        self.started(command.spawn()?);
        self.go = Some(go);
        Ok(())
    }

    /// Tells the front end to accept clients.
    pub(super) fn go(&mut self) {
        if let Some(go) = &mut self.go {
            // It fails for a process that has ended; then its end is what counts.
            let _ = go.write_all(b"\n");
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            let pid = Pid::from_raw(child.id().cast_signed());
            // It has not been waited for, so the number is still its own.
            if let Err(error) = kill(pid, signal) {
                telemetry::warn!("cannot send {signal} to the {}: {error}", self.name);
            }
        }
    }

    /// How it ended and after how long, if it has ended since the last look.
    pub(super) fn ended(&mut self) -> io::Result<Option<(ExitStatus, std::time::Duration)>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let Some(status) = child.try_wait()? else { return Ok(None) };
        self.child = None;
        self.go = None;
        Ok(Some((status, self.began.elapsed())))
    }
}

/// The same command once more.
fn again(interpreter: &Interpreter) -> Command {
    let mut command = Command::new(&interpreter.executable);
    command.args(&interpreter.args).args(["-m", "lurcher"]);
    command.stdin(Stdio::null()).process_group(0);
    command.env(crate::system::SERVED_BY, std::process::id().to_string());
    // Sockets that were handed over are ours; the front end is told of its own.
    for variable in ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"] {
        command.env_remove(variable);
    }
    command
}
