//! Request messages: the envelope, and what kind of message it holds.
//!
//! `UUID SP ID SP PATH SP headers body` (protocol section 1.1), used up exactly. The header block is only delimited
//! here; [`Envelope::headers`] reads it. Whether an upload's file may be trusted is not decided here, nor whether a
//! header is fit for an application.

use crate::proto::control::Event;
use crate::proto::error::Fault;
use crate::proto::error::ParseError;
use crate::proto::error::Part;
use crate::proto::headers::Headers;
use crate::proto::ident::ConnId;
use crate::proto::ident::MAX_SENDER;
use crate::proto::netstring::Netstring;
use crate::proto::plain;

/// Most bytes looked at for the blank after a connection id: those of a 64-bit number with its sign.
const MAX_ID: usize = 20;

/// The undecoded header dictionary, without length and closing tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderBlock<'a> {
    /// `protocol='json'`: a text that looks like JSON (protocol section 2.4).
    Json(&'a [u8]),
    /// `protocol='tnetstring'`: the pairs of a tnetstring dict (protocol section 3).
    Tnet(&'a [u8]),
}

/// One request message, split into its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The sender uuid: 1 to 255 bytes without a blank. Its owned form is [`SenderUuid`](super::ident::SenderUuid).
    pub sender: &'a [u8],
    /// The client connection.
    pub conn: ConnId,
    /// The path, undecoded; `@*` in control messages.
    pub path: &'a [u8],
    /// The header dictionary.
    pub headers: HeaderBlock<'a>,
    /// The body, or what stands for one (protocol sections 6.3, 8.1).
    pub body: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Splits a whole message. The error names the connection if at least that could be read.
    ///
    /// ```
    /// use lurcher::proto::{ConnId, Envelope, Event, Message, classify};
    /// let message = br#"34f9ceee-cd52-4b7f-b197-88bf2f0ec378 2 @* 17:{"METHOD":"JSON"},21:{"type":"disconnect"},"#;
    /// let envelope = Envelope::parse(message)?;
    /// assert_eq!(envelope.conn, ConnId(2));
    /// assert_eq!(classify(&envelope, &envelope.headers()?), Message::Event(Event::Disconnect));
    /// # Ok::<(), lurcher::proto::ParseError>(())
    /// ```
    pub fn parse(message: &'a [u8]) -> Result<Envelope<'a>, ParseError> {
        let offset = |rest: &[u8]| message.len().saturating_sub(rest.len());
        let (sender, rest) = word(message, MAX_SENDER, Part::Sender, 0)?;
        let at = offset(rest);
        let (id, rest) = word(rest, MAX_ID, Part::Connection, at)?;
        let conn = ConnId::parse(id).map_err(|error| error.within(Part::Connection, at))?;
        let addressed = |error: ParseError| error.addressed(sender, conn);
        let fault = |what, part, rest| addressed(ParseError::new(what, part, offset(rest)));

        let (path, rest) = word(rest, rest.len(), Part::Path, offset(rest)).map_err(addressed)?;
        let block = Netstring::split(rest)
            .map_err(|error| addressed(error.within(Part::Headers, offset(rest))))?;
        let headers = match block.tag {
            b',' => HeaderBlock::Json(block.payload),
            b'}' => HeaderBlock::Tnet(block.payload),
            _ => return Err(fault(Fault::Syntax, Part::Headers, block.rest)),
        };
        let body = Netstring::split(block.rest)
            .map_err(|error| addressed(error.within(Part::Body, offset(block.rest))))?;
        if body.tag != b',' {
            return Err(fault(Fault::Syntax, Part::Body, body.rest));
        }
        if !body.rest.is_empty() {
            return Err(fault(Fault::Trailing, Part::Body, body.rest));
        }
        Ok(Envelope { sender, conn, path, headers, body: body.payload })
    }

    /// Reads the header dictionary. The error names the connection; its offset is that of the header block.
    pub fn headers(&self) -> Result<Headers<'a>, ParseError> {
        Headers::parse(self.headers).map_err(|error| error.addressed(self.sender, self.conn))
    }

    /// A cheap look at the undecoded header block: true only if [`classify`] would certainly say [`Message::Http`],
    /// should the block parse at all. False says nothing.
    pub fn looks_plain(&self) -> bool {
        self.path != b"@*" && plain::looks_plain(self.headers)
    }
}

