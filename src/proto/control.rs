//! Control messages: what a front end says about a connection. They are not requests and are never answered.
//!
//! That a message is one is for [`classify`](crate::proto::request::classify) to say; this file reads its meaning.

use std::borrow::Cow;

use crate::proto::headers::Headers;
use crate::proto::ident::decimal;

/// What a control message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The connection is gone (protocol section 5). Answering this begets another one, endlessly.
    Disconnect,
    /// So many response bytes have reached the client and may be followed by as many (protocol section 7.2).
    Credits(u64),
    /// Neither, or not readable: to be counted and passed over.
    Unknown,
}

#[derive(serde::Deserialize)]
struct Body<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

impl Event {
    /// Reads a control message. Its body is JSON text in both forms of the protocol; the number of credits stands in
    /// the header dictionary.
    pub fn read(headers: &Headers<'_>, body: &[u8]) -> Event {
        let Ok(Body { kind }) = serde_json::from_slice(body) else { return Event::Unknown };
        match kind.as_ref() {
            "disconnect" => Event::Disconnect,
            "credits" => headers
                .own("DOWNLOAD_CREDITS")
                .and_then(decimal)
                .map_or(Event::Unknown, Event::Credits),
            _ => Event::Unknown,
        }
    }
}
