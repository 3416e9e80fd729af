//! The life of one response (PEP 3333, "The `start_response()` Callable"): not started, head pending, body, over.
//!
//! Bytes go into a [`Sink`] exactly as they must reach the client. The head waits for the first byte of the body, or the
//! end; what the application yields is held against its Content-Length in both directions; a response that cannot be
//! completed never looks complete. What went wrong is told in the [`Ending`], for others to log.

use crate::http::chunk;
use crate::http::framing;
use crate::http::framing::Asked;
use crate::http::framing::Framing;
use crate::http::framing::Given;
use crate::http::framing::Version;
use crate::http::framing::Wish;
use crate::http::head::Head;
use crate::http::page;
use crate::http::page::Page;

/// The client has left: nothing can be sent any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client has left")]
pub struct Gone;

/// Where a response goes.
pub trait Sink {
    /// Takes the pieces of one block of the application, in order; some may be empty. May wait.
    fn block(&mut self, pieces: &[&[u8]]) -> Result<(), Gone>;
}

/// Why `start_response` cannot be called now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// It was called before, and this is no error handler.
    #[error("start_response was already called, and no exc_info is given")]
    Twice,
    /// The head is out: the given exception is to be raised.
    #[error("the head has been sent")]
    Sent,
    /// The request has ended.
    #[error("the request is over")]
    Over,
}

/// Why a block cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// No head was given.
    #[error("start_response must be called before the first block that is not empty")]
    NotStarted,
    /// The request has ended.
    #[error("the request is over")]
    Over,
    /// The client has left.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// Whether more blocks are any use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Yes.
    More,
    /// No: this response has no body, or the body is longer than was announced.
    Enough,
}

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The client has a whole response of the application.
    Whole,
    /// The application failed before its head was out: the client has our 500.
    Failed,
    /// The client has a part of a response.
    Cut,
    /// The client left.
    Gone,
    /// The application was not asked.
    Refused,
}

/// What the application did wrong without raising anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Never called `start_response`.
    #[error("start_response was not called")]
    NeverStarted,
    /// Fewer bytes than Content-Length.
    #[error("body is {missing} bytes shorter than its content length {announced}")]
    Short {
        /// What Content-Length said.
        announced: u64,
        /// How many are missing.
        missing: u64,
    },
    /// More bytes than Content-Length; they were dropped.
    #[error("body is longer than its content length {announced}, the surplus is dropped")]
    Surplus {
        /// What Content-Length said.
        announced: u64,
    },
    /// A body with a status that has none; it was dropped.
    #[error("body with status {0}, which has none, is dropped")]
    Bodiless(u16),
}

/// The end of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// How it ended.
    pub how: How,
    /// Whether the connection may serve another request.
    pub keep: bool,
    /// The status sent, 0 if none.
    pub status: u16,
    /// Body bytes sent, without chunk framing.
    pub body: u64,
    /// What to log.
    pub fault: Option<Fault>,
}

#[derive(Debug)]
enum State {
    Idle,
    Pending(Head),
    Body(Body),
    Over,
}

/// A body being sent.
#[derive(Debug, Clone, Copy)]
struct Body {
    framing: Framing,
    keep: bool,
    status: u16,
}

/// One response.
#[derive(Debug)]
pub struct Response {
    asked: Asked,
    state: State,
    sent: u64,
    /// How long the body will be, if that is known and the application has not said it.
    expected: Option<u64>,
    gone: bool,
    fault: Option<Fault>,
    /// A line of the head that the application may replace.
    line: Option<Vec<u8>>,
}

impl Response {
    /// A response to a request that asked so.
    pub fn new(asked: Asked) -> Response {
        let (state, expected, fault, line) = (State::Idle, None, None, None);
        Response { asked, state, sent: 0, expected, gone: false, fault, line }
    }

    /// Whatever the response will be, its head has this line (a header with its end), unless the application gives that
    /// header itself.
    pub fn add(&mut self, line: Option<Vec<u8>>) {
        self.line = line;
    }

