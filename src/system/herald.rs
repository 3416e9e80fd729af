//! Tells whoever waits for it how the instance is: a service manager, the process that has started a daemon, both or none.

use std::sync::Arc;
use std::time::Duration;

use super::Notify;
use super::Report;

/// The voices of an instance. Its clones are the same herald.
#[derive(Debug, Clone, Default)]
pub struct Herald(Arc<Voices>);

#[derive(Debug, Default)]
struct Voices {
    notify: Option<Notify>,
    report: Option<Report>,
}

impl Herald {
    /// One that tells these.
    pub fn new(notify: Option<Notify>, report: Option<Report>) -> Self {
        Self(Arc::new(Voices { notify, report }))
    }

    /// How long the service manager, if there is one, waits for a sign of life; for ever mostly.
    pub fn patience(&self) -> Option<Duration> {
        self.0.notify.as_ref().map(|notify| notify.watchdog().unwrap_or(Duration::MAX))
    }

    /// The first worker is ready and the links are open, or a reload is over.
    pub fn serving(&self) {
        self.notify("READY=1");
        if let Some(report) = &self.0.report {
            report.serving();
        }
    }

    /// A reload begins.
    pub fn reloading(&self) {
        if let Some(notify) = &self.0.notify {
            notify.reloading();
        }
    }

    /// The end begins.
    pub fn stopping(&self) {
        self.notify("STOPPING=1");
    }

    /// Every part of the instance lives; `line` says how it is.
    pub fn alive(&self, line: &str) {
        self.notify(&format!("WATCHDOG=1\nSTATUS={line}"));
    }

    /// It ends with this exit code.
    pub fn ended(&self, code: u8) {
        if let Some(report) = &self.0.report {
            report.ended(code);
        }
    }

    fn notify(&self, lines: &str) {
        if let Some(notify) = &self.0.notify {
            notify.send(lines);
        }
    }
}
