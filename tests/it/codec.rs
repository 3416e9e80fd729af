//! The Mongrel2 codec: against bytes of the real Mongrel2, by its properties, and against mutilated bytes.

mod fixtures;
mod mutations;
mod properties;
mod replies;

/// The checks of the fuzz targets, run here over fixtures and made-up inputs too.
#[path = "../fuzz/bodies.rs"]
mod bodies;
