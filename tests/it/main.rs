//! Integration tests of the Rust parts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here, helpers included")]

mod cli;
mod codec;
mod layers;
mod transport;
