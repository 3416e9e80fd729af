//! Settings that were read again: what of them holds at once, and what has to wait for a restart.

use super::Config;
use super::table::Setting;

impl Config {
    /// The names of settings that `new` has otherwise, and that only a restart can change.
    pub fn frozen_changes(&self, new: &Config) -> Vec<&'static str> {
        let mut names = Vec::new();
        if self.front_end.links != new.front_end.links {
            names.extend(["recv", "send"]);
        }
        let before = |key| self.literals.iter().find(|(other, _)| *other == key);
        for now in &new.literals {
            let setting = Setting::of(now.0);
            if !setting.is_live() && before(now.0) != Some(now) {
                names.push(setting.name);
            }
        }
        names
    }

    /// Takes over from `new` what may change while the instance runs (see [`super::table::Setting::is_live`]).
    pub fn adopt(&mut self, new: Config) {
        self.application = new.application;
        self.workers = new.workers;
        self.loading = new.loading;
        self.recycle = new.recycle;
        self.limits = new.limits;
        self.timeouts = new.timeouts;
        self.uploads = new.uploads;
        self.log.log_format = new.log.log_format;
        self.log.log_level = new.log.log_level;
    }
}

#[cfg(test)]
mod tests {
    use crate::config::table;
    use crate::config::*;

    fn config(given: &[(table::Key, &str)]) -> Config {
        let mut sources = Sources::default();
        let always = [
            (table::Key::Recv, "tcp://127.0.0.1:5000"),
            (table::Key::WsgiApp, "elo.application"),
            (table::Key::Config, "/dev/null"),
        ];
        for (key, text) in always.iter().chain(given) {
            sources.put(*key, *text, Origin::CommandLine("test"));
        }
        resolve(sources, &System(|_: &str| None)).unwrap().config
    }

    #[test]
    fn what_a_reload_changes_and_what_it_names() {
        let send = (table::Key::Send, "tcp://127.0.0.1:5001");
        let mut old = config(&[send]);
        let new = config(&[
            (table::Key::Send, "tcp://127.0.0.1:6001"),
            (table::Key::AccessLog, "-"),
            (table::Key::Workers, "4"),
            (table::Key::LogLevel, "debug"),
            (table::Key::QueueLimit, "7"),
        ]);
        assert!(old.frozen_changes(&old).is_empty());
        assert_eq!(old.frozen_changes(&new), ["recv", "send", "access-log"]);
        old.adopt(new);
        assert_eq!((old.workers.workers, old.limits.queue_limit), (4, 7));
        assert_eq!(old.log.log_level, Level::Debug);
        assert_eq!(old.log.access_log, None, "the rest is as it was");
        assert_eq!(old.front_end, config(&[send]).front_end);
    }
}
