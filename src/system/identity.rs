//! Root becomes somebody else, for good.
//!
//! It refuses to do half of it: each step that fails ends the start, and at the end it tries to become root again, which
//! must fail.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use nix::sys::stat::SFlag;
use nix::sys::stat::fstat;
use nix::unistd::Gid;
use nix::unistd::Uid;
use nix::unistd::chown;
use nix::unistd::fchown;
use nix::unistd::initgroups;
use nix::unistd::setgid;
use nix::unistd::setgroups;
use nix::unistd::setuid;

use crate::config::Identity;

/// Why a process cannot become whom it should.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The system refused one of the steps.
    #[error("{step}: {error}")]
    Step {
        /// Which, with its number.
        step: String,
        /// What the system said.
        error: io::Error,
    },
    /// It worked, and yet root could be had back.
    #[error("root could be had back")]
    NotForGood,
}

/// Becomes `identity`: further groups first, then the group, then the user, for only root may do each.
/// To be called before there is a second thread.
pub fn become_identity(identity: &Identity) -> Result<(), IdentityError> {
    let step = |step: String| {
        move |error: nix::Error| IdentityError::Step { step, error: io::Error::from(error) }
    };
    let gid = Gid::from_raw(identity.gid);
    let name = identity.account.as_ref().map(|account| CString::new(account.name.as_str()));
    match name {
        Some(Ok(name)) => {
            initgroups(&name, gid)
                .map_err(step(format!("groups of {}", name.to_string_lossy())))?;
        }
        // Without an entry there are no further groups; those of root must not stay.
        _ => setgroups(&[gid]).map_err(step(format!("groups, {gid} alone")))?,
    }
    setgid(gid).map_err(step(format!("group {gid}")))?;
    let Some(uid) = identity.uid.map(Uid::from_raw) else { return Ok(()) };
    setuid(uid).map_err(step(format!("user {uid}")))?;
    if !uid.is_root() && setuid(Uid::from_raw(0)).is_ok() {
        return Err(IdentityError::NotForGood);
    }
    Ok(())
}

/// Gives the file of a Unix socket that root has bound to whom it becomes, so that it can be removed, and others can connect
/// as its mode says.
pub fn give_socket(path: &Path, identity: &Identity) -> io::Result<()> {
    let (uid, gid) = (identity.uid.map(Uid::from_raw), Gid::from_raw(identity.gid));
    Ok(chown(path, uid, Some(gid))?)
}

/// Gives what root has opened to whom it becomes, so that it can be opened again.
pub fn give(file: impl AsFd, identity: Option<&Identity>) -> io::Result<()> {
    let Some(identity) = identity else { return Ok(()) };
    // A device is everybody's.
    if SFlag::from_bits_truncate(fstat(&file)?.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Ok(());
    }
    let (uid, gid) = (identity.uid.map(Uid::from_raw), Gid::from_raw(identity.gid));
    Ok(fchown(file, uid, Some(gid))?)
}
