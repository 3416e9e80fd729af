//! The watch: answers what the instance asks about the slots, and interrupts a request that takes too long.
//!
//! It runs in a thread of its own. Whatever it does it does with the interpreter: that it answers at all tells the instance
//! that the interpreter lives.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::types::PyString;
use serde::Serialize;

use crate::telemetry::Escaped;
use crate::worker::Ask;
use crate::worker::AtWork;
use crate::worker::Ticket;
use crate::worker::Worker;

use super::Released;
use super::RequestTimeout;
use super::interrupt;
use super::text;

/// Stacks are left out of an answer that is longer than this, so that it fits into a frame.
const LONGEST: usize = 160 * 1024;

/// What a busy slot does, as it goes to the instance.
#[derive(Serialize)]
struct Busy {
    slot: usize,
    thread: String,
    ticket: u64,
    request: String,
    age_ms: u64,
    stack: Vec<String>,
}

/// Answers until there are no more questions.
pub(super) fn run(py: Python<'_>, worker: &Worker) {
    while let Some(ask) = worker.next_ask(&Released(py)) {
        match ask {
            Ask::Ping(question) => py.detach(|| worker.pong(question)),
            Ask::Stacks(question) => stacks(py, worker, question),
            Ask::TimedOut(ticket, age) => timed_out(py, worker, ticket, age),
            Ask::End => return,
        }
    }
}

fn timed_out(py: Python<'_>, worker: &Worker, ticket: Ticket, age: Duration) {
    // It may have ended while the question was on its way.
    let Some(at) = worker.at_work().into_iter().find(|at| at.ticket == ticket) else { return };
    let stack = Stacks::now(py).map(|stacks| stacks.of(&at)).unwrap_or_default();
    let class = py.get_type::<RequestTimeout>();
    if worker.interrupt(&at, |thread| interrupt::raise_in(thread, &class)) {
        let title = format!(
            "request timed out after {:.1} s: {} (ticket {ticket}, request {}, thread {})",
            age.as_secs_f64(),
            Escaped(&at.line),
            Escaped(&at.id),
            thread_name(&at),
        );
        // The log may be slow, or stuck: that must not hold up the interpreter.
        py.detach(|| crate::telemetry::error_block(&title, &stack.concat()));
    }
}

fn stacks(py: Python<'_>, worker: &Worker, question: Ticket) {
    let stacks = Stacks::now(py);
    let mut size = 0;
    let mut busy = Vec::new();
    for at in worker.at_work() {
        let Some(age_ns) = worker.age_ns(&at) else { continue };
        let mut stack = stacks.as_ref().map(|stacks| stacks.of(&at)).unwrap_or_default();
        size += stack.iter().map(String::len).sum::<usize>();
        if size > LONGEST {
            stack = vec!["(left out: the answer would be too long)\n".to_owned()];
        }
        busy.push(Busy {
            slot: at.slot,
            thread: thread_name(&at),
            ticket: at.ticket.0,
            request: Escaped(&at.line[..at.line.len().min(200)]).to_string(),
            age_ms: age_ns / 1_000_000,
            stack,
        });
    }
    match serde_json::to_vec(&busy) {
        Ok(json) => py.detach(|| worker.stacks(question, &json)),
        Err(why) => crate::telemetry::error!("stacks cannot be told: {why}"),
    }
}

fn thread_name(at: &AtWork) -> String {
    format!("lurcher-slot-{}", at.slot + 1)
}

/// What every thread does at one moment.
struct Stacks<'py> {
    frames: Bound<'py, PyDict>,
}

impl<'py> Stacks<'py> {
    fn now(py: Python<'py>) -> Option<Stacks<'py>> {
        let frames = py.import("sys").and_then(|sys| sys.call_method0("_current_frames"));
        Some(Stacks { frames: frames.ok()?.cast_into::<PyDict>().ok()? })
    }

    /// The stack of one thread, the outermost call first, in the words of a traceback; empty if it runs no Python.
    fn of(&self, at: &AtWork) -> Vec<String> {
        let py = self.frames.py();
        let lines = || {
            let frame = self.frames.get_item(at.thread)?;
            let Some(frame) = frame else { return Ok(Vec::new()) };
            let lines = py.import("traceback")?.call_method1("format_stack", (frame,))?;
            let mut told = Vec::new();
            for line in lines.try_iter()? {
                told.push(text::lossy(line?.cast::<PyString>()?));
            }
            PyResult::Ok(told)
        };
        let mut lines = lines().unwrap_or_default();
        // What leads to the application is the same for all of them.
        let ours = lines.iter().position(|line| line.contains("/lurcher/worker.py\", line"));
        lines.drain(..ours.map_or(0, |at| at + 1));
        lines
    }
}
