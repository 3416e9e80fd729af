//! The entry point of the front end: from a command line to an exit code, as a process among others of its system.
//!
//! What is about the process is done here: its logs, its pid file, the user that it becomes, who is told how it is. What is
//! held by whoever has started it (`--wait`, as `serve` does) is left to that one.

use std::ffi::OsString;
use std::io;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::sys::stat::umask;

use crate::cli;
use crate::cli::FrontAgain;
use crate::cli::Order;
use crate::cli::ParsedFront;
use crate::config::Front;
use crate::config::FrontParent;
use crate::config::Identity;
use crate::front;
use crate::front::Bound;
use crate::front::Host;
use crate::system;
use crate::system::Herald;
use crate::system::LogFile;
use crate::system::Notify;
use crate::system::PidFile;
use crate::telemetry;

/// `EX_OSERR` of sysexits.h.
const EXIT_OS: u8 = 71;
/// `EX_CANTCREAT`: a file cannot be used.
const EXIT_CANNOT: u8 = 73;

/// Runs the command line `args` (without the program's name) of the program that is nothing else; gives the exit code.
/// Blocks until the front end has ended.
pub fn main(args: Vec<OsString>) -> u8 {
    follow(cli::parse_front(args, environment))
}

/// Does what the command `front` says; gives the exit code.
pub fn obey(order: Order) -> u8 {
    follow(cli::front(order, environment))
}

fn follow(parsed: ParsedFront) -> u8 {
    match parsed {
        ParsedFront::Exit { code, stdout, stderr } => {
            // A reader that has gone away does not want to know.
            let _ = io::stdout().write_all(stdout.as_bytes());
            let _ = io::stderr().write_all(stderr.as_bytes());
            code
        }
        ParsedFront::Run { settings, parent, again } => match run(*settings, parent, again) {
            Ok(code) => code,
            Err((code, text)) => {
                let _ = writeln!(io::stderr(), "lurcher: {text}");
                code
            }
        },
    }
}

/// An exit code, and why, before there is a log.
type Failure = (u8, String);

fn run(settings: Front, parent: FrontParent, again: FrontAgain) -> Result<u8, Failure> {
    let process = &settings.process;
    if let Some(mask) = process.umask {
        umask(Mode::from_bits_truncate(mask));
    }
    if let Some(path) = settings.log.log_file.as_ref().filter(|_| !parent.wait) {
        take_log(path, process.identity.as_ref()).map_err(|error| {
            (EXIT_CANNOT, format!("cannot write to the log file {}: {error}", path.display()))
        })?;
    }
    system::set_title("lurcher: front end", "lurcher-front");
    if let Some(path) = &settings.log.syslog {
        telemetry::to_syslog(path).map_err(|error| {
            (EXIT_OS, format!("cannot make a socket for the log service: {error}"))
        })?;
    }
    telemetry::init("lurcher-front", settings.log.log_level, settings.log.log_format);
    for warning in &settings.warnings {
        telemetry::warn!("{warning}");
    }
    // Held to the end.
    let _pid_file = match process.pid_file.as_ref().filter(|_| !parent.wait) {
        Some(path) => match PidFile::take(path) {
            Ok((pid_file, old)) => {
                if let Some(old) = old {
                    telemetry::info!(
                        "{}: was left behind by pid {old}; taken over",
                        path.display()
                    );
                }
                Some(pid_file)
            }
            Err(error) => {
                telemetry::error!("cannot have the pid file: {error}");
                return Ok(EXIT_CANNOT);
            }
        },
        None => None,
    };
    let notify = Notify::from_environment(environment).unwrap_or_else(|error| {
        telemetry::warn!("NOTIFY_SOCKET cannot be used: {error}");
        None
    });
    let identity = process.identity.clone();
    let host = Process { identity, herald: Herald::new(notify, None), again };
    Ok(front::run(settings, parent, Rc::new(host)))
}

/// Makes the log file standard error.
fn take_log(path: &Path, owner: Option<&Identity>) -> io::Result<()> {
    LogFile::open(path, owner)?.take_output(false)
}

fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// This process, as its front end sees it.
#[derive(Debug)]
struct Process {
    identity: Option<Identity>,
    herald: Herald,
    again: FrontAgain,
}

impl Host for Process {
    fn bound(&self, bound: &Bound<'_>) -> Result<(), String> {
        let Some(identity) = &self.identity else { return Ok(()) };
        if let Some(log) = bound.access_log {
            system::give(log, Some(identity))
                .map_err(|error| format!("cannot give the access log to another user: {error}"))?;
        }
        for socket in bound.sockets {
            let at = socket.display();
            system::give_socket(socket, identity)
                .map_err(|error| format!("cannot give {at} to another user: {error}"))?;
        }
        system::become_identity(identity)
            .map_err(|error| format!("cannot become another user: {error}"))
    }

    fn serving(&self) {
        self.herald.serving();
    }

    fn reloading(&self) {
        self.herald.reloading();
    }

    fn stopping(&self) {
        self.herald.stopping();
    }

    fn patience(&self) -> Option<Duration> {
        self.herald.patience()
    }

    fn alive(&self, line: &str) {
        self.herald.alive(line);
    }

    fn settings(&self) -> Result<Front, Vec<String>> {
        self.again.read(environment)
    }
}
