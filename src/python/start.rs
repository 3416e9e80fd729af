//! `start_response` and the `write` callable: one pair for each request, tied to its response and to nothing else.
//!
//! The lock in here is never held while Python code can run: strings are read before, exceptions are made after.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::PoisonError;

use pyo3::exceptions::PyBaseException;
use pyo3::exceptions::PyRuntimeError;
use pyo3::exceptions::PyTypeError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyBytes;
use pyo3::types::PyList;
use pyo3::types::PyString;
use pyo3::types::PyTraceback;
use pyo3::types::PyTuple;

use crate::http::head::Head;
use crate::http::head::Took;
use crate::telemetry::Escaped;
use crate::worker::Bare;
use crate::worker::Out;
use crate::worker::Wait;
use crate::worker::Watch;
use crate::wsgi::response::Gone;
use crate::wsgi::response::Next;
use crate::wsgi::response::Response;
use crate::wsgi::response::Sink;
use crate::wsgi::response::StartError;
use crate::wsgi::response::WriteError;

use super::ClientGone;
use super::Released;
use super::call::type_name;
use super::text;

/// A response and its way out. The way is gone once the request is over.
pub(super) struct Exchange {
    pub(super) response: Response,
    pub(super) out: Option<Out>,
}

/// A sink that waits in the way of its caller.
pub(super) struct Way<'a, W> {
    out: Option<&'a mut Out>,
    wait: W,
}

impl<W: Wait> Sink for Way<'_, W> {
    fn block(&mut self, pieces: &[&[u8]]) -> Result<(), Gone> {
        match &mut self.out {
            Some(out) => out.block(pieces, &self.wait),
            None => Err(Gone),
        }
    }
}

impl Exchange {
    /// The two parts, for a call of the one with the other.
    pub(super) fn parts<'py>(
        &mut self,
        py: Python<'py>,
    ) -> (&mut Response, Way<'_, Released<'py>>) {
        (&mut self.response, Way { out: self.out.as_mut(), wait: Released(py) })
    }

    /// One block, on its way before the application goes on.
    fn block(&mut self, data: &[u8], wait: impl Wait + Copy) -> Result<Next, WriteError> {
        let wrote = self.response.block(data, &mut Way { out: self.out.as_mut(), wait });
        if let Some(out) = &mut self.out {
            out.push(&wait);
        }
        wrote
    }
}

/// The `start_response` callable of one request.
#[pyclass(frozen, module = "lurcher._native")]
pub(super) struct StartResponse {
    exchange: Mutex<Exchange>,
}

impl StartResponse {
    pub(super) fn new(exchange: Exchange) -> StartResponse {
        StartResponse { exchange: Mutex::new(exchange) }
    }

    /// Does something with the exchange. `act` must not run Python code.
    pub(super) fn with<R>(&self, py: Python<'_>, act: impl FnOnce(&mut Exchange) -> R) -> R {
        // After a panic the response is still what it was: each step leaves it whole.
        let mut exchange =
            self.exchange.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        act(&mut exchange)
    }

    /// Sends one block, and has it on its way before the application goes on.
    pub(super) fn block(&self, py: Python<'_>, data: &[u8]) -> PyResult<Next> {
        let wrote = self.with(py, |exchange| exchange.block(data, Released(py)));
        wrote.map_err(write_error)
    }

    /// The same where no interpreter is held.
    pub(super) fn block_detached(&self, data: &[u8]) -> Result<Next, WriteError> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner).block(data, Bare)
    }

    /// The body is a file of so many bytes.
    pub(super) fn expect(&self, py: Python<'_>, length: u64) {
        self.with(py, |exchange| exchange.response.expect(length));
    }

    /// What tells whether the client has left.
    pub(super) fn watch(&self, py: Python<'_>) -> Option<Watch> {
        self.with(py, |exchange| exchange.out.as_ref().map(Out::watch))
    }

    /// Sends the whole body at once.
    pub(super) fn whole(&self, py: Python<'_>, data: &[&[u8]]) -> PyResult<Next> {
        let wrote = self.with(py, |exchange| {
            let (response, mut way) = exchange.parts(py);
            response.whole(data, &mut way)
        });
        wrote.map_err(write_error)
    }

    /// Whether the client has left.
    pub(super) fn is_gone(&self, py: Python<'_>) -> bool {
        self.with(py, |exchange| exchange.out.as_ref().is_none_or(Out::is_gone))
    }

    /// Body bytes that the announced length leaves.
    pub(super) fn room(&self, py: Python<'_>) -> Option<u64> {
        self.with(py, |exchange| exchange.response.room())
    }
}

pub(super) fn write_error(error: WriteError) -> PyErr {
    match error {
        WriteError::Gone(_) => ClientGone::new_err(error.to_string()),
        WriteError::NotStarted | WriteError::Over => PyRuntimeError::new_err(error.to_string()),
    }
}

