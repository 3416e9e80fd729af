//! `wsgi.file_wrapper` (PEP 3333, "Optional Platform-Specific File Handling"): blocks of anything that has `read()`.
//!
//! It reads from where the file stands, and never asks for a descriptor, so that what Python has buffered is not lost
//! and pipes, sockets and in-memory files work alike.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyStopIteration;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// What is read at once of a file that has all its bytes at hand, whatever block size the application asked for.
pub(super) const LARGE: u64 = 128 * 1024;

/// The wrapper.
#[pyclass(frozen, module = "lurcher._native")]
#[derive(Debug)]
pub(super) struct FileWrapper {
    file: Py<PyAny>,
    blksize: u64,
    closed: AtomicBool,
}

impl FileWrapper {
    /// The next block of at most `size` bytes; an object that is false, usually `b""`, at the end.
    pub(super) fn read<'py>(&self, py: Python<'py>, size: u64) -> PyResult<Bound<'py, PyAny>> {
        self.file.bind(py).call_method1(intern!(py, "read"), (size,))
    }

    /// The size of blocks to send: large ones, but of a pipe no larger than asked, since it may fill slowly.
    pub(super) fn block_size(&self, py: Python<'_>) -> u64 {
        let seekable = self
            .file
            .bind(py)
            .call_method0(intern!(py, "seekable"))
            .and_then(|answer| answer.is_truthy());
        if seekable.unwrap_or(false) { self.blksize.max(LARGE) } else { self.blksize }
    }
}

#[pymethods]
impl FileWrapper {
    #[new]
    #[pyo3(signature = (filelike, blksize = 8192))]
    fn new(filelike: Py<PyAny>, blksize: u64) -> FileWrapper {
        FileWrapper { file: filelike, blksize: blksize.max(1), closed: AtomicBool::new(false) }
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let block = self.read(py, self.blksize)?;
        if block.cast::<PyBytes>().is_ok_and(|bytes| bytes.as_bytes().is_empty())
            || !block.is_truthy()?
        {
            return Err(PyStopIteration::new_err(()));
        }
        Ok(block)
    }

    /// Closes the file, once, if it can be closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if let Some(close) = self.file.bind(py).getattr_opt(intern!(py, "close"))? {
            close.call0()?;
        }
        Ok(())
    }
}
