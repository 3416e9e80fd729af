//! What each fuzz target does with its input: read it, and hold every promise of `proto` and of `http`'s reader that
//! can be checked then.
//!
//! The targets in `fuzz_targets/` and the replay in `tests/it` share these functions, so that a stable toolchain runs
//! the very same checks. They assert; they never judge whether an input should have been accepted, except where
//! another reader (`serde_json`) knows.

use lurcher::front::pure::{self, Relayed};
use lurcher::front::zmtp::{Command, Frame, Handshake, Role, put_message};
use lurcher::http::response::{Event, ResponseError, ResponseParser};
use lurcher::proto::headers::MAX_VALUES;
use lurcher::proto::netstring::{self, Netstring};
use lurcher::proto::reply::{MAX_TARGETS, put_reply_many};
use lurcher::proto::tnetstring::Item;
use lurcher::proto::{
    Envelope, Fault, HeaderBlock, Headers, Message, Reply, SenderUuid, classify, upload_paths,
};

/// The input is a whole request message.
pub(crate) fn request(data: &[u8]) {
    let envelope = match Envelope::parse(data) {
        Ok(envelope) => envelope,
        Err(error) => {
            assert!(error.at <= data.len(), "{error}");
            return;
        }
    };
    SenderUuid::try_from(envelope.sender).expect("a sender that was read is a sender");
    let (block, tag) = match envelope.headers {
        HeaderBlock::Json(block) => (block, b','),
        HeaderBlock::Tnet(block) => (block, b'}'),
    };
    let mut end = vec![b' '];
    end.extend_from_slice(envelope.path);
    end.push(b' ');
    netstring::put(&mut end, block, tag);
    netstring::put(&mut end, envelope.body, b',');
    assert!(data.ends_with(&end), "the message is its fields");

    let headers = match envelope.headers() {
        Ok(headers) => headers,
        Err(error) => {
            assert!(error.at <= block.len(), "{error}");
            assert_eq!(error.address.expect("sender and id were read").1, envelope.conn);
            return;
        }
    };
    let message = classify(&envelope, &headers);
    if envelope.looks_plain() {
        assert_eq!(message, Message::Http, "looks plain and is not");
    }
    if message == Message::UploadDone {
        let paths = upload_paths(&headers).expect("a finished upload has its paths");
        assert_eq!(Some(paths.start), paths.done);
    }
}

/// The input is a header block, read in both forms.
pub(crate) fn headers(data: &[u8]) {
    for block in [HeaderBlock::Json(data), HeaderBlock::Tnet(data)] {
        match Headers::parse(block) {
            Ok(headers) => sound(&headers, data),
            Err(error) => assert!(error.at <= data.len(), "{error}"),
        }
    }
    same_as_serde_json(data);
}

/// No name twice, and no more bytes or values than the input can have held.
fn sound(headers: &Headers<'_>, data: &[u8]) {
    let mut bytes = 0;
    let mut values = 0;
    for (name, value) in headers.iter() {
        assert!(std::ptr::eq(headers.get(name).expect("listed"), value), "name listed twice");
        bytes += name.len() + value.iter().map(<[u8]>::len).sum::<usize>();
        values += value.iter().count();
    }
    assert!(bytes <= data.len());
    assert!(values <= MAX_VALUES && 2 * values <= data.len());
    assert!(4 * headers.len() <= data.len());
}

