//! One call of the application: the call itself, the iteration of what it returns, and `close()`.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::types::PyList;
use pyo3::types::PyTuple;

use crate::wsgi::response::Gone;
use crate::wsgi::response::Next;
use crate::wsgi::response::WriteError;

use super::ClientGone;
use super::file_wrapper::FileWrapper;
use super::file_wrapper::LARGE;
use super::file_wrapper::Plain;
use super::start::StartResponse;
use super::start::write_error;
use super::trace;

/// What a slot runs inside the request's own context: `run(environ, start_response)`.
#[pyclass(frozen, module = "lurcher._native")]
pub(super) struct Application {
    pub(super) callable: Py<PyAny>,
}

#[pymethods]
impl Application {
    fn __call__(
        &self,
        py: Python<'_>,
        environ: Bound<'_, PyAny>,
        start: Bound<'_, StartResponse>,
    ) -> PyResult<()> {
        let result = self.callable.bind(py).call1((environ, &start))?;
        let start = start.get();
        // The usual results have all their blocks at hand and no close().
        if let Ok(blocks) = result.cast_exact::<PyList>() {
            return whole(py, start, blocks.iter());
        }
        if let Ok(blocks) = result.cast_exact::<PyTuple>() {
            return whole(py, start, blocks.iter());
        }
        let sent = match result.cast_exact::<FileWrapper>() {
            Ok(file) => send_file(py, start, file.get()),
            Err(_) => iterate(py, start, &result),
        };
        let closed = close(&result);
        if let (Err(_), Err(error)) = (&sent, &closed) {
            // The first failure is the request's; the second must not be lost.
            let text = trace::format(py, error);
            py.detach(|| crate::telemetry::error_block("error in close()", &text));
        }
        sent.and(closed)
    }
}

/// Sends blocks that are all there.
fn whole<'py>(
    py: Python<'py>,
    start: &StartResponse,
    blocks: impl ExactSizeIterator<Item = Bound<'py, PyAny>>,
) -> PyResult<()> {
    let kept = blocks.map(bytes).collect::<PyResult<Vec<Bound<'py, PyBytes>>>>()?;
    let pieces: Vec<&[u8]> = kept.iter().map(PyBytesMethods::as_bytes).collect();
    start.whole(py, &pieces).map(drop)
}

/// A block as what it must be. `bytearray` and `memoryview` are refused, as PEP 3333 asks.
fn bytes(block: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyBytes>> {
    block.cast_into::<PyBytes>().map_err(|error| {
        let name = type_name(&error.into_inner());
        PyTypeError::new_err(format!("the application must yield bytes, not {name}"))
    })
}

fn iterate(py: Python<'_>, start: &StartResponse, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let blocks = result.try_iter().map_err(|error| {
        if result.is_none() {
            PyTypeError::new_err("the application returned None, not an iterable of bytes")
        } else {
            error
        }
    })?;
    for block in blocks {
        if start.block(py, bytes(block?)?.as_bytes())? == Next::Enough {
            break;
        }
        // A client that has left is noticed before the next block is made for it.
        if start.is_gone(py) {
            return Err(ClientGone::new_err(Gone.to_string()));
        }
    }
    Ok(())
}

/// Sends a file that the application left to us, no further than its announced length.
fn send_file(py: Python<'_>, start: &StartResponse, file: &FileWrapper) -> PyResult<()> {
    if let Some(mut plain) = file.plain(py) {
        if let Some(length) = plain.left() {
            start.expect(py, length);
        }
        let room = start.room(py);
        return match py.detach(|| send_plain(start, &mut plain, room)) {
            Ok(()) => Ok(()),
            Err(Unsent::Read(error)) => Err(error.into()),
            Err(Unsent::Write(error)) => Err(write_error(error)),
        };
    }
    let size = file.block_size(py);
    loop {
        let size = start.room(py).map_or(size, |room| room.min(size));
        if size == 0 {
            // Nothing more is wanted. An empty block lets a response without a body send its head.
            return Ok(());
        }
        let block = bytes(file.read(py, size)?)?;
        let block = block.as_bytes();
        if block.is_empty() || start.block(py, block)? == Next::Enough {
            return Ok(());
        }
        if start.is_gone(py) {
            return Err(ClientGone::new_err(Gone.to_string()));
        }
    }
}

/// Why a file is not sent to its end.
enum Unsent {
    Read(std::io::Error),
    Write(WriteError),
}

/// Sends a regular file, without the interpreter, no further than `room`.
fn send_plain(start: &StartResponse, file: &mut Plain, room: Option<u64>) -> Result<(), Unsent> {
    let mut buffer = vec![0; LARGE];
    let mut room = room.unwrap_or(u64::MAX);
    while room > 0 {
        let most = buffer.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let read = file.read(&mut buffer[..most]).map_err(Unsent::Read)?;
        let next = start.block_detached(&buffer[..read]).map_err(Unsent::Write)?;
        if read == 0 || next == Next::Enough {
            break;
        }
        room -= read as u64;
    }
    Ok(())
}

/// Calls `close()` if there is one (PEP 3333: "must call that method upon completion").
fn close(result: &Bound<'_, PyAny>) -> PyResult<()> {
    match result.getattr_opt(intern!(result.py(), "close"))? {
        Some(close) => close.call0().map(drop),
        None => Ok(()),
    }
}

/// The name of a value's type, for messages.
pub(super) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "?".to_owned(), |name| super::text::lossy(&name))
}
