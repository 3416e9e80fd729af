//! The commands: what a first word without dashes asks for, as a table.
//!
//! A row has all that can be typed with a command; help and checks are made from it, and settings that a row names are read
//! as those of an instance are. Nothing is done here: [`super::Parsed::Verb`] carries an [`Order`] to whoever does it.
//! A command line without a command runs an instance.

use std::ffi::OsString;

use clap::Arg;
use clap::Command;

use super::command;
use super::command::Typed;
#[cfg(feature = "front")]
use crate::config::NOT_FOR_SERVE;
use crate::config::Sources;
use crate::config::nearest;
use crate::config::table::Key;
use crate::config::table::Scope;
use crate::config::table::Setting;
use crate::config::table::all;

/// Which command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each row of the table has the words for it")]
pub enum Verb {
    Start,
    Init,
    Migrate,
    #[cfg(feature = "front")]
    Serve,
    Status,
    Stacks,
    Stop,
    Reload,
    Scale,
    LogLevel,
    Version,
    #[cfg(feature = "front")]
    Front,
}

/// Which settings of an instance a command takes as options.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(feature = "front"),
    allow(dead_code, reason = "the commands of the front end are not there without it")
)]
enum Takes {
    These(&'static [Key]),
    All,
    /// Those of the front end.
    Front,
    /// Those of both, but for these.
    Both(&'static [Key]),
}

/// An option of one command alone.
#[derive(Debug)]
pub(super) struct Opt {
    /// Without the dashes.
    pub(super) name: &'static str,
    /// What stands for its value; empty if it takes none.
    pub(super) metavar: &'static str,
    pub(super) help: &'static str,
}

/// A row of the table.
#[derive(Debug)]
struct Row {
    /// None: it is answered here.
    verb: Option<Verb>,
    name: &'static str,
    /// What stands for its words in the usage.
    metavar: &'static str,
    /// The least and the most words that follow it.
    words: (usize, usize),
    about: &'static str,
    options: &'static [Opt],
    settings: Takes,
}

/// Chooses among several instances.
const PID: Opt = Opt {
    name: "pid",
    metavar: "PID",
    help: "The instance with this process id; needed only where several run",
};

/// Shows what would hold.
#[cfg(feature = "front")]
const PRINT_CONFIG: Opt = Opt {
    name: "print-config",
    metavar: "",
    help: "Print each effective setting and where it came from, as a lurcher.toml, then end",
};

/// What tells where an instance listens.
const WHERE: Takes = Takes::These(&[Key::Control, Key::Config, Key::AppPath]);

/// A command about one instance that takes no word.
const fn simple(verb: Verb, name: &'static str, about: &'static str) -> Row {
    let (metavar, words) = ("", (0, 0));
    Row { verb: Some(verb), name, metavar, words, about, options: &[PID], settings: WHERE }
}

/// The table, in the order of the help.
static ROWS: &[Row] = &[
    #[cfg(feature = "front")]
    Row {
        verb: Some(Verb::Serve),
        name: "serve",
        metavar: "[APP]",
        words: (0, 1),
        about: "Serve a WSGI application over HTTP: a front end and an instance, started and ended together",
        options: &[PRINT_CONFIG],
        settings: Takes::Both(&NOT_FOR_SERVE),
    },
    Row {
        verb: Some(Verb::Start),
        name: "start",
        metavar: "",
        words: (0, 0),
        about: "Start an instance in an application folder (as wsgid's), in the background",
        options: &[],
        settings: Takes::All,
    },
    Row {
        verb: Some(Verb::Init),
        name: "init",
        metavar: "",
        words: (0, 0),
        about: "Make an application folder: app, pid/master and logs in --app-path",
        options: &[],
        settings: Takes::These(&[Key::AppPath]),
    },
    Row {
        verb: Some(Verb::Migrate),
        name: "migrate",
        metavar: "[DIR]",
        words: (0, 1),
        about: "Make a lurcher.toml from the wsgid.json in DIR, and tell what became of each setting",
        options: &[],
        settings: Takes::These(&[Key::AppPath]),
    },
    Row {
        verb: Some(Verb::Status),
        name: "status",
        metavar: "",
        words: (0, 0),
        about: "Show how things stand in a running instance: links, queue, workers, requests",
        options: &[
            Opt { name: "json", metavar: "", help: "Print one line of JSON" },
            Opt {
                name: "watch",
                metavar: "",
                help: "Show it again each second until the instance ends",
            },
            PID,
        ],
        settings: WHERE,
    },
    simple(
        Verb::Stacks,
        "stacks",
        "Show what each busy slot of a running instance does: its request, its age, its Python stack",
    ),
    Row {
        verb: Some(Verb::Stop),
        name: "stop",
        metavar: "",
        words: (0, 0),
        about: "Stop a running instance as SIGTERM does, and wait until it has ended",
        options: &[
            Opt { name: "no-wait", metavar: "", help: "Do not wait until it has ended" },
            PID,
        ],
        settings: WHERE,
    },
    simple(
        Verb::Reload,
        "reload",
        "Load application and settings anew, and wait until all workers are new; or say why not",
    ),
    Row {
        verb: Some(Verb::Scale),
        name: "scale",
        metavar: "WORKERS",
        words: (1, 1),
        about: "Have so many workers from now on",
        options: &[PID],
        settings: WHERE,
    },
    Row {
        verb: Some(Verb::LogLevel),
        name: "log-level",
        metavar: "LEVEL",
        words: (1, 1),
        about: "Log from this level on until the next reload: error, warning, info or debug",
        options: &[PID],
        settings: WHERE,
    },
    simple(Verb::Reload, "restart", "The same as reload, under wsgid's name"),
    Row {
        verb: None,
        name: "help",
        metavar: "[COMMAND]",
        words: (0, 1),
        about: "Print the help of lurcher, or of a command",
        options: &[],
        settings: Takes::These(&[]),
    },
    #[cfg(feature = "front")]
    Row {
        verb: Some(Verb::Front),
        name: "front",
        metavar: "",
        words: (0, 0),
        about: "Run a front end: it ends HTTP and passes requests to handlers",
        options: super::front::OPTIONS,
        settings: Takes::Front,
    },
    Row {
        verb: Some(Verb::Version),
        name: "version",
        metavar: "",
        words: (0, 0),
        about: "Print the version",
        options: &[],
        settings: Takes::These(&[]),
    },
];

/// A command that was typed, its words and options checked for number and name only.
#[derive(Debug)]
pub struct Order {
    /// Which.
    pub verb: Verb,
    /// The words after it that belong to no option.
    pub words: Vec<OsString>,
    /// The settings that were typed with it.
    pub sources: Sources,
    typed: Typed,
}

impl Order {
    /// Whether an option of its own was given.
    pub fn is_set(&self, name: &str) -> bool {
        self.typed.is_set(name)
    }

    /// The value of an option of its own; of several the last one.
    pub fn value(&self, name: &str) -> Option<OsString> {
        self.typed.values(name).pop()
    }
}

/// What a command line that begins with a command comes to.
#[derive(Debug)]
pub(super) enum Read {
    /// There is no command of this name.
    None,
    /// Print this and end.
    Say(String),
    /// These are wrong, one line each.
    Wrong(Vec<String>),
    /// Do it.
    Order(Order),
}

/// Reads a command line whose first argument is `word`; `rest` are the others.
pub(super) fn read(word: &str, rest: Vec<OsString>) -> Read {
    let Some(row) = row(word) else { return Read::None };
    let (typed, mut wrong) = command::read(rest, || row.command());
    if typed.is_set("help") {
        return Read::Say(row.help());
    }
    let words = typed.values("words");
    let (least, most) = row.words;
    if let Some(more) = words.get(most) {
        wrong.push(format!("{}: does not expect {:?}", row.name, more.to_string_lossy()));
    } else if words.len() < least {
        wrong.push(format!("{}: {} is missing", row.name, row.metavar));
    }
    if !wrong.is_empty() {
        wrong.push(format!("usage: {}", row.usage()));
        return Read::Wrong(wrong);
    }
    if let Some(verb) = row.verb {
        return Read::Order(Order {
            verb,
            words,
            sources: super::sources(&typed, row.taken()),
            typed,
        });
    }
    match words.first().map(|word| word.to_string_lossy()) {
        None => Read::Say(command::help()),
        Some(word) => match self::row(&word) {
            Some(row) => Read::Say(row.help()),
            None => Read::Wrong(vec![unknown(&word)]),
        },
    }
}

/// Whether this is a command.
pub(super) fn exists(word: &str) -> bool {
    row(word).is_some()
}

/// What to say about a first word that is no command.
pub(super) fn unknown(word: &str) -> String {
    match nearest(word, ROWS.iter().map(|row| row.name)) {
        Some(meant) => format!("there is no command {word:?}; did you mean {meant}?"),
        None => format!("there is no command {word:?}; --help lists them"),
    }
}

/// The commands, a line each, for the help.
pub(super) fn list() -> String {
    let width = ROWS.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let line = |list: String, row: &Row| list + &format!("  {:width$}  {}\n", row.name, row.about);
    ROWS.iter().fold(String::new(), line)
}

fn row(word: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == word)
}

impl Row {
    fn usage(&self) -> String {
        let mut usage = format!("lurcher {}", self.name);
        for part in [self.metavar, "[OPTIONS]"] {
            if !part.is_empty() {
                usage.push(' ');
                usage.push_str(part);
            }
        }
        usage
    }

