//! A slot: takes requests one after the other and has each answered, whatever the application does.

use std::ffi::c_long;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use pyo3::intern;
use pyo3::prelude::*;

use crate::config::WorkerSettings;
use crate::http::request_id::RequestIds;
use crate::telemetry::Escaped;
use crate::telemetry::access;
use crate::telemetry::access::AccessFields;
use crate::worker::Begun;
use crate::worker::Input;
use crate::worker::Turn;
use crate::worker::Worker;
use crate::wsgi::names::Name;
use crate::wsgi::request::Request;
use crate::wsgi::response::Ending;
use crate::wsgi::response::Fault;
use crate::wsgi::response::Response;
use crate::wsgi::user;

use super::Released;
use super::call::Application;
use super::client;
use super::environ::Environs;
use super::environ::Lent;
use super::errors::ErrorLog;
use super::interrupt;
use super::start::Exchange;
use super::start::StartResponse;
use super::trace;

/// What a slot keeps from one request to the next.
struct Slot {
    application: Py<Application>,
    environs: Environs,
    /// Of the request at work.
    errors: Option<Py<ErrorLog>>,
    /// The thread's own context; each request gets a copy of it.
    context: Py<PyAny>,
    access_log: bool,
    ids: RequestIds,
    memory: Vec<u8>,
    /// What Python calls this thread.
    thread: c_long,
}

/// Serves until there are no more requests.
pub(super) fn serve(
    py: Python<'_>,
    worker: &Worker,
    settings: &WorkerSettings,
    number: usize,
    application: &Bound<'_, PyAny>,
) -> PyResult<()> {
    worker.name_slot(number);
    let mut slot = Slot {
        application: Py::new(py, Application { callable: application.clone().unbind() })?,
        environs: Environs::new(py, settings)?,
        errors: None,
        context: py.import("contextvars")?.call_method0("copy_context")?.unbind(),
        access_log: settings.access_log,
        ids: RequestIds::new(settings.request_id_header.as_deref(), settings.request_id_prefix),
        memory: Vec::new(),
        thread: py.import("threading")?.call_method0("get_ident")?.extract()?,
    };
    while let Some(begun) = worker.next(number, &Released(py)) {
        if catch_unwind(AssertUnwindSafe(|| slot.answer(py, worker.turn(number), begun))).is_err() {
            crate::telemetry::error!("a slot panicked after a request; it goes on with the next");
        }
    }
    Ok(())
}

/// Why an application gave no response.
enum Failure {
    Raised(PyErr),
    /// A fault of ours.
    Panicked,
}

/// Ends a request however its slot comes out of it, even if the application keeps its `start_response`.
struct Settled<'a, 'py>(&'a StartResponse, Python<'py>);

impl Drop for Settled<'_, '_> {
    fn drop(&mut self) {
        // Without an end so far, the way out ends the request when it is dropped.
        drop(self.0.with(self.1, |exchange| exchange.out.take()));
    }
}

/// The call of the application. Its end comes before this thread runs any other Python code: what was to be raised in it,
/// and came too late, must not reach anything else.
struct Call<'a, 'py> {
    turn: &'a Turn,
    thread: c_long,
    py: Python<'py>,
}

impl Drop for Call<'_, '_> {
    fn drop(&mut self) {
        if self.turn.end() {
            interrupt::take_back(self.py, self.thread);
        }
    }
}

