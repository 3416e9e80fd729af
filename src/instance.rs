//! The entry point of an instance: from a command line to an exit code.
//!
//! It knows no Python beyond the name of its executable: the caller has given up the interpreter before it comes here.

use std::ffi::OsString;
use std::io::Write;

use crate::cli;
use crate::cli::Order;
use crate::cli::Parsed;
use crate::cli::Verb;
use crate::config::Config;
use crate::supervisor;
use crate::supervisor::Interpreter;
use crate::telemetry;

/// Runs the command line `args` (without the program's name) and returns the exit code (see
/// [`supervisor::Exit`]). Reads the process environment; blocks until the instance has ended.
pub fn main(args: Vec<OsString>, interpreter: Interpreter) -> u8 {
    match cli::parse(args.clone(), environment) {
        Parsed::Exit { code, stdout, stderr } => {
            say(&stdout);
            // A reader that has gone away does not want to know.
            let _ = std::io::stderr().write_all(stderr.as_bytes());
            code
        }
        Parsed::Verb(order) => obey(&order),
        Parsed::Run(config) => {
            telemetry::init("lurcher", config.log.log_level);
            for warning in &config.warnings {
                telemetry::warn!("{warning}");
            }
            supervisor::run(*config, interpreter, Box::new(move || reread(args.clone()))).code()
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
fn obey(order: &Order) -> u8 {
    match order.verb {
        Verb::Version => {
            say(&cli::version());
            0
        }
    }
}

fn say(text: &str) {
    // A reader that has gone away does not want to know.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