#[pymethods]
impl StartResponse {
    #[pyo3(signature = (status, response_headers, exc_info = None))]
    fn __call__(
        slf: &Bound<'_, Self>,
        status: &Bound<'_, PyAny>,
        response_headers: &Bound<'_, PyAny>,
        exc_info: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Write> {
        let py = slf.py();
        let exc_info = handled(exc_info)?;
        let head = head(status, response_headers)?;
        let this = slf.get();
        match this.with(py, |exchange| exchange.response.start(head, exc_info.is_some())) {
            Ok(()) => Ok(Write { start: slf.clone().unbind() }),
            Err(StartError::Sent) => Err(given(exc_info)?),
            Err(error) => Err(PyRuntimeError::new_err(error.to_string())),
        }
    }
}

/// `exc_info` as the tuple that it must be. What is false counts as not given, as with other servers.
fn handled<'a, 'py>(
    exc_info: Option<&'a Bound<'py, PyAny>>,
) -> PyResult<Option<&'a Bound<'py, PyTuple>>> {
    let Some(info) = exc_info else { return Ok(None) };
    if !info.is_truthy()? {
        return Ok(None);
    }
    match info.cast::<PyTuple>() {
        Ok(info) if info.len() == 3 => Ok(Some(info)),
        _ => Err(PyTypeError::new_err(format!(
            "exc_info must be a tuple as sys.exc_info() gives it, not {}",
            repr(info)
        ))),
    }
}

/// The exception that the application handles, with its traceback, to be raised because its page comes too late.
fn given(exc_info: Option<&Bound<'_, PyTuple>>) -> PyResult<PyErr> {
    let Some(info) = exc_info else {
        return Ok(PyRuntimeError::new_err(StartError::Sent.to_string()));
    };
    let (value, trace) = (info.get_item(1)?, info.get_item(2)?);
    if !value.is_instance_of::<PyBaseException>() {
        return Ok(PyRuntimeError::new_err(StartError::Sent.to_string()));
    }
    if trace.is_instance_of::<PyTraceback>() {
        value.setattr("__traceback__", trace)?;
    }
    Ok(PyErr::from_value(value))
}

/// Reads the arguments of `start_response` (PEP 3333, "A Note on String Types").
fn head(status: &Bound<'_, PyAny>, headers: &Bound<'_, PyAny>) -> PyResult<Head> {
    let status = string(status, || "the status".to_owned())?;
    let status = text::bytes(status)
        .ok_or_else(|| PyValueError::new_err("the status has characters beyond latin-1"))?;
    let mut head = Head::new(Vec::with_capacity(512), &status)
        .map_err(|error| PyValueError::new_err(format!("{error}: {:?}", Escaped(&status))))?;
    let headers = headers.cast::<PyList>().map_err(|_| {
        PyTypeError::new_err(format!("the headers must be a list, not {}", type_name(headers)))
    })?;
    for item in headers.iter() {
        let pair = item.cast::<PyTuple>().ok().filter(|pair| pair.len() == 2).ok_or_else(|| {
            PyTypeError::new_err(format!(
                "each header must be a tuple of name and value, not {}",
                repr(&item)
            ))
        })?;
        let (name, value) = (pair.get_borrowed_item(0)?, pair.get_borrowed_item(1)?);
        let name = string(&name, || format!("the header name {}", repr(&name)))?;
        let value = string(&value, || format!("the value of header {}", repr(name)))?;
        add(&mut head, name, value)?;
    }
    Ok(head)
}

fn add(head: &mut Head, name: &Bound<'_, PyString>, value: &Bound<'_, PyString>) -> PyResult<()> {
    let beyond =
        || PyValueError::new_err(format!("header {} has characters beyond latin-1", repr(name)));
    let name_bytes = text::bytes(name).ok_or_else(beyond)?;
    let value_bytes = text::bytes(value).ok_or_else(beyond)?;
    match head.header(&name_bytes, &value_bytes) {
        Ok(Took::Sent | Took::CloseWish) => Ok(()),
        Ok(Took::Dropped) => {
            tell_dropped(&name_bytes);
            Ok(())
        }
        Err(error) => Err(PyValueError::new_err(format!("header {}: {error}", repr(name)))),
    }
}

/// Says once for each name that the server's own headers are not the application's to set.
fn tell_dropped(name: &[u8]) {
    /// More names than there are hop-by-hop headers, in all their spellings, nobody needs to hear of.
    const MOST: usize = 64;
    static TOLD: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let new = told.len() < MOST && told.insert(name.to_ascii_lowercase());
    drop(told);
    if new {
        crate::telemetry::warn!(
            "response header \"{}\" of the application is dropped: it is the server's to set (told once)",
            Escaped(name)
        );
    }
}

fn string<'a, 'py>(
    value: &'a Bound<'py, PyAny>,
    what: impl FnOnce() -> String,
) -> PyResult<&'a Bound<'py, PyString>> {
    value.cast::<PyString>().map_err(|_| {
        PyTypeError::new_err(format!("{} must be str, not {}", what(), type_name(value)))
    })
}

fn repr(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| type_name(value), |repr| text::lossy(&repr))
}

/// The `write` callable that `start_response` returns.
#[pyclass(frozen, module = "lurcher._native")]
pub(super) struct Write {
    start: Py<StartResponse>,
}

#[pymethods]
impl Write {
    fn __call__(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = data.cast::<PyBytes>().map_err(|_| {
            PyTypeError::new_err(format!("write() takes bytes, not {}", type_name(data)))
        })?;
        self.start.get().block(py, data.as_bytes()).map(drop)
    }
}
