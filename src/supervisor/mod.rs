//! The supervisor: worker processes, signals, and how an instance begins and ends.
//!
//! It starts workers by exec (threads and a `ZeroMQ` context do not survive a fork), replaces those that die, and stops
//! everything in order. It runs in the instance's first thread, hears of the workers from the dispatcher, and touches
//! neither a message nor the application.

mod announce;
mod exit;
mod policy;
mod run;
mod spawn;
mod watch;

pub use exit::Exit;
pub use run::run;
pub use spawn::Interpreter;
