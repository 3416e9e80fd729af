//! What a message from a front end is, and so what becomes of it. Pure; parses no more than it must.

use super::refuse::Refusal;
use crate::proto::control::Event;
use crate::proto::error::ParseError;
use crate::proto::ident::ConnId;
use crate::proto::ident::SenderUuid;
use crate::proto::request;
use crate::proto::request::Envelope;
use crate::proto::request::HeaderBlock;
use crate::proto::request::Message;

/// A message with its destiny.
#[derive(Debug)]
pub(crate) enum Sorted {
    /// A request for a worker, or a refusal that must wait for its turn on the connection.
    Request {
        /// Whom the answer must name.
        sender: SenderUuid,
        /// Whom the answer goes to.
        conn: ConnId,
        /// Answer it so instead of running it.
        refuse: Option<Refusal>,
        /// Flow control begins on this connection with so many bytes.
        credits: Option<u64>,
    },
    /// News of a connection. Never answered: a reply to a disconnect begets another disconnect, endlessly.
    Event(ConnId, Event),
    /// Nothing to do: a part of something that was refused when it began.
    Ignored,
}

/// A message that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// It does not parse.
    #[error(transparent)]
    Malformed(#[from] ParseError),
    /// Mongrel2 refuses replies to such a sender (protocol section 4.1), so nobody could be answered.
    #[error("the sender {0} cannot be named in a reply: send_ident must be of A-Z a-z 0-9 -")]
    Sender(SenderUuid),
}

/// Sorts one message.
pub(crate) fn sort(message: &[u8]) -> Result<Sorted, Unusable> {
    let envelope = Envelope::parse(message)?;
    let conn = envelope.conn;
    let sender = SenderUuid::try_from(envelope.sender)?;
    if !sender.is_reply_safe() {
        return Err(Unusable::Sender(sender));
    }
    let (HeaderBlock::Json(text) | HeaderBlock::Tnet(text)) = envelope.headers;
    let credited = memchr::memmem::find(text, b"DOWNLOAD_CREDITS").is_some();
    if envelope.looks_plain() && !credited {
        return Ok(Sorted::Request { sender, conn, refuse: None, credits: None });
    }
    let headers = envelope.headers()?;
    let credits = headers
        .own("DOWNLOAD_CREDITS")
        .and_then(|text| std::str::from_utf8(text).ok())
        .and_then(|text| text.parse().ok());
    let refuse = match request::classify(&envelope, &headers) {
        // Mongrel2 sends a finished upload only for one that we did not refuse when it began: so UploadDone is a client's
        // invention, and its headers mean nothing.
        Message::Http | Message::UploadDone => None,
        Message::Event(event) => return Ok(Sorted::Event(conn, event)),
        // A body too large for one message. Answering now ends the upload (protocol section 6.3).
        Message::UploadStart | Message::StreamFirst => Some(Refusal::Page(413)),
        Message::WebSocketHandshake => Some(Refusal::WebSocket),
        Message::JsonSocket => Some(Refusal::JsonSocket),
        Message::XmlSocket => Some(Refusal::XmlSocket),
        Message::StreamPart | Message::WebSocketFrame => return Ok(Sorted::Ignored),
    };
    Ok(Sorted::Request { sender, conn, refuse, credits })
}
