//! What the kernel says of other processes.

use nix::unistd::SysconfVar;
use nix::unistd::sysconf;

/// Resident memory of a process in bytes; none if it has ended or `/proc` is not there.
pub(super) fn resident(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten()?;
    Some(pages * u64::try_from(page).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_have_memory_and_nobody_has_none() {
        assert!(resident(std::process::id()).unwrap() > 100_000);
        assert_eq!(resident(u32::MAX), None);
    }
}
