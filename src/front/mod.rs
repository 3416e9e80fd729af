//! Our own front end: it ends HTTP/1.x and speaks the Mongrel2 protocol to handlers, as known peers.

mod core;
mod fellows;
mod hash;
mod http1;
mod message;
mod relay;
pub mod zmtp;
