//! `wsgi.input` of a streamed body (PEP 3333, "Input and Error Streams"): what comes, as it comes.
//!
//! Reading waits with the interpreter released, ends where the body ends, and fails if the rest of it will never come. It
//! is as much of a raw stream as `io.BufferedReader` and `io.TextIOWrapper` ask for; it cannot seek.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyStopIteration;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::types::PyMemoryView;
use pyo3::types::PySlice;

use crate::worker::Inflow;

use super::ClientGone;
use super::Released;

/// The stream.
#[pyclass(frozen, module = "lurcher._native")]
#[derive(Debug)]
pub(super) struct Body {
    inflow: Arc<Inflow>,
    closed: AtomicBool,
}

impl Body {
    pub(super) fn new(inflow: Arc<Inflow>) -> Body {
        Body { inflow, closed: AtomicBool::new(false) }
    }

    /// Adds to `out` what is there, at least one byte but at the end of the body. Says whether anything was added.
    fn take(
        &self,
        py: Python<'_>,
        out: &mut Vec<u8>,
        most: usize,
        until: Option<u8>,
    ) -> PyResult<bool> {
        if self.closed.load(Ordering::Acquire) {
            return Err(PyValueError::new_err("I/O operation on closed file."));
        }
        let before = out.len();
        match self.inflow.take(out, most, until, &Released(py)) {
            Ok(()) => Ok(out.len() > before),
            Err(_) => Err(ClientGone::new_err("the rest of the request's body will not come")),
        }
    }

    /// At most `most` bytes, less only at the end of the body or of a line.
    fn gather(&self, py: Python<'_>, most: usize, until: Option<u8>) -> PyResult<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            let left = most - out.len();
            let ended = !self.take(py, &mut out, left, until)?;
            if ended || out.len() == most || until.is_some() && out.last().copied() == until {
                return Ok(out);
            }
        }
    }

    fn line<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.gather(py, most, Some(b'\n'))?))
    }
}

/// A size as Python's streams take it: None and negative ones mean all.
fn most(size: Option<i64>) -> usize {
    size.and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX)
}

#[pymethods]
impl Body {
    /// That many bytes, less only at the end of the body; without a size, all that is left.
    #[pyo3(signature = (size = None, /))]
    fn read<'py>(&self, py: Python<'py>, size: Option<i64>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.gather(py, most(size), None)?))
    }

    /// What is there, at most that many bytes; waits only if nothing is.
    #[pyo3(signature = (size = None, /))]
    fn read1<'py>(&self, py: Python<'py>, size: Option<i64>) -> PyResult<Bound<'py, PyBytes>> {
        let mut out = Vec::new();
        self.take(py, &mut out, most(size), None)?;
        Ok(PyBytes::new(py, &out))
    }

    /// Fills a buffer with what is there; waits only if nothing is.
    fn readinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let view = PyMemoryView::from(buffer)?.call_method1(intern!(py, "cast"), ("B",))?;
        let mut out = Vec::new();
        self.take(py, &mut out, view.len()?, None)?;
        // Refused for what cannot be written to.
        view.set_item(PySlice::new(py, 0, out.len().cast_signed(), 1), PyBytes::new(py, &out))?;
        Ok(out.len())
    }

    /// The next line with its end, at most that many bytes.
    #[pyo3(signature = (size = None, /))]
    fn readline<'py>(&self, py: Python<'py>, size: Option<i64>) -> PyResult<Bound<'py, PyBytes>> {
        self.line(py, most(size))
    }

    /// Lines until they have at least that many bytes; all that are left without a positive hint.
    #[pyo3(signature = (hint = None, /))]
    fn readlines<'py>(
        &self,
        py: Python<'py>,
        hint: Option<i64>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let enough = most(hint.filter(|hint| *hint > 0));
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while bytes < enough {
            let line = self.line(py, usize::MAX)?;
            if line.as_bytes().is_empty() {
                break;
            }
            bytes += line.as_bytes().len();
            lines.push(line);
        }
        Ok(lines)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let line = self.line(py, usize::MAX)?;
        if line.as_bytes().is_empty() { Err(PyStopIteration::new_err(())) } else { Ok(line) }
    }

    /// Ends reading. What has not been read is thrown away.
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    #[getter]
    fn closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    #[allow(clippy::unused_self, reason = "Python calls it as a method")]
    fn readable(&self) -> bool {
        true
    }

    #[allow(clippy::unused_self, reason = "Python calls it as a method")]
    fn writable(&self) -> bool {
        false
    }

    #[allow(clippy::unused_self, reason = "Python calls it as a method")]
    fn seekable(&self) -> bool {
        false
    }
}
