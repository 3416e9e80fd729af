//! `wsgi.file_wrapper` (PEP 3333, "Optional Platform-Specific File Handling"): real files are read without the interpreter,
//! of everything else `read()` is called.
//!
//! Both read from where the file stands. A descriptor alone makes no real file: of a `GzipFile` it leads to other bytes than
//! `read()` gives. So only what `open()` gives for a regular file is read past Python, from the position that it tells.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyStopIteration;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;
use pyo3::types::PyType;

/// What is read at once of a file that has all its bytes at hand, whatever block size the application asked for.
pub(super) const LARGE: usize = 128 * 1024;

/// A regular file, to be read past Python.
#[derive(Debug)]
pub(super) struct Plain {
    file: File,
    at: u64,
    end: u64,
    /// Files of the kernel (`/proc`, `/sys`) have no blocks, and sizes that are not true.
    stored: bool,
}

impl Plain {
    /// Bytes from the file's position to its end, as it is now; `None` where that cannot be told.
    pub(super) fn left(&self) -> Option<u64> {
        Some(self.end.saturating_sub(self.at)).filter(|left| *left > 0 && self.stored)
    }

    /// Reads the next bytes; none at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

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

    /// The file itself, if it is one that `open()` gives for a regular file and nobody has changed its reading.
    pub(super) fn plain(&self, py: Python<'_>) -> Option<Plain> {
        // Whatever cannot be found out is for `read()` to tell.
        self.find_plain(self.file.bind(py)).ok().flatten()
    }

    fn find_plain(&self, file: &Bound<'_, PyAny>) -> PyResult<Option<Plain>> {
        let py = file.py();
        if self.closed.load(Ordering::Acquire) {
            return Ok(None);
        }
        let raw_type = io_type(py, &FILE_IO, "FileIO")?;
        let buffered = file.get_type().is(io_type(py, &BUFFERED_READER, "BufferedReader")?)
            || file.get_type().is(io_type(py, &BUFFERED_RANDOM, "BufferedRandom")?);
        let raw = if buffered { file.getattr(intern!(py, "raw"))? } else { file.clone() };
        let changed = file.getattr(intern!(py, "__dict__"))?.contains(intern!(py, "read"))?;
        if changed
            || !raw.get_type().is(raw_type)
            || !file.call_method0(intern!(py, "readable"))?.is_truthy()?
        {
            return Ok(None);
        }
        // What was written and is still buffered is to be read.
        file.call_method0(intern!(py, "flush"))?;
        let at: u64 = file.call_method0(intern!(py, "tell"))?.extract()?;
        let number: i32 = file.call_method0(intern!(py, "fileno"))?.extract()?;
        // A descriptor of our own: the application may close its file at any time.
        let file = File::open(format!("/proc/self/fd/{number}"))?;
        let metadata = file.metadata()?;
        Ok(metadata.is_file().then(|| Plain {
            file,
            at,
            end: metadata.len(),
            stored: metadata.blocks() > 0,
        }))
    }

    /// The size of blocks to send: large ones, but of a pipe no larger than asked, since it may fill slowly.
    pub(super) fn block_size(&self, py: Python<'_>) -> u64 {
        let seekable = self
            .file
            .bind(py)
            .call_method0(intern!(py, "seekable"))
            .and_then(|answer| answer.is_truthy());
        if seekable.unwrap_or(false) { self.blksize.max(LARGE as u64) } else { self.blksize }
    }
}

static FILE_IO: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static BUFFERED_READER: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static BUFFERED_RANDOM: PyOnceLock<Py<PyType>> = PyOnceLock::new();

fn io_type<'py>(
    py: Python<'py>,
    cell: &'py PyOnceLock<Py<PyType>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyType>> {
    cell.import(py, "io", name)
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

    /// Whether the file can be sought in. With this, Werkzeug goes to the beginning of a range instead of reading up to it.
    fn seekable(&self, py: Python<'_>) -> PyResult<bool> {
        match self.file.bind(py).getattr_opt(intern!(py, "seekable"))? {
            Some(seekable) => seekable.call0()?.is_truthy(),
            None => Ok(false),
        }
    }

    /// The file's own `seek`.
    #[pyo3(signature = (offset, whence = 0))]
    fn seek<'py>(&self, py: Python<'py>, offset: i64, whence: i32) -> PyResult<Bound<'py, PyAny>> {
        self.file.bind(py).call_method1(intern!(py, "seek"), (offset, whence))
    }

    /// The file's own `tell`.
    fn tell<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.file.bind(py).call_method0(intern!(py, "tell"))
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
