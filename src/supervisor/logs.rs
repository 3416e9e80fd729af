//! The logs of a running instance: their files opened anew, and how much is written.

use std::io;
use std::os::fd::AsFd;

use super::run::Supervisor;
use crate::config::Level;
use crate::dispatch::Command;
use crate::telemetry;

impl Supervisor {
    /// Opens the log file and the access log anew, as they were renamed; in all processes.
    pub(super) fn reopen_logs(&mut self) {
        let mut log = self.config.log.log_file.clone();
        if let Some(path) = &log {
            let shown = path.display();
            match telemetry::reopen(path) {
                Ok(()) => {
                    for template in &self.templates {
                        // One that has gone is heard of in another way.
                        let _ = template.hand_log(io::stderr().as_fd());
                    }
                }
                Err(error) => {
                    telemetry::error!(
                        "cannot open the log file {shown} anew: {error}; the old one stays"
                    );
                    log = None;
                }
            }
        }
        self.dispatcher.tell(Command::ReopenLogs(log));
    }

    /// Records of `level` and graver are written from now on, here and in all workers, until a reload says otherwise.
    pub(super) fn set_log_level(&mut self, level: Level) {
        self.put_log_level(level);
        telemetry::set_level(level);
        self.dispatcher.tell(Command::LogLevel(level));
    }
}
