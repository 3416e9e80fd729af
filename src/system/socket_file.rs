//! The file of a Unix socket that somebody listens on: what was left behind is replaced, what somebody else uses is not.
//!
//! A socket's file outlives it, and whoever comes next may have put one of his own in its place. So the file that is removed
//! in the end is the one that was made, and no other of that name.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;

/// Tells one file from another that has taken its name, even where the number is used again.
type Mark = (u64, u64, i64, i64);

/// A file that was made by binding; it goes with the value.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    mark: Option<Mark>,
}

impl SocketFile {
    /// Removes what is at `path` if it is a socket that nobody listens on.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn clear_the_way(path: &Path) -> io::Result<()> {
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|at| at.file_type().is_socket());
        let refuses = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if is_socket && UnixStream::connect(path).is_err_and(|error| refuses(&error)) {
            std::fs::remove_file(path)?;
        }
        Ok(())
    }

    /// The file at `path`, which has just been made.
    pub fn made(path: &Path) -> SocketFile {
        SocketFile { path: path.to_owned(), mark: mark(path) }
    }

    /// Whether it still has its name, and nobody has put another one there.
    pub fn is_there(&self) -> bool {
        self.mark.is_some() && mark(&self.path) == self.mark
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_there() {
            // Somebody may have removed it between the two.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn mark(path: &Path) -> Option<Mark> {
    let at = std::fs::symlink_metadata(path).ok()?;
    Some((at.dev(), at.ino(), at.mtime(), at.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_the_own_file_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let first = UnixListener::bind(&path).unwrap();
        let its_file = SocketFile::made(&path);
        SocketFile::clear_the_way(&path).unwrap();
        assert!(path.exists(), "somebody listens");
        drop(first);
        SocketFile::clear_the_way(&path).unwrap();
        let _second = UnixListener::bind(&path).unwrap();
        let second_file = SocketFile::made(&path);
        drop(its_file);
        assert!(path.exists(), "it is another one's by now");
        drop(second_file);
        assert!(!path.exists());
        std::fs::write(&path, "no socket").unwrap();
        SocketFile::clear_the_way(&path).unwrap();
        assert!(path.exists());
    }
}
