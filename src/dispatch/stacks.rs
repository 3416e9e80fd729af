//! Asking workers for the Python stacks of their busy slots: who has answered, and when it is time to go without the rest.

use std::fmt;
use std::time::Duration;
use std::time::Instant;

use super::WorkerId;
use super::core::Core;
use crate::bridge::Ticket;

/// A worker whose interpreter is not free within this time does not answer any more in a time that anybody waits.
const PATIENCE: Duration = Duration::from_secs(2);

/// What one worker says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerStacks {
    /// Which.
    pub id: WorkerId,
    /// A JSON array with an object for each busy slot: `slot` (from 0), `thread`, `ticket`, `request` (`GET /path`), `age_ms`,
    /// `stack` (lines as in a traceback). `None`: it has not answered within two seconds, or not at all.
    pub json: Option<Vec<u8>>,
}

type Tell = Box<dyn FnOnce(Vec<WorkerStacks>) + Send>;

/// A question, with the way back for its answer. It is called in the dispatcher's thread and must not wait.
pub struct AskStacks(Tell);

impl AskStacks {
    /// Asks; `tell` gets one entry for each worker that has loaded the application, in the order of their numbers.
    pub fn new(tell: impl FnOnce(Vec<WorkerStacks>) + Send + 'static) -> AskStacks {
        AskStacks(Box::new(tell))
    }
}

impl fmt::Debug for AskStacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AskStacks")
    }
}

struct Question {
    number: Ticket,
    until: Instant,
    answers: Vec<WorkerStacks>,
    tell: Tell,
}

/// The questions that are open.
#[derive(Default)]
pub(super) struct Questions {
    open: Vec<Question>,
    last: u64,
}

impl Questions {
    pub(super) fn ask(&mut self, ask: AskStacks, core: &mut Core, now: Instant) {
        self.last += 1;
        let number = Ticket(self.last);
        let asked = core.ask_stacks(number);
        let answers = asked.into_iter().map(|id| WorkerStacks { id, json: None }).collect();
        self.open.push(Question { number, until: now + PATIENCE, answers, tell: ask.0 });
    }

    pub(super) fn answered(&mut self, id: WorkerId, number: Ticket, json: &[u8]) {
        let question = self.open.iter_mut().find(|q| q.number == number);
        let answer = question.and_then(|q| q.answers.iter_mut().find(|answer| answer.id == id));
        if let Some(answer) = answer {
            answer.json = Some(json.to_vec());
        }
    }

    /// Gives answers that are complete, or that nothing more is awaited for.
    pub(super) fn turn(&mut self, now: Instant) {
        let done = |q: &mut Question| now >= q.until || q.answers.iter().all(|a| a.json.is_some());
        for question in self.open.extract_if(.., done) {
            (question.tell)(question.answers);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.open.iter().map(|question| question.until).min()
    }
}
