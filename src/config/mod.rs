//! Every setting of an instance: its type, its default and the reason for it.
//!
//! [`table`] has names, defaults and help, each group of settings in a file of its own; flags, `LURCHER_…` variables, `lurcher.toml`, `--print-config`
//! and `docs/settings.md` are all made from it. [`resolve()`] merges what was given into a [`Config`].
//!
//! It refuses to know how a command line is parsed (that is `cli`), opens nothing but its own file, and keeps no state:
//! everything outside is seen through [`Surroundings`], so that a test needs no environment.

mod bind;
mod both;
mod endpoint;
mod fault;
mod file;
mod folder;
mod front;
mod group;
mod live;
mod nearest;
mod reader;
mod resolve;
mod show;
mod source;
pub mod table;
mod value;
mod wsgid;

#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::hash::Hasher;
use std::hash::RandomState;
use std::path::PathBuf;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::Serialize;

pub use bind::Bind;
pub use bind::Cidr;
pub use bind::NoCidr;
pub use bind::RouteSpec;
pub use both::NOT_FOR_SERVE;
pub use both::ResolvedBoth;
pub use both::is_for_front;
pub use both::resolve_both;
pub use endpoint::Endpoint;
pub use endpoint::EndpointError;
pub use endpoint::LinkSpec;
pub use fault::Fault;
pub use fault::Faults;
pub use fault::Problem;
pub use folder::InFolder;
pub use folder::Migration;
pub use folder::WRITTEN;
pub use folder::folder;
pub use folder::migrate;
pub use folder::pid_in_folder;
pub use folder::put_folder;
pub use front::Front;
pub use front::FrontParent;
pub use front::ResolvedFront;
pub use front::resolve_front;
pub use group::admin::Admin;
pub use group::admin::ControlPlace;
pub use group::application::Application;
pub use group::clients::Clients;
pub use group::clients::ForwardedPolicy;
pub use group::clients::ForwardedSetting;
pub use group::clients::UploadWay;
pub use group::delivery::Delivery;
pub use group::front_end::FrontEnd;
pub use group::handlers::Handlers;
pub use group::limits::Limits;
pub use group::loading::Loading;
pub use group::log::AccessFormat;
pub use group::log::Log;
pub use group::log::LogFormat;
pub use group::process::Identity;
pub use group::process::Process;
pub use group::recycle::Recycle;
pub use group::timeouts::Timeouts;
pub use group::uploads::UploadTrust;
pub use group::uploads::Uploads;
pub use group::workers::Workers;
pub use nearest::nearest;
pub use resolve::Resolved;
pub use resolve::Shown;
pub use resolve::resolve;
pub use resolve::resolve_admin;
pub use show::reference;
pub use source::Account;
pub use source::Origin;
pub use source::Sources;
pub use source::Surroundings;
pub use source::System;

/// The effective settings of one instance: checked, complete, paths absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The front ends.
    pub front_end: FrontEnd,
    /// What is served.
    pub application: Application,
    /// The worker processes.
    pub workers: Workers,
    /// How workers begin and end.
    pub loading: Loading,
    /// When a worker is replaced.
    pub recycle: Recycle,
    /// What is bounded.
    pub limits: Limits,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// What is accepted as the body of a request.
    pub uploads: Uploads,
    /// How responses reach their clients.
    pub delivery: Delivery,
    /// What is written down.
    pub log: Log,
    /// How it can be asked and told things.
    pub admin: Admin,
    /// How it lives with the rest of its system.
    pub process: Process,
    /// The file that was read, if there is one.
    pub settings_file: Option<PathBuf>,
    /// What the operator should be told once the log is there; one line each.
    pub warnings: Vec<String>,
    /// Each setting but links as it would stand in the file, to tell what has changed.
    pub(crate) literals: Vec<(table::Key, Option<String>)>,
}