/// Wherever the input is JSON, the two readers agree.
fn same_as_serde_json(data: &[u8]) {
    use serde_json::Value as Json;
    let Ok(json) = serde_json::from_slice::<Json>(data) else { return };
    let ours = Headers::parse(HeaderBlock::Json(data));
    let Json::Object(object) = json else {
        assert!(ours.is_err(), "not an object");
        return;
    };
    let texts = |value: &Json| match value {
        Json::String(text) => Some(vec![text.clone()]),
        Json::Array(items) => {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        }
        _ => None,
    };
    match ours {
        Ok(headers) => {
            // A wrong type may stand in an entry that a later one of the same name replaces, but not in `object`.
            assert_eq!(headers.len(), object.len());
            for (name, value) in &object {
                let ours = headers.get(name.as_bytes()).expect("key is there");
                let texts = texts(value).expect("only texts are accepted");
                assert_eq!(ours.single().is_some(), value.is_string());
                assert!(ours.iter().eq(texts.iter().map(String::as_bytes)), "{name}");
            }
        }
        // The type that is complained of may be that of an entry replaced by a later one.
        Err(error) => assert!(
            matches!(error.what, Fault::Type | Fault::TooMany),
            "{error} in {}",
            data.escape_ascii()
        ),
    }
}

/// The input is one tnetstring.
pub(crate) fn tnetstring(data: &[u8]) {
    match Item::parse(data) {
        Ok(item) => {
            let mut again = Vec::new();
            item.put(&mut again);
            assert!(again.len() <= data.len(), "only numbers have longer forms");
            assert_eq!(Item::parse(&again).as_ref(), Ok(&item));
        }
        Err(error) => assert!(error.at <= data.len(), "{error}"),
    }
}

/// The input is a run of netstrings, whatever their tags.
pub(crate) fn netstring(data: &[u8]) {
    let mut rest = data;
    while !rest.is_empty() {
        match Netstring::split(rest) {
            Ok(element) => {
                let mut again = Vec::new();
                netstring::put(&mut again, element.payload, element.tag);
                again.extend_from_slice(element.rest);
                assert_eq!(again, rest);
                rest = element.rest;
            }
            Err(error) => {
                assert!(error.at <= rest.len(), "{error}");
                return;
            }
        }
    }
}

/// The input is a reply.
pub(crate) fn reply(data: &[u8]) {
    let reply = match Reply::parse(data) {
        Ok(reply) => reply,
        Err(error) => {
            assert!(error.at <= data.len(), "{error}");
            return;
        }
    };
    assert!((1..=MAX_TARGETS).contains(&reply.targets.len()));
    assert!(data.ends_with(reply.payload));
    let Ok(sender) = SenderUuid::try_from(reply.sender) else { return };
    assert!(sender.is_reply_safe());
    if !reply.extended {
        let mut again = Vec::new();
        put_reply_many(&mut again, &sender, &reply.targets, reply.payload).expect("it was read");
        assert_eq!(Reply::parse(&again).as_ref(), Ok(&reply));
    }
}

/// Name and value.
type Field = (Vec<u8>, Vec<u8>);

/// What a response came to: heads, body, end, excess, and the fault.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    heads: Vec<(u16, Vec<Field>)>,
    body: Vec<u8>,
    ended: bool,
    excess: Vec<u8>,
    fault: Option<ResponseError>,
}

fn told<'a>(head_request: bool, pieces: impl Iterator<Item = &'a [u8]>) -> Told {
    let mut parser = ResponseParser::new(head_request);
    let mut told = Told::default();
    for mut input in pieces {
        loop {
            match parser.next(&mut input) {
                Ok(None) => break,
                Ok(Some(Event::Interim | Event::Head)) => {
                    assert!(told.body.is_empty() && !told.ended, "a head after the head");
                    let owned = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
                    let fields = parser.head().end_to_end().map(owned).collect();
                    told.heads.push((parser.head().status(), fields));
                }
                Ok(Some(Event::Body(piece))) => {
                    assert!(!piece.is_empty() && !told.ended);
                    told.body.extend_from_slice(piece);
                }
                Ok(Some(Event::End)) => {
                    assert!(!std::mem::replace(&mut told.ended, true), "the end comes once");
                }
                Ok(Some(Event::Excess(piece))) => {
                    assert!(!piece.is_empty() && told.ended);
                    told.excess.extend_from_slice(piece);
                }
                Err(error) => {
                    told.fault = Some(error);
                    return told;
                }
            }
        }
        assert!(input.is_empty(), "all is taken before more is asked for");
    }
    told.ended |= parser.close().is_ok();
    told
}

