//! An instance, or a front end, as a process of its system: who it is, and where it can be found.

use std::path::PathBuf;

use crate::config::Log;
use crate::config::Surroundings;
use crate::config::fault::Problem;
use crate::config::reader::Reader;
use crate::config::reader::quoted;
use crate::config::reader::quoted_path;
use crate::config::source::Account;
use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;
use crate::config::value;

/// How the instance lives with the rest of its system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Process {
    /// Whether the instance goes into the background; then there is a log file.
    pub daemon: bool,
    /// Where the instance's process id is kept while it runs; absolute.
    pub pid_file: Option<PathBuf>,
    /// Whom the instance becomes, if it is to become another one.
    pub identity: Option<Identity>,
    /// The file mode creation mask, 0 to 0o777; what was inherited when absent.
    pub umask: Option<u32>,
    /// For the environment of workers, from a `wsgid.json`.
    pub envs: Vec<(String, String)>,
    /// The working directory of workers, if not the instance's own; was a directory when it was looked at.
    pub chdir: Option<PathBuf>,
}

/// A user and a group to become. It is there only if it differs from what the process is, which then is root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user; the present one when absent.
    pub uid: Option<u32>,
    /// The group.
    pub gid: u32,
    /// What the system knows of the user: further groups, and the home directory, follow from it.
    pub account: Option<Account>,
}

/// A user as it was named: with what the system knows of it, or a bare number.
enum Named {
    Known(Account),
    Number(u32),
}

impl Process {
    pub(in crate::config) fn read<W: Surroundings>(
        reader: &mut Reader<'_, W>,
        log: Option<&Log>,
    ) -> Option<Self> {
        let daemon = reader.switch(Key::Daemon);
        if daemon == Some(true) && log.is_some_and(|log| log.log_file.is_none()) {
            reader.fault_at(Key::Daemon, Problem::NoLog);
        }
        let pid_file = reader.get(Key::PidFile, Reader::path, quoted_path);
        let identity = Identity::read(reader);
        let umask = reader.get(
            Key::Umask,
            |_, text| value::umask(text),
            |mask| quoted(&format!("{mask:03o}")),
        );
        let chdir = reader.get(Key::Chdir, Reader::directory, quoted_path);
        let envs = reader.sources.envs.clone();
        Some(Self { envs, daemon: daemon?, pid_file, identity, umask, chdir })
    }
}

impl Identity {
    fn read<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<Self> {
        let user = reader.get(
            Key::User,
            |reader, text| {
                let name = value::text(text)?;
                let known =
                    reader.world.account(&name).map_err(|error| Problem::accounts(&error))?;
                match (known, name.parse()) {
                    (Some(account), _) => Ok(Named::Known(account)),
                    (None, Ok(uid)) => Ok(Named::Number(uid)),
                    (None, Err(_)) => Err(Problem::NoUser(name)),
                }
            },
            |user| match user {
                Named::Known(account) => quoted(&account.name),
                Named::Number(uid) => quoted(&uid.to_string()),
            },
        );
        let group = reader.get(
            Key::Group,
            |reader, text| {
                let name = value::text(text)?;
                let known = reader.world.group(&name).map_err(|error| Problem::accounts(&error))?;
                match (known, name.parse()) {
                    (Some(gid), _) | (None, Ok(gid)) => Ok((name, gid)),
                    (None, Err(_)) => Err(Problem::NoGroup(name)),
                }
            },
            |(name, _)| quoted(name),
        );
        let gid = group.map(|(_, gid)| gid);
        let wanted = match user {
            None => Self { uid: None, gid: gid?, account: None },
            Some(Named::Number(uid)) => {
                let Some(gid) = gid else {
                    reader.fault_at(Key::User, Problem::GroupNeeded(uid));
                    return None;
                };
                Self { uid: Some(uid), gid, account: None }
            }
            Some(Named::Known(account)) => Self {
                uid: Some(account.uid),
                gid: gid.unwrap_or(account.gid),
                account: Some(account),
            },
        };
        let (uid, gid) = reader.world.identity();
        if wanted.uid.unwrap_or(uid) == uid && wanted.gid == gid {
            return None;
        }
        if uid != 0 {
            let key =
                if wanted.uid.is_some_and(|wanted| wanted != uid) { Key::User } else { Key::Group };
            reader.fault_at(key, Problem::NotRoot(uid));
        }
        Some(wanted)
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[
    Setting {
        key: Key::Daemon,
        name: "daemon",
        metavar: "",
        kind: Kind::Switch { off: "no-daemon" },
        fallback: Fallback::Value("false"),
        group: Group::Process,
        help: "Go into the background. The command ends when the instance serves (exit code 0), or with the exit code of one \
               that does not come up. Needs --log-file; standard output goes there too",
        reason: "Service managers, containers and terminals want what they have started to stay. wsgid left unless it was \
                 told not to.",
    },
    Setting {
        key: Key::PidFile,
        name: "pid-file",
        metavar: "FILE",
        kind: Kind::Path,
        fallback: Fallback::Unset("none"),
        group: Group::Process,
        help: "Keep the process id in FILE, from its start to its end. A FILE whose lurcher still runs is a \
               reason not to start; one that was left behind is taken over",
        reason: "A service manager knows its processes without one. It is there from the start and not from the first \
                 request, so that an instance that is still loading can be found, and a second one is refused.",
    },
    Setting {
        key: Key::User,
        name: "user",
        metavar: "NAME",
        kind: Kind::Text,
        fallback: Fallback::Unset("the one that starts lurcher"),
        group: Group::Process,
        help: "Become this user (a name or a number), with its group and further groups, before any worker starts or any \
               client is served. Only root can. HOME, USER and LOGNAME of workers follow it",
        reason: "Whoever starts lurcher as root has a reason that lurcher cannot know, as in a container of its own.",
    },
    Setting {
        key: Key::Group,
        name: "group",
        metavar: "NAME",
        kind: Kind::Text,
        fallback: Fallback::Unset("that of the user"),
        group: Group::Process,
        help: "Become this group (a name or a number). A user that is a number without an entry in the system's list needs \
               it",
        reason: "The system's list of users says which group each one has.",
    },
    Setting {
        key: Key::Umask,
        name: "umask",
        metavar: "MASK",
        kind: Kind::Text,
        fallback: Fallback::Unset("the one that lurcher is started with"),
        group: Group::Process,
        help: "What is taken from the mode of files and of Unix sockets that lurcher and its workers create, in octal: 022, \
               027, 077",
        reason: "Whoever starts lurcher has one, mostly 022. wsgid's 0 let everybody write its log.",
    },
    Setting {
        key: Key::Chdir,
        name: "chdir",
        metavar: "DIR",
        kind: Kind::Path,
        fallback: Fallback::Unset("the current directory"),
        group: Group::Process,
        help: "The working directory of the application. Relative paths of other settings start where lurcher was started",
        reason: "An application that opens a file beside itself works as it did on the developer's terminal.",
    },
];
