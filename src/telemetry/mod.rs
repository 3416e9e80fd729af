//! What an operator reads: records on standard error, and the access log.
//!
//! One record is one line and one write: `2026-11-30T16:40:01.123Z INFO  lurcher[1234]: text`, in UTC; or one
//! JSON object. Other modules log
//! through the macros re-exported here (`crate::telemetry::warn!(…)`), and none names `tracing` itself.
//!
//! It promises that logging never fails a request, never ends the process (a closed pipe, a full disk), and that nothing
//! from outside can forge a line: values go through [`Escaped`], and every record through a guard besides. It refuses
//! colours, which only make files of logs harder to read.

pub mod access;
mod date;
mod escape;
mod limited;
pub mod metrics;
mod object;
mod output;
mod record;
mod syslog;

pub use escape::Escaped;
pub use limited::Held;
pub use limited::Limited;
pub use output::reopen;
pub use record::error_block;
pub use record::init;
pub use record::set_format;
pub use record::set_level;
pub use syslog::to_syslog;
pub use tracing::debug;
pub use tracing::error;
pub use tracing::info;
pub use tracing::warn;
