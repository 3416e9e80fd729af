//! The entry point of an instance: from a command line to an exit code.
//!
//! It knows no Python beyond the name of its executable: the caller has given up the interpreter before it comes here.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;

use crate::admin;
use crate::admin::Look;
use crate::admin::Target;
use crate::admin::Wish;
use crate::cli;
use crate::cli::Order;
use crate::cli::Parsed;
use crate::cli::Verb;
use crate::config;
use crate::config::Admin;
use crate::config::Config;
use crate::config::InFolder;
use crate::config::Level;
use crate::config::System;
use crate::supervisor;
use crate::supervisor::Exit;
use crate::supervisor::Interpreter;
use crate::supervisor::Reread;
use crate::system;
use crate::system::Came;
use crate::system::Herald;
use crate::system::LogFile;
use crate::system::Notify;
use crate::system::Side;
use crate::system::Starter;
use crate::telemetry;

/// The exit code of a command about an instance that is not there.
const NOBODY: u8 = 3;

/// Runs the command line `args` (without the program's name) and returns the exit code (see
/// [`supervisor::Exit`]). Reads the process environment; blocks until the instance has ended.
pub fn main(args: Vec<OsString>, interpreter: Interpreter) -> u8 {
    let served_by = environment(system::SERVED_BY);
    if let Err(error) = system::end_with_parent(served_by.as_deref()) {
        say_fault(&format!("lurcher: will not notice when its parent is killed: {error}\n"));
    }
    match cli::parse(args.clone(), environment) {
        Parsed::Exit { code, stdout, stderr } => {
            say(&stdout);
            say_fault(&stderr);
            code
        }
        Parsed::Verb(order) => obey(order, interpreter),
        Parsed::Run(mut config) => {
            let served = system::is_served(served_by.as_deref());
            if served {
                // It has one for all.
                config.process.pid_file = None;
                config.front_end.of_serve = true;
            }
            match run(*config, served, interpreter, Box::new(move || reread(args.clone()))) {
                Ok(code) => code,
                Err(Unable { what, error }) => {
                    say_fault(&format!("lurcher: {what}: {error}\n"));
                    Exit::Failed.code()
                }
            }
        }
    }
}

/// What cannot be done before there is a log.
struct Unable {
    what: String,
    error: io::Error,
}

/// Runs an instance, in the background if that is wanted. If it is `served`, its standard error is the log file already.
fn run(
    config: Config,
    served: bool,
    interpreter: Interpreter,
    reread: Reread,
) -> Result<u8, Unable> {
    let unable = |what: &str| {
        let what = what.to_owned();
        move |error| Unable { what, error }
    };
    let log = match config.log.log_file.as_ref().filter(|_| !served) {
        Some(path) => Some(
            LogFile::open(path, config.process.identity.as_ref())
                .map_err(unable(&format!("cannot open the log file {}", path.display())))?,
        ),
        None => None,
    };
    let mut report = None;
    if let Some(log) = log.as_ref().filter(|_| config.process.daemon) {
        match system::detach(interpreter.fork).map_err(unable("cannot go into the background"))? {
            Side::Starter(starter) => return Ok(tell(starter, log)),
            Side::Between => return Ok(0),
            Side::Daemon(ours) => report = Some(ours),
        }
    }
    if let Some(log) = &log {
        let result = log.take_output(config.process.daemon);
        result.map_err(unable("cannot write to the log file"))?;
    }
    // Standard error holds it; nothing else may, once it is opened anew.
    drop(log);
    system::set_title(&format!("lurcher: instance ({})", config.application.wsgi_app), "lurcher");
    if let Some(path) = &config.log.syslog {
        telemetry::to_syslog(path).map_err(unable("cannot make a socket for the log service"))?;
    }
    telemetry::init("lurcher", config.log.log_level, config.log.log_format);
    for warning in &config.warnings {
        telemetry::warn!("{warning}");
    }
    let notify = Notify::from_environment(environment).unwrap_or_else(|error| {
        telemetry::warn!("NOTIFY_SOCKET cannot be used: {error}");
        None
    });
    let herald = Herald::new(notify, report);
    let code = supervisor::run(config, interpreter, reread, herald.clone()).code();
    herald.ended(code);
    Ok(code)
}

/// The starter of a daemon: waits for it, and tells what the log has of a failure.
fn tell(starter: Starter, log: &LogFile) -> u8 {
    let path = log.path().display();
    match starter.wait() {
        Ok(Came::Up { pid }) => {
            say(&format!("lurcher: serving (pid {pid}); its log is {path}\n"));
            0
        }
        Ok(Came::Down(code)) => {
            say_fault(&log.news());
            say_fault(&format!("lurcher: did not come up (exit code {code}); its log is {path}\n"));
            // Whoever has told it to end while it was starting has no instance now.
            if code == 0 { Exit::Failed.code() } else { code }
        }
        Ok(Came::Lost) => {
            say_fault(&log.news());
            say_fault(&format!("lurcher: ended without a word; its log is {path}\n"));
            Exit::Internal.code()
        }
        Err(error) => {
            say_fault(&format!("lurcher: cannot wait for the instance: {error}\n"));
            Exit::Failed.code()
        }
    }
}

fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The settings as they are now: same command line, same environment, but the file may have changed.
fn reread(args: Vec<OsString>) -> Result<Config, Vec<String>> {
    match cli::parse(args, environment) {
        Parsed::Run(config) => Ok(*config),
        Parsed::Exit { stderr, .. } => Err(stderr
            .lines()
            .map(|line| line.trim_start_matches("lurcher: ").to_owned())
            .collect()),
        Parsed::Verb(_) => Err(vec!["a command, and no settings".to_owned()]),
    }
}

