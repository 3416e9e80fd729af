//! The parts without sockets as functions of bytes, for whoever looks at the front end from outside: the fuzz targets, and
//! their replay in the tests. The front end itself does not come by here.

use super::http1::framing;
use super::http1::framing::Body;
use super::http1::head;
use super::http1::target;
use super::message;
use super::message::Address;
use super::message::Form;
use super::message::Own;
use super::message::Request;
use super::relay::Asked;
use super::relay::Relay;
use super::relay::Step;
use super::zmtp;
use crate::http::framing::Version;
use crate::http::framing::Wish;
use crate::proto::ConnId;

/// What a client's head came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Understood {
    /// Bytes of the head, its empty line included.
    pub length: usize,
    /// Bytes of the body; none: it comes in chunks.
    pub body: Option<u64>,
    /// The message that a handler gets, with an empty body, from `me` about connection 7.
    pub message: Vec<u8>,
}

/// Reads the head with which `input` begins; nothing while it is not all there. An error is the status of the refusal.
pub fn request(input: &[u8], tnetstrings: bool) -> Option<Result<Understood, u16>> {
    let length = head::length(input, 0)?;
    Some(understood(input.get(..length)?, tnetstrings))
}

fn understood(text: &[u8], tnetstrings: bool) -> Result<Understood, u16> {
    let head = head::parse(text).map_err(super::http1::Refusal::status)?;
    let target = target::parse(head.target).map_err(super::http1::Refusal::status)?;
    let rest = framing::read(&head).map_err(super::http1::Refusal::status)?;
    let form = if tnetstrings { Form::Tnetstring } else { Form::Json };
    let replaced: Vec<Own<'_>> =
        target.authority.map(|authority| ("host", authority)).into_iter().collect();
    let request = Request {
        head: &head,
        target: &target,
        pattern: "/",
        scheme: "http",
        remote_addr: "127.0.0.1",
        replaced: &replaced,
        left_out: &[],
        keys: &[],
    };
    let mut frame = Vec::new();
    message::put_request(&mut frame, Address { form, ident: "me", conn: ConnId(7) }, &request, b"");
    let message = match zmtp::Frame::split(&frame, u64::MAX) {
        Ok(Some((frame, _))) => frame.body.to_vec(),
        Ok(None) | Err(_) => Vec::new(),
    };
    let body = match rest.body {
        Body::Length(length) => Some(length),
        Body::Chunked => None,
    };
    Ok(Understood { length: text.len(), body, message })
}

/// How far a response has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relayed {
    /// More must come.
    More,
    /// It is complete; whether the connection may live on.
    Done(bool),
    /// It is broken.
    Broken,
}

/// What the client of a request (HEAD or another, HTTP/1.0 or 1.1, keeping its connection) gets of a handler's bytes.
pub fn relayed<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    head: bool,
    old: bool,
) -> (Vec<u8>, Relayed) {
    let (version, wish) =
        if old { (Version::Http10, Wish::KeepAlive) } else { (Version::Http11, Wish::None) };
    let mut relay = Relay::new();
    relay.restart(Asked { head, version, wish }, true);
    let mut out = Vec::new();
    for piece in pieces {
        match relay.take(piece, &mut out) {
            Step::More => {}
            Step::Done { keep } => return (out, Relayed::Done(keep)),
            Step::Broken(_) => return (out, Relayed::Broken),
        }
    }
    (out, Relayed::More)
}
