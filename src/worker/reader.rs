//! The reader: takes many frames with one read, and makes requests of them before any slot is busy with them.
//!
//! It runs without the interpreter and never waits for a slot. When the instance is gone it lets running requests end,
//! and ends the process by force if they do not.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::bridge::Body;
use crate::bridge::Frame;
use crate::bridge::Inbox;
use crate::bridge::Kind;
use crate::bridge::Ticket;
use crate::bridge::frame;
use crate::bridge::frame::FLAG_LAST;
use crate::bridge::request;
use crate::config::Level;
use crate::http::head::decimal;
use crate::proto::Envelope;
use crate::proto::Value;
use crate::telemetry;
use crate::telemetry::Escaped;
use crate::telemetry::Limited;
use crate::wsgi::environ;
use crate::wsgi::environ::Came;
use crate::wsgi::environ::Rules;
use crate::wsgi::names::Name;
use crate::wsgi::refusal::Refused;
use crate::wsgi::refusal::Why;
use crate::wsgi::request::Request;

use super::Ask;
use super::Control;
use super::Inflow;
use super::Input;
use super::Item;
use super::Shared;
use super::Work;
use super::body;
use super::queue::Queue;

/// What the reader owns.
pub(super) struct Reader {
    pub(super) bridge: RawFd,
    pub(super) shared: Arc<Shared>,
    /// Closed once no more requests come: slots end when they have emptied it.
    pub(super) queue: Arc<Queue<Item>>,
    pub(super) rules: Rules,
    /// What acks and notices are about.
    pub(super) controls: HashMap<Ticket, Arc<Control>>,
    pub(super) sweep_at: usize,
    pub(super) grace: Duration,
    pub(super) limits: Limits,
}

/// Brakes for what a client could make us log.
#[derive(Default)]
pub(super) struct Limits {
    refused: Limited,
    underscore: Limited,
}

impl Reader {
    /// Requests that are over are forgotten when so many are known.
    pub(super) const SWEEP: usize = 256;

