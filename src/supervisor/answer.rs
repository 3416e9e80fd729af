//! What the supervisor does when it is asked over the control socket.

use std::time::Instant;

use super::Exit;
use super::Reloaded;
use super::reload::MOST_WORKERS;
use super::reload::Told;
use super::run::Phase;
use super::run::Supervisor;
use super::stacks;
use super::watch::count;
use crate::admin::Ask;
use crate::admin::Instance;
use crate::admin::Process;
use crate::admin::Reply;
use crate::admin::Wish;
use crate::dispatch::AskStacks;
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
            Wish::Reload {} => {
                telemetry::info!("told to reload ({asker})");
                self.reload(Some(Told::new(|outcome| match outcome {
                    Reloaded::Done => reply.done("reloaded"),
                    Reloaded::Failed(why) => {
                        reply.refuse(format!("reload failed, nothing has changed: {why}"));
                    }
                })));
            }
            // The dispatcher answers; nobody waits for it here.
            Wish::Stacks {} => self.dispatcher.tell(Command::AskStacks(AskStacks::new(|told| {
                reply.done(stacks::text(&told));
            }))),
            Wish::LogLevel { level } => {
                self.set_log_level(level);
                let word = level.as_str();
                telemetry::info!("told to log from level {word} ({asker})");
                reply.done(format!("log level {word}"));
            }
            Wish::Scale { workers } => self.told_to_scale(workers, &asker, reply),
        }
    }

    fn told_to_scale(&mut self, workers: u32, asker: &str, reply: Reply) {
        if self.phase != Phase::Running {
            return reply.refuse("it is stopping");
        }
        let Ok(wanted @ 1..=MOST_WORKERS) = usize::try_from(workers) else {
            return reply.refuse(format!("an instance has 1 to {MOST_WORKERS} workers"));
        };
        telemetry::info!("told to scale ({asker})");
        let before = self.wanted;
        self.scale(wanted);
        reply.done(if before == wanted {
            format!("{} already", count(wanted, "worker"))
        } else {
            format!("scaling from {before} to {}", count(wanted, "worker"))
        });
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
            (*id, Process { pid: worker.process.id(), age })
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
            wanted: self.wanted,
            workers: workers.collect(),
            restarts: self.restarts.iter().map(|(why, times)| (why.as_str(), times)).collect(),
        }
    }
}
