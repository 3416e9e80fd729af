//! What a fault of ours does to a slot. All else is tested from Python, through a real worker process.

use pyo3::types::PyCFunction;
use pyo3::types::PyDict;

use super::*;
use crate::bridge::Kind;
use crate::bridge::Outcome;
use crate::worker::tests::Instance;
use crate::worker::tests::settings;

/// Calls what panics at the moment that its number of calls says, and otherwise answers.
const APPLICATION: &std::ffi::CStr = c"
calls = 0
kept = []
def application(environ, start_response):
    global calls
    calls += 1
    kept.append(start_response)
    if calls == 1:
        fault()
    start_response('200 OK', [])
    if calls == 2:
        return stream()
    return [b'fine']
def stream():
    yield b'part'
    fault()
";

#[test]
fn a_panic_costs_one_response() {
    Python::initialize();
    let (mut instance, worker) = Instance::start();
    for ticket in 1..=3 {
        instance.request(ticket);
    }
    instance.send(Kind::Drain, 0, b"");
    Python::attach(|py| {
        let globals = PyDict::new(py);
        let fault = PyCFunction::new_closure(py, None, None, |_, _| -> () {
            std::panic::resume_unwind(Box::new("a fault of ours"))
        });
        globals.set_item("fault", fault.unwrap()).unwrap();
        py.run(APPLICATION, Some(&globals), None).unwrap();
        let application = globals.get_item("application").unwrap().unwrap();
        serve(py, &worker, &settings(), 0, &application).unwrap();
        worker.finish();
    });
    let (_, _, ticket, data) = instance.take();
    assert_eq!(ticket, 1);
    assert!(data.starts_with(b"HTTP/1.1 500 "));
    assert_eq!(instance.take_end(), (1, Outcome::AppError));
    let (_, _, ticket, data) = instance.take();
    assert_eq!(ticket, 2);
    assert!(data.ends_with(b"4\r\npart\r\n"));
    assert_eq!(instance.take_end(), (2, Outcome::Cut));
    let (_, _, ticket, data) = instance.take();
    assert_eq!(ticket, 3);
    assert!(data.ends_with(b"fine"));
    assert_eq!(instance.take_end(), (3, Outcome::Ok));
    std::mem::forget(instance);
}
