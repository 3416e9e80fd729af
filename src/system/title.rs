//! What `ps` and `top` show of this process.
//!
//! The kernel shows the memory in which the process got its arguments, and has a file for writing to one's own memory: so
//! the title is written over the arguments, which nobody reads any more by then (Python and Rust have their copies), never
//! beyond them. It is cut where they end. Where the kernel refuses, the arguments are shown as they were, and nothing else
//! is different. ([`nix`] could name the bounds of that memory anew, but only for a process with `CAP_SYS_RESOURCE`.)

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;

/// Shows this process as `title` in `ps`, and the calling thread, which should be the first one, as `name` in `top` and
/// `pgrep` (15 bytes of it).
pub fn set_title(title: &str, name: &str) {
    if let Ok(name) = CString::new(name) {
        let _ = nix::sys::prctl::set_name(&name);
    }
    // It is a comfort; a kernel that refuses has its reasons.
    let _ = write_over_arguments(title);
}

fn write_over_arguments(title: &str) -> io::Result<()> {
    let (from, length) = arguments(&std::fs::read_to_string("/proc/self/stat")?)?;
    let mut bytes = title.as_bytes().to_vec();
    // The last byte stays a NUL: without it the kernel would read on, into the environment.
    bytes.truncate(length - 1);
    bytes.resize(length, 0);
    OpenOptions::new().write(true).open("/proc/self/mem")?.write_all_at(&bytes, from)
}

/// Address and length of the arguments: fields 48 and 49 of `proc_pid_stat(5)`. The second field, which may have blanks
/// and parentheses in it, ends with the last parenthesis.
fn arguments(stat: &str) -> io::Result<(u64, usize)> {
    let after = stat.rfind(')').map_or("", |at| &stat[at + 1..]);
    let mut numbers = after.split_ascii_whitespace().skip(45).map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(from)), Some(Ok(to))) if from > 0 && to > from => {
            let length = usize::try_from(to - from).map_err(io::Error::other)?;
            Ok((from, length))
        }
        _ => Err(io::Error::other("the kernel does not tell where the arguments are")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_found_behind_any_name() {
        let numbers: Vec<_> = (3..=52).map(|field| field.to_string()).collect();
        for name in ["lurcher", "a b) 1 2 (c", ")"] {
            let stat = format!("1234 ({name}) {}\n", numbers.join(" "));
            assert_eq!(arguments(&stat).unwrap(), (48, 1), "{name}");
        }
        assert!(arguments("1 (x) S 1 2 3").is_err());
        let hidden = format!("1 (x) {}", vec!["0"; 50].join(" "));
        assert!(arguments(&hidden).is_err());
    }

    #[test]
    fn the_title_is_what_the_kernel_shows() {
        write_over_arguments("lurcher: test").unwrap();
        let shown = std::fs::read("/proc/self/cmdline").unwrap();
        assert!(shown.starts_with(b"lurcher: test\0"), "{shown:?}");
        assert!(shown[13..].iter().all(|byte| *byte == 0));
    }
}
