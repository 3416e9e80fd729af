//! Replies: what is published to a front end, in the strict grammar of protocol section 4.1.
//!
//! The writers refuse whatever Mongrel2 would not parse, for one bad message costs every client of the handler half a
//! second (section 4.2) and a bad control payload can crash it (section 7.1). Payloads are never looked into.

use crate::proto::error::Fault;
use crate::proto::error::ParseError;
use crate::proto::error::Part;
use crate::proto::ident::ConnId;
use crate::proto::ident::SenderUuid;
use crate::proto::ident::decimal;
use crate::proto::ident::is_reply_byte;
use crate::proto::netstring::put_number;
use crate::proto::tnetstring::Item;

/// Most connections that one reply may name (Mongrel2's `limits.handler_targets`; one more and it refuses the message).
pub const MAX_TARGETS: usize = 128;

/// A reply that Mongrel2 would refuse. Nothing has been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The uuid has bytes other than `A-Z a-z 0-9 -`: a front end configured so can be read, but not answered.
    #[error("sender uuid has bytes that no reply may carry")]
    Sender,
    /// No connection, or more than [`MAX_TARGETS`].
    #[error("reply names {0} connections, not 1 to {MAX_TARGETS}")]
    Targets(usize),
}

/// A control message to a front end about a connection (protocol section 7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ctl {
    /// Refresh the idle clock of the connection (protocol section 10.3).
    KeepAlive,
    /// Close at once and drop what is queued; no disconnect message follows.
    Cancel,
    /// Let so many more bytes of a streamed upload come (protocol section 6.4).
    Credits(u32),
}

/// Appends a reply to one connection: `payload` must reach the client as it is, and must not be empty, for that closes
/// the connection (see [`put_close`]).
pub fn put_reply(
    out: &mut Vec<u8>,
    to: &SenderUuid,
    conn: ConnId,
    payload: &[u8],
) -> Result<(), ReplyError> {
    put_head(out, to, b"", &[conn])?;
    out.extend_from_slice(payload);
    Ok(())
}

/// Appends one reply to up to [`MAX_TARGETS`] connections. One that is named twice gets the payload twice.
pub fn put_reply_many(
    out: &mut Vec<u8>,
    to: &SenderUuid,
    conns: &[ConnId],
    payload: &[u8],
) -> Result<(), ReplyError> {
    put_head(out, to, b"", conns)?;
    out.extend_from_slice(payload);
    Ok(())
}

/// Appends the message that closes a connection after all that was sent before it (protocol section 4.5).
pub fn put_close(out: &mut Vec<u8>, to: &SenderUuid, conn: ConnId) -> Result<(), ReplyError> {
    put_head(out, to, b"", &[conn])
}

/// Appends a control message.
pub fn put_ctl(
    out: &mut Vec<u8>,
    to: &SenderUuid,
    conn: ConnId,
    ctl: Ctl,
) -> Result<(), ReplyError> {
    put_ctl_many(out, to, &[conn], ctl)
}

/// Appends one control message about up to [`MAX_TARGETS`] connections.
pub fn put_ctl_many(
    out: &mut Vec<u8>,
    to: &SenderUuid,
    conns: &[ConnId],
    ctl: Ctl,
) -> Result<(), ReplyError> {
    put_head(out, to, b"X ", conns)?;
    let setting: (&[u8], Item<'_>) = match ctl {
        Ctl::KeepAlive => (b"keep-alive", Item::Bool(true)),
        Ctl::Cancel => (b"cancel", Item::Bool(true)),
        Ctl::Credits(bytes) => (b"credits", Item::Integer(i64::from(bytes))),
    };
    Item::List(vec![Item::Bytes(b"ctl"), Item::Dict(vec![setting])]).put(out);
    Ok(())
}

/// Appends all that comes before the payload.
fn put_head(
    out: &mut Vec<u8>,
    to: &SenderUuid,
    prefix: &[u8],
    conns: &[ConnId],
) -> Result<(), ReplyError> {
    if !to.is_reply_safe() {
        return Err(ReplyError::Sender);
    }
    if conns.is_empty() || conns.len() > MAX_TARGETS {
        return Err(ReplyError::Targets(conns.len()));
    }
    let digits: usize = conns.iter().map(|conn| digits(conn.0)).sum();
    let blanks = conns.len().saturating_sub(1);
    out.extend_from_slice(to.as_bytes());
    out.push(b' ');
    put_number(out, prefix.len().saturating_add(digits).saturating_add(blanks));
    out.push(b':');
    out.extend_from_slice(prefix);
    for (index, conn) in conns.iter().enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        put_number(out, conn.0);
    }
    out.extend_from_slice(b", ");
    Ok(())
}

/// Number of decimal digits.
fn digits(number: u32) -> usize {
    number
        .checked_ilog10()
        .and_then(|log| usize::try_from(log).ok())
        .map_or(1, |log| log.saturating_add(1))
}

/// A reply as a front end reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The uuid that the reply was addressed to.
    pub sender: &'a [u8],
    /// The connections, 1 to [`MAX_TARGETS`], repeated ones included.
    pub targets: Vec<ConnId>,
    /// Whether the payload is an extended message (a tnetstring for the front end) and not for the client.
    pub extended: bool,
    /// Bytes for the client; empty means close. Not looked into.
    pub payload: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Reads a reply and takes exactly what Mongrel2 takes, but that ids beyond 32 bits, which no connection can
    /// have, are refused.
    pub fn parse(message: &'a [u8]) -> Result<Reply<'a>, ParseError> {
        let offset = |rest: &[u8]| message.len().saturating_sub(rest.len());
        let error = |what, part, at| Err(ParseError::new(what, part, at));

        let sender = message.iter().take_while(|&&byte| is_reply_byte(byte)).count();
        let (sender, length, rest) = match message.split_at_checked(sender) {
            Some((sender @ [_, ..], [b' ', rest @ ..])) => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                match rest.split_at_checked(digits) {
                    Some((length, [b':', rest @ ..])) => (sender, length, rest),
                    _ => return error(Fault::Length, Part::Targets, offset(rest)),
                }
            }
            _ => return error(Fault::Syntax, Part::Sender, sender),
        };
        let Some(length) = decimal(length).and_then(|number| usize::try_from(number).ok()) else {
            return error(Fault::Length, Part::Targets, sender.len().saturating_add(1));
        };
        let Some((targets, after)) = rest.split_at_checked(length) else {
            return error(Fault::Length, Part::Targets, sender.len().saturating_add(1));
        };
        let [b',', b' ', payload @ ..] = after else {
            return error(Fault::Syntax, Part::Targets, offset(after));
        };
        let (extended, ids) = match targets {
            [b'X', b' ', ids @ ..] => (true, ids),
            ids => (false, ids),
        };
        let targets = targets_of(ids).map_err(|error| error.within(Part::Targets, offset(rest)))?;
        Ok(Reply { sender, targets, extended, payload })
    }
}

/// Reads ids with one blank between them and at most one after the last.
fn targets_of(ids: &[u8]) -> Result<Vec<ConnId>, ParseError> {
    let ids = ids.strip_suffix(b" ").unwrap_or(ids);
    let mut targets = Vec::new();
    for id in ids.split(|&byte| byte == b' ') {
        let Some(id) = decimal(id).and_then(|number| u32::try_from(number).ok()) else {
            return Err(ParseError::new(Fault::Number, Part::Targets, 0));
        };
        if targets.len() == MAX_TARGETS {
            return Err(ParseError::new(Fault::TooMany, Part::Targets, 0));
        }
        targets.push(ConnId(id));
    }
    Ok(targets)
}
