//! The table of settings: what a row of it is, and all rows together. The rows stand in `group`, which is the one
//! home of names, defaults, limits and help.
//!
//! A flag is `--NAME`, a variable `LURCHER_NAME` with `_` for `-`, a key in the file is NAME. It is data: what is done with
//! a value is for [`super::resolve()`]. A row may not be without the reason for its default.

use super::group;

/// Which setting, in the order of the rows.
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
    StartTimeout,
    ReloadSurge,
    MaxRequests,
    MaxRequestsJitter,
    MaxLifetime,
    MaxLifetimeJitter,
    MaxRss,
    Preload,
    OnWorkerStart,
    OnWorkerStop,
    ReloadOnChange,
    QueueLimit,
    GracefulTimeout,
    QueueTimeout,
    RequestTimeout,
    RequestGrace,
    WorkerTimeout,
    MaxBody,
    QueueMemory,
    UploadTrust,
    UploadDir,
    UploadWindow,
    UploadTimeout,
    ResponseMemory,
    ResponseSpool,
    ResponseSpoolTotal,
    SpoolDir,
    SendTimeout,
    KeepaliveInterval,
    LogFile,
    Syslog,
    AccessLog,
    AccessLogFormat,
    RequestIdHeader,
    LogFormat,
    LogLevel,
    Control,
    Metrics,
    Daemon,
    PidFile,
    User,
    Group,
    Umask,
    Chdir,
    Config,
    Bind,
    MaxConnections,
    HeadLimit,
    HeadTimeout,
    IdleTimeout,
    BodyTimeout,
    ResponseTimeout,
    ClientSendTimeout,
    InlineLimit,
    Upload,
    FrontUploadDir,
    ClientWindow,
    ReplyLimit,
    Forwarded,
    ForwardedFields,
    TrustForwardedFrom,
    Route,
    Ident,
    Protocol,
    PeerWindow,
    FrontQueueLimit,
    FrontQueueTimeout,
    Retry,
    Heartbeat,
}

/// The table of `lurcher.toml` that has the front end's settings.
pub const FRONT: &str = "front";

/// Whose setting it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// An instance's.
    Instance,
    /// The front end's.
    Front,
}

/// What a value looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A list of addresses, one for each link.
    Endpoints,
    /// Several texts: as a flag it is given several times, in a variable they have blanks between them.
    List,
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
    /// A number of bytes, or with a unit: `K`, `M` and `G` are powers of 1024.
    Size {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
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
    Limits,
    Uploads,
    Delivery,
    Log,
    Admin,
    Process,
    General,
    Clients,
    Handlers,
}

