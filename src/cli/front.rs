//! The command line of the front end: as a command of `lurcher`, and of a program that is nothing else.

use std::ffi::OsString;
use std::path::PathBuf;

use super::EXIT_USAGE;
use super::Order;
use super::lines;
use super::verbs;
use super::verbs::Opt;
use crate::config;
use crate::config::Front;
use crate::config::FrontParent;
use crate::config::Sources;
use crate::config::System;

/// A whole command line, for those who had nothing to type.
const EXAMPLE: &str = "lurcher front --route /=tcp://127.0.0.1:5000,tcp://127.0.0.1:5001";

/// Its options besides settings. But for the first they are for programs that start a front end, as `serve`.
pub(super) const OPTIONS: &[Opt] = &[
    Opt {
        name: "print-config",
        metavar: "",
        help: "Print each effective setting and where it came from, then end",
    },
    Opt {
        name: "wait",
        metavar: "",
        help: "Accept clients only when a byte comes on standard input, a pipe, and end when that ends: for programs \
               that start a front end and hold its sockets, as `serve` does",
    },
    Opt {
        name: "own-lines",
        metavar: "",
        help: "Write access lines only of what handlers do not tell of: for handlers that write into the same file",
    },
    Opt {
        name: "instance-metrics",
        metavar: "PATH",
        help: "Add the metrics of the one instance behind it, which serves them at the Unix socket PATH",
    },
];

/// What the command line asks for.
#[derive(Debug)]
pub enum ParsedFront {
    /// To serve.
    Run {
        /// With these settings.
        settings: Box<Front>,
        /// What its parent says besides.
        parent: FrontParent,
        /// The way to have them anew.
        again: FrontAgain,
    },
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

/// What was typed, for another look at the file.
#[derive(Debug)]
pub struct FrontAgain(Sources);

impl FrontAgain {
    /// The settings as they are now: the same was typed, but the file may have changed. If they are wrong it gives what is,
    /// one line each.
    pub fn read(&self, env: impl Fn(&str) -> Option<OsString>) -> Result<Front, Vec<String>> {
        match config::resolve_front(self.0.clone(), &System(env)) {
            Ok(resolved) => Ok(resolved.front()),
            Err(faults) => Err(faults.list.iter().map(ToString::to_string).collect()),
        }
    }
}

/// Reads the command line of the program that is a front end alone; see [`super::parse`].
pub fn parse_front(args: Vec<OsString>, env: impl Fn(&str) -> Option<OsString>) -> ParsedFront {
    match verbs::read("front", args) {
        verbs::Read::Order(order) => front(order, env),
        verbs::Read::Wrong(wrong) => refused(&wrong),
        verbs::Read::Say(text) => said(text),
        verbs::Read::None => said(String::new()),
    }
}

/// Makes settings of what was typed with the command.
pub fn front(order: Order, env: impl Fn(&str) -> Option<OsString>) -> ParsedFront {
    let print = order.is_set("print-config");
    let parent = FrontParent {
        wait: order.is_set("wait"),
        own_lines: order.is_set("own-lines"),
        instance_metrics: order.value("instance-metrics").map(PathBuf::from),
    };
    let again = FrontAgain(order.sources.clone());
    match config::resolve_front(order.sources, &System(env)) {
        Ok(resolved) if print => said(resolved.show()),
        Ok(resolved) => ParsedFront::Run { settings: Box::new(resolved.front()), parent, again },
        Err(faults) => {
            let mut wrong: Vec<String> = faults.list.iter().map(ToString::to_string).collect();
            if faults.list.iter().any(super::is_missing) {
                wrong.push(format!("for example: {EXAMPLE}"));
            }
            refused(&wrong)
        }
    }
}

fn said(stdout: String) -> ParsedFront {
    ParsedFront::Exit { code: 0, stdout, stderr: String::new() }
}

fn refused(wrong: &[String]) -> ParsedFront {
    ParsedFront::Exit { code: EXIT_USAGE, stdout: String::new(), stderr: lines(wrong, "") }
}