/// Splits off the non-empty text before the first blank, which must come within `limit` bytes.
fn word(input: &[u8], limit: usize, part: Part, at: usize) -> Result<(&[u8], &[u8]), ParseError> {
    let window = input.get(..=limit).unwrap_or(input);
    match memchr::memchr(b' ', window).and_then(|blank| input.split_at_checked(blank)) {
        Some((text @ [_, ..], [_, rest @ ..])) => Ok((text, rest)),
        None if input.len() <= limit => Err(ParseError::new(Fault::Short, part, at)),
        _ => Err(ParseError::new(Fault::Size, part, at)),
    }
}

/// What a request message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// An HTTP request with its whole body. Also what has no METHOD, which deserves a 400.
    Http,
    /// The body of a request is on its way into a file; nothing to answer yet (protocol section 6.3). Clients can
    /// make a request look so.
    UploadStart,
    /// A request whose body may be in the file that [`upload_paths`] names. Clients can make a request look so: test
    /// all that protocol section 6.3 asks before believing it.
    UploadDone,
    /// The first message of a streamed body, with the request's headers (protocol section 6.4).
    StreamFirst,
    /// A further piece of a streamed body.
    StreamPart,
    /// A client asks for a WebSocket; the body is the accept value (protocol section 8.1).
    WebSocketHandshake,
    /// A WebSocket message or control frame (protocol section 8.2).
    WebSocketFrame,
    /// A message on a JSON socket (protocol section 8.3).
    JsonSocket,
    /// A message on an XML socket.
    XmlSocket,
    /// Not a request: something about the connection (protocol section 5).
    Event(Event),
}

/// Says what a message is.
///
/// Only the front end's own upper-case keys count, but for the two upload headers, which have no such form. METHOD
/// alone would not do: a client may use any method, also `JSON`, `XML` and `WEBSOCKET`. But messages that are not HTTP
/// have no VERSION, and WebSocket frames alone have FLAGS (protocol section 2.1).
pub fn classify(envelope: &Envelope<'_>, headers: &Headers<'_>) -> Message {
    let method = headers.own("METHOD");
    match method {
        Some(b"WEBSOCKET_HANDSHAKE") => return Message::WebSocketHandshake,
        Some(b"WEBSOCKET") if headers.own("FLAGS").is_some() => return Message::WebSocketFrame,
        Some(b"JSON") if headers.own("VERSION").is_none() => {
            return if envelope.path == b"@*" {
                Message::Event(Event::read(headers, envelope.body))
            } else {
                Message::JsonSocket
            };
        }
        Some(b"XML") if headers.own("VERSION").is_none() => return Message::XmlSocket,
        _ => {}
    }
    if headers.own("UPLOAD_STREAM").is_some() {
        return if method.is_some() { Message::StreamFirst } else { Message::StreamPart };
    }
    if !envelope.body.is_empty() || headers.get(UPLOAD_START).is_none() {
        return Message::Http;
    }
    match upload_paths(headers) {
        Some(UploadPaths { start, done: Some(done) }) if start == done => Message::UploadDone,
        _ => Message::UploadStart,
    }
}

/// Names the file that a body is written to.
pub const UPLOAD_START: &[u8] = b"x-mongrel2-upload-start";
const UPLOAD_DONE: &[u8] = b"x-mongrel2-upload-done";

/// What the two upload headers say, whoever wrote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadPaths<'h> {
    /// `x-mongrel2-upload-start`.
    pub start: &'h [u8],
    /// `x-mongrel2-upload-done`, if present.
    pub done: Option<&'h [u8]>,
}

/// The two upload headers, if there is a start header and neither is a list.
///
/// A message that is [`Message::UploadStart`] but has no paths here, or already a `done`, has been tampered with by
/// its client and its end will never be recognised: better answered at once, which also removes the file.
pub fn upload_paths<'h>(headers: &'h Headers<'_>) -> Option<UploadPaths<'h>> {
    let start = headers.get(UPLOAD_START)?.single()?;
    let done = match headers.get(UPLOAD_DONE) {
        Some(value) => Some(value.single()?),
        None => None,
    };
    Some(UploadPaths { start, done })
}
