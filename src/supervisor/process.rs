//! A process of a worker: started by the instance itself, or forked for it by a template.
//!
//! Both are children of the instance, which is the subreaper of its descendants where there is a template; so both are
//! waited for, and a pid names no other process while the worker is known.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::process::ExitStatus;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::Id;
use nix::sys::wait::WaitPidFlag;
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;

/// See the module's text.
#[derive(Debug)]
pub(super) enum Process {
    /// A child that was started by exec.
    Started(Child),
    /// Forked by a template.
    Forked {
        /// Which.
        template: u32,
        /// Unknown until the template has said it.
        pid: Option<Pid>,
        /// It is to be killed as soon as it is known.
        doomed: bool,
    },
}

impl Process {
    /// One that a template was asked for.
    pub(super) fn asked_for(template: u32) -> Process {
        Process::Forked { template, pid: None, doomed: false }
    }

    /// The template that was asked for it, as long as its pid is not known.
    pub(super) fn awaited_from(&self) -> Option<u32> {
        match self {
            Process::Forked { template, pid: None, .. } => Some(*template),
            _ => None,
        }
    }

    /// Its pid, or 0 as long as it is not known.
    pub(super) fn id(&self) -> u32 {
        match self {
            Process::Started(child) => child.id(),
            Process::Forked { pid, .. } => {
                pid.and_then(|pid| u32::try_from(pid.as_raw()).ok()).unwrap_or(0)
            }
        }
    }

    /// The template has said which process it is; `alive` if it has not been waited for.
    pub(super) fn is_pid(&mut self, known: Pid, alive: bool) {
        if let Process::Forked { pid, doomed, .. } = self {
            *pid = Some(known);
            if *doomed && alive {
                self.kill();
            }
        }
    }

    /// Kills it, now or as soon as it is known. Not for one that has been waited for.
    pub(super) fn kill(&mut self) {
        // It fails only for a process that has ended already.
        match self {
            Process::Started(child) => {
                let _ = child.kill();
            }
            Process::Forked { pid: Some(pid), .. } => {
                let _ = nix::sys::signal::kill(*pid, Signal::SIGKILL);
            }
            Process::Forked { doomed, .. } => *doomed = true,
        }
    }

    /// How it has ended, if it has.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            Process::Started(child) => child.try_wait(),
            Process::Forked { pid: Some(pid), .. } => wait_for(*pid),
            Process::Forked { .. } => Ok(None),
        }
    }
}

fn wait_for(pid: Pid) -> io::Result<Option<ExitStatus>> {
    match nix::sys::wait::waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
        // It is still the child of the fork between; that one's end tells us again.
        Err(Errno::ECHILD) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(status) => Ok(exit_status(status)),
    }
}

fn exit_status(status: WaitStatus) -> Option<ExitStatus> {
    match status {
        WaitStatus::Exited(_, code) => Some(ExitStatus::from_raw((code & 0xff) << 8)),
        WaitStatus::Signaled(_, signal, _) => Some(ExitStatus::from_raw(signal as i32)),
        _ => None,
    }
}

/// Waits for one child that has ended and that nobody knows: what a worker has left behind, or a worker whose pid has not
/// been told yet. `known` children are left to those who know them.
pub(super) fn reap_stranger(known: impl Fn(Pid) -> bool) -> Option<(Pid, ExitStatus)> {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let pid = nix::sys::wait::waitid(Id::All, look).ok()?.pid().filter(|pid| !known(*pid))?;
    let status = nix::sys::wait::waitpid(pid, Some(WaitPidFlag::WNOHANG)).ok()?;
    Some((pid, exit_status(status)?))
}
