//! The log file as standard error, when it was renamed: a new one is opened in its place.
//!
//! Standard output goes along if it is the same file, as in a daemon. What was made to point elsewhere since, as by an
//! application, stays where it is. It refuses to give up the old file before the new one is open.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;

use nix::sys::stat::fstat;
use nix::unistd::dup2_stderr;
use nix::unistd::dup2_stdout;

/// A file, whatever its name is by now: device and inode.
type Id = (u64, u64);

/// The file that the log of this process goes to.
static LOG: Mutex<Option<Id>> = Mutex::new(None);

/// What standard error is now is the log; only the first call has an effect.
pub(super) fn remember() {
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    if log.is_none() {
        *log = id(&io::stderr());
    }
}

/// Opens the log file `path` anew, in this process: what of standard output and standard error was the old one is the new
/// one from now on. A file that is not there is made, with mode 0640. After an error the old one is still in use.
pub fn reopen(path: &Path) -> io::Result<()> {
    remember();
    let mut options = OpenOptions::new();
    // For both, a FIFO needs no reader to be opened.
    let file = options.read(true).append(true).create(true).mode(0o640).open(path)?;
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    // A closed one has no id, and nor has it a place in the log.
    let is_log = |found: Option<Id>| found.is_some() && found == *log;
    if is_log(id(&io::stdout())) {
        dup2_stdout(&file)?;
    }
    if is_log(id(&io::stderr())) {
        dup2_stderr(&file)?;
    }
    *log = id(&file);
    Ok(())
}

fn id(file: &impl AsFd) -> Option<Id> {
    fstat(file).ok().map(|found| (found.st_dev, found.st_ino))
}
