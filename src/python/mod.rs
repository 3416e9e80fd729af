//! What Python sees: the module `lurcher._native`, and everything an application can get hold of.
//!
//! Each class is frozen and may be used and dropped on any thread. The interpreter is released round every wait. No
//! object handed to an application outlives its request in effect: what is kept raises, and reaches no other response.
//!
//! The rules themselves (what a response may do, what an environ holds) are in `wsgi`; here is only the Python around
//! them.
#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]

mod body;
mod call;
mod client;
mod environ;
mod errors;
mod file_wrapper;
mod interrupt;
mod slot;
mod start;
mod text;
mod trace;
mod watch;
mod worker;

use std::ffi::OsString;
use std::io;

use pyo3::exceptions::PyBaseException;
use pyo3::exceptions::PyConnectionError;
use pyo3::prelude::*;

use crate::supervisor::Interpreter;
use crate::worker::Wait;

pyo3::create_exception!(
    lurcher._native,
    ClientGone,
    PyConnectionError,
    "The client has left: what is written can no longer reach it."
);

pyo3::create_exception!(
    lurcher._native,
    RequestTimeout,
    PyBaseException,
    "The request takes longer than --request-timeout: its client has been answered. Raised in the thread that works on \
     it. No Exception, so that `except Exception` lets it pass: clean up and let it go on."
);

/// Waits with the interpreter released.
#[derive(Clone, Copy)]
struct Released<'py>(Python<'py>);

impl Wait for Released<'_> {
    fn wait(&self, blocking: &mut (dyn FnMut() + Send)) {
        self.0.detach(blocking);
    }
}

/// Runs the command line `args` and gives the exit code. Workers will be started with `executable` and its `flags`.
#[pyfunction]
fn main(py: Python<'_>, args: Vec<OsString>, executable: OsString, flags: Vec<OsString>) -> u8 {
    // An instance needs no Python any more.
    py.detach(|| crate::instance::main(args, Interpreter { executable, args: flags, fork }))
}

/// Python's own fork, after which the interpreter is whole in both processes.
fn fork() -> io::Result<i32> {
    let forked = Python::attach(|py| py.import("os")?.call_method0("fork")?.extract());
    forked.map_err(|error: PyErr| io::Error::other(error.to_string()))
}

/// The module.
#[pymodule(gil_used = false)]
#[pyo3(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ClientGone", module.py().get_type::<ClientGone>())?;
    module.add("RequestTimeout", module.py().get_type::<RequestTimeout>())?;
    module.add_class::<worker::Worker>()?;
    module.add_class::<start::StartResponse>()?;
    module.add_class::<start::Write>()?;
    module.add_class::<errors::ErrorLog>()?;
    module.add_class::<file_wrapper::FileWrapper>()?;
    module.add_class::<body::Body>()?;
    module.add_class::<client::ClientDisconnected>()?;
    module.add_function(wrap_pyfunction!(main, module)?)
}
