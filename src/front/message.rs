//! Messages to handlers: requests, parts of bodies, events, in both forms of the protocol.
//!
//! Names and order of keys are Mongrel2's (protocol section 2.1): PATH first, the client's fields, and last the keys that a
//! client must not be able to override. The JSON is legal, other than Mongrel2's: control bytes are escaped, and so are the
//! bytes of a value that is not UTF-8. The fields of a client that could pass for something else are left out.

use std::cell::RefCell;

use crate::front::http1::head::Head;
use crate::front::http1::target::Target;
use crate::front::zmtp;
use crate::http::framing::Version;
use crate::proto::ConnId;
use crate::proto::netstring;

/// How the dictionary of keys is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Tnetstring,
}

/// What stands before every message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address<'a> {
    pub(crate) form: Form,
    /// Our name, as handlers put it in front of their replies.
    pub(crate) ident: &'a str,
    pub(crate) conn: ConnId,
}

/// A key and its value, of our own making.
pub(crate) type Own<'a> = (&'a str, &'a [u8]);

/// A request.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) head: &'a Head<'a>,
    pub(crate) target: &'a Target<'a>,
    /// The route's path, as configured.
    pub(crate) pattern: &'a str,
    pub(crate) remote_addr: &'a str,
    /// `http` or `https`.
    pub(crate) scheme: &'a str,
    /// Fields that take the place of the client's of the same name, in lower case.
    pub(crate) replaced: &'a [Own<'a>],
    /// Fields of the client's that are left out.
    pub(crate) left_out: &'a [&'static str],
    /// Keys of ours besides those of every request.
    pub(crate) keys: &'a [Own<'a>],
}

/// Appends a request as a frame of the wire.
pub(crate) fn put_request(out: &mut Vec<u8>, to: Address<'_>, request: &Request<'_>, body: &[u8]) {
    let Request { head, target, .. } = request;
    let version: &[u8] = if head.version == Version::Http10 { b"HTTP/1.0" } else { b"HTTP/1.1" };
    let own = [
        Some(("METHOD", head.method)),
        Some(("VERSION", version)),
        Some(("URI", target.uri)),
        target.query.map(|query| ("QUERY", query)),
        target.fragment.map(|fragment| ("FRAGMENT", fragment)),
        Some(("PATTERN", request.pattern.as_bytes())),
    ];
    let last = [
        ("URL_SCHEME", request.scheme.as_bytes()),
        ("REMOTE_ADDR", request.remote_addr.as_bytes()),
    ];
    let own = own.into_iter().flatten().chain(request.keys.iter().copied()).chain(last);
    put(out, to, target.path, body, |block| match to.form {
        Form::Json => {
            block.push(b'{');
            put_json(block, b"PATH", target.path);
            fields(request, |name, values| {
                block.push(b',');
                put_json_list(block, name, values);
            });
            for (name, value) in own {
                block.push(b',');
                put_json(block, name.as_bytes(), value);
            }
            block.push(b'}');
        }
        // Mongrel2 writes them the other way round.
        Form::Tnetstring => {
            let mut own: Vec<Own<'_>> = own.collect();
            own.push(("PATH", target.path));
            own.rotate_right(1);
            for (name, value) in own.into_iter().rev() {
                put_tnet(block, name.as_bytes(), value);
            }
            fields(request, |name, values| put_tnet_list(block, name, values));
        }
    });
}

/// Appends a part of a body that comes in a stream: it begins at `offset`, and may be the last.
pub(crate) fn put_part(
    out: &mut Vec<u8>,
    to: Address<'_>,
    path: &[u8],
    offset: u64,
    last: bool,
    body: &[u8],
) {
    let mut digits = itoa::Buffer::new();
    let own = [("UPLOAD_STREAM", digits.format(offset).as_bytes()), ("UPLOAD_STREAM_DONE", b"1")];
    put_own(out, to, path, &own[..=usize::from(last)], body);
}

