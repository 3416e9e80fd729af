//! What the supervisor does when it is asked over the control socket.

use std::time::Instant;

use super::Exit;
use super::run::Phase;
use super::run::Supervisor;
use crate::admin::Ask;
use crate::admin::Instance;
use crate::admin::Process;
use crate::admin::Reply;
use crate::admin::Wish;
use crate::dispatch::Command;
use crate::dispatch::Look;
use crate::telemetry;

impl Supervisor {
    /// Somebody asks for something.
    pub(super) fn asked(&mut self, ask: Ask) {
        let Ask { wish, asker, reply } = ask;
        match wish {
            Wish::Status {} => self.tell_status(reply),
            Wish::Stop {} => {
                if self.phase != Phase::Running {
                    reply.refuse("it is stopping already");
                    return;
                }
                let limit = self.config.limits.graceful_timeout;
                telemetry::info!(
                    "told to stop ({asker}): stopping; requests have {} s",
                    limit.as_secs_f64()
                );
                self.stop(Exit::Stopped);
                reply.done(format!("stopping; requests have {} s", limit.as_secs_f64()));
            }
        }
    }

    fn tell_status(&self, reply: Reply) {
        let instance = Box::new(self.instance());
        self.dispatcher.tell(Command::Look(Look::new(move |view| {
            reply.status(instance, Box::new(view));
        })));
    }

    fn instance(&self) -> Instance {
        let now = Instant::now();
        let workers = self.workers.iter().map(|(id, worker)| {
            let age = now.saturating_duration_since(worker.started);
            (*id, Process { pid: worker.child.id(), age })
        });
        Instance {
            pid: std::process::id(),
            application: self.config.application.wsgi_app.clone(),
            app_path: self.config.application.app_path.clone(),
            age: self.began.elapsed(),
            state: match self.phase {
                Phase::Running => "running",
                Phase::Leaving(_) => "leaving",
                Phase::Draining(_) => "draining",
            },
            queue_limit: self.config.limits.queue_limit,
            wanted: self.config.workers.workers,
            workers: workers.collect(),
            ended: self.ended.clone(),
        }
    }
}