/// The input is a handler's response: every split tells the same, and what was understood, written anew with nothing
/// but a length, is understood in the same way.
pub(crate) fn response(data: &[u8]) {
    for head_request in [false, true] {
        let whole = told(head_request, std::iter::once(data));
        assert_eq!(told(head_request, data.chunks(1)), whole);
        assert_eq!(told(head_request, data.chunks(7)), whole);
        let Some((status, fields)) = whole.heads.last() else { continue };
        if !whole.ended || head_request || *status < 200 || matches!(status, 204 | 304) {
            continue;
        }
        let mut again = format!("HTTP/1.1 {status} \r\n").into_bytes();
        let is_length = |name: &[u8]| name.eq_ignore_ascii_case(b"content-length");
        for (name, value) in fields.iter().filter(|(name, _)| !is_length(name)) {
            again.extend_from_slice(&[&name[..], b": ", value, b"\r\n"].concat());
        }
        again.extend(format!("Content-Length: {}\r\n\r\n", whole.body.len()).into_bytes());
        again.extend_from_slice(&whole.body);
        let second = told(false, std::iter::once(&again[..]));
        assert_eq!((second.fault, second.ended, &second.excess), (None, true, &Vec::new()));
        assert_eq!(second.body, whole.body);
        let names = |fields: &[Field]| {
            let kept = fields.iter().filter(|(name, _)| !is_length(name));
            kept.cloned().collect::<Vec<_>>()
        };
        assert_eq!(names(&second.heads[0].1), names(fields));
    }
}

/// All of them on one input.
pub(crate) fn run_all(data: &[u8]) {
    response(data);
    request(data);
    headers(data);
    tnetstring(data);
    netstring(data);
    reply(data);
}

/// Longest frame that the target accepts.
const LIMIT: u64 = 4096;

/// The input is what a peer sends: first as its whole conversation, then as frames alone.
pub(crate) fn zmtp(data: &[u8]) {
    for role in [Role::Push, Role::Sub] {
        let (mut whole, mut out) = (Handshake::new(role), Vec::new());
        let once = whole.advance(data, &mut out);
        let Ok((taken, remote)) = once else { continue };
        assert!(taken <= data.len());
        // Byte by byte it comes to the same.
        let (mut again, mut sent, mut buffer, mut found) =
            (Handshake::new(role), Vec::new(), Vec::new(), None);
        let mut came = 0;
        for byte in &data[..taken] {
            assert_eq!(found, None, "all that was taken was needed");
            buffer.push(*byte);
            let (taken, remote) = again.advance(&buffer, &mut sent).expect("it was good");
            buffer.drain(..taken);
            (came, found) = (came + taken, remote);
        }
        assert_eq!((came, found, sent), (taken, remote, out));
    }
    let mut rest = data;
    while let Ok(Some((frame, length))) = Frame::split(rest, LIMIT) {
        assert!(frame.body.len() as u64 <= LIMIT && length >= frame.body.len() + 2);
        if frame.command {
            if let Ok(Command::Ping(context)) = Command::parse(frame.body) {
                assert!(context.len() <= 16);
            }
        } else {
            let mut again = Vec::new();
            put_message(&mut again, &[frame.body]);
            let (same, _) = Frame::split(&again, LIMIT).expect("ours is good").expect("and whole");
            assert_eq!(same.body, frame.body);
        }
        rest = &rest[length..];
    }
}

