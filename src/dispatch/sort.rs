//! What a message from a front end is, and so what becomes of it. Pure; parses no more than it must.

use super::core::Part;
use super::refuse::Refusal;
use super::upload;
use crate::http::head::decimal;
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
        /// Its body is said to be complete in this file.
        file: Option<Vec<u8>>,
        /// The front end writes to this file what nobody will read.
        spoilt: Option<Vec<u8>>,
        /// Bytes of the body that the message has.
        inline: usize,
        /// The rest of the body is to be streamed.
        stream: Option<Stream>,
    },
    /// A body begins to be written to this file; its request follows when it is complete.
    Upload {
        /// Whom an answer must name.
        sender: SenderUuid,
        /// Whose body it is.
        conn: ConnId,
        /// The file, as the front end calls it.
        file: Vec<u8>,
        /// How long the body is going to be; unknown if it comes in chunks.
        announced: Option<u64>,
        /// Flow control begins on this connection with so many bytes.
        credits: Option<u64>,
    },
    /// A part of a streamed body; its bytes are the last `bytes` of the message but one.
    Part {
        /// Whom a reply must name.
        sender: SenderUuid,
        /// Whose body it is.
        conn: ConnId,
        /// Which part.
        part: Part,
        /// How many bytes it has.
        bytes: usize,
    },
    /// News of a connection. Never answered: a reply to a disconnect begets another disconnect, endlessly.
    Event(ConnId, Event),
    /// Nothing to do: a part of something that was refused when it began.
    Ignored,
}

/// How a streamed body begins.
#[derive(Debug)]
pub(crate) struct Stream {
    /// How long it is going to be; unknown if it comes in chunks.
    pub(crate) announced: Option<u64>,
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
        return Ok(Sorted::Request {
            sender,
            conn,
            refuse: None,
            credits: None,
            file: None,
            spoilt: None,
            inline: envelope.body.len(),
            stream: None,
        });
    }
    let headers = envelope.headers()?;
    let credits = headers
        .own("DOWNLOAD_CREDITS")
        .and_then(|text| std::str::from_utf8(text).ok())
        .and_then(|text| text.parse().ok());
    let (mut file, mut spoilt, mut stream) = (None, None, None);
    let refuse = match request::classify(&envelope, &headers) {
        Message::Http => None,
        Message::Event(event) => return Ok(Sorted::Event(conn, event)),
        Message::UploadStart | Message::UploadDone => match upload::news(&envelope, &headers) {
            upload::News::Begins(file) => {
                let announced = upload::announced(&headers);
                return Ok(Sorted::Upload { sender, conn, file, announced, credits });
            }
            upload::News::Complete(path) => {
                file = Some(path);
                None
            }
            // Answering now also ends an upload in which Mongrel2 has a part.
            upload::News::Forged(own) => {
                spoilt = own;
                Some(Refusal::Page(400))
            }
        },
        Message::StreamFirst => {
            if headers.own("UPLOAD_STREAM_DONE").is_none() {
                stream = Some(Stream { announced: upload::announced(&headers) });
            }
            None
        }
        Message::StreamPart => {
            let offset = headers.own("UPLOAD_STREAM").and_then(decimal).unwrap_or(u64::MAX);
            let part = Part { offset, last: headers.own("UPLOAD_STREAM_DONE").is_some() };
            return Ok(Sorted::Part { sender, conn, part, bytes: envelope.body.len() });
        }
        Message::WebSocketHandshake => Some(Refusal::WebSocket),
        Message::JsonSocket => Some(Refusal::JsonSocket),
        Message::XmlSocket => Some(Refusal::XmlSocket),
        Message::WebSocketFrame => return Ok(Sorted::Ignored),
    };
    Ok(Sorted::Request {
        sender,
        conn,
        refuse,
        credits,
        file,
        spoilt,
        inline: envelope.body.len(),
        stream,
    })
}
