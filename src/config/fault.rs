//! What can be wrong with the settings. Each fault is one line; all of them are reported at once.

use std::path::PathBuf;

use super::EndpointError;
use super::source::Origin;
use super::table::FRONT;
use super::table::Setting;
use super::value::show_size;

/// One thing that is wrong, and where.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A value that its setting does not take.
    #[error("{origin}: {problem}")]
    Value {
        /// Where it was given.
        origin: Origin,
        /// Why not.
        problem: Problem,
    },
    /// A setting that must be given was not.
    #[error("--{} is missing (or {}{})", .0.name, .0.variable(), or_key(.0))]
    Missing(&'static Setting),
    /// A value that is of no use without another setting.
    #[error("--{} {word} needs --{} (or {}{})", .setting.name, .needed.name, .needed.variable(), or_key(.needed))]
    Needs {
        /// The setting with the value.
        setting: &'static Setting,
        /// Its value.
        word: &'static str,
        /// What is missing.
        needed: &'static Setting,
    },
    /// One side of a link is given more often than the other.
    #[error(
        "{recv_at} and {send_at} belong together in pairs, from one source; there are {recv} and {send}"
    )]
    Unpaired {
        /// Where the `recv` side is or should be.
        recv_at: Origin,
        /// How many there are.
        recv: usize,
        /// Where the `send` side is or should be.
        send_at: Origin,
        /// How many there are.
        send: usize,
    },
    /// The file that was named cannot be read.
    #[error("{}: cannot be read: {error}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is no TOML.
    #[error("{}: line {line}: {message}", path.display())]
    Syntax {
        /// Which.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// The file has a key that is no setting.
    #[error("{origin} is no setting{}", meant(.nearest.as_deref()))]
    Unknown {
        /// Which file and key.
        origin: Origin,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// The file has a setting in a place where it cannot be.
    #[error("{origin}: {instead}")]
    Misplaced {
        /// Which file and key.
        origin: Origin,
        /// Where it belongs.
        instead: &'static str,
    },
    /// A `[[link]]` without one of its two sides.
    #[error("{origin} is missing; a [[link]] has recv and send")]
    HalfLink {
        /// Which file and key.
        origin: Origin,
    },
}

/// Why a text is no value of its setting. It is shown after the name of the place where it was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Nothing, where something is needed.
    #[error("must not be empty")]
    Empty,
    /// Bytes that are no UTF-8, where text is needed.
    #[error("must be UTF-8 text")]
    NotText,
    /// Control characters, which no setting can have.
    #[error("must not have control characters")]
    Control,
    /// Another type of the file's language.
    #[error("must be {wanted}, not {given}")]
    Type {
        /// As `a whole number`.
        wanted: &'static str,
        /// As `a boolean`.
        given: &'static str,
    },
    /// No whole number within the limits.
    #[error("{text:?} is not a whole number from {min} to {max}")]
    Count {
        /// What was given.
        text: String,
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// Neither on nor off.
    #[error("{0:?} is neither true nor false (yes, no, on, off, 1 and 0 are known too)")]
    Switch(String),
    /// No address to listen at.
    #[error("{0:?} is no IP address with a port, as 127.0.0.1:9464 or [::1]:9464")]
    Address(String),
    /// No duration within the limits.
    #[error("{0:?} is no time from 0 to 24h, as 30 or 30s, 500ms, 2m")]
    Duration(String),
    /// No size within the limits.
    #[error(
        "{text:?} is no size from {} to {}, as 65536, 64K, 10M or 1G (powers of 1024)",
        show_size(*.min), show_size(*.max)
    )]
    Size {
        /// What was given.
        text: String,
        /// The least, in bytes.
        min: u64,
        /// The greatest, in bytes.
        max: u64,
    },
    /// None of the words.
    #[error("{text:?} is none of {}", words.join(", "))]
    Choice {
        /// What was given.
        text: String,
        /// What could have been.
        words: &'static [&'static str],
    },
    /// No address.
    #[error("{text:?}: {error}")]
    Endpoint {
        /// What was given.
        text: String,
        /// What is wrong with it.
        error: EndpointError,
    },
    /// The same address twice.
    #[error("{0:?} is given twice; each endpoint belongs to one link, in one direction")]
    Twice(String),
    /// Not a plain path.
    #[error(
        "{0:?} must start with `/`, not end with it, and be a plain path as `/shop`, without . or .. and not percent-encoded"
    )]
    ScriptName(String),
    /// Not where the front end can listen.
    #[error("{0:?} is no address to listen at: IP:PORT, [IPV6]:PORT, unix:PATH or systemd")]
    Bind(String),
    /// Not a route.
    #[error("{0:?} is no route: PATH=SEND,RECV, as /=tcp://127.0.0.1:5000,tcp://127.0.0.1:5001")]
    Route(String),
    /// A path or an endpoint of two routes.
    #[error("{0:?} is given twice; each path, and each endpoint, belongs to one route")]
    RouteTwice(String),
    /// Not a network.
    #[error("{0:?} is no network, as 10.0.0.0/8, 127.0.0.1 or ::1")]
    Network(String),
    /// Not what can be told of proxies.
    #[error("{0:?} is no list of for, proto, host, port, forwarded with commas between")]
    ForwardedFields(String),
    /// Not a name that replies can carry.
    #[error("{0:?} is no name for messages: 1 to 255 letters, digits and `-`")]
    Ident(String),
    /// Another setting makes no sense without it.
    #[error("is needed by {0}")]
    NeededBy(&'static str),
    /// Not a host name.
    #[error("{0:?} is no host name or address (a port does not belong here)")]
    Host(String),
    /// No header name, or one with another meaning.
    #[error(
        "{0:?} is no name for a header that carries an id (letters, digits and `-`, without a meaning in HTTP)"
    )]
    IdHeader(String),
    /// `~someone`.
    #[error("{0:?}: only `~` alone or before a `/` stands for a home directory")]
    OtherHome(String),
    /// `~` without HOME.
    #[error("{0:?}: HOME is not set")]
    NoHome(String),
    /// A directory that is not there.
    #[error("{0:?} is not a directory")]
    NoDirectory(String),
    /// A daemon without a log.
    #[error("a daemon needs --log-file: nobody would see what it has to say")]
    NoLog,
    /// The system knows no such user.
    #[error("there is no user {0:?}")]
    NoUser(String),
    /// The system knows no such group.
    #[error("there is no group {0:?}")]
    NoGroup(String),
    /// A user that is a number, of which the system knows no group.
    #[error("the system has no entry for user {0}, so --group must say which group to become")]
    GroupNeeded(u32),
    /// Only root can become somebody else.
    #[error("only root can become another user or group; this is user {0}")]
    NotRoot(u32),
    /// The list of users and groups cannot be read.
    #[error("the system's list of users and groups cannot be read: {0}")]
    Accounts(String),
    /// No mask of file modes.
    #[error("{0:?} is no umask in octal from 000 to 777, as 022")]
    Umask(String),
    /// The current directory is needed, and cannot be told.
    #[error("{0:?}: the current directory cannot be told; give an absolute path")]
    NoCurrent(String),
}

impl Problem {
    pub(super) fn accounts(error: &std::io::Error) -> Self {
        Self::Accounts(error.to_string())
    }
}

/// All that is wrong with the settings.
#[derive(Debug, Default)]
pub struct Faults {
    /// One line each.
    pub list: Vec<Fault>,
    /// What else the operator should know; one line each.
    pub warnings: Vec<String>,
}

fn or_key(setting: &Setting) -> String {
    match setting.file_key() {
        Some(key) => match key.split_once('.') {
            Some((FRONT, key)) => format!(", or {key} of [{FRONT}] in lurcher.toml"),
            Some((table, key)) => format!(", or {key} of a [[{table}]] in lurcher.toml"),
            None => format!(", or {key} in lurcher.toml"),
        },
        None => String::new(),
    }
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|word| format!("; did you mean {word}?")).unwrap_or_default()
}
