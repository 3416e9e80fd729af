//! HTTP/1.x responses as bytes, both ways: head, framing, chunks, ready-made error pages, and a reader of responses.
//!
//! Nothing here knows WSGI, Mongrel2 or sockets, and nothing parses HTTP requests. The one thing taken from outside is
//! the clock, for the `Date` header.

pub mod chunk;
pub mod date;
pub mod dechunk;
pub mod field;
pub mod framing;
pub mod head;
pub mod page;
pub mod request_id;
pub mod response;

/// What the `Server` header says of us, and `SERVER_SOFTWARE` in the environ.
pub const SERVER: &str = concat!("lurcher/", env!("CARGO_PKG_VERSION"));
