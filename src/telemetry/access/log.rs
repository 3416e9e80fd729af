//! Where access lines go: a file that is appended to, or standard output.
//!
//! Lines are gathered and written when there is time. The writer never waits: a pipe whose reader is slow keeps its lines
//! here, up to a limit; beyond it, and when the disk is full or the reader has gone, lines are lost and counted, and the
//! log says so once. Requests go on. It refuses to rotate: the tools of the system do.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use nix::fcntl::OFlag;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;

use crate::config::LogTarget;

/// Why an access log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum AccessLogError {
    /// The file cannot be opened for appending.
    #[error("access log {}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Standard output is not there.
    #[error("access log: standard output cannot be used: {0}")]
    Stdout(io::Error),
}

/// An open access log. Dropping it writes what can be written at once.
#[derive(Debug)]
pub struct AccessLog {
    target: LogTarget,
    sink: File,
    /// Regular files take any amount without making us wait; pipes, sockets and terminals are asked before each piece.
    regular: bool,
    lines: Vec<u8>,
    /// Whether the last bytes written were no whole line, so that what comes next must not be glued to them.
    torn: bool,
    lost: u64,
    told: bool,
}

/// From here on lines are written without being asked: few system calls, and little to lose in a crash.
const FLUSH_AT: usize = 32 * 1024;

/// What is kept for a reader that does not read. Enough for a pause of seconds, little beside a worker's memory.
const KEEP_MAX: usize = 1024 * 1024;

/// `PIPE_BUF`: what a pipe that is ready takes without making the writer wait.
const PIECE: usize = 4096;

impl AsFd for AccessLog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sink.as_fd()
    }
}

impl AccessLog {
    /// Opens it; a new file gets mode 0640. A FIFO need not have a reader yet.
    pub fn open(target: &LogTarget) -> Result<Self, AccessLogError> {
        let (sink, regular) = open_target(target)?;
        let target = target.clone();
        Ok(Self { target, sink, regular, lines: Vec::new(), torn: false, lost: 0, told: false })
    }

    /// Opens it anew, as it was renamed. What was taken goes into the old one, as far as that needs no waiting. If it
    /// cannot be opened, the old one stays, and the log says so.
    pub fn reopen(&mut self) {
        self.flush();
        match open_target(&self.target) {
            Ok((sink, regular)) => {
                (self.sink, self.regular) = (sink, regular);
                // Trouble with the new one is worth a word of its own.
                self.told = false;
            }
            Err(error) => crate::telemetry::error!("{error}; the old one stays"),
        }
    }

    /// Takes a line, without its line break. It is written with others, at the latest by [`Self::flush`].
    pub fn push(&mut self, line: &[u8]) {
        if self.lines.len() + line.len() >= KEEP_MAX {
            self.lose(1, "its reader is too slow");
            return;
        }
        self.lines.extend_from_slice(line);
        self.lines.push(b'\n');
        if self.lines.len() >= FLUSH_AT {
            self.flush();
        }
    }

