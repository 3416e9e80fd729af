//! The bridge: what the instance and one worker say to each other.
//!
//! Two things travel between them, and both have their codec here: *frames* on one stream socket ([`frame`]), and the
//! *board* ([`board`]), a small shared-memory page that outlives the worker and tells which requests it had begun.
//!
//! No I/O policy lives here: who reads when, and what a frame leads to, is for `dispatch` and `worker`.

pub mod board;
pub mod frame;
pub mod request;

pub use board::Board;
pub use board::monotonic_ns;
pub use frame::EndInfo;
pub use frame::Frame;
pub use frame::FrameError;
pub use frame::Inbox;
pub use frame::Kind;
pub use frame::Outcome;
pub use frame::Ticket;
pub use request::Body;
pub use request::FileId;
