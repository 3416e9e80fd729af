//! Words for how a request ended, where an instance and a front end mean the same by them: in access lines and in metrics.

/// Its whole response went out.
pub const OK: &str = "ok";
/// The response broke off: the client got a part of it.
pub const CUT: &str = "cut";
/// The client had gone before it had its answer.
pub const CLIENT_GONE: &str = "client_gone";
/// It took longer than it may.
pub const TIMED_OUT: &str = "timed_out";
/// Who tells of it has answered it alone.
pub const REFUSED: &str = "refused";
