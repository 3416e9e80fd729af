//! The pid file: the instance's process id, for as long as it runs.
//!
//! Whether its lurcher runs is told by a lock on it, which ends with the process however that ends; the number in it is for
//! people and scripts. So a number that another program has got meanwhile fools nobody, and no signal is sent to find out.
//! It refuses to write into a file that is no pid file.

use std::fs::File;
use std::fs::Metadata;
use std::fs::OpenOptions;
use std::io;
use std::io::Read;
use std::io::Seek;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use nix::fcntl::OFlag;

/// Why a pid file cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PidFileError {
    /// It is locked.
    #[error("{}: its lurcher still runs{}", path.display(), known(*pid))]
    Held {
        /// Which.
        path: PathBuf,
        /// What it says.
        pid: Option<u32>,
    },
    /// It has something else in it.
    #[error("{}: is no pid file (there is more in it than a number); it stays as it is", .0.display())]
    NoPidFile(PathBuf),
    /// The system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

fn known(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

/// A pid file of this process. It is removed when this is dropped.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    file: Flock<File>,
}

/// Longer than any number.
const LENGTH_MAX: u64 = 32;

impl PidFile {
    /// Makes the file, or takes over one whose process has ended; gives the number that this one had.
    pub fn take(path: &Path) -> Result<(Self, Option<u32>), PidFileError> {
        let failed = |error| PidFileError::Io { path: path.to_owned(), error };
        loop {
            let mut file = lock(path)?;
            // Its owner may have removed it between the opening and the locking.
            if !std::fs::symlink_metadata(path).is_ok_and(|there| is_same(&file, &there)) {
                continue;
            }
            let old = match content(&mut file).map_err(failed)? {
                Content::Nothing => None,
                Content::Pid(pid) => Some(pid),
                Content::Other => return Err(PidFileError::NoPidFile(path.to_owned())),
            };
            let write = |file: &mut File| {
                file.set_len(0)?;
                file.rewind()?;
                file.write_all(format!("{}\n", std::process::id()).as_bytes())
            };
            write(&mut file).map_err(failed)?;
            return Ok((Self { path: path.to_owned(), file }, old));
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let ours = match std::fs::symlink_metadata(&self.path) {
            Ok(there) => is_same(&self.file, &there),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        // Not a file that somebody has put in its place. And the user that we have become may not be allowed to remove it:
        // then it names nobody, at least.
        if ours && std::fs::remove_file(&self.path).is_err() {
            let _ = self.file.set_len(0);
        }
    }
}

fn lock(path: &Path) -> Result<Flock<File>, PidFileError> {
    let failed = |error| PidFileError::Io { path: path.to_owned(), error };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o644);
    // Neither a link, which could lead anywhere, nor a wait for the reader of a FIFO.
    options.custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    let file = options.open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(PidFileError::NoPidFile(path.to_owned()));
    }
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => Ok(file),
        Err((mut file, Errno::EWOULDBLOCK)) => {
            let pid = match content(&mut file) {
                Ok(Content::Pid(pid)) => Some(pid),
                _ => None,
            };
            Err(PidFileError::Held { path: path.to_owned(), pid })
        }
        Err((_, errno)) => Err(failed(errno.into())),
    }
}

fn is_same(file: &File, there: &Metadata) -> bool {
    file.metadata().is_ok_and(|here| (here.dev(), here.ino()) == (there.dev(), there.ino()))
}

enum Content {
    Nothing,
    Pid(u32),
    Other,
}

fn content(file: &mut File) -> io::Result<Content> {
    let mut bytes = Vec::new();
    file.rewind()?;
    (&*file).take(LENGTH_MAX).read_to_end(&mut bytes)?;
    let text = str::from_utf8(&bytes).map(str::trim);
    Ok(match text.map(|text| (text, text.parse())) {
        Ok(("", _)) => Content::Nothing,
        Ok((_, Ok(pid))) => Content::Pid(pid),
        _ => Content::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_while_it_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lurcher.pid");
        let (held, old) = PidFile::take(&path).unwrap();
        assert_eq!(old, None);
        let id = std::process::id();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{id}\n"));
        let fault = PidFile::take(&path).unwrap_err().to_string();
        assert_eq!(fault, format!("{}: its lurcher still runs (pid {id})", path.display()));
        drop(held);
        assert!(!path.exists());
    }

    #[test]
    fn one_that_was_left_behind_is_taken_over_whoever_has_the_number_now() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lurcher.pid");
        for (left, expected) in
            [("1\n", Some(1)), ("4194304", Some(4_194_304)), ("", None), ("\n", None)]
        {
            std::fs::write(&path, left).unwrap();
            let (_held, old) = PidFile::take(&path).unwrap();
            assert_eq!(old, expected, "{left:?}");
        }
    }

    #[test]
    fn what_is_no_pid_file_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwd");
        let long = "1".repeat(100);
        for text in ["root:x:0:0::/root:/bin/sh\n", "12 13\n", "-1", long.as_str()] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(PidFile::take(&path), Err(PidFileError::NoPidFile(_))), "{text}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(PidFile::take(&link), Err(PidFileError::Io { .. })));
        assert!(matches!(PidFile::take(dir.path()), Err(PidFileError::Io { .. })));
        assert!(matches!(PidFile::take(Path::new("/dev/null")), Err(PidFileError::NoPidFile(_))));
    }

    #[test]
    fn a_file_in_its_place_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lurcher.pid");
        let (held, _) = PidFile::take(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "77\n").unwrap();
        drop(held);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "77\n");
    }
}
