//! What was given, merged and checked: flags win over the environment, that over the file, that over defaults.
//!
//! Every text is checked, also one that another source overrides: it is a mistake that waits. Nothing is opened but the
//! settings file, and no fault hides another.

use std::io;
use std::path::PathBuf;

use super::Config;
use super::fault::Fault;
use super::fault::Faults;
use super::file;
use super::group::admin::Admin;
use super::group::application::Application;
use super::group::delivery::Delivery;
use super::group::front_end::FrontEnd;
use super::group::limits::Limits;
use super::group::loading::Loading;
use super::group::log::Log;
use super::group::process::Process;
use super::group::recycle::Recycle;
use super::group::timeouts::Timeouts;
use super::group::uploads::Uploads;
use super::group::workers::Workers;
use super::reader;
use super::reader::Reader;
use super::source::Origin;
use super::source::Sources;
use super::source::Surroundings;
use super::table::Key;
use super::table::Scope;
use super::table::Setting;
use super::wsgid;

/// The file that is read when none is named, if the current directory has it.
const FILE_NAME: &str = "lurcher.toml";

/// The settings, and how they came about.
#[derive(Debug)]
pub struct Resolved {
    /// What holds.
    pub config: Config,
    /// Each setting but links, in the order of the table.
    pub shown: Vec<Shown>,
    /// Where each link's two sides came from, as in `links` of [`Config::front_end`].
    pub link_origins: Vec<(Origin, Origin)>,
    /// The file that was read, and where it was named.
    pub file: Option<(PathBuf, Origin)>,
}

/// An effective value.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Of which setting.
    pub setting: &'static Setting,
    /// As it would stand in the file; absent when unset.
    pub literal: Option<String>,
    /// Where it came from.
    pub origin: Origin,
}

/// Merges and checks what `sources` has from the command line with what the file, the environment and the table have.
pub fn resolve(mut sources: Sources, world: &impl Surroundings) -> Result<Resolved, Faults> {
    sources.put_environment(world, Scope::Instance);
    let mut found = Vec::new();
    let file = put_file(&mut sources, world, Scope::Instance, &mut found);
    let mut reader =
        Reader { sources: &sources, world, faults: found, shown: Vec::new(), warnings: Vec::new() };
    let links = reader.links();
    let front_end = FrontEnd::read(&mut reader, &links);
    let app_path = Application::read_path(&mut reader);
    let application = Application::read(&mut reader, app_path.clone());
    let workers = Workers::read(&mut reader);
    let recycle = Recycle::read(&mut reader);
    let loading = Loading::read(&mut reader);
    let limits = Limits::read(&mut reader);
    let timeouts = Timeouts::read(&mut reader);
    let uploads = Uploads::read(&mut reader);
    let delivery = Delivery::read(&mut reader);
    let log = Log::read(&mut reader);
    let admin = Admin::read(&mut reader);
    let process = Process::read(&mut reader, log.as_ref());
    if let Some(app_path) = app_path.as_ref().filter(|_| !sources.has_folder) {
        let left = wsgid::left_over(app_path, world, &reader.shown, &links);
        reader.warnings.extend(left);
    }
    let Reader { faults, warnings, shown, .. } = reader;
    // Without a fault all of them are there; with one it is no matter which are.
    let (
        Some(application),
        Some(workers),
        Some(recycle),
        Some(loading),
        Some(limits),
        Some(timeouts),
        Some(uploads),
        Some(delivery),
        Some(log),
        Some(process),
        true,
    ) = (
        application,
        workers,
        recycle,
        loading,
        limits,
        timeouts,
        uploads,
        delivery,
        log,
        process,
        faults.is_empty(),
    )
    else {
        return Err(Faults { list: faults, warnings });
    };
    let link_origins = links.into_iter().map(|(_, origins)| origins).collect();
    let config = Config {
        front_end,
        application,
        workers,
        loading,
        recycle,
        limits,
        timeouts,
        uploads,
        delivery,
        log,
        admin,
        process,
        settings_file: file.as_ref().map(|(path, _)| path.clone()),
        warnings,
        literals: shown.iter().map(|s| (s.setting.key, s.literal.clone())).collect(),
    };
    Ok(Resolved { config, shown, link_origins, file })
}

/// The settings that tell a command where to find an instance. Of the file no more is looked at than them: a mistake
/// elsewhere in it must not keep anybody from stopping an instance.
pub fn resolve_admin(mut sources: Sources, world: &impl Surroundings) -> Result<Admin, Faults> {
    sources.put_environment(world, Scope::Instance);
    let mut faults = Vec::new();
    put_file(&mut sources, world, Scope::Instance, &mut faults);
    faults.retain(|fault| matches!(fault, Fault::Unreadable { .. } | Fault::Syntax { .. }));
    let mut reader =
        Reader { sources: &sources, world, faults, shown: Vec::new(), warnings: Vec::new() };
    let admin = Admin::read(&mut reader);
    if reader.faults.is_empty() {
        Ok(admin)
    } else {
        Err(Faults { list: reader.faults, warnings: Vec::new() })
    }
}

/// Reads the file that was named, or the one that is there. Gives the path of what was read.
pub(super) fn put_file(
    sources: &mut Sources,
    world: &impl Surroundings,
    scope: Scope,
    faults: &mut Vec<Fault>,
) -> Option<(PathBuf, Origin)> {
    let named = sources.all(Key::Config).last().map(|given| (*given).clone());
    let path = match &named {
        None => PathBuf::from(FILE_NAME),
        Some(given) => match reader::utf8(given).and_then(|text| reader::path(world, text)) {
            Ok(path) => path,
            Err(problem) => {
                faults.push(Fault::Value { origin: given.origin.clone(), problem });
                return None;
            }
        },
    };
    match world.read(&path) {
        Ok(text) => {
            file::put(&path, &text, scope, sources, faults);
            Some((path, named.map_or(Origin::Default, |given| given.origin)))
        }
        Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            faults.push(Fault::Unreadable { path, error });
            None
        }
    }
}
