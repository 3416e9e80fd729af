//! The command line of the front end: as a command of `lurcher`, and of a program that is nothing else.

use std::ffi::OsString;

use super::EXIT_USAGE;
use super::Order;
use super::lines;
use super::verbs;
use crate::config;
use crate::config::Front;
use crate::config::Sources;
use crate::config::System;

/// A whole command line, for those who had nothing to type.
const EXAMPLE: &str = "lurcher front --route /=tcp://127.0.0.1:5000,tcp://127.0.0.1:5001";

/// What the command line asks for.
#[derive(Debug)]
pub enum ParsedFront {
    /// To serve.
    Run {
        /// With these settings.
        settings: Box<Front>,
        /// Once a byte comes on standard input, and for as long as that lasts.
        wait: bool,
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
    let wait = order.is_set("wait");
    let again = FrontAgain(order.sources.clone());
    match config::resolve_front(order.sources, &System(env)) {
        Ok(resolved) if print => said(resolved.show()),
        Ok(resolved) => ParsedFront::Run { settings: Box::new(resolved.front()), wait, again },
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