/// The input is what a client sends: head, target and framing are understood as one, or refused.
pub(crate) fn client(data: &[u8]) {
    let Some(told) = pure::request(data, true) else {
        assert_eq!(pure::request(data, false), None);
        return;
    };
    let json = pure::request(data, false).expect("the head is there");
    let understood = match told {
        Ok(understood) => understood,
        Err(status) => {
            assert!(matches!(status, 400 | 413 | 417 | 431 | 501 | 505), "{status}");
            assert_eq!(json.map(|_| ()), Err(status));
            return;
        }
    };
    let json = json.expect("it is refused in neither form");
    assert_eq!((json.length, json.body), (understood.length, understood.body));
    assert!(understood.length <= data.len() && data[..understood.length].ends_with(b"\r\n\r\n"));
    // What follows is no part of it.
    let alone = pure::request(&data[..understood.length], true);
    assert_eq!(alone, Some(Ok(understood.clone())));
    for end in [understood.length - 1, understood.length / 2] {
        assert_eq!(pure::request(&data[..end], true), None, "it ends where it ends");
    }

    for message in [&understood.message, &json.message] {
        let envelope = Envelope::parse(message).expect("a handler can read it");
        let headers = envelope.headers().expect("and its headers");
        assert_eq!(classify(&envelope, &headers), Message::Http);
    }
    let envelope = Envelope::parse(&understood.message).expect("as before");
    let headers = envelope.headers().expect("as before");
    let key = |name: &str| headers.get(name.as_bytes()).and_then(|value| value.single());
    let length = key("content-length");
    match understood.body {
        None => assert!(headers.get(b"content-length").is_none(), "a length beside chunks"),
        Some(bytes) => {
            assert!(headers.get(b"transfer-encoding").is_none(), "chunks beside a length");
            let told = length.map(|text| String::from_utf8_lossy(text).parse::<u64>());
            assert_eq!(told.unwrap_or(Ok(0)), Ok(bytes), "handlers count as we do");
        }
    }

    // Written anew from what the handler got, it is the same request.
    let upper = |name: &[u8]| name.iter().any(u8::is_ascii_uppercase);
    let get = |name: &str| key(name).expect("it is in every message");
    let mut again = [get("METHOD"), b" ", get("URI")].concat();
    if let Some(fragment) = key("FRAGMENT") {
        again.extend_from_slice(&[b"#", fragment].concat());
    }
    again.extend_from_slice(&[b" ", get("VERSION"), b"\r\n"].concat());
    for (name, value) in headers.iter().filter(|(name, _)| !upper(name)) {
        assert!(!name.contains(&b'_'), "it would be taken for another");
        assert!(!matches!(name, b"x-mongrel2-upload-start" | b"x-mongrel2-upload-done"));
        for value in value.iter() {
            assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "{name:?}");
            again.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
        }
    }
    again.extend_from_slice(b"\r\n");
    let second = pure::request(&again, true).expect("it is whole").expect("it is good");
    assert_eq!(second.length, again.len());
    assert_eq!(second.body, understood.body);
    let other = Envelope::parse(&second.message).expect("as before");
    let other = other.headers().expect("as before");
    assert_eq!(other.len(), headers.len());
    for (name, value) in headers.iter() {
        assert_eq!(other.get(name), Some(value));
    }
}

/// The input is what a handler answers: its client gets one response, whatever pieces it comes in.
pub(crate) fn relay(data: &[u8]) {
    for (head, old) in [(false, false), (true, false), (false, true)] {
        let (out, step) = pure::relayed(std::iter::once(data), head, old);
        for size in [1, 7] {
            let (pieces, last) = pure::relayed(data.chunks(size), head, old);
            match (step, last) {
                // Where the excess begins shows only when it comes along.
                (Relayed::Done(_), Relayed::Done(_)) => {}
                _ => assert_eq!(step, last),
            }
            let [whole, pieces] = [&out, &pieces].map(|out| told(head, std::iter::once(&out[..])));
            assert_eq!(pieces, whole);
        }
        let told = told(head, std::iter::once(&out[..]));
        assert_eq!((told.fault, told.excess), (None, Vec::new()), "one response, and a good one");
        let finals = told.heads.iter().filter(|(status, _)| *status >= 200).count();
        assert!(finals <= 1);
        if let Relayed::Done(_) = step {
            assert!(told.ended && finals == 1);
        }
    }
}
