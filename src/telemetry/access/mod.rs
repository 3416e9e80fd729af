//! The access log: one line for each request, in Apache's combined format.
//!
//! [`line()`] renders a line where the request was served, [`AccessLog`] writes lines where the instance has time for it.
//! No byte that a client chose can end a line, leave its field or reach a terminal; nothing here waits for a reader.

mod json;
mod line;
mod log;
pub mod outcome;

pub use json::Record;
pub use json::Way;
pub use json::json_line;
pub use line::AccessFields;
pub use line::line;
pub use log::AccessLog;
pub use log::AccessLogError;
