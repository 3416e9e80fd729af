//! A handler's response, read from bytes that come in any split: its head, the bytes of its body, its end.
//!
//! The front end sends every response anew, framed for its own client, so that a broken one becomes a 502 and never
//! bytes that the client takes for its next response. Therefore this reader believes nothing that two readers could
//! understand differently (RFC 9112 sections 6.3 and 11): several lengths, a length beside a coding, a bare LF, a folded
//! line are errors. It copies the head once and gives out bodies as they lie in the input. It knows no clock, and
//! refuses to say what becomes of a fault.

mod error;
mod head;
#[cfg(test)]
mod tests;

pub use error::ResponseError;
pub use head::Limits;
pub use head::ResponseHead;

use super::dechunk::Chunk;
use super::dechunk::Dechunk;
use super::framing::Framing;
use super::framing::Version;
use super::framing::Wish;

/// What [`ResponseParser::next`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'i> {
    /// The head of an interim response (1xx): [`ResponseParser::head`] has it until more is asked for.
    Interim,
    /// The head of the response: [`ResponseParser::head`] has it. [`ResponseParser::framing`] says what will follow.
    Head,
    /// Bytes of the body, decoded, never empty.
    Body(&'i [u8]),
    /// The response is complete. It comes once.
    End,
    /// Bytes after the end, which belong to nobody: to pass them on would be to answer the next request with them.
    Excess(&'i [u8]),
}

#[derive(Debug)]
enum State {
    Head,
    /// The head was given out; `None`: an interim one.
    Given(Option<Framing>),
    Length(u64),
    Chunked(Dechunk),
    UntilClose,
    Done,
    Failed(ResponseError),
}

/// Reads one response.
///
/// ```
/// use lurcher::http::response::{Event, ResponseParser};
///
/// let mut parser = ResponseParser::new(false);
/// let mut input = &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"[..];
/// assert_eq!(parser.next(&mut input), Ok(Some(Event::Head)));
/// assert_eq!(parser.head().status(), 200);
/// assert_eq!(parser.next(&mut input), Ok(Some(Event::Body(b"hel"))));
/// assert_eq!(parser.next(&mut input), Ok(None));
/// let mut input = &b"lo"[..];
/// assert_eq!(parser.next(&mut input), Ok(Some(Event::Body(b"lo"))));
/// assert_eq!(parser.next(&mut input), Ok(Some(Event::End)));
/// assert!(parser.keeps());
/// ```
#[derive(Debug)]
pub struct ResponseParser {
    head: ResponseHead,
    state: State,
    framing: Option<Framing>,
    head_request: bool,
    limits: Limits,
}

impl ResponseParser {
    /// For the response to a HEAD request, which never has a body, or to any other, with the default limits.
    pub fn new(head_request: bool) -> ResponseParser {
        ResponseParser::with_limits(head_request, Limits::default())
    }

    /// The same with other limits.
    pub fn with_limits(head_request: bool, limits: Limits) -> ResponseParser {
        ResponseParser {
            head: ResponseHead::default(),
            state: State::Head,
            framing: None,
            head_request,
            limits,
        }
    }

    /// Begins again for the next response, with the memory of this one.
    pub fn restart(&mut self, head_request: bool) {
        self.head.clear();
        self.state = State::Head;
        self.framing = None;
        self.head_request = head_request;
    }

    /// Takes from the front of `input` what the next event is made of; `None` when the input is used up and more must
    /// come. To be called until it says so: [`Event::End`] may need no further byte. An error is final.
    pub fn next<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Event<'i>>, ResponseError> {
        let event = self.step(input);
        if let Err(error) = event {
            self.state = State::Failed(error);
        }
        event
    }

    fn step<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Event<'i>>, ResponseError> {
        match &self.state {
            State::Given(None) => {
                self.head.clear();
                self.state = State::Head;
            }
            State::Given(Some(framing)) => {
                self.state = match *framing {
                    Framing::NoBody => State::Length(0),
                    Framing::Length(length) => State::Length(length),
                    Framing::Chunked => State::Chunked(Dechunk::default()),
                    Framing::UntilClose => State::UntilClose,
                };
            }
            _ => {}
        }
        match &mut self.state {
            State::Failed(error) => Err(*error),
            State::Head | State::Given(_) => {
                if !self.head.read(input, self.limits)? {
                    return Ok(None);
                }
                let framing = self.head.framing(self.head_request)?;
                if self.head.is_interim() {
                    self.state = State::Given(None);
                    return Ok(Some(Event::Interim));
                }
                self.framing = Some(framing);
                self.state = State::Given(Some(framing));
                Ok(Some(Event::Head))
            }
            State::Length(0) => Ok(Some(self.end())),
            State::Length(left) => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX);
                let piece = take(input, length);
                *left -= piece.map_or(0, <[u8]>::len) as u64;
                Ok(piece.map(Event::Body))
            }
            State::Chunked(chunks) => match chunks.next(input)? {
                Chunk::Data(data) => Ok(Some(Event::Body(data))),
                Chunk::More => Ok(None),
                Chunk::End => Ok(Some(self.end())),
            },
            State::UntilClose => Ok(take(input, usize::MAX).map(Event::Body)),
            State::Done => Ok(take(input, usize::MAX).map(Event::Excess)),
        }
    }

    fn end<'i>(&mut self) -> Event<'i> {
        self.state = State::Done;
        Event::End
    }

    /// The handler closes: no more bytes will come. `Ok` when the response is complete, which for one without a length
    /// is decided here and nowhere else. All input must have been read.
    pub fn close(&mut self) -> Result<(), ResponseError> {
        let fault = match &self.state {
            State::Done
            | State::UntilClose
            | State::Length(0)
            | State::Given(Some(Framing::NoBody | Framing::Length(0) | Framing::UntilClose)) => {
                None
            }
            State::Failed(error) => Some(*error),
            State::Head if self.head.is_empty() => Some(ResponseError::Nothing),
            _ => Some(ResponseError::Cut),
        };
        self.state = fault.map_or(State::Done, State::Failed);
        fault.map_or(Ok(()), Err)
    }

    /// The head that the last [`Event::Interim`] or [`Event::Head`] told of; unfinished before.
    pub fn head(&self) -> &ResponseHead {
        &self.head
    }

    /// How the body ends, once the head is there.
    pub fn framing(&self) -> Option<Framing> {
        self.framing
    }

    /// Whether the response is complete.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Whether the connection may live on after this response, as far as the handler says: by its version, its
    /// `Connection` header, and whether the body has an end of its own (RFC 9112 section 9.3).
    pub fn keeps(&self) -> bool {
        let wish = match (self.head.version(), self.head.wish()) {
            (_, Wish::Close) | (Version::Http10, Wish::None) => false,
            (Version::Http11, _) | (Version::Http10, Wish::KeepAlive) => true,
        };
        wish && !matches!(self.framing, None | Some(Framing::UntilClose))
    }
}

/// Up to `most` bytes from the front, if there is one.
fn take<'i>(input: &mut &'i [u8], most: usize) -> Option<&'i [u8]> {
    let (piece, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    (!piece.is_empty()).then_some(piece)
}
