//! Tracebacks of the application, for the log. None of our own code stands in them: it is not Python.

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::text;

/// The traceback as Python would print it. Never fails: an exception that cannot be printed is named at least.
pub(super) fn format(py: Python<'_>, error: &PyErr) -> String {
    let formatted = py
        .import("traceback")
        .and_then(|traceback| traceback.call_method1("format_exception", (error.value(py),)))
        .and_then(|lines| PyString::new(py, "").call_method1("join", (lines,)));
    match formatted {
        Ok(text) => match text.cast::<PyString>() {
            Ok(text) => text::lossy(text),
            Err(_) => nameless(py, error),
        },
        Err(_) => nameless(py, error),
    }
}

fn nameless(py: Python<'_>, error: &PyErr) -> String {
    match error.get_type(py).name() {
        Ok(name) => format!("{} (its traceback cannot be shown)", text::lossy(&name)),
        Err(_) => "an exception that cannot be shown".to_owned(),
    }
}
