//! The file of one upload, seen from here: which file a name stands for, whether it is what Mongrel2 makes, and its removal.
//!
//! A name comes from outside and is never opened as it stands. Its directory is opened first, and the file looked at in
//! it without following a link; what was found is remembered by device and inode. The worker opens the file by its path
//! and goes on only if it holds the very same one, and only the very same one is removed. So whoever puts another file
//! in its place gains nothing. Nothing here reads a byte of a file.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Component;
use std::path::Path;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::fcntl::OFlag;
use nix::fcntl::open;
use nix::sys::stat::FileStat;
use nix::sys::stat::Mode;
use nix::sys::stat::SFlag;
use nix::sys::stat::fstatat;
use nix::unistd::Uid;
use nix::unistd::UnlinkatFlags;
use nix::unistd::unlinkat;

use crate::bridge::FileId;
use crate::telemetry;

/// Characters that `mkstemp` puts in the place of a template's X's.
const RANDOM: usize = 6;

/// Where upload files are looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    /// What the front end's paths start at, if it lives in a chroot.
    pub(crate) root: Option<PathBuf>,
    /// The only directory that they may lie in.
    pub(crate) dir: Option<PathBuf>,
}

/// Why a file is not the one that Mongrel2 has written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Flaw {
    /// The path has `..`, or names no file.
    #[error("its path is not plain")]
    Path,
    /// `mkstemp` makes no such name.
    #[error("its name does not end like that of a temporary file")]
    Name,
    /// The directory cannot be opened.
    #[error("its directory cannot be opened: {0}; is --mongrel2-chroot right?")]
    Directory(Errno),
    /// It lies elsewhere.
    #[error("it is not directly in --upload-dir")]
    Outside,
    /// Whoever likes can put files there.
    #[error("everybody may write to --upload-dir")]
    Open,
    /// It is not there, or may not be looked at.
    #[error("it cannot be found: {0}; is --mongrel2-chroot right?")]
    Missing(Errno),
    /// A link, a directory, a pipe, a device.
    #[error("it is no regular file")]
    Kind,
    /// It has several names, so it was not made for this.
    #[error("it has several names")]
    Names,
    /// It is neither ours nor of the directory's owner.
    #[error("it belongs to user {0}, neither to us nor to the owner of --upload-dir")]
    Owner(u32),
    /// Everybody may write to it, or it has bits that no data has.
    #[error("its mode is {0:o}")]
    Mode(u32),
    /// Something is mounted over it.
    #[error("it is on another device than its directory")]
    Device,
    /// Another file than the one that the upload began with.
    #[error("it is not the file that the upload began with")]
    Other,
}

/// The file of one upload. What was [found](Upload::look) is removed when this is dropped: after the answer, or when it
/// has become clear that there will be none. Mongrel2 does not mind while it still writes.
#[derive(Debug)]
pub(crate) struct Upload {
    /// As the front end calls it.
    called: Vec<u8>,
    path: PathBuf,
    found: Option<FileId>,
    size: u64,
}

impl Upload {
    /// The file that the front end calls `called`. Nothing is looked at.
    pub(crate) fn new(place: &Place, called: Vec<u8>) -> Upload {
        let path = Path::new(OsStr::from_bytes(&called));
        let path = match &place.root {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        };
        Upload { called, path, found: None, size: 0 }
    }

    /// Whether the front end calls it so.
    pub(crate) fn is(&self, name: &[u8]) -> bool {
        self.called == name
    }

    /// As the front end calls it.
    pub(crate) fn called(&self) -> &[u8] {
        &self.called
    }

    /// The file as the worker finds it, if it was [found](Upload::look).
    pub(crate) fn file(&self) -> Option<(&[u8], FileId)> {
        self.found.map(|id| (self.path.as_os_str().as_bytes(), id))
    }

