//! Starts worker processes: exec of the same interpreter, two descriptors, nothing else handed down.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::process::Command;

use command_fds::CommandFdExt;
use command_fds::FdMapping;

use crate::bridge::Board;

/// Where a worker finds its bridge and its board.
const BRIDGE_FD: i32 = 3;
const BOARD_FD: i32 = 4;

/// The Python that workers run in: the one that runs the instance.
#[derive(Debug, Clone)]
pub struct Interpreter {
    /// Path of the executable (`sys.executable`).
    pub executable: OsString,
    /// Interpreter flags to hand on, such as `-X dev` or `-W error`.
    pub args: Vec<OsString>,
}

/// A started worker, as its instance sees it.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) bridge: UnixStream,
    pub(super) board: Board,
}

/// Starts one worker with `slots` slots.
pub(super) fn spawn(interpreter: &Interpreter, slots: usize) -> io::Result<Started> {
    let (bridge, theirs) = UnixStream::pair()?;
    let board = Board::create(slots)?;
    let mut command = Command::new(&interpreter.executable);
    command.args(&interpreter.args).args(["-m", "lurcher.worker"]).args([
        "--bridge-fd",
        &BRIDGE_FD.to_string(),
        "--board-fd",
        &BOARD_FD.to_string(),
    ]);
    let mappings = vec![
        FdMapping { parent_fd: OwnedFd::from(theirs), child_fd: BRIDGE_FD },
        FdMapping { parent_fd: board.fd().try_clone_to_owned()?, child_fd: BOARD_FD },
    ];
    command.fd_mappings(mappings).map_err(io::Error::other)?;
    let child = command.spawn()?;
    Ok(Started { child, bridge, board })
}