    /// Writes what was taken, as far as that needs no waiting. To be called when there is nothing else to do.
    pub fn flush(&mut self) {
        let mut done = 0;
        let result = loop {
            let Some(rest) = self.lines.get(done..).filter(|rest| !rest.is_empty()) else {
                break Ok(());
            };
            let piece = if self.regular { rest } else { piece(rest) };
            match self.try_write(piece) {
                Ok(written) => {
                    done += written;
                    self.torn = done > 0 && self.lines.get(done - 1) != Some(&b'\n');
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.lines.drain(..done);
        if let Err(error) = result {
            let lost = self.waiting();
            self.lines.clear();
            if self.torn {
                self.lines.push(b'\n');
            }
            self.lose(lost, &error.to_string());
        }
    }

    /// Lines that could not be written so far.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Lines that were taken and not written. A line break at the start ends a torn line, and is none itself.
    fn waiting(&self) -> u64 {
        let breaks = memchr::memchr_iter(b'\n', &self.lines).count();
        let mending = usize::from(self.lines.first() == Some(&b'\n'));
        u64::try_from(breaks - mending).unwrap_or(u64::MAX)
    }

    fn try_write(&self, piece: &[u8]) -> io::Result<usize> {
        if !self.regular {
            // A descriptor shared with other programs must not be made non-blocking; so it is asked first.
            let mut fds = [PollFd::new(self.sink.as_fd(), PollFlags::POLLOUT)];
            if nix::poll::poll(&mut fds, PollTimeout::ZERO)? == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        match (&self.sink).write(piece)? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            written => Ok(written),
        }
    }

    fn lose(&mut self, lines: u64, why: &str) {
        self.lost = self.lost.saturating_add(lines);
        if !self.told {
            self.told = true;
            crate::telemetry::error!(
                "access log: {why}; lines that cannot be written are lost and counted, requests go on"
            );
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.flush();
        self.lost = self.lost.saturating_add(self.waiting());
        if self.lost > 0 {
            crate::telemetry::warn!("access log: {} lines were lost", self.lost);
        }
    }
}

/// As many whole lines as a pipe takes at once, so that others who write to it write between lines; of a line that is
/// longer, a part.
fn piece(rest: &[u8]) -> &[u8] {
    let most = &rest[..rest.len().min(PIECE)];
    let end = if most.len() < rest.len() { memchr::memrchr(b'\n', most) } else { None };
    &most[..end.map_or(most.len(), |end| end + 1)]
}

/// The open target, and whether it is a regular file.
fn open_target(target: &LogTarget) -> Result<(File, bool), AccessLogError> {
    let sink = match target {
        LogTarget::Stdout => {
            let stdout = io::stdout().as_fd().try_clone_to_owned();
            File::from(stdout.map_err(AccessLogError::Stdout)?)
        }
        LogTarget::File(path) => {
            open_file(path).map_err(|error| AccessLogError::File { path: path.clone(), error })?
        }
    };
    let regular = sink.metadata().is_ok_and(|metadata| metadata.is_file());
    Ok((sink, regular))
}

fn open_file(path: &std::path::Path) -> io::Result<File> {
    let fifo = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
    let mut options = OpenOptions::new();
    if fifo {
        // Open for both, a FIFO needs no reader to be opened, and one that leaves is no end.
        options.read(true).write(true);
    } else {
        options.append(true).create(true);
    }
    options.mode(0o640).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits()).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    fn file_log(path: &std::path::Path) -> AccessLog {
        AccessLog::open(&LogTarget::File(path.to_owned())).unwrap()
    }

    #[test]
    fn lines_are_appended_and_the_file_is_not_for_everyone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        for round in 0..2 {
            let mut log = file_log(&path);
            log.push(format!("line {round}").as_bytes());
            assert!(std::fs::read(&path).unwrap().len() <= 7, "written before it was asked");
            log.flush();
            assert_eq!(log.lost(), 0);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "line 0\nline 1\n");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o137, 0, "{mode:o}");
    }

    #[test]
    fn a_full_disk_costs_lines_and_nothing_else() {
        let mut log = file_log(std::path::Path::new("/dev/full"));
        for _ in 0..3 {
            log.push(b"x");
            log.push(b"y");
            log.flush();
        }
        assert_eq!(log.lost(), 6);
    }

    #[test]
    fn a_reader_that_left_costs_lines_and_nothing_else() {
        let (reader, writer) = io::pipe().unwrap();
        let mut log = AccessLog {
            target: LogTarget::Stdout,
            sink: File::from(std::os::fd::OwnedFd::from(writer)),
            regular: false,
            lines: Vec::new(),
            torn: false,
            lost: 0,
            told: false,
        };
        log.push(b"read");
        log.flush();
        drop(reader);
        log.push(b"not read");
        log.flush();
        assert_eq!(log.lost(), 1);
    }

    #[test]
    fn a_slow_reader_gets_whole_lines_and_never_stops_us() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut log = file_log(&path);
        let line = [b'x'; 999];
        let pushed = 2000;
        for _ in 0..pushed {
            log.push(&line);
        }
        assert!(log.lost() > 0, "a FIFO and a buffer hold less than 2 MB");
        let mut reader = OpenOptions::new()
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(&path)
            .unwrap();
        let (mut text, mut piece) = (Vec::new(), vec![0; 65536]);
        while let Ok(got) = reader.read(&mut piece) {
            text.extend_from_slice(&piece[..got]);
            log.flush();
        }
        let lines = text.split_inclusive(|&b| b == b'\n').collect::<Vec<_>>();
        assert!(lines.iter().all(|line| line.len() == 1000));
        assert_eq!(u64::try_from(lines.len()).unwrap() + log.lost(), pushed);
    }

    #[test]
    fn a_line_that_was_torn_is_not_glued_to_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let mut log = file_log(&path);
        log.push(b"first");
        log.flush();
        // As after a disk that took half a line and no more.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"sec").unwrap();
        (log.torn, log.sink) = (true, File::open("/dev/full").unwrap());
        log.push(b"lost");
        log.flush();
        assert_eq!(log.lost(), 1);
        log.push(b"lost too");
        log.flush();
        assert_eq!(log.lost(), 2);
        log.sink = open_file(&path).unwrap();
        log.push(b"third");
        log.flush();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\nsec\nthird\n");
        assert_eq!(log.lost(), 2);
    }

    #[test]
    fn a_pipe_gets_whole_lines_at_once() {
        let (long, short) = ([b'x'; PIECE], [&[b'y'; PIECE - 1][..], b"\n"].concat());
        assert_eq!(piece(&long), long);
        assert_eq!(piece(&[&long[..], b"xx"].concat()), long);
        assert_eq!(piece(&short), short);
        assert_eq!(piece(&[b"a\nb\n", &long[..]].concat()), b"a\nb\n");
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        let error = AccessLog::open(&LogTarget::File("/nowhere/at/all.log".into())).unwrap_err();
        assert!(error.to_string().starts_with("access log /nowhere/at/all.log: "), "{error}");
    }
}
