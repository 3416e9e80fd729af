//! The Mongrel2 wire.
