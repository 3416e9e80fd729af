//! HTTP/1.x responses as bytes: head, framing, chunks, and ready-made error pages.
//!
//! Nothing here knows WSGI, Mongrel2 or sockets, and nothing parses HTTP requests: the front end has done that. The one
//! thing taken from outside is the clock, for the `Date` header.

pub mod chunk;
pub mod date;
pub mod framing;
pub mod head;
pub mod page;

/// What the `Server` header says of us, and `SERVER_SOFTWARE` in the environ.
pub const SERVER: &str = concat!("lurcher/", env!("CARGO_PKG_VERSION"));
