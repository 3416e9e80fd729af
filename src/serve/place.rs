//! The private directory in which front end and instance meet, and the socket on which the instance says that it is ready.
//!
//! It is locked while `serve` lives. One that is not locked any more was left behind by a `serve` that was killed, and is
//! cleared away by the next one; nor does `systemd-tmpfiles` take the files out of a locked one when they get old.
//!
//! The directory has mode 0700, for whoever can write to one of the sockets in it is the front end. It goes with the value.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::path::PathBuf;

use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use nix::unistd::geteuid;
use nix::unistd::mkdtemp;

/// What a name in the directory may have of the 107 bytes that the kernel takes.
const NAME_MAX: usize = 16;

/// A private directory.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// Holds the lock.
    _lock: Flock<File>,
}

impl Place {
    /// Makes one below the first of these that can have it: `TMPDIR`, `/tmp`. Not below `XDG_RUNTIME_DIR`, which mostly is
    /// memory: bodies of requests may be large.
    pub(super) fn make(env: impl Fn(&str) -> Option<OsString>) -> io::Result<Place> {
        let named = env("TMPDIR").map(PathBuf::from);
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for parent in named.into_iter().chain([PathBuf::from("/tmp")]) {
            let template = parent.join("lurcher-XXXXXX");
            if !parent.is_absolute() || template.as_os_str().len() + NAME_MAX > 107 {
                continue;
            }
            clear_away(&parent);
            match mkdtemp(&template).map_err(io::Error::from).and_then(Place::locked) {
                Ok(place) => return Ok(place),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn locked(path: PathBuf) -> io::Result<Place> {
        let lock = lock(&path)?;
        Ok(Place { path, _lock: lock })
    }

    fn path(&self, name: &str) -> PathBuf {
        debug_assert!(name.len() < NAME_MAX);
        self.path.join(name)
    }

    /// The endpoints of the link: requests, responses.
    pub(super) fn endpoints(&self) -> [String; 2] {
        ["requests", "responses"].map(|name| format!("ipc://{}", self.path(name).display()))
    }

    /// A directory for the bodies of requests.
    pub(super) fn uploads(&self) -> io::Result<PathBuf> {
        let path = self.path("uploads");
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(path),
        }
    }

    /// Where the instance tells the front end its metrics.
    pub(super) fn metrics(&self) -> PathBuf {
        self.path("metrics")
    }

    /// Takes away what a front end that died has left: nobody listens there any more.
    pub(super) fn clear_endpoints(&self) {
        for name in ["requests", "responses"] {
            // Mostly there is nothing.
            let _ = std::fs::remove_file(self.path(name));
        }
    }

    /// A socket for `sd_notify` messages, and its path.
    pub(super) fn notify(&self) -> io::Result<(UnixDatagram, PathBuf)> {
        let path = self.path("notify");
        Ok((UnixDatagram::bind(&path)?, path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            crate::telemetry::warn!("{}: {error}", self.path.display());
        }
    }
}

/// Locks a directory, if nobody has.
fn lock(path: &Path) -> io::Result<Flock<File>> {
    let lock = Flock::lock(File::open(path)?, FlockArg::LockExclusiveNonblock);
    lock.map_err(|(_, error)| error.into())
}

/// Removes the directories that were left behind in `parent`.
fn clear_away(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_one(path)) {
        let unused = lock(&path);
        if unused.is_ok() {
            // Another one may be at it as well.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Whether it is a directory like ours: private, with a socket in it that `serve` or a script has made.
fn is_one(path: &Path) -> bool {
    let named = path.file_name().and_then(OsStr::to_str).is_some_and(|n| n.starts_with("lurcher-"));
    let ours = |at: std::fs::Metadata| {
        at.is_dir() && at.uid() == geteuid().as_raw() && at.mode() & 0o777 == 0o700
    };
    let has_socket = |name| {
        let at = std::fs::symlink_metadata(path.join(name));
        at.is_ok_and(|at| at.file_type().is_socket())
    };
    named
        && std::fs::symlink_metadata(path).is_ok_and(ours)
        && ["notify", "forks"].into_iter().any(has_socket)
}

/// Whether an instance's message says that its application is loaded.
pub(super) fn says_ready(message: &str) -> bool {
    message.lines().any(|line| line == "READY=1")
}

/// What is to be handed on of an instance's message to the service manager of `serve`: all but the lines about the
/// instance's own process.
pub(super) fn handed_on(message: &str) -> String {
    let lines: Vec<_> = message.lines().filter(|line| !line.starts_with("MAINPID=")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_of_ones_own() {
        let parent = tempfile::tempdir().unwrap();
        let name = parent.path().as_os_str().to_owned();
        let place = Place::make(|asked| (asked == "TMPDIR").then(|| name.clone())).unwrap();
        assert!(place.path.starts_with(parent.path()));
        assert_eq!(std::fs::metadata(&place.path).unwrap().permissions().mode() & 0o777, 0o700);
        let (_socket, path) = place.notify().unwrap();
        assert!(path.starts_with(&place.path) && place.uploads().unwrap().is_dir());
        let path = place.path.clone();
        drop(place);
        assert!(!path.exists());
    }

    #[test]
    fn what_was_left_behind_is_cleared_away() {
        let parent = tempfile::tempdir().unwrap();
        let name = parent.path().as_os_str().to_owned();
        let make = || Place::make(|_| Some(name.clone())).unwrap();
        let used = make();
        let _socket = used.notify().unwrap();
        // As a process that was killed leaves it.
        let left = parent.path().join("lurcher-abcdef");
        std::fs::create_dir(&left).unwrap();
        std::fs::set_permissions(&left, PermissionsExt::from_mode(0o700)).unwrap();
        drop(UnixDatagram::bind(left.join("notify")).unwrap());
        let other = parent.path().join("lurcher-notes");
        std::fs::create_dir(&other).unwrap();
        let third = make();
        assert!(used.path.exists() && third.path.exists() && other.exists() && !left.exists());
    }

    #[test]
    fn messages() {
        assert_eq!(handed_on("MAINPID=7\nREADY=1\nSTATUS=well\n"), "READY=1\nSTATUS=well");
        assert!(says_ready("MAINPID=7\nREADY=1"));
        assert!(!says_ready("READY=10\nXREADY=1"));
    }

    #[test]
    fn a_parent_that_is_too_long_is_passed_over() {
        let long = OsString::from(format!("/tmp/{}", "x".repeat(90)));
        let place = Place::make(|_| Some(long.clone())).unwrap();
        assert!(place.path.starts_with("/tmp"));
    }
}
