//! With what an instance ends. The codes are part of the interface: process managers act on them. 64, for wrong options, is
//! given before there is an instance (`cli`).

/// Why an instance ended; the number is its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Stopped as asked.
    Stopped = 0,
    /// Stopped at once by a second signal, or something that it needs failed while it ran.
    Failed = 1,
    /// A worker process could not be started, or ended before the application was loaded.
    Boot = 3,
    /// The application could not be loaded.
    Load = 4,
    /// The last worker died, and it was not to be replaced.
    NoWorkers = 5,
    /// A fault of ours (`EX_SOFTWARE`).
    Internal = 70,
}

impl Exit {
    /// The exit code.
    pub fn code(self) -> u8 {
        self as u8
    }
}
