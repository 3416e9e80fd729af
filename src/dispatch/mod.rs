//! The dispatcher: one event loop between the links and the workers.
//!
//! It takes requests from the front ends, keeps them in order, hands them to workers, and brings the responses back on the
//! link and to the connection that they belong to. It parses no more of a message than that needs, never touches Python,
//! and never waits for anything but events. [`core`] is its mind, free of I/O; `run.rs` its body.

mod choice;
mod connection;
pub mod core;
mod inflow;
mod messages;
mod outgoing;
mod pace;
mod port;
mod refuse;
mod run;
mod sort;
mod spool;
mod stacks;
mod upload;
mod upload_file;
mod view;

pub use core::AtWork;
pub use core::Clock;
pub use core::Counters;
pub use core::Fate;
pub use core::Loss;
pub use core::Snapshot;
pub use core::Times;
pub use core::WorkerId;
pub use core::WorkerView;
pub use messages::Bounds;
pub use messages::Command;
pub use messages::News;
pub use messages::Settings;
pub use run::Dispatcher;
pub use stacks::AskStacks;
pub use stacks::WorkerStacks;
pub use view::LinkView;
pub use view::Look;
pub use view::View;