/// Appends the event that a connection is gone (protocol section 5).
pub(crate) fn put_disconnect(out: &mut Vec<u8>, to: Address<'_>) {
    put_own(out, to, b"@*", &[("METHOD", b"JSON")], br#"{"type":"disconnect"}"#);
}

/// Appends the event that so many bytes have reached the client (protocol section 7.2).
pub(crate) fn put_credits(out: &mut Vec<u8>, to: Address<'_>, bytes: u64) {
    let mut digits = itoa::Buffer::new();
    let own = [("METHOD", &b"JSON"[..]), ("DOWNLOAD_CREDITS", digits.format(bytes).as_bytes())];
    put_own(out, to, b"@*", &own, br#"{"type":"credits"}"#);
}

/// Appends the framed message of connection `old` once more, as one of `to`'s connection.
pub(crate) fn put_renamed(out: &mut Vec<u8>, to: Address<'_>, old: ConnId, frame: &[u8]) {
    let (mut before, mut after) = (itoa::Buffer::new(), itoa::Buffer::new());
    let start = [to.ident.as_bytes(), b" ", before.format(old.0).as_bytes()].concat();
    let whole = zmtp::Frame::split(frame, u64::MAX).ok().flatten();
    match whole.and_then(|(frame, _)| frame.body.strip_prefix(&start[..])) {
        Some(rest) => {
            let id = after.format(to.conn.0).as_bytes();
            zmtp::put_message(out, &[to.ident.as_bytes(), b" ", id, rest]);
        }
        // It is none of ours; as it was.
        None => out.extend_from_slice(frame),
    }
}

/// Appends a message that has nothing but keys of ours.
fn put_own(out: &mut Vec<u8>, to: Address<'_>, path: &[u8], own: &[Own<'_>], body: &[u8]) {
    put(out, to, path, body, |block| match to.form {
        Form::Json => {
            block.push(b'{');
            for (at, (name, value)) in own.iter().enumerate() {
                if at > 0 {
                    block.push(b',');
                }
                put_json(block, name.as_bytes(), value);
            }
            block.push(b'}');
        }
        Form::Tnetstring => {
            for (name, value) in own.iter().rev() {
                put_tnet(block, name.as_bytes(), value);
            }
        }
    });
}

thread_local! {
    /// The dictionary of the message being written: its length stands before it.
    static BLOCK: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Appends the frame of a message whose dictionary `fill` writes.
fn put(
    out: &mut Vec<u8>,
    to: Address<'_>,
    path: &[u8],
    body: &[u8],
    fill: impl FnOnce(&mut Vec<u8>),
) {
    BLOCK.with_borrow_mut(|block| {
        block.clear();
        fill(block);
        let (mut conn, mut length, mut rest) =
            (itoa::Buffer::new(), itoa::Buffer::new(), itoa::Buffer::new());
        zmtp::put_message(
            out,
            &[
                to.ident.as_bytes(),
                b" ",
                conn.format(to.conn.0).as_bytes(),
                b" ",
                path,
                b" ",
                length.format(block.len()).as_bytes(),
                b":",
                block,
                if to.form == Form::Json { b"," } else { b"}" },
                rest.format(body.len()).as_bytes(),
                b":",
                body,
                b",",
            ],
        );
    });
}

/// Hands each name of a field that is passed on, and its values in order, to `each`. Those that take the place of the
/// client's come last.
fn fields(request: &Request<'_>, mut each: impl FnMut(&[u8], &[&[u8]])) {
    let same =
        |one: &[u8], other: &[u8]| one.len() == other.len() && one.eq_ignore_ascii_case(other);
    let fields = &request.head.fields;
    let mut values = Vec::new();
    for (at, (name, value)) in fields.iter().enumerate() {
        let ours =
            request.replaced.iter().map(|(name, _)| *name).chain(request.left_out.iter().copied());
        // A name with `_` would be taken for the one with `-` by many a handler.
        if name.contains(&b'_')
            || ours.chain(UPLOAD).any(|ours| same(ours.as_bytes(), name))
            || fields[..at].iter().any(|(before, _)| same(before, name))
        {
            continue;
        }
        values.clear();
        values.push(*value);
        let more = fields[at + 1..].iter().filter(|(other, _)| same(other, name));
        values.extend(more.map(|(_, value)| *value));
        each(name, &values);
    }
    for (name, value) in request.replaced {
        each(name.as_bytes(), &[value]);
    }
}

/// Fields that name files (protocol section 6.3): those of a client are lies.
const UPLOAD: [&str; 2] = [UPLOAD_START, UPLOAD_DONE];

/// Says that the body of the request is being written to this file.
pub(crate) const UPLOAD_START: &str = "x-mongrel2-upload-start";

/// Says that it is there.
pub(crate) const UPLOAD_DONE: &str = "x-mongrel2-upload-done";

fn put_lower(out: &mut Vec<u8>, name: &[u8]) {
    out.extend(name.iter().map(u8::to_ascii_lowercase));
}

fn put_json(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(name);
    out.extend_from_slice(b"\":");
    put_text(out, value);
}

fn put_json_list(out: &mut Vec<u8>, name: &[u8], values: &[&[u8]]) {
    out.push(b'"');
    put_lower(out, name);
    out.extend_from_slice(b"\":");
    match values {
        [value] => put_text(out, value),
        values => {
            for (at, value) in values.iter().enumerate() {
                out.push(if at == 0 { b'[' } else { b',' });
                put_text(out, value);
            }
            out.push(b']');
        }
    }
}

/// A JSON string. UTF-8 stands as it is; in a text that is none, each byte above 0x7f is a character of Latin-1.
fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if text.iter().all(plain) {
        out.extend_from_slice(text);
    } else {
        let utf8 = std::str::from_utf8(text).is_ok();
        for byte in text {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
                b' '..=b'~' => out.push(*byte),
                0x80.. if utf8 => out.push(*byte),
                _ => {
                    let digits = [byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]);
                    out.extend_from_slice(b"\\u00");
                    out.extend_from_slice(&digits);
                }
            }
        }
    }
    out.push(b'"');
}

