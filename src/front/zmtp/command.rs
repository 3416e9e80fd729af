//! Commands: READY and ERROR of the handshake, PING and PONG, subscriptions.

use super::ZmtpError;
use super::frame::put_command;
use super::frame::put_message;

/// Most bytes of a PING's context (RFC 37); what is beyond is not sent back.
const CONTEXT_MAX: usize = 16;

/// A command of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// The handshake's, with its properties: read them with `property`.
    Ready(&'a [u8]),
    /// The peer refuses us; the text is its reason.
    Error(&'a [u8]),
    /// To be answered with [`put_pong`] and this context.
    Ping(&'a [u8]),
    /// An answer to a PING of ours.
    Pong,
    /// A topic that the peer wants.
    Subscribe(&'a [u8]),
    /// A topic that it wants no more.
    Cancel(&'a [u8]),
    /// Any other, to be passed over.
    Other,
}

impl<'a> Command<'a> {
    /// Reads the body of a command frame.
    ///
    /// # Errors
    /// When there is no name, or a PING without its time to live.
    pub fn parse(body: &'a [u8]) -> Result<Command<'a>, ZmtpError> {
        let (name, data) = short_text(body).ok_or(ZmtpError::Command)?;
        Ok(match name {
            b"READY" => Command::Ready(data),
            b"ERROR" => Command::Error(short_text(data).map_or(&[][..], |(reason, _)| reason)),
            b"PING" => {
                let context = data.get(2..).ok_or(ZmtpError::Command)?;
                Command::Ping(&context[..context.len().min(CONTEXT_MAX)])
            }
            b"PONG" => Command::Pong,
            b"SUBSCRIBE" => Command::Subscribe(data),
            b"CANCEL" => Command::Cancel(data),
            b"" => return Err(ZmtpError::Command),
            _ => Command::Other,
        })
    }
}

/// Splits off a text with its length in one byte before it.
fn short_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// The value of a property of READY; names are compared without regard to case.
///
/// # Errors
/// When the properties do not add up.
pub(super) fn property<'a>(
    mut data: &'a [u8],
    wanted: &str,
) -> Result<Option<&'a [u8]>, ZmtpError> {
    let mut found = None;
    while !data.is_empty() {
        let (name, rest) = short_text(data).ok_or(ZmtpError::Command)?;
        let (length, rest) = rest.split_first_chunk().ok_or(ZmtpError::Command)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok();
        let (value, rest) =
            length.and_then(|length| rest.split_at_checked(length)).ok_or(ZmtpError::Command)?;
        if name.eq_ignore_ascii_case(wanted.as_bytes()) {
            found = Some(value);
        }
        data = rest;
    }
    Ok(found)
}

/// Appends the READY of a socket of this type.
pub(super) fn put_ready(out: &mut Vec<u8>, socket_type: &str) {
    let mut data = Vec::with_capacity(32);
    for (name, value) in [("Socket-Type", socket_type), ("Identity", "")] {
        data.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        data.extend_from_slice(name.as_bytes());
        data.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_be_bytes());
        data.extend_from_slice(value.as_bytes());
    }
    put_command(out, "READY", &data);
}

/// Appends a question for a sign of life. The peer may take us for gone when it hears nothing of us for `ttl` tenths of a
/// second; 0: never.
pub fn put_ping(out: &mut Vec<u8>, ttl: u16) {
    put_command(out, "PING", &ttl.to_be_bytes());
}

/// Appends the answer to a PING.
pub fn put_pong(out: &mut Vec<u8>, context: &[u8]) {
    put_command(out, "PONG", context);
}

/// Appends a subscription in the form of the peer's version: a command since 3.1, before that a message.
pub fn put_subscribe(out: &mut Vec<u8>, minor: u8, topic: &[u8]) {
    put_topic(out, minor, "SUBSCRIBE", 1, topic);
}

/// Appends the end of a subscription, likewise.
pub fn put_cancel(out: &mut Vec<u8>, minor: u8, topic: &[u8]) {
    put_topic(out, minor, "CANCEL", 0, topic);
}

fn put_topic(out: &mut Vec<u8>, minor: u8, name: &str, mark: u8, topic: &[u8]) {
    if minor == 0 {
        put_message(out, &[&[mark], topic]);
    } else {
        put_command(out, name, topic);
    }
}
