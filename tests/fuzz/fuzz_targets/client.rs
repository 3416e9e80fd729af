//! Fuzz target `client`; what it checks stands in `bodies.rs`.
#![no_main]

#[path = "../bodies.rs"]
#[allow(dead_code, reason = "one of the functions is this target's")]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::client(data));
