//! Integration tests of the Rust parts.

mod cli;
mod codec;
mod layers;
mod transport;
