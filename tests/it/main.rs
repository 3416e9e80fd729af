//! Integration tests of the Rust parts.
