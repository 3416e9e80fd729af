//! Where settings come from, and how what was given is kept until it is read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

use nix::unistd::Gid;
use nix::unistd::Group;
use nix::unistd::Uid;
use nix::unistd::User;

use super::table::Key;
use super::table::Kind;
use super::table::Scope;
use super::table::Setting;

/// The world as the settings see it, so that a test can be another one.
pub trait Surroundings {
    /// The environment variable of this name.
    fn variable(&self, name: &str) -> Option<OsString>;
    /// The text of a file.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// Whether there is a directory at this path.
    fn is_dir(&self, path: &Path) -> bool;
    /// The current directory.
    fn current_dir(&self) -> io::Result<PathBuf>;
    /// The user of this name or number, as the system's list has it.
    fn account(&self, _name: &str) -> io::Result<Option<Account>> {
        Ok(None)
    }
    /// The number of the group of this name, as the system's list has it.
    fn group(&self, _name: &str) -> io::Result<Option<u32>> {
        Ok(None)
    }
    /// User and group that a path belongs to.
    fn owner(&self, _path: &Path) -> Option<(u32, u32)> {
        None
    }
    /// User and group of this process.
    fn identity(&self) -> (u32, u32) {
        (0, 0)
    }
}

/// A user, as the system's list has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
    /// Its home directory.
    pub home: PathBuf,
}

impl From<User> for Account {
    fn from(user: User) -> Self {
        Self { name: user.name, uid: user.uid.as_raw(), gid: user.gid.as_raw(), home: user.dir }
    }
}

/// The world as it is, with the environment of one's choice.
#[derive(Debug)]
pub struct System<E>(pub E);

/// No settings file is longer; a device that is named by mistake must not be read for ever.
const FILE_MAX: u64 = 1024 * 1024;

impl<E: Fn(&str) -> Option<OsString>> Surroundings for System<E> {
    fn variable(&self, name: &str) -> Option<OsString> {
        (self.0)(name)
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        let mut text = String::new();
        let length = File::open(path)?.take(FILE_MAX + 1).read_to_string(&mut text)?;
        if u64::try_from(length).is_ok_and(|length| length <= FILE_MAX) {
            Ok(text)
        } else {
            Err(io::Error::other("longer than 1 MiB"))
        }
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn current_dir(&self) -> io::Result<PathBuf> {
        std::env::current_dir()
    }

    fn account(&self, name: &str) -> io::Result<Option<Account>> {
        let by_name = User::from_name(name)?;
        let found = match (by_name, name.parse()) {
            (None, Ok(uid)) => User::from_uid(Uid::from_raw(uid))?,
            (by_name, _) => by_name,
        };
        Ok(found.map(Account::from))
    }

    fn group(&self, name: &str) -> io::Result<Option<u32>> {
        Ok(Group::from_name(name)?.map(|group| group.gid.as_raw()))
    }

    fn owner(&self, path: &Path) -> Option<(u32, u32)> {
        let metadata = path.metadata().ok()?;
        Some((metadata.uid(), metadata.gid()))
    }

    fn identity(&self) -> (u32, u32) {
        (Uid::effective().as_raw(), Gid::effective().as_raw())
    }
}

/// Where a value was given. Shown as what to look for: `--workers`, `LURCHER_WORKERS`, `lurcher.toml: workers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere.
    Default,
    /// In the file, under this key.
    File(PathBuf, String),
    /// In this environment variable.
    Environment(String),
    /// As this flag (its name without the dashes).
    CommandLine(&'static str),
}

impl Origin {
    /// Values of a later source win over those of an earlier one.
    const fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File(..) => 1,
            Self::Environment(_) => 2,
            Self::CommandLine(_) => 3,
        }
    }

    /// Whether this source wins over the other.
    pub(super) const fn is_stronger(&self, other: &Self) -> bool {
        self.rank() > other.rank()
    }

    /// The place where the same source has, or would have, another setting.
    pub(super) fn renamed(&self, setting: &Setting) -> Self {
        match self {
            Self::Default => Self::Default,
            Self::File(path, _) => Self::File(path.clone(), setting.file_key().unwrap_or_default()),
            Self::Environment(_) => Self::Environment(setting.variable()),
            Self::CommandLine(_) => Self::CommandLine(setting.name),
        }
    }

    /// Whether both are the same source, be it with different names.
    pub(super) fn same_source(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, key) => write!(f, "{}: {key}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::CommandLine(flag) => write!(f, "--{flag}"),
        }
    }
}

/// A text that was given for a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    /// As it was written.
    pub(super) text: OsString,
    /// Where.
    pub(super) origin: Origin,
}

/// All texts that were given, from all sources.
#[derive(Debug, Default, Clone)]
pub struct Sources {
    given: BTreeMap<Key, Vec<Given>>,
    /// What a `wsgid.json` puts into the environment of workers.
    pub(super) envs: Vec<(String, String)>,
    /// An application folder has given what it has, so that its `wsgid.json` need not be told of.
    pub(super) has_folder: bool,
}

impl Sources {
    /// Takes a text. Within one source the last one wins, except in lists.
    pub fn put(&mut self, key: Key, text: impl Into<OsString>, origin: Origin) {
        self.given.entry(key).or_default().push(Given { text: text.into(), origin });
    }

    /// Takes what the environment has. Unknown names are left alone: container platforms invent variables such as
    /// `LURCHER_PORT` for a service called lurcher.
    pub(super) fn put_environment(&mut self, world: &impl Surroundings, scope: Scope) {
        for setting in super::table::settings_of(scope) {
            let name = setting.variable();
            if let Some(text) = world.variable(&name) {
                self.put(setting.key, text, Origin::Environment(name));
            }
        }
    }

    /// What was typed of the settings that are wanted, as the words of another command line.
    pub fn words(&self, wanted: impl Fn(&'static Setting) -> bool) -> Vec<OsString> {
        let mut words = Vec::new();
        let wanted = self.given.iter().filter(|(key, _)| wanted(Setting::of(**key)));
        for (key, given) in wanted {
            for Given { text, origin } in given {
                let Origin::CommandLine(flag) = origin else { continue };
                let mut word = OsString::from(format!("--{flag}"));
                if !matches!(Setting::of(*key).kind, Kind::Switch { .. }) {
                    word.push("=");
                    word.push(text);
                }
                words.push(word);
            }
        }
        words
    }

    /// The same without some settings.
    #[must_use]
    pub fn without(&self, keys: &[Key]) -> Sources {
        let kept = self.given.iter().filter(|(key, _)| !keys.contains(key));
        Sources {
            given: kept.map(|(key, given)| (*key, given.clone())).collect(),
            ..Sources::default()
        }
    }

    /// All texts for a setting, those that win last.
    pub(super) fn all(&self, key: Key) -> Vec<&Given> {
        let mut all: Vec<_> = self.given.get(&key).into_iter().flatten().collect();
        all.sort_by_key(|given| given.origin.rank());
        all
    }
}

/// The fallback of a setting as if it had been given.
pub(super) fn fallback(setting: &Setting) -> Option<Given> {
    match setting.fallback {
        super::table::Fallback::Value(text) => {
            Some(Given { text: text.into(), origin: Origin::Default })
        }
        _ => None,
    }
}
