//! The settings of the front end: those of its own, and those that it shares with an instance.

use super::Surroundings;
use super::fault::Faults;
use super::group::clients::Clients;
use super::group::handlers::Handlers;
use super::group::log::Log;
use super::reader::Reader;
use super::resolve::Shown;
use super::resolve::put_file;
use super::show;
use super::source::Origin;
use super::source::Sources;
use super::table::Key;
use super::table::Scope;
use std::path::PathBuf;
use std::time::Duration;

/// The effective settings of a front end: checked, complete, paths absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Front {
    /// What its clients meet.
    pub clients: Clients,
    /// What its handlers meet.
    pub handlers: Handlers,
    /// What is written down.
    pub log: Log,
    /// How long requests may go on after it was told to stop.
    pub graceful_timeout: Duration,
    /// What the operator should be told once the log is there; one line each.
    pub warnings: Vec<String>,
}

/// The settings of a front end, and how they came about.
#[derive(Debug)]
pub struct ResolvedFront {
    /// What holds.
    pub front: Front,
    shown: Vec<Shown>,
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
        show::values("lurcher front", self.file.as_ref(), &self.shown)
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
    let Reader { faults, warnings, shown, .. } = reader;
    // Without a fault all of them are there; with one it is no matter which are.
    let (Some(clients), Some(handlers), Some(log), Some(graceful_timeout), true) =
        (clients, handlers, log, graceful_timeout, faults.is_empty())
    else {
        return Err(Faults { list: faults, warnings });
    };
    let front = Front { clients, handlers, log, graceful_timeout, warnings };
    Ok(ResolvedFront { front, shown, file })
}