    /// Bytes in it when it was looked at.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Looks whether the file is what Mongrel2 makes, and the same as when it was looked at before. After a flaw it is not
    /// touched any more.
    pub(crate) fn look(&mut self, place: &Place) -> Result<(), Flaw> {
        let before = self.found.take();
        let (dir, name) = self.open_directory()?;
        let random = name.as_bytes().iter().rev().take_while(|b| b.is_ascii_alphanumeric()).count();
        if random < RANDOM {
            return Err(Flaw::Name);
        }
        // Opened or not: without the directory nothing in it can be.
        let seen_dir = dir.metadata().map_err(|_| Flaw::Directory(Errno::last()))?;
        let seen = fstatat(dir.as_fd(), name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(Flaw::Missing)?;
        if let Some(wanted) = &place.dir {
            let wanted = std::fs::metadata(wanted).map_err(|_| Flaw::Outside)?;
            if (wanted.dev(), wanted.ino()) != (seen_dir.dev(), seen_dir.ino()) {
                return Err(Flaw::Outside);
            }
            if wanted.mode() & 0o002 != 0 {
                return Err(Flaw::Open);
            }
            if seen.st_uid != wanted.uid() && seen.st_uid != Uid::effective().as_raw() {
                return Err(Flaw::Owner(seen.st_uid));
            }
        }
        judge(&seen)?;
        if seen.st_dev != seen_dir.dev() {
            return Err(Flaw::Device);
        }
        let found = id(&seen);
        if before.is_some_and(|before| before != found) {
            return Err(Flaw::Other);
        }
        self.found = Some(found);
        self.size = u64::try_from(seen.st_size).unwrap_or(0);
        Ok(())
    }

    /// The directory, and the name in it.
    fn open_directory(&self) -> Result<(File, OsString), Flaw> {
        let plain = !self.path.components().any(|part| part == Component::ParentDir);
        let name = self.path.file_name().filter(|_| plain).ok_or(Flaw::Path)?;
        let dir = match self.path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let dir = open(dir, flags, Mode::empty()).map_err(Flaw::Directory)?;
        Ok((dir.into(), name.to_owned()))
    }

    fn remove(&self, found: FileId) -> Result<(), Errno> {
        // Found once, so only an attack or an unmounting can fail here.
        let Ok((dir, name)) = self.open_directory() else { return Err(Errno::ENOENT) };
        let seen = fstatat(dir.as_fd(), name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if id(&seen) != found {
            return Err(Errno::ENOENT);
        }
        unlinkat(dir.as_fd(), name.as_os_str(), UnlinkatFlags::NoRemoveDir)
    }
}

fn id(seen: &FileStat) -> FileId {
    FileId { device: seen.st_dev, inode: seen.st_ino }
}

/// Whether a file can have been made by `mkstemp`, with the mode of `upload.temp_store_mode`.
fn judge(seen: &FileStat) -> Result<(), Flaw> {
    let mode = seen.st_mode;
    if mode & SFlag::S_IFMT.bits() != SFlag::S_IFREG.bits() {
        return Err(Flaw::Kind);
    }
    // None is left when Mongrel2 has just removed it.
    if seen.st_nlink > 1 {
        return Err(Flaw::Names);
    }
    if mode & 0o7002 != 0 {
        return Err(Flaw::Mode(mode & 0o7777));
    }
    Ok(())
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(found) = self.found else { return };
        match self.remove(found) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => telemetry::warn!(
                "cannot remove upload file {}: {error}",
                telemetry::Escaped(self.path.as_os_str().as_bytes())
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::fs::symlink;

    fn place(dir: &Path) -> Place {
        Place { root: None, dir: Some(dir.to_owned()) }
    }

    fn at(path: &Path) -> Upload {
        Upload::new(&Place::default(), path.as_os_str().as_bytes().to_vec())
    }

    #[test]
    fn a_file_is_found_below_the_chroot_and_goes_away() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("u.abcdef");
        std::fs::write(&file, "body").unwrap();
        for strict in [None, Some(dir.path().to_owned())] {
            std::fs::write(&file, "body").unwrap();
            let place = Place { root: Some(dir.path().to_owned()), dir: strict };
            let mut upload = Upload::new(&place, b"/u.abcdef".to_vec());
            assert!(upload.is(b"/u.abcdef") && upload.file().is_none());
            assert_eq!(upload.look(&place), Ok(()));
            assert_eq!(upload.size(), 4);
            assert_eq!(upload.file().unwrap().0, file.as_os_str().as_bytes());
            assert_eq!(upload.look(&place), Ok(()), "it is still the same");
            drop(upload);
            assert!(!file.exists());
        }
    }

    #[test]
    fn what_is_not_mongrel2s_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let place = place(dir.path());
        let make = |path: PathBuf| {
            std::fs::write(&path, "secret").unwrap();
            path
        };
        let secret = make(other.path().join("secret"));
        let link = dir.path().join("link.abcdef");
        symlink(&secret, &link).unwrap();
        let twice = make(dir.path().join("twice.abcdef"));
        std::fs::hard_link(&twice, dir.path().join("second")).unwrap();
        let open = make(dir.path().join("open.abcdef"));
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o666)).unwrap();
        let sub = dir.path().join("subdir");
        std::fs::create_dir(&sub).unwrap();
        let below = make(sub.join("below.abcdef"));
        let (device, zero) = (PathBuf::from("/dev/zero00"), PathBuf::from("/dev/null"));
        for (path, flaw) in [
            (link.clone(), Flaw::Kind),
            (twice.clone(), Flaw::Names),
            (open.clone(), Flaw::Mode(0o666)),
            (sub.clone(), Flaw::Kind),
            (below.clone(), Flaw::Outside),
            (make(other.path().join("f.abcdef")), Flaw::Outside),
            (secret.clone(), Flaw::Outside),
            (make(dir.path().join("short.ab")), Flaw::Name),
            (dir.path().join("none.abcdef"), Flaw::Missing(Errno::ENOENT)),
            (dir.path().join("none/f.abcdef"), Flaw::Directory(Errno::ENOENT)),
            (dir.path().join("../x/f.abcdef"), Flaw::Path),
            (dir.path().join("subdir/../open.abcdef"), Flaw::Path),
            (PathBuf::from("/"), Flaw::Path),
            (PathBuf::new(), Flaw::Path),
            (device, Flaw::Missing(Errno::ENOENT)),
            (zero, Flaw::Name),
        ] {
            let mut upload = at(&path);
            assert_eq!(upload.look(&place), Err(flaw), "{}", path.display());
            assert!(upload.file().is_none());
        }
        for kept in [secret, twice, open, below, link] {
            assert!(kept.symlink_metadata().is_ok(), "{}", kept.display());
        }
        // A way to the directory that is spelled otherwise is none the worse.
        let alias = other.path().join("alias");
        symlink(dir.path(), &alias).unwrap();
        make(dir.path().join("good.abcdef"));
        assert_eq!(at(&alias.join("./good.abcdef")).look(&place), Ok(()));
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        let good = make(dir.path().join("good.abcdef"));
        assert_eq!(at(&good).look(&place), Err(Flaw::Open));
    }

    #[test]
    fn a_file_in_the_place_of_another_is_neither_used_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path());
        let (path, new) = (dir.path().join("u.abcdef"), dir.path().join("new"));
        std::fs::write(&path, "body").unwrap();
        let mut upload = at(&path);
        upload.look(&place).unwrap();
        std::fs::write(&new, "other").unwrap();
        std::fs::rename(&new, &path).unwrap();
        assert_eq!(upload.look(&place), Err(Flaw::Other));
        drop(upload);
        assert!(path.exists());
        let mut upload = at(&path);
        upload.look(&place).unwrap();
        std::fs::write(&new, "third").unwrap();
        std::fs::rename(&new, &path).unwrap();
        drop(upload);
        assert!(path.exists());
    }
}
