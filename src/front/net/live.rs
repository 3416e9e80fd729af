//! What changes while the front end runs: its settings, and the files of its logs.

use std::rc::Rc;

use super::run::raise_descriptor_limit;
use super::shared::Shared;
use crate::config::Front;
use crate::front::core::Limits;
use crate::front::core::RouteId;
use crate::front::host::Host;
use crate::telemetry;

/// Reads the settings again. What can change at once does; of the rest the log says that it waits for a restart. With a
/// fault nothing changes.
pub(super) fn reload(shared: &Shared, host: &dyn Host) {
    host.reloading();
    match host.settings() {
        Ok(new) => adopt(shared, new),
        Err(faults) => {
            for fault in faults {
                telemetry::error!("{fault}");
            }
            telemetry::error!("reload failed: the settings are wrong; nothing has changed");
        }
    }
    host.serving();
}

fn adopt(shared: &Shared, new: Front) {
    let old = shared.config();
    for warning in new.warnings.iter().filter(|line| !old.warnings.contains(line)) {
        telemetry::warn!("{warning}");
    }
    for name in old.frozen_changes(&new) {
        telemetry::warn!("{name} has changed: it needs a restart, and stays as it was");
    }
    let mut config = Front::clone(&old);
    config.adopt(new);
    telemetry::set_format(config.log.log_format);
    telemetry::set_level(config.log.log_level);
    raise_descriptor_limit(&config);
    shared.set_config(Rc::new(config));
    telemetry::info!("reloaded: the settings are read again");
}

/// Opens the log file and the access log anew, as they were renamed.
pub(super) fn reopen(shared: &Shared) {
    if let Some(path) = &shared.config().log.log_file
        && let Err(error) = telemetry::reopen(path)
    {
        let shown = path.display();
        telemetry::error!("cannot open the log file {shown} anew: {error}; the old one stays");
    }
    shared.record.reopen();
}

/// What bounds the core.
pub(super) fn limits(config: &Front) -> Limits {
    let handlers = &config.handlers;
    Limits {
        peer_window: handlers.peer_window,
        queue_limit: handlers.queue_limit,
        queue_timeout: handlers.queue_timeout,
        retry: handlers.retry,
    }
}

impl Shared {
    /// From now on these hold; requests that are under way go on with those that they began with.
    pub(crate) fn set_config(&self, config: Rc<Front>) {
        self.with_core(|core| core.set_limits(limits(&config)));
        self.config.replace(config);
    }

    /// How things are, in a line.
    pub(crate) fn status(&self) -> String {
        let core = self.core.borrow();
        let handlers: usize = (0..self.routes.len()).map(|route| core.peers(RouteId(route))).sum();
        let state = if self.stopping() { "stopping" } else { "serving" };
        format!(
            "{state}: handlers: {handlers}, connections: {}, requests: {}, of these under way: {}",
            self.connections(),
            core.counters().requests,
            core.under_way(),
        )
    }
}
