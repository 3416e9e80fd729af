//! The command line: what can be typed, and what is answered at once.
//!
//! [`parse`] is a function of its arguments and of [`Surroundings`]: it opens nothing but the settings file, prints nothing
//! and never ends the process. Flags are made from the table in `config`; this is the only place that knows clap.
//!
//! A first word without dashes is a command; `verbs.rs` has the table of them, and what is typed with one comes out as an
//! [`Order`].
//!
//! All that is wrong is reported together, one line each, and with exit code 64. It refuses to guess: an option that is cut
//! short, or a command of wsgid's, is named with what to use instead.

mod command;
#[cfg(feature = "front")]
mod front;
mod serve;
mod verbs;
mod wsgid;

use std::ffi::OsString;
use std::fmt::Write;

use crate::config;
use crate::config::Config;
use crate::config::Fault;
use crate::config::Origin;
use crate::config::Sources;
use crate::config::Surroundings;
use crate::config::System;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;
use crate::config::table::settings;

#[cfg(feature = "front")]
pub use front::FrontAgain;
#[cfg(feature = "front")]
pub use front::ParsedFront;
#[cfg(feature = "front")]
pub use front::front;
#[cfg(feature = "front")]
pub use front::parse_front;
pub use serve::Both;
pub use serve::BothAgain;
pub use serve::ParsedServe;
pub use serve::serve;
pub use verbs::Order;
pub use verbs::Verb;

/// `EX_USAGE` of sysexits.h: options or settings are wrong.
pub const EXIT_USAGE: u8 = 64;

/// What the command line asks for.
#[derive(Debug)]
pub enum Parsed {
    /// To serve.
    Run(Box<Config>),
    /// To do what a command says.
    Verb(Order),
    /// To say something and end.
    Exit {
        /// 0, or [`EXIT_USAGE`].
        code: u8,
        /// For standard output, with its line breaks.
        stdout: String,
        /// For standard error, likewise.
        stderr: String,
    },
}

/// Reads the command line. `args` are the arguments without the program's name; `env` looks up a variable.
pub fn parse(args: Vec<OsString>, env: impl Fn(&str) -> Option<OsString>) -> Parsed {
    parse_in(args, &System(env))
}

/// [`parse`] in a world of one's choice.
pub fn parse_in(args: Vec<OsString>, world: &impl Surroundings) -> Parsed {
    if let Some(word) = args.first().map(|word| word.to_string_lossy().into_owned()) {
        match verbs::read(&word, args[1..].to_vec()) {
            verbs::Read::None => {}
            verbs::Read::Say(text) => return said(text),
            verbs::Read::Wrong(wrong) => return refused(&wrong, false, &[]),
            verbs::Read::Order(order) if order.verb == Verb::Start => return start(order, world),
            verbs::Read::Order(order) => return Parsed::Verb(order),
        }
    }
    let first_is_word = args.first().is_some_and(|first| !first.to_string_lossy().starts_with('-'));
    let (typed, mut wrong) = command::read(args, command::command);
    if typed.is_set("help") {
        return said(command::help());
    }
    if typed.is_set("version") {
        return said(version());
    }
    let words = typed.values("words");
    wrong.extend(
        words
            .iter()
            .enumerate()
            .map(|(at, word)| about_word(&word.to_string_lossy(), at == 0 && first_is_word)),
    );
    let not_here = wsgid::REFUSED.iter().filter(|option| typed.is_set(option.name));
    wrong.extend(not_here.map(|option| format!("--{}: {}", option.name, option.instead)));
    let sources = sources(&typed, settings());
    let resolved = match config::resolve(sources, world) {
        Ok(resolved) if wrong.is_empty() => resolved,
        Ok(resolved) => return refused(&wrong, false, &resolved.config.warnings),
        Err(faults) => {
            // Whoever typed a command did not mean to start, so nothing is missing.
            let list = faults.list.iter().filter(|fault| words.is_empty() || !is_missing(fault));
            wrong.extend(list.map(ToString::to_string));
            let missing = words.is_empty() && faults.list.iter().any(is_missing);
            return refused(&wrong, missing, &faults.warnings);
        }
    };
    if typed.is_set("print-config") {
        let stderr = lines(&resolved.config.warnings, "warning: ");
        return Parsed::Exit { code: 0, stdout: resolved.show(), stderr };
    }
    Parsed::Run(Box::new(resolved.config))
}

/// `lurcher start`: to serve what an application folder has.
fn start(order: Order, world: &impl Surroundings) -> Parsed {
    let mut sources = order.sources;
    let told = match config::put_folder(&mut sources, world) {
        Ok(told) => told,
        Err(wrong) => return refused(&wrong, false, &[]),
    };
    match config::resolve(sources, world) {
        Ok(mut resolved) => {
            resolved.config.warnings.extend(told);
            Parsed::Run(Box::new(resolved.config))
        }
        Err(faults) => {
            let wrong: Vec<_> = faults.list.iter().map(ToString::to_string).collect();
            refused(&wrong, false, &[faults.warnings, told].concat())
        }
    }
}

/// What to say about a word that is no option.
fn about_word(word: &str, is_first: bool) -> String {
    match wsgid::about_word(word) {
        Some(text) => text,
        None if is_first => verbs::unknown(word),
        None if verbs::exists(word) => format!("{word}: a command must be the first word"),
        None => format!("{word:?} stands alone: lurcher takes options and their values only"),
    }
}

/// What `--version` prints.
pub fn version() -> String {
    format!("lurcher {}\n", env!("CARGO_PKG_VERSION"))
}

/// What was typed, as texts for settings.
fn sources(typed: &command::Typed, taken: impl Iterator<Item = &'static Setting>) -> Sources {
    let mut sources = Sources::default();
    if typed.is_set("debug") {
        // First, so that an explicit --log-level wins.
        sources.put(Key::LogLevel, "debug", Origin::CommandLine("debug"));
    }
    for setting in taken {
        if let Kind::Switch { off } = setting.kind {
            for (flag, text) in [(setting.name, "true"), (off, "false")] {
                if typed.is_set(flag) {
                    sources.put(setting.key, text, Origin::CommandLine(flag));
                }
            }
        } else {
            for text in typed.values(setting.name) {
                sources.put(setting.key, text, Origin::CommandLine(setting.name));
            }
        }
    }
    sources
}

const fn is_missing(fault: &Fault) -> bool {
    matches!(fault, Fault::Missing(_))
}

fn said(stdout: String) -> Parsed {
    Parsed::Exit { code: 0, stdout, stderr: String::new() }
}

fn refused(wrong: &[String], with_example: bool, warnings: &[String]) -> Parsed {
    let mut stderr = lines(wrong, "");
    stderr += &lines(warnings, "warning: ");
    if with_example {
        stderr += &lines(&[command::EXAMPLE.to_owned()], "for example: ");
        stderr += &lines(&["--help tells about every option".to_owned()], "");
    }
    Parsed::Exit { code: EXIT_USAGE, stdout: String::new(), stderr }
}

/// One line each, whatever characters an argument had.
fn lines(texts: &[String], before: &str) -> String {
    let mut out = String::new();
    for text in texts {
        let _ = write!(out, "lurcher: {before}");
        for c in text.chars() {
            if c.is_control() {
                out.extend(c.escape_default());
            } else {
                out.push(c);
            }
        }
        out.push('\n');
    }
    out
}

/// The text of `docs/settings.md`; a test holds the file to it.
pub fn settings_page() -> String {
    format!(
        include_str!("settings.md.in"),
        reference = config::reference().trim_end(),
        wsgid = wsgid::reference().trim_end()
    )
}
