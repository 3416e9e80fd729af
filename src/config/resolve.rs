//! What was given, merged and checked: flags win over the environment, that over the file, that over defaults.
//!
//! Every text is checked, also one that another source overrides: it is a mistake that waits. Nothing is opened but the
//! settings file, and no fault hides another.

use std::io;
use std::path::PathBuf;

use super::Config;
use super::Level;
use super::LogTarget;
use super::Underscore;
use super::fault::Fault;
use super::fault::Faults;
use super::file;
use super::reader;
use super::reader::Reader;
use super::reader::quoted;
use super::reader::quoted_path;
use super::source::Origin;
use super::source::Sources;
use super::source::Surroundings;
use super::table::Key;
use super::table::Setting;
use super::value;
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
    /// Where each link's two sides came from, as in [`Config::links`].
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
    sources.put_environment(world);
    let mut found = Vec::new();
    let file = put_file(&mut sources, world, &mut found);
    let mut reader =
        Reader { sources: &sources, world, faults: found, shown: Vec::new(), warnings: Vec::new() };
    let links = reader.links();
    let mongrel2_chroot = reader.get(Key::Mongrel2Chroot, Reader::path, quoted_path);
    let wsgi_app = reader.text(Key::WsgiApp, value::text);
    let app_path = reader.get(Key::AppPath, Reader::directory, quoted_path);
    let script_name = reader.text(Key::ScriptName, value::script_name);
    let server_name = reader.text(Key::ServerName, value::host);
    let underscore_headers = reader.word(Key::UnderscoreHeaders, |word| match word {
        "refuse" => Underscore::Refuse,
        "allow" => Underscore::Allow,
        _ => Underscore::Drop,
    });
    let lint = reader.get(Key::Lint, |_, text| value::switch(text), ToString::to_string);
    let workers = reader.count(Key::Workers);
    let threads = reader.count(Key::Threads);
    let keep_alive = reader.get(Key::KeepAlive, |_, text| value::switch(text), ToString::to_string);
    let queue_limit = reader.count(Key::QueueLimit);
    let graceful_timeout = reader.get(
        Key::GracefulTimeout,
        |_, text| value::duration(text),
        |value| quoted(&value::show_duration(*value)),
    );
    let access_log = reader.get(Key::AccessLog, Reader::log_target, |target| match target {
        LogTarget::Stdout => quoted("-"),
        LogTarget::File(path) => quoted_path(path),
    });
    let log_level = reader.word(Key::LogLevel, |word| match word {
        "error" => Level::Error,
        "warning" => Level::Warning,
        "debug" => Level::Debug,
        _ => Level::Info,
    });
    if let Some(dir) = mongrel2_chroot.as_deref().filter(|dir| !world.is_dir(dir)) {
        reader.warn(format!("mongrel2-chroot: {} is not a directory (yet?)", dir.display()));
    }
    if let Some(app_path) = &app_path {
        let left = wsgid::left_over(app_path, world, &reader.shown, &links);
        reader.warnings.extend(left);
    }
    let Reader { faults, warnings, shown, .. } = reader;
    // Without a fault all of them are there; with one it is no matter which are.
    let (
        Some(wsgi_app),
        Some(app_path),
        Some(script_name),
        Some(underscore_headers),
        Some(lint),
        Some(workers),
        Some(threads),
        Some(keep_alive),
        Some(queue_limit),
        Some(graceful_timeout),
        Some(log_level),
        true,
    ) = (
        wsgi_app,
        app_path,
        script_name,
        underscore_headers,
        lint,
        workers,
        threads,
        keep_alive,
        queue_limit,
        graceful_timeout,
        log_level,
        faults.is_empty(),
    )
    else {
        return Err(Faults { list: faults, warnings });
    };
    let (links, link_origins) = links.into_iter().unzip();
    let config = Config {
        links,
        wsgi_app,
        app_path,
        workers,
        threads,
        keep_alive,
        queue_limit,
        graceful_timeout,
        script_name,
        server_name,
        underscore_headers,
        lint,
        access_log,
        log_level,
        mongrel2_chroot,
        warnings,
    };
    Ok(Resolved { config, shown, link_origins, file })
}

/// Reads the file that was named, or the one that is there. Gives the path of what was read.
fn put_file(
    sources: &mut Sources,
    world: &impl Surroundings,
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
            file::put(&path, &text, sources, faults);
            Some((path, named.map_or(Origin::Default, |given| given.origin)))
        }
        Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            faults.push(Fault::Unreadable { path, error });
            None
        }
    }
}
