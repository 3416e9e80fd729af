//! The table of settings: the one home of names, defaults, limits and help.
//!
//! A flag is `--NAME`, a variable `LURCHER_NAME` with `_` for `-`, a key in the file is NAME. It is data: what is done with
//! a value is for [`super::resolve()`]. A row may not be without the reason for its default.

/// Which setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each row of the table has the words for it")]
pub enum Key {
    Recv,
    Send,
    Mongrel2Chroot,
    WsgiApp,
    AppPath,
    ScriptName,
    ServerName,
    UnderscoreHeaders,
    Lint,
    Workers,
    Threads,
    KeepAlive,
    QueueLimit,
    GracefulTimeout,
    AccessLog,
    LogLevel,
    Config,
}

/// What a value looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A list of addresses, one for each link.
    Endpoints,
    /// Text; its meaning is checked on its own.
    Text,
    /// A path; `~` is expanded, relative ones start at the current directory.
    Path,
    /// A whole number within limits.
    Count {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A number of seconds, or with a unit.
    Duration,
    /// On or off. As a flag it takes no value, and has another one for the opposite.
    Switch {
        /// The flag that switches it off, without the dashes.
        off: &'static str,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// A heading of the help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the heading says it")]
pub enum Group {
    FrontEnd,
    Application,
    Workers,
    Log,
    General,
}

impl Group {
    /// In the order of the help.
    pub const ALL: [Self; 5] =
        [Self::FrontEnd, Self::Application, Self::Workers, Self::Log, Self::General];

    /// What stands over its settings.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::FrontEnd => "Front end",
            Self::Application => "Application",
            Self::Workers => "Workers",
            Self::Log => "Log",
            Self::General => "General",
        }
    }
}