impl Slot {
    fn answer(&mut self, py: Python<'_>, turn: &Turn, begun: Begun) {
        let Begun { mut work, input, mut out, when } = begun;
        let known_by = (out.ticket(), out.control());
        out.lend(std::mem::take(&mut self.memory));
        let request = match &work {
            Ok(request) => request,
            Err(refused) => &refused.request,
        };
        let mut response = Response::new(request.asked);
        response.add(request.get(Name::RequestId).and_then(|id| self.ids.line(id)));
        let exchange = Exchange { response, out: Some(out) };
        // Fails without memory only. The way out was dropped with the exchange, which has ended the request.
        let Ok(start) = Bound::new(py, StartResponse::new(exchange)) else { return };
        let this = start.get();
        let settled = Settled(this, py);
        let failed = match &mut work {
            Ok(request) => {
                let (ticket, control) = known_by;
                let text = |name| request.get(name).unwrap_or_default();
                let line = (text(Name::Method), text(Name::RequestUri));
                turn.begin(ticket, control, self.thread, line, text(Name::RequestId));
                let call = Call { turn, thread: self.thread, py };
                self.run_guarded(call, request, input, &start).err()
            }
            Err(_) => None,
        };
        let gone = failed.is_some() && this.is_gone(py);
        let ending = this.with(py, |exchange| {
            let (response, mut way) = exchange.parts(py);
            match (&work, &failed) {
                (Err(refused), _) => {
                    response.refuse(refused.why.status(), refused.why.may_keep(), &mut way)
                }
                (Ok(_), Some(_)) => response.fail(&mut way),
                (Ok(_), None) => response.finish(&mut way),
            }
        });
        let request = match &work {
            Ok(request) => request,
            Err(refused) => &refused.request,
        };
        let line = if self.access_log { access_line(request, &ending, when) } else { Vec::new() };
        if let Some(out) = this.with(py, |exchange| exchange.out.take()) {
            self.memory = out.end(&ending, &line, &Released(py));
        }
        drop(settled);
        if let Some(errors) = self.errors.take() {
            errors.get().finish(py);
        }
        // The log may be slow, or stuck: that must not hold up the interpreter.
        match failed {
            Some(Failure::Raised(error)) if !gone => {
                let title = format!("error in the application: {}", named(request));
                let text = trace::format(py, &error);
                py.detach(|| crate::telemetry::error_block(&title, &text));
            }
            Some(Failure::Panicked) => {
                py.detach(|| crate::telemetry::error!("a slot panicked: {}", named(request)));
            }
            _ => {}
        }
        if let Some(fault) = ending.fault {
            py.detach(|| tell(request, &fault));
        }
    }

    fn run_guarded(
        &mut self,
        call: Call<'_, '_>,
        request: &mut Request,
        input: Input,
        start: &Bound<'_, StartResponse>,
    ) -> Result<(), Failure> {
        match catch_unwind(AssertUnwindSafe(|| self.run(call, request, input, start))) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure::Raised(error)),
            Err(_) => Err(Failure::Panicked),
        }
    }

    fn run(
        &mut self,
        call: Call<'_, '_>,
        request: &mut Request,
        input: Input,
        start: &Bound<'_, StartResponse>,
    ) -> PyResult<()> {
        let py = call.py;
        let Lent { environ, input, errors } = self.environs.make(py, request, input)?;
        self.errors = Some(errors.unbind());
        if let Some(watch) = start.get().watch(py) {
            client::put(&environ, watch)?;
        }
        let context = self.context.bind(py).call_method0(intern!(py, "copy"))?;
        let application = self.application.bind(py);
        let called = context.call_method1(intern!(py, "run"), (application, environ, start));
        drop(call);
        // Fails if its memory is in use elsewhere: then it stays open, over the body of this request and no other.
        let _ = input.call_method0(intern!(py, "close"));
        called.map(drop)
    }
}

fn tell(request: &Request, fault: &Fault) {
    let named = named(request);
    if matches!(fault, Fault::Bodiless(_)) {
        crate::telemetry::warn!("{fault}: {named}");
    } else {
        crate::telemetry::error!("{fault}: {named}");
    }
}

/// `GET /path (request ID)`, fit for a log line.
fn named(request: &Request) -> String {
    let text = |name| Escaped(request.get(name).unwrap_or(b"-"));
    let (method, uri, id) = (text(Name::Method), text(Name::RequestUri), text(Name::RequestId));
    format!("{method} {uri} (request {id})")
}

fn access_line(request: &Request, ending: &Ending, when: std::time::SystemTime) -> Vec<u8> {
    let get = |name| request.get(name);
    let user = get(Name::Authorization).and_then(user::basic);
    access::line(&AccessFields {
        remote_addr: get(Name::RemoteAddr).unwrap_or_default(),
        user: user.as_deref(),
        method: get(Name::Method).unwrap_or_default(),
        uri: get(Name::RequestUri).unwrap_or_default(),
        version: get(Name::ServerProtocol).unwrap_or_default(),
        status: ending.status,
        body_bytes: ending.body,
        referer: get(Name::Referer),
        user_agent: get(Name::UserAgent),
        when,
    })
}

#[cfg(test)]
mod tests;
