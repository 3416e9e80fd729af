//! `wsgi.errors`: a text stream into the log. A line is one record, written when it is complete or flushed.
//!
//! Each request has its own, so that lines of two requests never mix. One that is kept still reaches the log after its
//! request, for loggers are often set up with the first stream they meet; it holds back nothing then.

use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::text;

/// A line longer than this is written in parts, so that an application without line breaks keeps no memory.
const LONGEST: usize = 16 * 1024;

/// The stream.
#[pyclass(frozen, module = "lurcher._native")]
#[derive(Debug, Default)]
pub(super) struct ErrorLog {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    line: String,
    /// The request is over: nobody will finish a line that has no end.
    over: bool,
}

impl ErrorLog {
    fn add(&self, py: Python<'_>, text: &str) {
        let mut lines = Vec::new();
        {
            let mut open = self.lock();
            for part in text.split_inclusive('\n') {
                open.line.push_str(part);
                if open.line.ends_with('\n') || open.line.len() > LONGEST || open.over {
                    lines.push(std::mem::take(&mut open.line));
                }
            }
        }
        if !lines.is_empty() {
            // The log may be slow, or stuck: that must not hold up the interpreter.
            py.detach(|| lines.iter().for_each(|line| log(line)));
        }
    }

    /// The request is over: writes out what is there of a line.
    pub(super) fn finish(&self, py: Python<'_>) {
        self.lock().over = true;
        self.flush(py);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log(line: &str) {
    let line = line.trim_end_matches(['\r', '\n']);
    crate::telemetry::error!("application: {line}");
}

fn string<'a, 'py>(text: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyString>> {
    text.cast::<PyString>().map_err(|_| {
        PyTypeError::new_err(format!("wsgi.errors takes str, not {}", super::call::type_name(text)))
    })
}

#[pymethods]
impl ErrorLog {
    /// Writes a string; gives the number of characters.
    fn write(&self, text: &Bound<'_, PyAny>) -> PyResult<usize> {
        let text = string(text)?;
        self.add(text.py(), &text::lossy(text));
        text.len()
    }

    /// Writes each string of an iterable.
    fn writelines(&self, lines: &Bound<'_, PyAny>) -> PyResult<()> {
        for line in lines.try_iter()? {
            self.add(lines.py(), &text::lossy(string(&line?)?));
        }
        Ok(())
    }

    /// Puts an unfinished line into the log.
    fn flush(&self, py: Python<'_>) {
        let line = std::mem::take(&mut self.lock().line);
        if !line.is_empty() {
            py.detach(|| log(&line));
        }
    }
}
