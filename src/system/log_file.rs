//! The log file as the place of standard error.
//!
//! Descriptors are made to point at it, so that everything lands there: this log, what workers print, and the last words of
//! an interpreter that crashes.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use nix::unistd::dup2_stderr;
use nix::unistd::dup2_stdout;

use super::identity::give;
use crate::config::Identity;

/// An open log file.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    /// How long it was when it was opened.
    before: u64,
}

/// Most of it that is shown to whoever has started a daemon that did not come up.
const NEWS_MAX: u64 = 16 * 1024;

impl LogFile {
    /// Opens it for appending; a new one gets mode 0640. It is given to the user that the instance becomes.
    pub fn open(path: &Path, owner: Option<&Identity>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).mode(0o640).open(path)?;
        give(&file, owner)?;
        let before = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, before })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on standard error, and with `stdout` standard output, are this file; in this process and in all that it
    /// starts.
    pub fn take_output(&self, stdout: bool) -> io::Result<()> {
        dup2_stderr(&self.file)?;
        if stdout {
            dup2_stdout(&self.file)?;
        }
        Ok(())
    }

    /// What has been written to it since it was opened, the beginning of it; empty if it cannot be read.
    pub fn news(&self) -> String {
        let mut bytes = Vec::new();
        let read = (&self.file)
            .seek(SeekFrom::Start(self.before))
            .and_then(|_| (&self.file).take(NEWS_MAX).read_to_end(&mut bytes));
        read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}
