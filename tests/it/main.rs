//! Integration tests of the Rust parts.

mod transport;
mod cli;
mod codec;
mod layers;
