//! Bodies that are not in the message of their request: the file that the instance has named, opened and proven.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use nix::fcntl::OFlag;

use crate::bridge::FileId;

use super::Inflow;

/// Where a slot finds the body of its request.
#[derive(Debug)]
pub enum Input {
    /// In the request.
    Message,
    /// In this file, which ends where the body does.
    File(File),
    /// It comes while it is read.
    Stream(Arc<Inflow>),
}

/// Opens the file of a body, and tells its length. What is found at the path must be the file that the instance has looked
/// at: nobody can put another one there in time.
pub(super) fn open(path: &[u8], id: FileId) -> io::Result<(File, u64)> {
    let path = Path::new(OsStr::from_bytes(path));
    // Without O_NONBLOCK a pipe in its place would hold up the reader.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let open =
        |write| File::options().read(true).write(write).custom_flags(flags.bits()).open(path);
    // Writing is for cutting it. Where Mongrel2 is another user, its group may have been given no more than reading.
    let file = match open(true) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open(false)?,
        other => other?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.dev() != id.device || metadata.ino() != id.inode {
        return Err(io::Error::other("another file has taken its place"));
    }
    Ok((file, metadata.len()))
}

/// Makes the body's file end where the body does. Mongrel2 writes into it also what is pipelined behind the body.
pub(super) fn cut(file: &File, size: u64, length: u64) -> io::Result<()> {
    if size > length { file.set_len(length) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("body"), dir.path().join("other"));
        std::fs::write(&path, "0123456789").unwrap();
        std::fs::write(&other, "secret").unwrap();
        let seen = path.metadata().unwrap();
        let id = FileId { device: seen.dev(), inode: seen.ino() };
        let bytes = path.as_os_str().as_bytes();
        let (file, size) = open(bytes, id).unwrap();
        assert_eq!(size, 10);
        cut(&file, size, 12).unwrap();
        cut(&file, size, 4).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"0123");
        std::os::unix::fs::symlink(&path, dir.path().join("link")).unwrap();
        assert!(open(dir.path().join("link").as_os_str().as_bytes(), id).is_err());
        assert!(open(dir.path().as_os_str().as_bytes(), id).is_err());
        std::fs::rename(&other, &path).unwrap();
        assert!(open(bytes, id).is_err());
    }
}