    fn help(&self) -> String {
        self.command().render_help().to_string()
    }

    fn command(&self) -> Command {
        let own = self.options.iter().map(|option| {
            let help = option.help.to_owned();
            if option.metavar.is_empty() {
                command::flag(option.name, help)
            } else {
                command::valued(option.name).value_name(option.metavar).help(help)
            }
        });
        let mut settings: Vec<Arg> = Vec::new();
        for arg in self.taken().flat_map(command::options_of) {
            // Front end and instance each have one of this name: it is given to both.
            if settings.iter().all(|known| known.get_id() != arg.get_id()) {
                settings.push(arg);
            }
        }
        command::bare()
            .about(self.about)
            .override_usage(self.usage())
            .args(own)
            .arg(command::flag("help", "Print this help, then end".to_owned()).short('h'))
            .args(settings)
    }

    /// The settings that it takes.
    fn taken(&self) -> impl Iterator<Item = &'static Setting> {
        all().filter(|setting| match self.settings {
            Takes::These(keys) => setting.is_of(Scope::Instance) && keys.contains(&setting.key),
            Takes::All => setting.is_of(Scope::Instance),
            Takes::Front => setting.is_of(Scope::Front),
            Takes::Both(but) => !but.contains(&setting.key),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order() {
        for row in ROWS {
            assert!(row.words.0 <= row.words.1, "{}", row.name);
            assert!(!row.about.ends_with('.'), "{}", row.name);
            assert!(row.help().lines().all(|line| line.chars().count() <= 100), "{}", row.name);
        }
    }
}
