//! The supervisor: worker processes, signals, and how an instance begins and ends.
//!
//! It starts workers by exec (threads and a `ZeroMQ` context do not survive a fork), replaces those that die, and stops
//! everything in order. It runs in the instance's first thread, hears of the workers from the dispatcher, and touches
//! neither a message nor the application.

mod announce;
mod answer;
mod end;
mod exit;
mod faulty;
mod files;
mod logs;
mod plan;
mod policy;
mod process;
mod reason;
mod recycle;
mod reload;
mod rest;
mod run;
mod spawn;
mod stacks;
mod template;
mod watch;

pub use exit::Exit;
pub use reason::Reason;
pub use reason::Restarts;
pub use reload::Reloaded;
pub use run::Reread;
pub use run::run;
pub use spawn::Interpreter;
