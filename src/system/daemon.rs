//! An instance in the background: forked twice, in a session of its own, while the process that was started waits until it
//! serves.
//!
//! The first fork lets the starter go on in the shell's foreground; between the forks a session begins that has no
//! terminal; the second fork makes sure that it never gets one. All of it happens before there is a second thread. The
//! forking itself is the caller's, for the process has a Python in it that must know of it.

use std::fs::File;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use nix::unistd::dup2_stdin;
use nix::unistd::setsid;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::low_level::pipe;

/// Forks this process; gives 0 in the new one, and its process id in the old one.
pub type Fork = fn() -> io::Result<i32>;

/// Which of the three processes this is.
#[derive(Debug)]
pub enum Side {
    /// The one that was started: it waits and tells.
    Starter(Starter),
    /// The one between the forks: it has nothing to do but end.
    Between,
    /// The one that is to be the instance.
    Daemon(Report),
}

/// How the instance came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// It serves.
    Up {
        /// Its process id.
        pid: i32,
    },
    /// It ended with this exit code.
    Down(u8),
    /// It ended without a word.
    Lost,
}

/// The starter's side.
#[derive(Debug)]
pub struct Starter {
    report: UnixStream,
    /// Readable after a signal.
    woken: UnixStream,
}

/// The instance's side: what it has to tell to its starter.
#[derive(Debug)]
pub struct Report {
    starter: UnixStream,
}

/// Forks twice.
pub fn detach(fork: Fork) -> io::Result<Side> {
    let (ours, theirs) = UnixStream::pair()?;
    let between = fork()?;
    if between > 0 {
        drop(theirs);
        let (woken, wake) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            pipe::register(signal, wake.try_clone()?)?;
        }
        // Nobody else would reap it. It ends at once; that it has ended already is no fault.
        let _ = waitpid(Pid::from_raw(between), None);
        return Ok(Side::Starter(Starter { report: ours, woken }));
    }
    drop(ours);
    setsid()?;
    if fork()? > 0 {
        return Ok(Side::Between);
    }
    dup2_stdin(File::open("/dev/null")?)?;
    let report = Report { starter: theirs };
    report.say(&format!("pid {}", std::process::id()));
    Ok(Side::Daemon(report))
}

impl Starter {
    /// Waits until the instance serves or has ended. A Ctrl-C meanwhile, or a SIGTERM, is for the instance.
    pub fn wait(self) -> io::Result<Came> {
        let mut pid = None;
        let mut unwanted = false;
        let Self { report, woken } = self;
        let mut report = BufReader::new(report);
        loop {
            let mut fds = [
                PollFd::new(report.get_ref().as_fd(), PollFlags::POLLIN),
                PollFd::new(woken.as_fd(), PollFlags::POLLIN),
            ];
            if !report.buffer().is_empty() {
                // Several lines have come at once.
            } else if let Err(errno) = poll(&mut fds, PollTimeout::NONE) {
                match errno {
                    Errno::EINTR => continue,
                    _ => return Err(errno.into()),
                }
            }
            if fds[1].any().unwrap_or(false) {
                (&woken).read_exact(&mut [0])?;
                unwanted = true;
            } else {
                let mut line = String::new();
                report.read_line(&mut line)?;
                match line.trim_end().split_once(' ') {
                    Some(("pid", number)) => pid = number.parse().ok(),
                    Some(("ended", code)) => {
                        return Ok(code.parse().map_or(Came::Lost, Came::Down));
                    }
                    _ if line.trim_end() == "serving" => {
                        return Ok(pid.map_or(Came::Lost, |pid| Came::Up { pid }));
                    }
                    _ => return Ok(Came::Lost),
                }
            }
            if let Some(pid) = pid.filter(|_| unwanted) {
                // It fails only when the instance has ended, which its report will tell.
                let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
                unwanted = false;
            }
        }
    }
}

impl Report {
    /// The instance serves.
    pub fn serving(&self) {
        self.say("serving");
    }

    /// The instance ends with this exit code. It means nothing after [`Self::serving`].
    pub fn ended(&self, code: u8) {
        self.say(&format!("ended {code}"));
    }

    fn say(&self, word: &str) {
        // A starter that has gone away does not want to know.
        let _ = (&self.starter).write_all(format!("{word}\n").as_bytes());
    }
}