/// What holds when nothing was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// It must be given.
    Required,
    /// This text, as if it had been given.
    Value(&'static str),
    /// Nothing; the words say what that means.
    Unset(&'static str),
}

/// A row of the table.
#[derive(Debug)]
pub struct Setting {
    /// Which.
    pub key: Key,
    /// As on the command line, without the dashes.
    pub name: &'static str,
    /// What stands for the value in the help.
    pub metavar: &'static str,
    /// What a value looks like.
    pub kind: Kind,
    /// What holds when nothing was given.
    pub fallback: Fallback,
    /// Where it stands in the help.
    pub group: Group,
    /// What it does.
    pub help: &'static str,
    /// Why the default and the limits are what they are.
    pub reason: &'static str,
}

impl Setting {
    /// `LURCHER_…`.
    pub fn variable(&self) -> String {
        format!("LURCHER_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }

    /// Its key in `lurcher.toml`, if it can be set there.
    pub fn file_key(&self) -> Option<String> {
        match self.kind {
            Kind::Endpoints => Some(format!("link.{}", self.name)),
            _ if self.key == Key::Config => None,
            _ => Some(self.name.to_owned()),
        }
    }

    /// The row of a setting.
    pub fn of(key: Key) -> &'static Self {
        // The table has a row for each key, in the order of the keys; a test holds it.
        &SETTINGS[key as usize]
    }
}

/// All settings, in the order of the help.
pub static SETTINGS: [Setting; 17] = [
    Setting {
        key: Key::Recv,
        name: "recv",
        metavar: "ENDPOINT",
        kind: Kind::Endpoints,
        fallback: Fallback::Required,
        group: Group::FrontEnd,
        help: "Where requests come from: the send_spec of the front end's handler, as tcp://HOST:PORT or ipc://PATH. \
               Once for each front end",
        reason: "Only the front end's configuration can tell.",
    },
    Setting {
        key: Key::Send,
        name: "send",
        metavar: "ENDPOINT",
        kind: Kind::Endpoints,
        fallback: Fallback::Required,
        group: Group::FrontEnd,
        help: "Where responses go: the recv_spec of the same handler. As often as --recv, in the same order",
        reason: "Only the front end's configuration can tell. Endpoints of different sources are never paired: a response \
                 must not go to a front end that did not ask.",
    },
    Setting {
        key: Key::Mongrel2Chroot,
        name: "mongrel2-chroot",
        metavar: "DIR",
        kind: Kind::Path,
        fallback: Fallback::Unset("none, upload paths are whole"),
        group: Group::FrontEnd,
        help: "The chroot of the front end's server: what the paths of its upload files start at",
        reason: "A Mongrel2 whose server has the chroot `/` names files by their real paths.",
    },
    Setting {
        key: Key::WsgiApp,
        name: "wsgi-app",
        metavar: "APP",
        kind: Kind::Text,
        fallback: Fallback::Required,
        group: Group::Application,
        help: "The application: module:callable, module.callable, module:factory(), or a path to a .py or .wsgi file, \
               with :callable if that is not `application`",
        reason: "There is nothing to serve without it.",
    },
    Setting {
        key: Key::AppPath,
        name: "app-path",
        metavar: "DIR",
        kind: Kind::Path,
        fallback: Fallback::Value("."),
        group: Group::Application,
        help: "The directory that modules of the application are found in; `~` is the home directory",
        reason: "wsgid's default. It must be there, as a misspelt one would only show as an import error.",
    },
    Setting {
        key: Key::ScriptName,
        name: "script-name",
        metavar: "PATH",
        kind: Kind::Text,
        fallback: Fallback::Value(""),
        group: Group::Application,
        help: "The path that the application is mounted at (SCRIPT_NAME), as /shop; requests for other paths get 404",
        reason: "Most applications have a host for themselves.",
    },
    Setting {
        key: Key::ServerName,
        name: "server-name",
        metavar: "HOST",
        kind: Kind::Text,
        fallback: Fallback::Unset("the Host header of each request"),
        group: Group::Application,
        help: "SERVER_NAME of every request, whatever Host a client sends",
        reason: "The Host header is right wherever the front end routes by host.",
    },
    Setting {
        key: Key::UnderscoreHeaders,
        name: "underscore-headers",
        metavar: "WHAT",
        kind: Kind::Choice(&["drop", "refuse", "allow"]),
        fallback: Fallback::Value("drop"),
        group: Group::Application,
        help: "Request headers with `_` in their name: drop them, refuse the request with 400, or allow them",
        reason: "To WSGI, X_User and X-User are the same HTTP_X_USER, so that a client could pass for a proxy. No \
                 browser sends such names.",
    },
    Setting {
        key: Key::Lint,
        name: "lint",
        metavar: "",
        kind: Kind::Switch { off: "no-lint" },
        fallback: Fallback::Value("false"),
        group: Group::Application,
        help: "Check what the application does against the WSGI standard: wrap it in Python's wsgiref.validate. What it \
               finds is a traceback in the log, and 500 to the client",
        reason: "It costs time, and refuses some things that every server takes. It is for development.",
    },
    Setting {
        key: Key::Workers,
        name: "workers",
        metavar: "N",
        kind: Kind::Count { min: 1, max: 512 },
        fallback: Fallback::Value("1"),
        group: Group::Workers,
        help: "Worker processes, each with the application loaded (1 to 512)",
        reason: "wsgid's default; a second one doubles the memory. The limit keeps a slip of the finger from filling a \
                 machine with processes.",
    },
    Setting {
        key: Key::Threads,
        name: "threads",
        metavar: "N",
        kind: Kind::Count { min: 1, max: 256 },
        fallback: Fallback::Value("4"),
        group: Group::Workers,
        help: "Requests that each worker serves at the same time, each in a thread (1 to 256); 1 for an application that \
               is not thread-safe",
        reason: "A few let one request compute while others wait for a database; with many they only wait for the \
                 interpreter.",
    },
    Setting {
        key: Key::KeepAlive,
        name: "keep-alive",
        metavar: "",
        kind: Kind::Switch { off: "no-keep-alive" },
        fallback: Fallback::Value("true"),
        group: Group::Workers,
        help: "Replace workers that die; with --no-keep-alive lurcher ends when the last one has died",
        reason: "wsgid's default, and what operators expect. It is about processes: HTTP connections are kept alive in \
                 any case.",
    },
    Setting {
        key: Key::QueueLimit,
        name: "queue-limit",
        metavar: "N",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        fallback: Fallback::Value("1024"),
        group: Group::Workers,
        help: "Requests that may wait for a worker (1 to 1000000); further ones get 503 with Retry-After at once",
        reason: "Some seconds of work for a quick application; what waits longer has mostly been given up by its client.",
    },
    Setting {
        key: Key::GracefulTimeout,
        name: "graceful-timeout",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("30s"),
        group: Group::Workers,
        help: "How long requests may take to end after SIGTERM or SIGINT: 30 or 30s, 500ms, 2m, at most 24h. What still \
               runs then is cut off",
        reason: "Longer than nearly every request, shorter than the 90 s after which systemd kills.",
    },
    Setting {
        key: Key::AccessLog,
        name: "access-log",
        metavar: "FILE",
        kind: Kind::Path,
        fallback: Fallback::Unset("no access log"),
        group: Group::Log,
        help: "Append a line for each request to FILE, or write it to standard output (`-`): the combined format, and the \
               seconds taken",
        reason: "The front end has its own access log.",
    },
    Setting {
        key: Key::LogLevel,
        name: "log-level",
        metavar: "LEVEL",
        kind: Kind::Choice(&["error", "warning", "info", "debug"]),
        fallback: Fallback::Value("info"),
        group: Group::Log,
        help: "The least grave records that go to standard error: error, warning, info or debug",
        reason: "Starts, stops and deaths of workers and links are what an operator looks for first.",
    },
    Setting {
        key: Key::Config,
        name: "config",
        metavar: "FILE",
        kind: Kind::Path,
        fallback: Fallback::Unset("lurcher.toml of the current directory, if there is one"),
        group: Group::General,
        help: "Read settings from FILE, a TOML file with the names of the options as keys; /dev/null for none",
        reason: "One file in the project's directory is enough for most; a file that is named must be there.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_row() {
        for (at, setting) in SETTINGS.iter().enumerate() {
            assert_eq!(setting.key as usize, at, "{}", setting.name);
            assert!(std::ptr::eq(Setting::of(setting.key), setting));
            assert!(
                !setting.help.ends_with('.') && setting.reason.ends_with('.'),
                "{}",
                setting.name
            );
            assert!(
                setting
                    .name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            );
        }
    }

    #[test]
    fn groups_are_not_torn() {
        let mut groups: Vec<_> = SETTINGS.iter().map(|setting| setting.group).collect();
        groups.dedup();
        assert_eq!(groups, Group::ALL);
    }

    #[test]
    fn names_in_other_sources_follow_from_the_flag() {
        assert_eq!(Setting::of(Key::Mongrel2Chroot).variable(), "LURCHER_MONGREL2_CHROOT");
        assert_eq!(Setting::of(Key::Recv).file_key().as_deref(), Some("link.recv"));
        assert_eq!(Setting::of(Key::Config).file_key(), None);
    }
}
