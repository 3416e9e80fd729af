//! `lurcher.client_disconnected` in the environ: a callable that tells whether the client has left.
//!
//! `waitress.client_disconnected` is the same, for applications that know it from there.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::worker::Watch;

/// Makes room for the callable in the dict that environs are copied from, so that it need not grow for each request.
pub(super) fn reserve(base: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = base.py();
    base.set_item(intern!(py, "lurcher.client_disconnected"), py.None())?;
    base.set_item(intern!(py, "waitress.client_disconnected"), py.None())
}

/// Puts the callable of one request into its environ.
pub(super) fn put(environ: &Bound<'_, PyDict>, watch: Watch) -> PyResult<()> {
    let py = environ.py();
    let callable = Bound::new(py, ClientDisconnected { watch })?;
    environ.set_item(intern!(py, "lurcher.client_disconnected"), &callable)?;
    environ.set_item(intern!(py, "waitress.client_disconnected"), callable)
}

/// The callable.
#[pyclass(frozen, module = "lurcher._native")]
#[derive(Debug)]
pub(super) struct ClientDisconnected {
    watch: Watch,
}

#[pymethods]
impl ClientDisconnected {
    /// Whether the client has left: nothing that is sent can reach it any more.
    fn __call__(&self) -> bool {
        self.watch.is_gone()
    }
}
