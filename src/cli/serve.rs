//! The command line of `lurcher serve`: the settings of a front end and of an instance, and the words that give each its
//! own.

use std::ffi::OsString;

use super::EXIT_USAGE;
use super::Order;
use super::lines;
use crate::config;
use crate::config::Config;
use crate::config::Faults;
use crate::config::Front;
use crate::config::Origin;
use crate::config::ResolvedBoth;
use crate::config::Sources;
use crate::config::System;
use crate::config::table::Key;
use crate::config::table::Scope;
use crate::config::table::Setting;

/// A whole command line, for those who had nothing to type.
const EXAMPLE: &str = "lurcher serve mysite.wsgi:application";

/// What the command line asks for.
#[derive(Debug)]
pub enum ParsedServe {
    /// To serve.
    Run(Box<Both>),
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

/// What is to be started.
#[derive(Debug)]
pub struct Both {
    /// The instance's settings, but for its endpoints.
    pub config: Config,
    /// The front end's, but for its route.
    pub front: Front,
    /// What was typed of the instance's settings.
    pub instance_words: Vec<OsString>,
    /// What was typed of the front end's, but for what `serve` gives it itself.
    pub front_words: Vec<OsString>,
    /// Nobody has said what becomes of large bodies.
    pub any_upload: bool,
    /// Nobody has said where their files are.
    pub any_upload_dir: bool,
    /// What the operator should be told once the log is there; one line each.
    pub warnings: Vec<String>,
    /// The way to have the settings anew.
    pub again: BothAgain,
}

/// What was typed, for another look at the file.
#[derive(Debug)]
pub struct BothAgain(Sources);

impl BothAgain {
    /// The settings as they are now: the same was typed, but the file may have changed. If they are wrong it gives what is,
    /// one line each.
    pub fn read(
        &self,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Result<ResolvedBoth, Vec<String>> {
        config::resolve_both(&self.0, &System(env)).map_err(|faults| told(&faults))
    }
}

/// Makes settings of what was typed with the command.
pub fn serve(mut order: Order, env: impl Fn(&str) -> Option<OsString>) -> ParsedServe {
    if let Some(app) = order.words.pop() {
        order.sources.put(Key::WsgiApp, app, Origin::CommandLine("wsgi-app"));
    }
    let print = order.is_set("print-config");
    let typed = order.sources;
    match config::resolve_both(&typed, &System(env)) {
        Ok(both) if print => {
            let stderr =
                lines(&[&both.config.warnings[..], &both.warnings[..]].concat(), "warning: ");
            ParsedServe::Exit { code: 0, stdout: both.show().to_owned(), stderr }
        }
        Ok(both) => ParsedServe::Run(Box::new(Both {
            config: both.config,
            front: both.front,
            instance_words: typed.words(|setting: &Setting| setting.is_of(Scope::Instance)),
            front_words: typed.words(config::is_for_front),
            any_upload: both.any_upload,
            any_upload_dir: both.any_upload_dir,
            warnings: both.warnings,
            again: BothAgain(typed),
        })),
        Err(faults) => {
            let mut wrong = told(&faults);
            if faults.list.iter().any(super::is_missing) {
                wrong.push(format!("for example: {EXAMPLE}"));
            }
            let stderr = lines(&wrong, "") + &lines(&faults.warnings, "warning: ");
            ParsedServe::Exit { code: EXIT_USAGE, stdout: String::new(), stderr }
        }
    }
}

fn told(faults: &Faults) -> Vec<String> {
    faults.list.iter().map(ToString::to_string).collect()
}