    /// `start_response`: gives the head. `replaces` says that an exception is being handled (`exc_info`).
    pub fn start(&mut self, head: Head, replaces: bool) -> Result<(), StartError> {
        match self.state {
            State::Idle => {}
            State::Pending(_) if replaces => {}
            State::Body(_) if replaces => return Err(StartError::Sent),
            State::Pending(_) | State::Body(_) => return Err(StartError::Twice),
            State::Over => return Err(StartError::Over),
        }
        self.state = State::Pending(head);
        Ok(())
    }

    /// Whether the head is out.
    pub fn head_sent(&self) -> bool {
        matches!(self.state, State::Body(_))
    }

    /// Whether the request has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Whether the client was found gone.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Body bytes that the announced length leaves, if one was announced.
    pub fn room(&self) -> Option<u64> {
        match &self.state {
            State::Pending(head) => head.content_length().or(self.expected),
            State::Body(Body { framing: Framing::Length(length), .. }) => Some(length - self.sent),
            _ => None,
        }
    }

    /// The body is the rest of a file, `length` bytes. If the application has said nothing of it and the response is
    /// plainly that file (200), that becomes its Content-Length.
    pub fn expect(&mut self, length: u64) {
        if let State::Pending(head) = &self.state
            && head.status() == 200
            && head.content_length().is_none()
        {
            self.expected = Some(length);
        }
    }

    /// One block of the body. An empty one changes nothing.
    pub fn block(&mut self, data: &[u8], sink: &mut impl Sink) -> Result<Next, WriteError> {
        self.blocks(&[data], None, sink)
    }

    /// The whole rest of the body, known at once: it gets a Content-Length if nothing was sent before.
    pub fn whole(&mut self, data: &[&[u8]], sink: &mut impl Sink) -> Result<Next, WriteError> {
        let length = data.iter().map(|piece| piece.len() as u64).sum();
        self.blocks(data, Some(length), sink)
    }

    /// The end of the application's iterable, after its `close()`.
    pub fn finish(&mut self, sink: &mut impl Sink) -> Ending {
        if matches!(self.state, State::Idle) {
            self.fault = Some(Fault::NeverStarted);
            return self.fail(sink);
        }
        let mut head = Vec::new();
        if matches!(self.state, State::Pending(_)) {
            head = self.open(Some(0));
        }
        let State::Body(body) = self.state else { return self.end(How::Cut, false, 0) };
        let (last, missing) = match body.framing {
            Framing::Chunked => (chunk::LAST, 0),
            Framing::Length(length) => (&b""[..], length - self.sent),
            Framing::NoBody | Framing::UntilClose => (&b""[..], 0),
        };
        if (!head.is_empty() || !last.is_empty()) && sink.block(&[&head, last]).is_err() {
            self.gone = true;
        }
        if missing > 0 && !self.gone {
            self.fault = Some(Fault::Short { announced: self.sent + missing, missing });
            return self.end(How::Cut, false, body.status);
        }
        self.end(How::Whole, body.keep, body.status)
    }

    /// The application failed: our 500 if nothing is out, else the end of the connection.
    pub fn fail(&mut self, sink: &mut impl Sink) -> Ending {
        match self.state {
            State::Idle | State::Pending(_) => self.page(500, true, How::Failed, sink),
            State::Body(Body { status, .. }) => self.end(How::Cut, false, status),
            State::Over => self.end(How::Cut, false, 0),
        }
    }

    /// The request is not for the application: an error page instead.
    pub fn refuse(&mut self, status: u16, may_keep: bool, sink: &mut impl Sink) -> Ending {
        self.page(status, may_keep, How::Refused, sink)
    }

    fn page(&mut self, status: u16, may_keep: bool, how: How, sink: &mut impl Sink) -> Ending {
        if self.gone {
            return self.end(how, false, 0);
        }
        let asked = if may_keep { self.asked } else { Asked { wish: Wish::Close, ..self.asked } };
        let given = Given { status, content_length: None, known: Some(0), close: false };
        let keep = framing::decide(asked, given).keep;
        let page = Page {
            note: None,
            head_only: asked.head,
            keep,
            version_10: asked.version == Version::Http10,
            retry_after: None,
            line: self.line.as_deref(),
        };
        let mut text = Vec::with_capacity(256);
        self.sent = page::put(&mut text, status, page);
        self.gone = sink.block(&[&text]).is_err();
        self.end(how, keep, status)
    }