/// Does what a command says, and gives the exit code.
#[cfg_attr(
    not(feature = "front"),
    allow(unused_variables, clippy::needless_pass_by_value, reason = "only serve starts others")
)]
fn obey(order: Order, interpreter: Interpreter) -> u8 {
    match order.verb {
        Verb::Init => folder(&order, |path| make_folder(path).map_err(|why| vec![why])),
        Verb::Migrate => folder(&order, migrate),
        // The command line makes settings of it.
        Verb::Start => Exit::Internal.code(),
        #[cfg(feature = "front")]
        Verb::Serve => crate::serve::serve(order, interpreter),
        Verb::Status => {
            let look = Look { json: order.is_set("json"), watch: order.is_set("watch") };
            aimed(order, |target| admin::status(target, look))
        }
        Verb::Stop => {
            let wait = !order.is_set("no-wait");
            aimed(order, |target| admin::tell(target, &Wish::Stop {}, wait))
        }
        Verb::Stacks => aimed(order, |target| admin::tell(target, &Wish::Stacks {}, false)),
        Verb::Reload => aimed(order, |target| admin::tell(target, &Wish::Reload {}, false)),
        Verb::Scale => {
            let word = order.words.first().cloned().unwrap_or_default();
            match word.to_str().and_then(|word| word.parse().ok()) {
                Some(workers) => {
                    aimed(order, |target| admin::tell(target, &Wish::Scale { workers }, false))
                }
                None => wrong(&[format!("scale: {} is no number of workers", word.display())]),
            }
        }
        Verb::LogLevel => {
            let word = order.words.first().cloned().unwrap_or_default();
            match word.to_str().and_then(Level::from_word) {
                Some(level) => {
                    aimed(order, |target| admin::tell(target, &Wish::LogLevel { level }, false))
                }
                None => wrong(&[format!(
                    "log-level: {} is none of error, warning, info, debug",
                    word.display()
                )]),
            }
        }
        Verb::Version => {
            say(&cli::version());
            0
        }
        #[cfg(feature = "front")]
        Verb::Front => crate::front_process::obey(order),
    }
}

/// Does something with an application folder, and says what it was, or what is wrong with it.
fn folder(order: &Order, act: impl FnOnce(&Path) -> Result<String, Vec<String>>) -> u8 {
    let world = System(environment);
    let named = match order.words.first() {
        Some(named) => std::path::absolute(named).map_err(|error| vec![error.to_string()]),
        None => config::folder(&order.sources, &world),
    };
    match named.and_then(|path| act(&path)) {
        Ok(text) => {
            say(&text);
            0
        }
        Err(faults) => {
            for fault in faults {
                say_fault(&format!("lurcher: {fault}\n"));
            }
            Exit::Failed.code()
        }
    }
}

/// Makes what an application folder needs, and leaves alone what is there.
fn make_folder(path: &Path) -> Result<String, String> {
    for part in config::WRITTEN.into_iter().chain(["app"]) {
        let part = path.join(part);
        std::fs::create_dir_all(&part).map_err(|error| format!("{}: {error}", part.display()))?;
    }
    let path = path.display();
    Ok(format!(
        "lurcher: {path} has app, pid/master and logs; put lurcher.toml into it, and `lurcher start --app-path {path}`\n"
    ))
}

/// Writes the `lurcher.toml` that a `wsgid.json` becomes. One that is there stays.
fn migrate(path: &Path) -> Result<String, Vec<String>> {
    let config::Migration { path, toml, report } = config::migrate(path, &System(environment))?;
    let shown = path.display();
    let written = File::create_new(&path).and_then(|mut file| file.write_all(toml.as_bytes()));
    written.map_err(|error| vec![format!("{shown}: {error}; nothing was changed")])?;
    let lines = report.iter().map(|line| format!("  {line}\n"));
    Ok(format!("lurcher: {shown} is written\n{}", lines.collect::<String>()))
}

/// Does something with the instance that a command is about.
fn aimed(mut order: Order, act: impl FnOnce(&Target) -> u8) -> u8 {
    let in_folder = config::pid_in_folder(&mut order.sources, &System(environment));
    let pid = match in_folder {
        Ok(pid) => pid,
        Err(InFolder::Wrong(lines)) => return wrong(&lines),
        Err(InFolder::Nobody(folder)) => {
            say_fault(&format!("lurcher: no instance runs in {}\n", folder.display()));
            return NOBODY;
        }
    };
    match target(order, pid) {
        Ok(target) => act(&target),
        Err(lines) => wrong(&lines),
    }
}

fn wrong(lines: &[String]) -> u8 {
    for line in lines {
        // A reader that has gone away does not want to know.
        let _ = writeln!(io::stderr(), "lurcher: {line}");
    }
    cli::EXIT_USAGE
}

fn target(order: Order, in_folder: Option<u32>) -> Result<Target, Vec<String>> {
    let pid = match order.value("pid") {
        None => in_folder,
        Some(text) => match text.to_str().and_then(|text| text.parse().ok()) {
            Some(pid) => Some(pid),
            None => return Err(vec![format!("--pid: {text:?} is no process id")]),
        },
    };
    let world = System(environment);
    match config::resolve_admin(order.sources, &world) {
        Ok(Admin { control, .. }) => Ok(Target { control, pid }),
        Err(faults) => Err(faults.list.iter().map(ToString::to_string).collect()),
    }
}

fn say(text: &str) {
    // A reader that has gone away does not want to know.
    let _ = io::stdout().write_all(text.as_bytes());
}

fn say_fault(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