fn put_tnet(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    netstring::put(out, name, b',');
    netstring::put(out, value, b',');
}

fn put_tnet_list(out: &mut Vec<u8>, name: &[u8], values: &[&[u8]]) {
    out.extend_from_slice(itoa::Buffer::new().format(name.len()).as_bytes());
    out.push(b':');
    put_lower(out, name);
    out.push(b',');
    match values {
        [value] => netstring::put(out, value, b','),
        values => {
            let mut list = Vec::new();
            for value in values {
                netstring::put(&mut list, value, b',');
            }
            netstring::put(out, &list, b']');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::http1::head;
    use crate::front::http1::target;
    use crate::proto::Envelope;
    use crate::proto::Event;
    use crate::proto::Headers;
    use crate::proto::Message;
    use crate::proto::classify;
    use proptest::prelude::*;

    const TO: Address<'_> = Address { form: Form::Json, ident: "me", conn: ConnId(7) };

    /// The message within a frame.
    fn unframed(frame: &[u8]) -> &[u8] {
        let (split, length) = zmtp::Frame::split(frame, u64::MAX).unwrap().unwrap();
        assert_eq!(length, frame.len());
        split.body
    }

    fn request(form: Form, text: &[u8], replaced: &[Own<'_>], body: &[u8]) -> Vec<u8> {
        let head = head::parse(text).unwrap();
        let target = target::parse(head.target).unwrap();
        let request = Request {
            head: &head,
            target: &target,
            pattern: "/",
            remote_addr: "127.0.0.1",
            scheme: "http",
            replaced,
            left_out: &["te"],
            keys: &[("DOWNLOAD_CREDITS", b"9")],
        };
        let mut out = Vec::new();
        put_request(&mut out, Address { form, ..TO }, &request, body);
        unframed(&out).to_vec()
    }

    const TEXT: &[u8] = b"GET /a?b#c HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nx_a: 9\r\nX-Forwarded-For: 6.6.6.6\r\nTE: x\r\n\
        X-Mongrel2-Upload-Start: /etc/passwd\r\nx-a: \"2\\\r\n\r\n";

    #[test]
    fn a_request_as_json() {
        let message = request(Form::Json, TEXT, &[("x-forwarded-for", b"127.0.0.1")], b"body");
        let block = concat!(
            r#"{"PATH":"/a","host":"x","x-a":["1","\"2\\"],"x-forwarded-for":"127.0.0.1","METHOD":"GET","#,
            r#""VERSION":"HTTP/1.1","URI":"/a?b","QUERY":"b","FRAGMENT":"c","PATTERN":"/","DOWNLOAD_CREDITS":"9","#,
            r#""URL_SCHEME":"http","REMOTE_ADDR":"127.0.0.1"}"#
        );
        assert_eq!(
            String::from_utf8(message).unwrap(),
            format!("me 7 /a {}:{block},4:body,", block.len())
        );
    }

    #[test]
    fn both_forms_say_the_same() {
        let read = |form| {
            let message = request(form, TEXT, &[("x-forwarded-for", b"127.0.0.1")], b"body");
            let envelope = Envelope::parse(&message).unwrap();
            assert_eq!(
                (envelope.path, envelope.body, envelope.conn),
                (&b"/a"[..], &b"body"[..], ConnId(7))
            );
            let headers: Headers<'_> = envelope.headers().unwrap();
            assert_eq!(classify(&envelope, &headers), Message::Http);
            let pairs = headers
                .iter()
                .map(|(name, value)| (name.to_vec(), value.joined(b"|").into_owned()));
            pairs.collect::<std::collections::BTreeMap<_, _>>()
        };
        assert_eq!(read(Form::Json), read(Form::Tnetstring));
    }

    #[test]
    fn keys_of_tnetstrings_come_the_other_way_round() {
        let message = request(Form::Tnetstring, b"GET / HTTP/1.0\r\nA: 1\r\n\r\n", &[], b"");
        let text = String::from_utf8(message).unwrap();
        assert!(text.contains(":11:REMOTE_ADDR,9:127.0.0.1,10:URL_SCHEME,4:http,"), "{text}");
        assert!(text.ends_with("6:METHOD,3:GET,4:PATH,1:/,1:a,1:1,}0:,"), "{text}");
    }

    #[test]
    fn a_message_can_be_one_of_another_connection() {
        let message = request(Form::Json, b"GET /7 HTTP/1.0\r\nA: me 7 \r\n\r\n", &[], b"me 7");
        let mut frame = Vec::new();
        zmtp::put_message(&mut frame, &[&message]);
        let mut out = Vec::new();
        put_renamed(&mut out, Address { conn: ConnId(1234), ..TO }, TO.conn, &frame);
        let expected = String::from_utf8(message).unwrap().replacen("me 7 /7 ", "me 1234 /7 ", 1);
        assert_eq!(unframed(&out), expected.as_bytes());
    }

    #[test]
    fn events_and_parts() {
        let shown = |form, put: &dyn Fn(&mut Vec<u8>, Address<'_>)| {
            let mut out = Vec::new();
            put(&mut out, Address { form, ..TO });
            String::from_utf8(unframed(&out).to_vec()).unwrap()
        };
        let disconnect = |out: &mut Vec<u8>, to: Address<'_>| put_disconnect(out, to);
        assert_eq!(
            shown(Form::Json, &disconnect),
            r#"me 7 @* 17:{"METHOD":"JSON"},21:{"type":"disconnect"},"#
        );
        let expected = r#"me 7 @* 16:6:METHOD,4:JSON,}21:{"type":"disconnect"},"#;
        assert_eq!(shown(Form::Tnetstring, &disconnect), expected);
        let credits = |out: &mut Vec<u8>, to: Address<'_>| put_credits(out, to, 43);
        let expected =
            r#"me 7 @* 41:{"METHOD":"JSON","DOWNLOAD_CREDITS":"43"},18:{"type":"credits"},"#;
        assert_eq!(shown(Form::Json, &credits), expected);
        let expected =
            r#"me 7 @* 41:16:DOWNLOAD_CREDITS,2:43,6:METHOD,4:JSON,}18:{"type":"credits"},"#;
        assert_eq!(shown(Form::Tnetstring, &credits), expected);
        let part =
            |out: &mut Vec<u8>, to: Address<'_>| put_part(out, to, b"/u", 4037, false, b"abc");
        assert_eq!(shown(Form::Json, &part), r#"me 7 /u 24:{"UPLOAD_STREAM":"4037"},3:abc,"#);
        let last = |out: &mut Vec<u8>, to: Address<'_>| put_part(out, to, b"/u", 9, true, b"");
        assert_eq!(
            shown(Form::Json, &last),
            r#"me 7 /u 46:{"UPLOAD_STREAM":"9","UPLOAD_STREAM_DONE":"1"},0:,"#
        );
        let message = shown(Form::Json, &credits);
        let envelope = Envelope::parse(message.as_bytes()).unwrap();
        let headers = envelope.headers().unwrap();
        assert_eq!(classify(&envelope, &headers), Message::Event(Event::Credits(43)));
    }

    proptest! {
        #[test]
        fn the_json_is_legal_and_means_what_was_sent(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut out = Vec::new();
            put_text(&mut out, &value);
            let text: String = serde_json::from_slice(&out).unwrap();
            let latin = || value.iter().map(|byte| char::from(*byte)).collect::<String>();
            let expected = String::from_utf8(value.clone()).unwrap_or_else(|_| latin());
            prop_assert_eq!(text, expected);
        }
    }
}