    fn end(&mut self, how: How, keep: bool, status: u16) -> Ending {
        self.state = State::Over;
        let how = if self.gone { How::Gone } else { how };
        Ending { how, keep: keep && !self.gone, status, body: self.sent, fault: self.fault }
    }

    /// Decides the framing, and gives the head's bytes. Only called with a head pending.
    fn open(&mut self, known: Option<u64>) -> Vec<u8> {
        let State::Pending(mut head) = std::mem::replace(&mut self.state, State::Over) else {
            return Vec::new();
        };
        if let Some(line) = &self.line {
            head.add_missing(line);
        }
        let status = head.status();
        let content_length = head.content_length();
        let known = self.expected.or(known);
        let given = Given { status, content_length, known, close: head.close() };
        let decision = framing::decide(self.asked, given);
        self.state = State::Body(Body { framing: decision.framing, keep: decision.keep, status });
        head.finish(&decision)
    }

    fn blocks(
        &mut self,
        data: &[&[u8]],
        known: Option<u64>,
        sink: &mut impl Sink,
    ) -> Result<Next, WriteError> {
        if self.gone {
            return Err(Gone.into());
        }
        let total = known.unwrap_or_else(|| data.iter().map(|piece| piece.len() as u64).sum());
        let head = match &self.state {
            State::Over => return Err(WriteError::Over),
            State::Idle if total > 0 => return Err(WriteError::NotStarted),
            State::Idle => return Ok(Next::More),
            // PEP 3333: the head waits for the first block that is not empty.
            State::Pending(_) if total == 0 => return Ok(Next::More),
            State::Pending(_) => self.open(known),
            State::Body(_) => Vec::new(),
        };
        let State::Body(body) = self.state else { return Err(WriteError::Over) };
        let next = self.send(body, &head, data, total, sink);
        self.gone = next.is_err();
        Ok(next?)
    }

    fn send(
        &mut self,
        body: Body,
        head: &[u8],
        data: &[&[u8]],
        total: u64,
        sink: &mut impl Sink,
    ) -> Result<Next, Gone> {
        match body.framing {
            Framing::NoBody => {
                if framing::bodiless(body.status) && !self.asked.head && total > 0 {
                    self.fault = Some(Fault::Bodiless(body.status));
                }
                if !head.is_empty() {
                    sink.block(&[head])?;
                }
                return Ok(Next::Enough);
            }
            Framing::Length(length) if total > length - self.sent => {
                self.fault = Some(Fault::Surplus { announced: length });
                let mut room = usize::try_from(length - self.sent).unwrap_or(usize::MAX);
                let mut pieces = vec![head];
                for piece in data {
                    let (fits, _) = piece.split_at(room.min(piece.len()));
                    room -= fits.len();
                    pieces.push(fits);
                }
                self.sent = length;
                sink.block(&pieces)?;
                return Ok(Next::Enough);
            }
            _ if total == 0 && head.is_empty() => {}
            Framing::Chunked if total > 0 => {
                let size = chunk::SizeLine::new(usize::try_from(total).unwrap_or(usize::MAX));
                self.sent += total;
                emit(&[head, size.as_bytes()], data, chunk::AFTER, sink)?;
            }
            Framing::Length(_) | Framing::Chunked | Framing::UntilClose => {
                self.sent += total;
                emit(&[head], data, b"", sink)?;
            }
        }
        Ok(Next::More)
    }
}

/// Hands on `before`, `data` and `after` as one block, without an allocation in the usual case of one piece of data.
fn emit(before: &[&[u8]], data: &[&[u8]], after: &[u8], sink: &mut impl Sink) -> Result<(), Gone> {
    if let ([head], [piece]) = (before, data) {
        return sink.block(&[head, piece, after]);
    }
    let mut pieces = Vec::with_capacity(before.len() + data.len() + 1);
    pieces.extend_from_slice(before);
    pieces.extend_from_slice(data);
    pieces.push(after);
    sink.block(&pieces)
}

#[cfg(test)]
mod tests;
