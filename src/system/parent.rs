//! The life of a process that `lurcher serve` has started: it ends when that one does, even by SIGKILL.

use std::ffi::OsStr;
use std::io;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getppid;

/// The environment variable in which `serve` tells its process id.
pub const SERVED_BY: &str = "LURCHER_SERVED_BY";

/// Asks for a SIGTERM when the parent ends, if the parent is the `serve` that the variable names: children of children
/// inherit the variable, and are not meant.
pub fn end_with_parent(served_by: Option<&OsStr>) -> io::Result<()> {
    if is_served(served_by) {
        set_pdeathsig(Signal::SIGTERM)?;
    }
    Ok(())
}

/// Whether the parent is the `serve` that the variable names.
pub fn is_served(served_by: Option<&OsStr>) -> bool {
    let named = served_by.and_then(OsStr::to_str).and_then(|pid| pid.parse().ok());
    named == Some(getppid().as_raw())
}