impl Config {
    /// What worker number `worker` (from 1) has to know. It goes to it as JSON, in the first frame of its bridge.
    pub fn worker_settings(&self, worker: u32) -> WorkerSettings {
        let Application { wsgi_app, app_path, script_name, server_name, .. } = &self.application;
        WorkerSettings {
            wsgi_app: wsgi_app.clone(),
            app_path: app_path.clone(),
            threads: self.workers.threads,
            script_name: script_name.clone(),
            server_name: server_name.clone(),
            underscore_headers: self.application.underscore_headers,
            lint: self.application.lint,
            on_worker_start: self.loading.on_worker_start.clone(),
            on_worker_stop: self.loading.on_worker_stop.clone(),
            access_log: self.log.access_log.is_some()
                && self.log.access_log_format == AccessFormat::Combined,
            request_id_header: self.log.request_id_header.clone(),
            request_id_prefix: request_id_prefix(),
            log_format: self.log.log_format,
            syslog: self.log.syslog.clone(),
            log_level: self.log.log_level,
            multiprocess: self.workers.workers > 1,
            worker,
            graceful_timeout_ms: u64::try_from(self.limits.graceful_timeout.as_millis())
                .unwrap_or(u64::MAX),
        }
    }
}

/// Begins the ids of requests that this process makes: random, and the same as long as the process lives.
pub fn request_id_prefix() -> u64 {
    static PREFIX: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    *PREFIX
}

/// The defaults, with made-up endpoints: what a test of another module starts from.
#[cfg(test)]
pub(crate) fn example() -> Config {
    let mut sources = Sources::default();
    let given = [
        (table::Key::Recv, "tcp://127.0.0.1:5000"),
        (table::Key::Send, "tcp://127.0.0.1:5001"),
        (table::Key::WsgiApp, "elo.application"),
        (table::Key::Config, "/dev/null"),
    ];
    for (key, text) in given {
        sources.put(key, text, Origin::CommandLine("example"));
    }
    resolve(sources, &System(|_: &str| None)).expect("the defaults are right").config
}

/// What one worker has to know; see [`Config`] for the meanings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSettings {
    /// [`Application::wsgi_app`].
    pub wsgi_app: String,
    /// [`Application::app_path`].
    pub app_path: PathBuf,
    /// [`Workers::threads`].
    pub threads: u32,
    /// [`Application::script_name`].
    pub script_name: String,
    /// [`Application::server_name`].
    pub server_name: Option<String>,
    /// [`Application::underscore_headers`].
    pub underscore_headers: Underscore,
    /// [`Application::lint`].
    pub lint: bool,
    /// [`Loading::on_worker_start`].
    #[serde(default)]
    pub on_worker_start: Option<String>,
    /// [`Loading::on_worker_stop`].
    #[serde(default)]
    pub on_worker_stop: Option<String>,
    /// Whether an access line is wanted with each end frame.
    pub access_log: bool,
    /// [`Log::request_id_header`].
    #[serde(default)]
    pub request_id_header: Option<String>,
    /// [`request_id_prefix`].
    #[serde(default)]
    pub request_id_prefix: u64,
    /// [`Log::log_format`].
    pub log_format: LogFormat,
    /// [`Log::syslog`].
    #[serde(default)]
    pub syslog: Option<PathBuf>,
    /// [`Log::log_level`].
    pub log_level: Level,
    /// `wsgi.multiprocess`: whether there are other workers.
    pub multiprocess: bool,
    /// This worker's number, from 1; its log lines say `worker-N`.
    pub worker: u32,
    /// [`Limits::graceful_timeout`] in milliseconds.
    pub graceful_timeout_ms: u64,
}

/// What becomes of a request header with `_` in its name: `X_User` and `X-User` are one `HTTP_X_USER` to WSGI, so that a
/// client could pass for the proxy that sets the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Underscore {
    /// The header is left out, and counted.
    Drop,
    /// The request gets 400.
    Refuse,
    /// The application sees it.
    Allow,
}

impl Underscore {
    /// The word for it in every source of settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Refuse => "refuse",
            Self::Allow => "allow",
        }
    }
}

/// Where access lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// `-`: standard output.
    Stdout,
    /// A file that is appended to; absolute.
    File(PathBuf),
}

/// How grave a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something failed.
    Error,
    /// Something is not as it should be; requests are served.
    Warning,
    /// Starts, stops, links, workers.
    Info,
    /// What only a developer wants to see.
    Debug,
}

impl Level {
    /// What a word means.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Error, Self::Warning, Self::Info, Self::Debug]
            .into_iter()
            .find(|level| level.as_str() == word)
    }

    /// The word for it in every source of settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}
