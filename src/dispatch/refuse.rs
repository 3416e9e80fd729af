//! Answers that the instance gives by itself: pages for requests that no worker runs, and refusals of what is no HTTP.
//!
//! All of them close the connection. Only here does the dispatcher look into a request's headers: these are the rare ones.

use std::time::SystemTime;

use crate::bridge::Ticket;
use crate::http::page;
use crate::http::request_id::RequestIds;
use crate::proto::Value;
use crate::proto::headers::Headers;
use crate::proto::request::Envelope;
use crate::telemetry::access;

/// Seconds after which a refused client should try again (`Retry-After`, RFC 9110 section 10.2.3).
const RETRY_AFTER: u32 = 1;

/// Why a request is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// An error page with this status.
    Page(u16),
    /// A websocket handshake: it is no WSGI request.
    WebSocket,
    /// A message of a JSON socket: this server speaks HTTP.
    JsonSocket,
    /// A message of an XML socket.
    XmlSocket,
}

/// The status that stands for a refusal, in its page and in the access log.
pub(crate) fn status(refusal: Refusal) -> u16 {
    match refusal {
        Refusal::Page(status) => status,
        Refusal::WebSocket => 501,
        Refusal::JsonSocket | Refusal::XmlSocket => 400,
    }
}

/// The bytes that answer a refused request; the closing follows them.
pub(crate) fn answer(
    refusal: Refusal,
    message: &[u8],
    ids: &RequestIds,
    ticket: Ticket,
) -> Vec<u8> {
    match refusal {
        Refusal::Page(_) | Refusal::WebSocket => {
            let status = status(refusal);
            let envelope = Envelope::parse(message).ok();
            let headers = envelope.as_ref().and_then(|e| e.headers().ok());
            let line = ids.line(&id(headers.as_ref(), ids, ticket));
            let own = |key| headers.as_ref().and_then(|h| h.own(key));
            page::error(
                status,
                page::Page {
                    head_only: own("METHOD") == Some(b"HEAD"),
                    keep: false,
                    version_10: own("VERSION") == Some(b"HTTP/1.0"),
                    retry_after: (status == 503).then_some(RETRY_AFTER),
                    note: (refusal == Refusal::WebSocket)
                        .then_some("This server does not speak websocket."),
                    line: line.as_deref(),
                },
            )
        }
        // Mongrel2 sends these base64-encoded unless its handler has raw_payload=1 (protocol section 8.4).
        Refusal::JsonSocket => br#"{"error":"this handler serves HTTP only"}"#.to_vec(),
        Refusal::XmlSocket => b"<error>this handler serves HTTP only</error>".to_vec(),
    }
}

/// The id of a request, which its worker gives it too if it has one.
pub(crate) fn id(headers: Option<&Headers<'_>>, ids: &RequestIds, ticket: Ticket) -> Vec<u8> {
    let said = ids.header().and_then(|name| headers?.get(name));
    ids.id(said.map(Value::first), ticket.0)
}

/// `GET /path`, as the client wrote it, as far as it can be read.
pub(crate) fn request_line(message: &[u8]) -> Vec<u8> {
    let envelope = Envelope::parse(message).ok();
    let headers = envelope.as_ref().and_then(|e| e.headers().ok()).unwrap_or_default();
    let uri = headers.own("URI").or(envelope.as_ref().map(|e| e.path)).unwrap_or_default();
    [headers.own("METHOD").unwrap_or(b"-"), b" ", uri].concat()
}

/// The access line of a request that we answered ourselves, as far as it can be read.
pub(crate) fn access_line(message: &[u8], status: u16) -> Vec<u8> {
    let envelope = Envelope::parse(message).ok();
    let headers = envelope.as_ref().and_then(|e| e.headers().ok()).unwrap_or_default();
    let first = |headers: &Headers<'_>, name: &[u8]| headers.get(name).map(|v| v.first().to_vec());
    access::line(&access::AccessFields {
        remote_addr: headers.own("REMOTE_ADDR").unwrap_or_default(),
        user: None,
        method: headers.own("METHOD").unwrap_or_default(),
        uri: headers.own("URI").or(envelope.as_ref().map(|e| e.path)).unwrap_or_default(),
        version: headers.own("VERSION").unwrap_or_default(),
        status,
        body_bytes: 0,
        referer: first(&headers, b"referer").as_deref(),
        user_agent: first(&headers, b"user-agent").as_deref(),
        when: SystemTime::now(),
    })
}