impl Group {
    /// In the order of the help.
    pub const ALL: &'static [Self] = &[
        Self::FrontEnd,
        Self::Application,
        Self::Workers,
        Self::Limits,
        Self::Uploads,
        Self::Delivery,
        Self::Log,
        Self::Admin,
        Self::Process,
        Self::General,
        Self::Clients,
        Self::Handlers,
    ];

    /// What stands over its settings.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::FrontEnd => "Front end",
            Self::Application => "Application",
            Self::Workers => "Workers",
            Self::Limits => "Limits",
            Self::Uploads => "Uploads",
            Self::Delivery => "Delivery",
            Self::Log => "Log",
            Self::Admin => "Administration",
            Self::Process => "Process",
            Self::General => "General",
            Self::Clients => "Clients of the front end",
            Self::Handlers => "Handlers of the front end",
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

    /// Its key in `lurcher.toml`, if it can be set there. Of a setting that front end and instance both have, the one at the
    /// top.
    pub fn file_key(&self) -> Option<String> {
        match self.kind {
            Kind::Endpoints => Some(format!("link.{}", self.name)),
            _ if self.key == Key::Config => None,
            _ if !self.is_of(Scope::Instance) => Some(format!("{FRONT}.{}", self.name)),
            _ => Some(self.name.to_owned()),
        }
    }

    /// Whether it is a setting of an instance, or of the front end; some are both.
    pub fn is_of(&self, scope: Scope) -> bool {
        match (self.group, self.key) {
            (Group::Clients | Group::Handlers, _) => scope == Scope::Front,
            (
                _,
                Key::MaxBody
                | Key::GracefulTimeout
                | Key::LogFile
                | Key::Syslog
                | Key::AccessLog
                | Key::AccessLogFormat
                | Key::RequestIdHeader
                | Key::Metrics
                | Key::LogFormat
                | Key::LogLevel
                | Key::PidFile
                | Key::User
                | Key::Group
                | Key::Umask
                | Key::Config,
            ) => true,
            _ => scope == Scope::Instance,
        }
    }

    /// Whether what stands for it at the top of the file holds for the front end too, unless `[front]` has its own. A place
    /// that one process has for itself is not shared.
    pub fn is_shared(&self) -> bool {
        let own = matches!(
            self.key,
            Key::LogFile | Key::AccessLog | Key::Metrics | Key::PidFile | Key::Config
        );
        self.is_of(Scope::Instance) && self.is_of(Scope::Front) && !own
    }

    /// Whether a reload applies a change of it; else the change waits for a restart.
    pub fn is_live(&self) -> bool {
        match self.group {
            Group::Application | Group::Workers | Group::Limits | Group::Uploads => true,
            Group::Clients => self.key != Key::Bind,
            Group::Handlers => {
                !matches!(self.key, Key::Route | Key::Ident | Key::Protocol | Key::Heartbeat)
            }
            _ => matches!(self.key, Key::LogFormat | Key::LogLevel | Key::Config),
        }
    }

    /// The row of a setting.
    pub fn of(key: Key) -> &'static Self {
        // A test holds that each key has its row.
        let row = all().find(|setting| setting.key == key);
        row.unwrap_or(&group::general::ROWS[0])
    }
}

/// The table, by its groups, in the order of the help.
const ROWS: &[&[Setting]] = &[
    group::front_end::ROWS,
    group::application::ROWS,
    group::workers::ROWS,
    group::recycle::ROWS,
    group::loading::ROWS,
    group::limits::ROWS,
    group::timeouts::ROWS,
    group::uploads::ROWS,
    group::delivery::ROWS,
    group::log::ROWS,
    group::admin::ROWS,
    group::process::ROWS,
    group::general::ROWS,
    group::clients::ROWS,
    group::handlers::ROWS,
];

/// All settings of an instance, in the order of the help.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    settings_of(Scope::Instance)
}

/// All settings of an instance or of the front end, in the order of the help. Within one scope a name stands for one
/// setting.
pub fn settings_of(scope: Scope) -> impl Iterator<Item = &'static Setting> + Clone {
    all().filter(move |setting| setting.is_of(scope))
}

/// Every row.
pub fn all() -> impl Iterator<Item = &'static Setting> + Clone {
    ROWS.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_row() {
        for (at, setting) in all().enumerate() {
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
        let mut groups: Vec<_> = all().map(|setting| setting.group).collect();
        groups.dedup();
        assert_eq!(groups, Group::ALL);
    }

    #[test]
    fn within_a_scope_a_name_stands_for_one_setting() {
        for scope in [Scope::Instance, Scope::Front] {
            let mut names: Vec<_> = settings_of(scope).map(|setting| setting.name).collect();
            names.sort_unstable();
            let all = names.len();
            names.dedup();
            assert_eq!(names.len(), all);
        }
    }

    #[test]
    fn names_in_other_sources_follow_from_the_flag() {
        assert_eq!(Setting::of(Key::Mongrel2Chroot).variable(), "LURCHER_MONGREL2_CHROOT");
        assert_eq!(Setting::of(Key::Recv).file_key().as_deref(), Some("link.recv"));
        assert_eq!(Setting::of(Key::Config).file_key(), None);
        assert_eq!(Setting::of(Key::Retry).file_key().as_deref(), Some("front.retry"));
        assert_eq!(Setting::of(Key::MaxBody).file_key().as_deref(), Some("max-body"));
    }

    #[test]
    fn what_is_shared_is_one_value() {
        // Lists of the top and of the front end's table would be joined.
        assert!(all().filter(|setting| setting.is_shared()).all(|s| s.kind != Kind::List));
        assert!(Setting::of(Key::MaxBody).is_shared() && !Setting::of(Key::PidFile).is_shared());
    }
}
