//! What changes while the front end runs: its settings, and the files of its logs.

use std::rc::Rc;

use super::run::raise_descriptor_limit;
use super::shared::Shared;
use crate::config::Front;
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
