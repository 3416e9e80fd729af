//! Processes that have ended: workers, and those that the first process of a container inherits. What follows from the end
//! of a worker stands in `watch.rs`.

use nix::sys::wait::Id;
use nix::sys::wait::WaitPidFlag;
use nix::sys::wait::waitid;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::run::Supervisor;
use super::watch::Worker;
use crate::dispatch::Command;
use crate::telemetry;

impl Supervisor {
    pub(super) fn reap(&mut self) {
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
        if std::process::id() == 1 {
            self.reap_strays();
        }
    }

    /// The first process of a container inherits all that lose their parents, and nobody else will bury them.
    fn reap_strays(&self) {
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        while let Ok(Some(pid)) = waitid(Id::All, look).map(|status| status.pid()) {
            let is_worker = |worker: &Worker| Pid::from_raw(worker.child.id().cast_signed()) == pid;
            if self.workers.values().any(is_worker) {
                // It has ended this moment; its own signal is on the way, and the others come after it.
                return;
            }
            telemetry::debug!("buried a process that had lost its parent (pid {pid})");
            if waitpid(pid, Some(WaitPidFlag::WNOHANG)).is_err() {
                return;
            }
        }
    }
}
