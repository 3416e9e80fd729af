//! `lurcher.client_disconnected` in the environ: a callable that tells whether the client has left.
//!
//! `waitress.client_disconnected` is the same, for applications that know it from there.

use pyo3::prelude::*;

use crate::worker::Watch;

/// The callable.
#[pyclass(frozen, module = "lurcher._native")]
#[derive(Debug)]
pub(super) struct ClientDisconnected {
    watch: Watch,
}

impl ClientDisconnected {
    pub(super) fn new(watch: Watch) -> ClientDisconnected {
        ClientDisconnected { watch }
    }
}

#[pymethods]
impl ClientDisconnected {
    /// Whether the client has left: nothing that is sent can reach it any more.
    fn __call__(&self) -> bool {
        self.watch.is_gone()
    }
}
