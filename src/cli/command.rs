//! clap's view of the command line, made from the table of settings.
//!
//! clap stops at the first mistake; here each is noted, taken out, and the rest is read again, so that all of them can be
//! told. Values are kept as they were typed: what they mean is for `config`.

use std::ffi::OsString;

use clap::Arg;
use clap::ArgAction;
use clap::ArgMatches;
use clap::Command;
use clap::error::ContextKind;
use clap::error::ContextValue;
use clap::error::ErrorKind;

use super::verbs;
use super::wsgid;
use crate::config::nearest;
use crate::config::table::Fallback;
use crate::config::table::Kind;
use crate::config::table::Setting;
use crate::config::table::settings;

/// A whole command line, for those who had nothing to type.
pub(super) const EXAMPLE: &str =
    "lurcher --recv tcp://127.0.0.1:5000 --send tcp://127.0.0.1:5001 --wsgi-app module:callable";

const ABOUT: &str =
    "Runs a Python WSGI application behind a front end that speaks the Mongrel2 protocol";

const AFTER: &str = "\
Each setting can also be given as the environment variable that is named with it, or in a lurcher.toml, under the name of \
its option. Options win over variables, and these over the file; --print-config shows what holds.

lurcher stays in the foreground and logs to standard error, unless it is told otherwise (--daemon, --log-file). SIGTERM and SIGINT make it finish the requests that it has and \
end; a second one ends it at once.";

/// Columns of the help. It is the same on every terminal, and fits on most.
const WIDTH: usize = 100;

/// What was typed, without what could not be understood.
#[derive(Debug)]
pub(super) struct Typed(ArgMatches);

impl Typed {
    /// Whether an option was given.
    pub(super) fn is_set(&self, name: &str) -> bool {
        match self.0.try_get_one::<bool>(name) {
            Ok(set) => set == Some(&true),
            Err(_) => !self.values(name).is_empty(),
        }
    }

    /// The values of an option, in their order.
    pub(super) fn values(&self, name: &str) -> Vec<OsString> {
        match self.0.try_get_many::<OsString>(name) {
            Ok(values) => values.into_iter().flatten().cloned().collect(),
            Err(_) => Vec::new(),
        }
    }
}

/// The help, as `--help` prints it.
pub(super) fn help() -> String {
    command().render_help().to_string()
}

/// Reads arguments (without the program's name), and tells what could not be understood, in one line each. `known` makes
/// what can be typed.
pub(super) fn read(mut args: Vec<OsString>, known: impl Fn() -> Command) -> (Typed, Vec<String>) {
    let mut wrong = Vec::new();
    loop {
        let all = std::iter::once(OsString::from("lurcher")).chain(args.iter().cloned());
        let error = match known().try_get_matches_from(all) {
            Ok(matches) => return (Typed(matches), wrong),
            Err(error) => error,
        };
        let option = context(&error, ContextKind::InvalidArg);
        let option = option.split(" <").next().unwrap_or_default().to_owned();
        wrong.push(describe(&error, &option, &known()));
        match position(&args, &option, error.kind()) {
            Some(at) => take_out(&mut args, at, error.kind()),
            // What clap does not name cannot be taken out; nothing more can be learned.
            None => args.clear(),
        }
    }
}

/// Where the argument is that the error is about.
fn position(args: &[OsString], option: &str, kind: ErrorKind) -> Option<usize> {
    let lacks_value = |at: usize| args.get(at + 1).is_none_or(is_option);
    (0..args.len()).find(|&at| {
        let arg = args[at].to_string_lossy();
        let named = match option.strip_prefix('-') {
            _ if option.is_empty() => false,
            Some(letter) if !letter.starts_with('-') => {
                arg.starts_with('-') && !arg.starts_with("--") && arg.contains(letter)
            }
            _ => {
                arg == option || arg.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
            }
        };
        named && (kind != ErrorKind::InvalidValue || lacks_value(at))
    })
}

/// Takes out an argument, and with an unknown option what looks like its value.
fn take_out(args: &mut Vec<OsString>, at: usize, kind: ErrorKind) {
    let alone = !args.remove(at).to_string_lossy().contains('=');
    if kind == ErrorKind::UnknownArgument
        && alone
        && args.get(at).is_some_and(|next| !is_option(next))
    {
        args.remove(at);
    }
}

