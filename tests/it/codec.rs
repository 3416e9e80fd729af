//! The Mongrel2 codec: against bytes of the real Mongrel2, by its properties, and against mutilated bytes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here, helpers included")]

mod cases;
mod fixtures;
mod mutations;
mod properties;
mod replies;

/// The checks of the fuzz targets, run here over fixtures and made-up inputs too.
#[path = "../fuzz/bodies.rs"]
mod bodies;
