//! Every setting of an instance: its type, its default and the reason for it.
//!
//! [`table`] is the one home of names, defaults and help; flags, `LURCHER_…` variables, `lurcher.toml`, `--print-config`
//! and `docs/settings.md` are all made from it. [`resolve()`] merges what was given into a [`Config`].
//!
//! It refuses to know how a command line is parsed (that is `cli`), opens nothing but its own file, and keeps no state:
//! everything outside is seen through [`Surroundings`], so that a test needs no environment.

mod endpoint;
mod fault;
mod file;
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

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;

pub use endpoint::Endpoint;
pub use endpoint::EndpointError;
pub use endpoint::LinkSpec;
pub use fault::Fault;
pub use fault::Faults;
pub use fault::Problem;
pub use nearest::nearest;
pub use resolve::Resolved;
pub use resolve::Shown;
pub use resolve::resolve;
pub use show::reference;
pub use source::Origin;
pub use source::Sources;
pub use source::Surroundings;
pub use source::System;

/// The effective settings of one instance: checked, complete, paths absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The front ends: at least one, no endpoint twice.
    pub links: Vec<LinkSpec>,
    /// The application as it was written; only Python can tell whether it is there.
    pub wsgi_app: String,
    /// Directory that workers put first on `sys.path`; absolute, UTF-8, was a directory when it was looked at.
    pub app_path: PathBuf,
    /// Worker processes, 1 to 512.
    pub workers: u32,
    /// Slots of each worker, 1 to 256.
    pub threads: u32,
    /// Whether a worker that died is replaced.
    pub keep_alive: bool,
    /// Requests that may wait for a worker, at least 1; one more gets 503.
    pub queue_limit: usize,
    /// How long requests may go on after the instance was told to stop.
    pub graceful_timeout: Duration,
    /// What the application is mounted at: empty, or `/…` without a slash at its end.
    pub script_name: String,
    /// `SERVER_NAME`; the request's Host when absent.
    pub server_name: Option<String>,
    /// What becomes of request headers with `_` in their name.
    pub underscore_headers: Underscore,
    /// Whether the application is wrapped in the reference checker.
    pub lint: bool,
    /// Where access lines go; nowhere when absent.
    pub access_log: Option<LogTarget>,
    /// The least grave records that are written.
    pub log_level: Level,
    /// What the paths of upload files start at, as the front end was told to `chroot`; absolute.
    pub mongrel2_chroot: Option<PathBuf>,
    /// What the operator should be told once the log is there; one line each.
    pub warnings: Vec<String>,
}

impl Config {
    /// What worker number `worker` (from 1) has to know. It goes to it as JSON, in the first frame of its bridge.
    pub fn worker_settings(&self, worker: u32) -> WorkerSettings {
        WorkerSettings {
            wsgi_app: self.wsgi_app.clone(),
            app_path: self.app_path.clone(),
            threads: self.threads,
            script_name: self.script_name.clone(),
            server_name: self.server_name.clone(),
            underscore_headers: self.underscore_headers,
            lint: self.lint,
            access_log: self.access_log.is_some(),
            log_level: self.log_level,
            multiprocess: self.workers > 1,
            worker,
            graceful_timeout_ms: u64::try_from(self.graceful_timeout.as_millis())
                .unwrap_or(u64::MAX),
        }
    }
}

/// What one worker has to know; see [`Config`] for the meanings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSettings {
    /// [`Config::wsgi_app`].
    pub wsgi_app: String,
    /// [`Config::app_path`].
    pub app_path: PathBuf,
    /// [`Config::threads`].
    pub threads: u32,
    /// [`Config::script_name`].
    pub script_name: String,
    /// [`Config::server_name`].
    pub server_name: Option<String>,
    /// [`Config::underscore_headers`].
    pub underscore_headers: Underscore,
    /// [`Config::lint`].
    pub lint: bool,
    /// Whether an access line is wanted with each end frame.
    pub access_log: bool,
    /// [`Config::log_level`].
    pub log_level: Level,
    /// `wsgi.multiprocess`: whether there are other workers.
    pub multiprocess: bool,
    /// This worker's number, from 1; its log lines say `worker-N`.
    pub worker: u32,
    /// [`Config::graceful_timeout`] in milliseconds.
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
