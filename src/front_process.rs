//! The entry point of the front end: from a command line to an exit code.

use std::ffi::OsString;
use std::io::Write;

use crate::cli;
use crate::cli::Order;
use crate::cli::ParsedFront;
use crate::front;
use crate::telemetry;

/// Runs the command line `args` (without the program's name) of the program that is nothing else; gives the exit code.
/// Blocks until the front end has ended.
pub fn main(args: Vec<OsString>) -> u8 {
    follow(cli::parse_front(args, |name| std::env::var_os(name)))
}

/// Does what the command `front` says; gives the exit code.
pub fn obey(order: Order) -> u8 {
    follow(cli::front(order, |name| std::env::var_os(name)))
}

fn follow(parsed: ParsedFront) -> u8 {
    match parsed {
        ParsedFront::Exit { code, stdout, stderr } => {
            // A reader that has gone away does not want to know.
            let _ = std::io::stdout().write_all(stdout.as_bytes());
            let _ = std::io::stderr().write_all(stderr.as_bytes());
            code
        }
        ParsedFront::Run { settings, parent } => {
            telemetry::init("lurcher-front", settings.log.log_level, settings.log.log_format);
            for warning in &settings.warnings {
                telemetry::warn!("{warning}");
            }
            front::run(*settings, parent)
        }
    }
}
