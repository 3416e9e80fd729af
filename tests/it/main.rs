//! Integration tests of the Rust parts.

mod codec;
mod layers;
