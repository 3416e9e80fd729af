//! The settings of the front end: those of its own, and those that it shares with an instance.

use std::path::PathBuf;
use std::time::Duration;

use super::Bind;
use super::Surroundings;
use super::fault::Faults;
use super::group::admin::Admin;
use super::group::clients::Clients;
use super::group::handlers::Handlers;
use super::group::log::Log;
use super::group::process::Process;
use super::reader::Reader;
use super::resolve::Shown;
use super::resolve::put_file;
use super::show;
use super::source::Origin;
use super::source::Sources;
use super::table::Key;
use super::table::Scope;
use super::table::Setting;

/// The effective settings of a front end: checked, complete, paths absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Front {
    /// What its clients meet.
    pub clients: Clients,
    /// What its handlers meet.
    pub handlers: Handlers,
    /// What is written down.
    pub log: Log,
    /// Where metrics are served.
    pub metrics: Option<Bind>,
    /// How long requests may go on after it was told to stop.
    pub graceful_timeout: Duration,
    /// How it lives with the rest of its system.
    pub process: Process,
    /// What the operator should be told once the log is there; one line each.
    pub warnings: Vec<String>,
    /// Each setting as it would stand in the file, to tell what has changed.
    literals: Vec<(Key, Option<String>)>,
}

impl Front {
    /// The names of settings that `new` has otherwise, and that only a restart can change.
    pub fn frozen_changes(&self, new: &Front) -> Vec<&'static str> {
        let before = |key| self.literals.iter().find(|(other, _)| *other == key);
        let changed = new.literals.iter().filter(|now| before(now.0) != Some(now));
        let settings = changed.map(|(key, _)| Setting::of(*key));
        settings.filter(|setting| !setting.is_live()).map(|setting| setting.name).collect()
    }

    /// Takes over from `new` what may change while the front end runs (see [`Setting::is_live`]).
    pub fn adopt(&mut self, new: Front) {
        let bind = std::mem::take(&mut self.clients.bind);
        self.clients = Clients { bind, ..new.clients };
        let Handlers { peer_window, queue_limit, queue_timeout, retry, .. } = new.handlers;
        let old = self.handlers.clone();
        self.handlers = Handlers { peer_window, queue_limit, queue_timeout, retry, ..old };
        self.graceful_timeout = new.graceful_timeout;
        self.log.log_format = new.log.log_format;
        self.log.log_level = new.log.log_level;
    }
}

/// What a program that has started a front end together with its handlers says to it besides its settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrontParent {
    /// It accepts clients when a byte comes on standard input, and ends when that does.
    pub wait: bool,
    /// Handlers write into the same access log: it has lines only of what they do not tell of.
    pub own_lines: bool,
    /// The Unix socket of its only instance's metrics, which become a part of its own.
    pub instance_metrics: Option<PathBuf>,
}

/// The settings of a front end, and how they came about.
#[derive(Debug)]
pub struct ResolvedFront {
    /// What holds.
    pub front: Front,
    /// Each setting of a front end, in the order of the table.
    pub(super) shown: Vec<Shown>,
    file: Option<(PathBuf, Origin)>,
}

impl ResolvedFront {
    /// Whether a setting was given anywhere, and is not at its default.
    pub fn is_given(&self, key: Key) -> bool {
        let mut shown = self.shown.iter();
        shown.any(|shown| shown.setting.key == key && shown.origin != Origin::Default)
    }

    /// What holds, alone.
    pub fn front(self) -> Front {
        self.front
    }

    /// Each effective value and where it came from, one line each; valid TOML.
    pub fn show(&self) -> String {
        let head = show::head("lurcher front", self.file.as_ref());
        head + &show::front(self.shown.iter())
    }
}

/// Merges and checks what `sources` has from the command line with what the file, the environment and the table have.
pub fn resolve_front(
    mut sources: Sources,
    world: &impl Surroundings,
) -> Result<ResolvedFront, Faults> {
    sources.put_environment(world, Scope::Front);
    let mut found = Vec::new();
    let file = put_file(&mut sources, world, Scope::Front, &mut found);
    let mut reader =
        Reader { sources: &sources, world, faults: found, shown: Vec::new(), warnings: Vec::new() };
    let handlers = Handlers::read(&mut reader);
    let clients = Clients::read(&mut reader);
    let graceful_timeout = reader.duration(Key::GracefulTimeout);
    let log = Log::read(&mut reader);
    let metrics = Admin::read_metrics(&mut reader);
    let process = Process::read(&mut reader, log.as_ref());
    let Reader { faults, warnings, shown, .. } = reader;
    // Without a fault all of them are there; with one it is no matter which are.
    let (Some(clients), Some(handlers), Some(log), Some(graceful_timeout), Some(process), true) =
        (clients, handlers, log, graceful_timeout, process, faults.is_empty())
    else {
        return Err(Faults { list: faults, warnings });
    };
    let mut shown = shown;
    // What is read together with others, and no setting of a front end.
    shown.retain(|shown| shown.setting.is_of(Scope::Front));
    shown.sort_by_key(|shown| shown.setting.key);
    let literals = shown.iter().map(|s| (s.setting.key, s.literal.clone())).collect();
    let front =
        Front { clients, handlers, log, metrics, graceful_timeout, process, warnings, literals };
    Ok(ResolvedFront { front, shown, file })
}
