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

    /// How long the service manager waits for a sign of life, if it does.
    pub fn watchdog(&self) -> Option<Duration> {
        self.0.notify.as_ref().and_then(Notify::watchdog)
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

    /// How it is, in one line.
    pub fn status(&self, line: &str) {
        self.notify(&format!("STATUS={line}"));
    }

    /// Every part of the instance lives.
    pub fn alive(&self) {
        self.notify("WATCHDOG=1");
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
