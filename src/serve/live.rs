//! What changes while `serve` runs: settings, and the files of logs. Front end and instance each do their part.

use nix::sys::signal::Signal;

use super::run::Serve;
use crate::telemetry;

impl Serve {
    /// Has front end and instance read the file again, if nothing is wrong with it: neither is to go ahead alone.
    pub(super) fn reload(&mut self) {
        if self.is_leaving() {
            return;
        }
        match self.again.read(super::environment) {
            Ok(both) => {
                for warning in &both.warnings {
                    telemetry::warn!("{warning}");
                }
                if both.front.clients.bind != self.bind {
                    telemetry::warn!("bind has changed: it needs a restart, and stays as it was");
                }
                telemetry::set_format(both.config.log.log_format);
                telemetry::set_level(both.config.log.log_level);
                self.grace = both.config.limits.graceful_timeout;
                self.front.signal(Signal::SIGHUP);
                self.instance.signal(Signal::SIGHUP);
            }
            Err(faults) => {
                for fault in faults {
                    telemetry::error!("{fault}");
                }
                telemetry::error!("reload failed: the settings are wrong; nothing has changed");
                if let Some(above) = &self.above {
                    // Whoever has asked for it waits for both.
                    above.reloading();
                    above.send("READY=1");
                }
            }
        }
    }

    /// Opens the log file anew, as it was renamed, and has front end and instance do so with all of theirs.
    pub(super) fn reopen_logs(&self) {
        if let Some(path) = &self.log_file
            && let Err(error) = telemetry::reopen(path)
        {
            let shown = path.display();
            telemetry::error!("cannot open the log file {shown} anew: {error}; the old one stays");
        }
        for process in [&self.front, &self.instance] {
            process.signal(Signal::SIGUSR1);
        }
    }
}