fn is_option(arg: &OsString) -> bool {
    let bytes = arg.as_encoded_bytes();
    bytes.len() > 1 && bytes.starts_with(b"-")
}

fn describe(error: &clap::Error, option: &str, known: &Command) -> String {
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let known = known
                .get_arguments()
                .filter(|arg| !arg.is_hide_set())
                .filter_map(Arg::get_long)
                .collect::<Vec<_>>();
            let word = option.trim_start_matches('-');
            match nearest(word, known.into_iter()) {
                Some(meant) if meant.starts_with(word) => {
                    format!("{option}: options cannot be cut short; use --{meant}")
                }
                Some(meant) => format!("{option}: no such option; did you mean --{meant}?"),
                None => format!("{option}: no such option"),
            }
        }
        ErrorKind::InvalidValue => format!("{option}: a value must follow"),
        ErrorKind::TooManyValues => {
            let opposite = settings().find_map(|setting| match setting.kind {
                Kind::Switch { off } if option.strip_prefix("--") == Some(setting.name) => {
                    Some(off)
                }
                _ => None,
            });
            let hint = opposite.map(|off| format!("; the opposite is --{off}")).unwrap_or_default();
            format!("{option}: takes no value{hint}")
        }
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            line.trim_start_matches("error: ").to_owned()
        }
    }
}

fn context(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.first().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

/// What can be typed without a command.
pub(super) fn command() -> Command {
    let mut command = bare()
        .about(ABOUT)
        .before_help(format!("Commands (lurcher COMMAND --help tells more):\n{}", verbs::list()))
        .after_help(AFTER)
        .help_template("{about}\n\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}")
        .override_usage(
            "lurcher --recv ENDPOINT --send ENDPOINT --wsgi-app APP [OPTIONS]\n       lurcher COMMAND [OPTIONS]",
        )
        .args(settings().flat_map(options_of));
    let general = [
        flag(
            "print-config",
            "Print each effective setting and where it came from, then end".to_owned(),
        ),
        flag("version", "Print the version, then end".to_owned()).short('v'),
        flag("help", "Print this help, then end".to_owned()).short('h'),
    ];
    command = command.args(general.map(|arg| arg.help_heading("General")));
    let accepted = wsgid::ACCEPTED.iter().map(|option| flag(option.name, option.help.to_owned()));
    command = command.args(accepted.map(|arg| arg.help_heading("wsgid compatibility")));
    command.args(wsgid::REFUSED.iter().map(|option| {
        let arg =
            if option.has_value { valued(option.name) } else { flag(option.name, String::new()) };
        arg.hide(true)
    }))
}

/// Words alone, and nothing by itself.
pub(super) fn bare() -> Command {
    Command::new("lurcher")
        .term_width(WIDTH)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .arg(Arg::new("words").num_args(0..).value_parser(clap::value_parser!(OsString)).hide(true))
}

/// The options of a setting.
pub(super) fn options_of(setting: &'static Setting) -> Vec<Arg> {
    let heading = setting.group.heading();
    match setting.kind {
        Kind::Switch { off } => vec![
            flag(setting.name, help_of(setting)).overrides_with(off).help_heading(heading),
            flag(off, format!("The opposite of --{}", setting.name))
                .overrides_with(setting.name)
                .help_heading(heading),
        ],
        _ => vec![
            valued(setting.name)
                .value_name(setting.metavar)
                .help(help_of(setting))
                .allow_negative_numbers(true)
                .help_heading(heading),
        ],
    }
}

pub(super) fn flag(name: &'static str, help: String) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

pub(super) fn valued(name: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::Append).value_parser(clap::value_parser!(OsString))
}

fn help_of(setting: &Setting) -> String {
    let fallback = match setting.fallback {
        Fallback::Required => "required".to_owned(),
        _ => format!("default: {}", setting.fallback_text()),
    };
    format!("{}\n[env: {}] [{fallback}]", setting.help, setting.variable())
}
