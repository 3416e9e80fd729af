//! What the front end asks of the process around it, which is not its own affair: whom to become, whom to tell how it is, where
//! its settings come from.

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use crate::config::Front;

/// The process around a front end.
pub trait Host: Debug {
    /// Everything is bound and opened that only root may be able to bind and open, and nobody is served yet. An error ends
    /// the front end, with this text.
    fn bound(&self, bound: &Bound<'_>) -> Result<(), String>;

    /// Clients are accepted, or a reading of the settings is over.
    fn serving(&self);

    /// The settings are read again.
    fn reloading(&self);

    /// The end begins.
    fn stopping(&self);

    /// How often somebody wants a sign of life at the least, if anybody does.
    fn patience(&self) -> Option<Duration>;

    /// A sign of life; `line` says how it is.
    fn alive(&self, line: &str);

    /// The settings as they are now, or what is wrong with them, one line each.
    fn settings(&self) -> Result<Front, Vec<String>>;
}

/// What was bound and opened.
#[derive(Debug)]
pub struct Bound<'a> {
    /// The files of Unix sockets.
    pub sockets: &'a [&'a Path],
    /// The access log, if there is one.
    pub access_log: Option<BorrowedFd<'a>>,
}
