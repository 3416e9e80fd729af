//! Starts worker processes: exec of the same interpreter, two descriptors, nothing else handed down.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::process::Command;

use command_fds::CommandFdExt;
use command_fds::FdMapping;

use super::process::Process;
use crate::bridge::Board;
use crate::config;
use crate::system;
use crate::system::Fork;

/// Where a worker finds its bridge and its board.
const BRIDGE_FD: i32 = 3;
const BOARD_FD: i32 = 4;

/// Where a template finds its control socket.
const CONTROL_FD: i32 = 3;

/// The Python that workers run in: the one that runs the instance.
#[derive(Debug, Clone)]
pub struct Interpreter {
    /// Path of the executable (`sys.executable`).
    pub executable: OsString,
    /// Interpreter flags to hand on, such as `-X dev` or `-W error`.
    pub args: Vec<OsString>,
    /// Its way to fork.
    pub fork: Fork,
}

/// A started worker, as its instance sees it.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) process: Process,
    pub(super) bridge: UnixStream,
    pub(super) board: Board,
}

/// Starts one worker with `slots` slots.
pub(super) fn spawn(
    interpreter: &Interpreter,
    place: &config::Process,
    slots: usize,
) -> io::Result<Started> {
    let (bridge, theirs) = bridge()?;
    let board = Board::create(slots)?;
    let mut command = Command::new(&interpreter.executable);
    command.args(&interpreter.args).args(["-m", "lurcher.worker"]).args([
        "--bridge-fd",
        &BRIDGE_FD.to_string(),
        "--board-fd",
        &BOARD_FD.to_string(),
    ]);
    settle(&mut command, place);
    let mappings = vec![
        FdMapping { parent_fd: theirs, child_fd: BRIDGE_FD },
        FdMapping { parent_fd: board.fd().try_clone_to_owned()?, child_fd: BOARD_FD },
    ];
    command.fd_mappings(mappings).map_err(io::Error::other)?;
    let process = Process::Started(command.spawn()?);
    Ok(Started { process, bridge, board })
}

/// A new bridge: our end, and a worker's.
pub(super) fn bridge() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    Ok((ours, OwnedFd::from(theirs)))
}

/// Starts a template, with its end of the control socket.
pub(super) fn spawn_template(
    interpreter: &Interpreter,
    place: &config::Process,
    control: OwnedFd,
) -> io::Result<Child> {
    let mut command = Command::new(&interpreter.executable);
    command.args(&interpreter.args).args(["-m", "lurcher.template"]);
    command.args(["--control-fd", &CONTROL_FD.to_string()]);
    settle(&mut command, place);
    let mappings = vec![FdMapping { parent_fd: control, child_fd: CONTROL_FD }];
    command.fd_mappings(mappings).map_err(io::Error::other)?;
    command.spawn()
}

/// Puts the worker where it is to run, and tells it who it is: the environment is still that of who started the instance.
fn settle(command: &mut Command, place: &config::Process) {
    for name in system::VARIABLES {
        command.env_remove(name);
    }
    command.envs(place.envs.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &place.chdir {
        command.current_dir(directory);
    }
    if let Some(account) = place.identity.as_ref().and_then(|identity| identity.account.as_ref()) {
        command.env("HOME", &account.home).env("USER", &account.name).env("LOGNAME", &account.name);
    }
}