    /// Runs until the bridge ends, and then to the end of the process.
    pub(super) fn run(mut self, mut inbox: Inbox) {
        super::start::block_signals();
        loop {
            match self.frames(&mut inbox) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    crate::telemetry::error!("the bridge brings no frames: {error}");
                    break;
                }
            }
            match super::start::read(self.bridge, &mut inbox) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        self.orphan();
    }

    /// Takes all frames that are there. False if one of them has no business here.
    fn frames(&mut self, inbox: &mut Inbox) -> Result<bool, frame::FrameError> {
        while let Some(frame) = inbox.next()? {
            match frame.kind {
                Kind::Request => self.request(frame),
                Kind::Gone => self.with(frame.ticket, Control::leave),
                Kind::Ack => {
                    let bytes = frame.number().unwrap_or(0);
                    self.with(frame.ticket, |control| control.ack(bytes));
                }
                Kind::BodyPart => {
                    let last = frame.flags & FLAG_LAST != 0;
                    self.with(frame.ticket, |control| {
                        if let Some(inflow) = control.inflow() {
                            inflow.push(frame.payload, last);
                        }
                    });
                }
                Kind::Recall => self.recall(frame.ticket),
                Kind::Drain => self.queue.close(),
                Kind::TimedOut => {
                    let age = Duration::from_nanos(frame.number().unwrap_or(0));
                    self.shared.ask(Ask::TimedOut(frame.ticket, age));
                }
                Kind::AskStacks => self.shared.ask(Ask::Stacks(frame.ticket)),
                Kind::Ping => {
                    self.shared.pong(frame.ticket, 0);
                    self.shared.outbox.soon();
                    self.shared.ask(Ask::Ping(frame.ticket));
                }
                Kind::Reopen => {
                    let path = Path::new(OsStr::from_bytes(frame.payload));
                    if let Err(error) = telemetry::reopen(path) {
                        let path = path.display();
                        telemetry::error!(
                            "cannot open the log file {path} anew: {error}; the old one stays"
                        );
                    }
                }
                Kind::Level => {
                    let word = str::from_utf8(frame.payload).ok();
                    if let Some(level) = word.and_then(Level::from_word) {
                        telemetry::set_level(level);
                    }
                }
                kind => {
                    crate::telemetry::error!("the bridge brings a {kind:?} frame to a worker");
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn with(&self, ticket: Ticket, act: impl FnOnce(&Control)) {
        // Of a request that is over the instance may not know yet.
        if let Some(control) = self.controls.get(&ticket) {
            act(control);
        }
    }

    fn recall(&mut self, ticket: Ticket) {
        if self.controls.get(&ticket).is_some_and(|control| control.recall()) {
            self.controls.remove(&ticket);
            let mut out = Vec::new();
            frame::put(&mut out, Kind::Recalled, 0, ticket, b"");
            self.shared.outbox.append(&out);
            self.shared.outbox.soon();
        }
    }

    fn request(&mut self, frame: Frame<'_>) {
        let ticket = frame.ticket;
        // Without its message it is refused as any malformed one.
        let (body, message) = request::read(&frame).unwrap_or((Body::Message, b""));
        let (work, input) = match self.prepare(ticket, message, body) {
            Ok((request, input)) => (Ok(request), input),
            Err(mut refused) => {
                if refused.request.get(Name::RequestId).is_none() {
                    self.identify(&mut refused.request, ticket, message);
                }
                (Err(refused), Input::Message)
            }
        };
        let control = Arc::new(match &input {
            Input::Stream(inflow) => Control::with(Arc::clone(inflow)),
            _ => Control::default(),
        });
        if self.controls.len() >= self.sweep_at {
            self.controls.retain(|_, control| !control.is_past());
            self.sweep_at = Self::SWEEP.max(2 * self.controls.len());
        }
        self.controls.insert(ticket, Arc::clone(&control));
        let item = Item { ticket, control, work, input, when: SystemTime::now() };
        if self.queue.push(item).is_err() {
            // After a drain, or with all slots ended: it goes back, for no one here will answer it.
            self.recall(ticket);
        }
    }

    fn prepare(
        &mut self,
        ticket: Ticket,
        message: &[u8],
        body: Body<'_>,
    ) -> Result<(Box<Request>, Input), Box<Refused>> {
        let (file, came) = match body {
            Body::Message => (None, Came::Message),
            Body::Stream => (None, Came::Stream),
            Body::File(path, id) => match body::open(path, id) {
                Ok((file, size)) => (Some((file, size)), Came::File(size)),
                Err(error) => return Err(self.unreadable(path, &error)),
            },
        };
        let work = match Envelope::parse(message) {
            Ok(envelope) => environ::prepare(&envelope, &self.rules, came, ticket.0).map(Box::new),
            Err(error) => Err(Box::new(Refused::unread(Why::Message(error)))),
        };
        self.tell(&work);
        let mut request = work?;
        if body == Body::Stream {
            let first = std::mem::take(&mut request.body);
            let inflow = Inflow::new(Arc::clone(&self.shared.outbox), ticket, first);
            return Ok((request, Input::Stream(Arc::new(inflow))));
        }
        let Some((file, size)) = file else { return Ok((request, Input::Message)) };
        let length = request.get(Name::ContentLength).and_then(decimal).unwrap_or(size);
        match (body::cut(&file, size, length), body) {
            (Err(error), Body::File(path, _)) => Err(self.unreadable(path, &error)),
            _ => Ok((request, Input::File(file))),
        }
    }

    /// Names a request that was refused unseen.
    fn identify(&self, request: &mut Request, ticket: Ticket, message: &[u8]) {
        let header = self.rules.ids.header();
        let envelope = Envelope::parse(message).ok();
        let headers = envelope.as_ref().and_then(|e| e.headers().ok()).unwrap_or_default();
        let said = header.and_then(|name| headers.get(name)).map(Value::first);
        request.identify(&self.rules.ids.id(said, ticket.0), header);
    }

    fn unreadable(&mut self, path: &[u8], error: &std::io::Error) -> Box<Refused> {
        if let Some(held) = self.limits.refused.allow(Instant::now()) {
            let path = Escaped(path);
            crate::telemetry::error!("the body's file {path} cannot be used: {error}{held}");
        }
        Box::new(Refused::unread(Why::File))
    }

    fn tell(&mut self, work: &Work) {
        match &work {
            Ok(request) if request.dropped > 0 => {
                if let Some(held) = self.limits.underscore.allow(Instant::now()) {
                    crate::telemetry::warn!(
                        "{} request header(s) with an underscore left out{held}",
                        request.dropped
                    );
                }
            }
            Err(refused) if refused.why != Why::Outside => {
                if let Some(held) = self.limits.refused.allow(Instant::now()) {
                    let status = refused.why.status();
                    crate::telemetry::warn!("request refused with {status}: {}{held}", refused.why);
                }
            }
            _ => {}
        }
    }

    /// The instance has gone.
    fn orphan(self) {
        self.shared.orphan.store(true, Ordering::Relaxed);
        self.queue.close();
        self.shared.outbox.give_up();
        for control in self.controls.values() {
            control.leave();
        }
        std::thread::sleep(self.grace);
        // Nobody is left who could do it.
        crate::telemetry::error!(
            "still busy {:?} after the instance has gone: ending by force",
            self.grace
        );
        let _ = nix::sys::signal::kill(Pid::this(), Signal::SIGKILL);
    }
}
