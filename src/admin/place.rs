//! Where control sockets are: the usual places, making one, and finding those of living instances.
//!
//! A socket that nobody listens on any more is known by its refusing a connection, and is replaced. One of a living
//! instance is never touched, and nothing that is no socket.

use std::ffi::OsString;
use std::fs;
use std::fs::DirBuilder;
use std::fs::Permissions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;

use nix::sys::socket;
use nix::sys::socket::AddressFamily;
use nix::sys::socket::Backlog;
use nix::sys::socket::SockFlag;
use nix::sys::socket::SockType;
use nix::sys::socket::UnixAddr;
use nix::unistd::geteuid;

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Another instance has it.
    #[error("{} belongs to a living instance", .0.display())]
    Taken(PathBuf),
    /// Something else is there.
    #[error("{} is there and no socket", .0.display())]
    NoSocket(PathBuf),
    /// The system will not have it.
    #[error("{}: {error}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// None of the usual directories can be used.
    #[error("none of the usual directories can be used{0}")]
    Nowhere(String),
}

/// A control socket that is listened on. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) listener: UnixListener,
    pub(super) path: PathBuf,
    /// Device and inode: what stands at the path later may be another's.
    identity: (u64, u64),
}

impl Place {
    /// Listens at `path`, for its owner only.
    pub(super) fn open(path: &Path) -> Result<Place, PlaceError> {
        let fault = |error: io::Error| PlaceError::Io { path: path.to_owned(), error };
        clear(path)?;
        let address = UnixAddr::new(path).map_err(|errno| fault(errno.into()))?;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)
            .map_err(|errno| fault(errno.into()))?;
        socket::bind(fd.as_raw_fd(), &address).map_err(|errno| fault(errno.into()))?;
        // Before anybody can connect.
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(fault)?;
        let backlog = Backlog::new(128).unwrap_or(Backlog::MAXCONN);
        socket::listen(&fd, backlog).map_err(|errno| fault(errno.into()))?;
        let metadata = fs::symlink_metadata(path).map_err(fault)?;
        let identity = (metadata.dev(), metadata.ino());
        Ok(Place { listener: UnixListener::from(fd), path: path.to_owned(), identity })
    }

    /// Listens in the first usual directory that will have it.
    pub(super) fn open_usual(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Place, PlaceError> {
        let name = format!("{}.sock", std::process::id());
        let mut why = String::new();
        for folder in own_folders(&variable) {
            let opened = prepare(&folder)
                .map_err(|error| PlaceError::Io { path: folder.clone(), error })
                .and_then(|()| Place::open(&folder.join(&name)));
            match opened {
                Ok(place) => {
                    // What others have left behind when they were killed.
                    drop(living(&folder));
                    return Ok(place);
                }
                Err(error) => why = format!("; the last one: {error}"),
            }
        }
        Err(PlaceError::Nowhere(why))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if ours {
            // It may be out of reach by now; then the next who looks removes it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes room at `path`, if what is there is of no use to anybody.
fn clear(path: &Path) -> Result<(), PlaceError> {
    let fault = |error| PlaceError::Io { path: path.to_owned(), error };
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(fault(error)),
    };
    if !metadata.file_type().is_socket() {
        return Err(PlaceError::NoSocket(path.to_owned()));
    }
    if is_stale(path) {
        fs::remove_file(path).map_err(fault)
    } else {
        Err(PlaceError::Taken(path.to_owned()))
    }
}

fn is_stale(path: &Path) -> bool {
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    UnixStream::connect(path).err().is_some_and(refused)
}

/// The directories that an instance of this user may put its socket in, the best one first.
fn own_folders(variable: &impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let named = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let uid = geteuid();
    let system = uid.is_root().then(|| PathBuf::from("/run/lurcher"));
    // systemd makes the first for a unit with RuntimeDirectory=, and removes it with it.
    let mut folders: Vec<PathBuf> = named("RUNTIME_DIRECTORY").into_iter().collect();
    folders.extend(named("XDG_RUNTIME_DIR").map(|path| path.join("lurcher")));
    folders.extend(system);
    folders.push(format!("/tmp/lurcher-{uid}").into());
    folders
}

/// The directories to look for instances in: one's own, those of systemd's units, and for root those of all users.
fn folders(variable: &impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut folders = own_folders(variable);
    let within = |folder: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    folders.push("/run/lurcher".into());
    folders.extend(within("/run/lurcher").into_iter().filter(|path| path.is_dir()));
    if geteuid().is_root() {
        folders.extend(within("/run/user").into_iter().map(|path| path.join("lurcher")));
        let prefixed = |path: &PathBuf| path.to_string_lossy().starts_with("/tmp/lurcher-");
        folders.extend(within("/tmp").into_iter().filter(prefixed));
    }
    folders.sort();
    folders.dedup();
    folders
}

/// Makes a directory that only we can write to, or checks that it is one.
fn prepare(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = fs::symlink_metadata(folder)?;
    let ours = metadata.is_dir() && metadata.uid() == geteuid().as_raw();
    if ours && metadata.mode() & 0o022 == 0 {
        Ok(())
    } else {
        Err(io::Error::other("belongs to somebody else, or others may write to it"))
    }
}

/// The sockets of living instances in a directory, by process id. What dead ones have left is removed.
fn living(folder: &Path) -> Vec<(u32, PathBuf)> {
    let mut found = Vec::new();
    // Root does not tidy up in directories of others, who could lead it astray.
    let ours = fs::symlink_metadata(folder)
        .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == geteuid().as_raw());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_suffix(".sock")?.parse().ok());
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        let Some(pid) = pid.filter(|_| is_socket) else { continue };
        if is_stale(&path) {
            if ours {
                // If it cannot be removed, the next one tries again.
                let _ = fs::remove_file(&path);
            }
        } else {
            found.push((pid, path));
        }
    }
    found
}

/// All living instances that have their socket in a usual place.
pub(super) fn find(variable: impl Fn(&str) -> Option<OsString>) -> Vec<(u32, PathBuf)> {
    let mut found: Vec<_> = folders(&variable).iter().flat_map(|folder| living(folder)).collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_for_its_owner_and_goes_with_its_instance() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let place = Place::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(matches!(Place::open(&path), Err(PlaceError::Taken(_))));
        drop(place);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_dead_instance_left_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let place = Place::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        drop(place);
        assert!(path.exists(), "what is not ours stays");
        assert!(matches!(Place::open(&path), Err(PlaceError::NoSocket(_))));
        let long = dir.path().join("x".repeat(200));
        assert!(matches!(Place::open(&long), Err(PlaceError::Io { .. })));
    }

    #[test]
    fn instances_are_found_where_they_are_put() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| dir.path().into());
        let place = Place::open_usual(runtime).unwrap();
        let pid = std::process::id();
        assert_eq!(place.path, dir.path().join(format!("lurcher/{pid}.sock")));
        let stale = dir.path().join("lurcher/4194305.sock");
        drop(UnixListener::bind(&stale).unwrap());
        let found = find(runtime);
        assert!(found.contains(&(pid, place.path.clone())));
        assert!(!stale.exists());
        fs::set_permissions(dir.path().join("lurcher"), Permissions::from_mode(0o777)).unwrap();
        assert!(prepare(&dir.path().join("lurcher")).is_err());
    }
}
