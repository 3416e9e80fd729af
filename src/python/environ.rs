//! The environ as a builtin `dict` of native strings, made fast: what is the same in every request is copied, keys exist
//! once, and values that often repeat are kept from one request to the next.

use std::collections::HashMap;
use std::os::fd::IntoRawFd;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::types::PyDict;
use pyo3::types::PyString;

use crate::config::WorkerSettings;
use crate::http::SERVER;
use crate::worker::Input;
use crate::wsgi::names::Name;
use crate::wsgi::request::Request;
use crate::wsgi::request::Spelled;

use super::body::Body;
use super::client;
use super::errors::ErrorLog;
use super::file_wrapper::FileWrapper;
use super::text::latin1;

/// Most keys of unusual headers that are kept. Clients choose them, so there must be an end.
const MOST_KEYS: usize = 256;

/// Longest key or value that is kept for the next request.
const LONGEST_KEPT: usize = 256;

/// What an application gets for one request, and what of it must end with the request.
pub(super) struct Lent<'py> {
    pub(super) environ: Bound<'py, PyDict>,
    /// An `io.BytesIO`, a buffered file, or a [`Body`].
    pub(super) input: Bound<'py, PyAny>,
    pub(super) errors: Bound<'py, ErrorLog>,
}

/// Makes environs for one slot.
pub(super) struct Environs {
    base: Py<PyDict>,
    names: Vec<Known>,
    headers: HashMap<Box<[u8]>, Py<PyString>>,
    open_file: Py<PyAny>,
    bytes_io: Py<PyAny>,
}

/// A well-known key, and its value in the last request.
struct Known {
    key: Py<PyString>,
    last: Option<(Box<[u8]>, Py<PyString>)>,
}

impl Environs {
    pub(super) fn new(py: Python<'_>, settings: &WorkerSettings) -> PyResult<Environs> {
        let base = PyDict::new(py);
        let names = Name::ALL
            .iter()
            .map(|name| Known { key: PyString::intern(py, name.as_str()).unbind(), last: None })
            .collect();
        base.set_item("wsgi.version", (1, 0))?;
        base.set_item("wsgi.multithread", settings.threads > 1)?;
        base.set_item("wsgi.multiprocess", settings.multiprocess)?;
        base.set_item("wsgi.run_once", false)?;
        base.set_item("wsgi.input_terminated", true)?;
        base.set_item("wsgi.file_wrapper", py.get_type::<FileWrapper>())?;
        base.set_item("SERVER_SOFTWARE", SERVER)?;
        client::reserve(&base)?;
        let bytes_io = py.import("io")?.getattr("BytesIO")?.unbind();
        let open_file = py.import("io")?.getattr("open")?.unbind();
        Ok(Environs { base: base.unbind(), names, headers: HashMap::new(), bytes_io, open_file })
    }

    /// The environ of a request.
    pub(super) fn make<'py>(
        &mut self,
        py: Python<'py>,
        request: &mut Request,
        input: Input,
    ) -> PyResult<Lent<'py>> {
        let environ = self.base.bind(py).copy()?;
        let input = match input {
            // Buffered, and it ends where the body does. The instance removes it.
            Input::File(file) => self.open_file.bind(py).call1((file.into_raw_fd(), "rb"))?,
            Input::Stream(inflow) => Bound::new(py, Body::new(inflow))?.into_any(),
            Input::Message if request.body.is_empty() => self.bytes_io.bind(py).call0()?,
            Input::Message => {
                // A body that is there twice is there once too often: ours goes.
                let body = PyBytes::new(py, &std::mem::take(&mut request.body));
                self.bytes_io.bind(py).call1((body,))?
            }
        };
        environ.set_item(intern!(py, "wsgi.input"), &input)?;
        let errors = Bound::new(py, ErrorLog::default())?;
        environ.set_item(intern!(py, "wsgi.errors"), &errors)?;
        for (key, value) in request.iter() {
            match key {
                Spelled::Name(name) => {
                    let known = &mut self.names[name.index()];
                    let value = known.value(py, name, value);
                    environ.set_item(&known.key, value)?;
                }
                Spelled::Header(key) => {
                    environ.set_item(self.header_key(py, key), latin1(py, value))?;
                }
            }
        }
        Ok(Lent { environ, input, errors })
    }

    fn header_key<'py>(&mut self, py: Python<'py>, key: &[u8]) -> Bound<'py, PyString> {
        if let Some(kept) = self.headers.get(key) {
            return kept.bind(py).clone();
        }
        let made = latin1(py, key);
        if self.headers.len() < MOST_KEYS && key.len() <= LONGEST_KEPT {
            self.headers.insert(key.into(), made.clone().unbind());
        }
        made
    }
}

impl Known {
    fn value<'py>(&mut self, py: Python<'py>, name: Name, value: &[u8]) -> Bound<'py, PyString> {
        if let Some((bytes, kept)) = &self.last
            && **bytes == *value
        {
            return kept.bind(py).clone();
        }
        let made = latin1(py, value);
        if name.repeats() && value.len() <= LONGEST_KEPT {
            self.last = Some((value.into(), made.clone().unbind()));
        }
        made
    }
}
