//! Responses whole, broken and in every split.

use super::*;
use crate::http::dechunk::ChunkError;
use crate::http::field::FieldError;
use proptest::prelude::*;

/// What a parser told, as one text: `interim 103 | head 200 | body "…" | end keep | excess "…"`, and the fault at its
/// end. `close` at the end of the input, unless it is done by then.
fn told<'a>(head_request: bool, pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut parser = ResponseParser::new(head_request);
    let mut told: Vec<String> = Vec::new();
    let (mut body, mut excess) = (Vec::new(), Vec::new());
    let mut failed = None;
    'all: for mut input in pieces {
        loop {
            match parser.next(&mut input) {
                Ok(None) => {
                    assert!(input.is_empty(), "more is asked for and some is left");
                    break;
                }
                Ok(Some(Event::Interim)) => {
                    told.push(format!("interim {}", parser.head().status()));
                }
                Ok(Some(Event::Head)) => told.push(format!("head {}", parser.head().status())),
                Ok(Some(Event::Body(piece))) => {
                    assert!(!piece.is_empty());
                    body.extend_from_slice(piece);
                }
                Ok(Some(Event::End)) => {
                    assert_eq!(failed.replace("end".to_owned()), None, "the end comes once");
                }
                Ok(Some(Event::Excess(piece))) => excess.extend_from_slice(piece),
                Err(error) => {
                    failed = Some(error.to_string());
                    assert_eq!(parser.next(&mut &b"HTTP/1.1 200 OK\r\n"[..]), Err(error));
                    assert_eq!(parser.close(), Err(error));
                    break 'all;
                }
            }
        }
    }
    let end = failed.unwrap_or_else(|| match parser.close() {
        Ok(()) => "close".to_owned(),
        Err(error) => error.to_string(),
    });
    if !body.is_empty() {
        told.push(format!("body \"{}\"", body.escape_ascii()));
    }
    told.push(end);
    if parser.is_done() {
        told.push(if parser.keeps() { "keep" } else { "drop" }.to_owned());
    }
    if !excess.is_empty() {
        told.push(format!("excess \"{}\"", excess.escape_ascii()));
    }
    told.join(" | ")
}

/// The same in one piece, byte by byte, and cut in two at each place.
fn everywhere(head_request: bool, bytes: &[u8]) -> String {
    let whole = told(head_request, [bytes]);
    assert_eq!(told(head_request, bytes.chunks(1)), whole, "{}", bytes.escape_ascii());
    for at in 0..bytes.len() {
        let (one, two) = bytes.split_at(at);
        assert_eq!(told(head_request, [one, two]), whole, "{} at {at}", bytes.escape_ascii());
    }
    whole
}

#[test]
fn whole_responses() {
    for (bytes, expected) in [
        (
            &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..],
            "head 200 | body \"hello\" | end | keep",
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", "head 200 | end | keep"),
        (b"HTTP/1.1 200\r\nContent-Length: 1 \r\n\r\nx", "head 200 | body \"x\" | end | keep"),
        (b"HTTP/1.1 200 \r\nContent-Length: 001\r\n\r\nx", "head 200 | body \"x\" | end | keep"),
        (b"HTTP/1.1 299 caf\xe9\r\n\r\nbody", "head 299 | body \"body\" | close | drop"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "head 200 | close | drop"),
        (b"HTTP/1.0 200 OK\r\n\r\nbody", "head 200 | body \"body\" | close | drop"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "head 200 | end | drop"),
        (
            b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n",
            "head 200 | end | keep",
        ),
        (
            b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n",
            "head 200 | end | drop",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nT: u\r\n\r\n",
            "head 200 | body \"abc\" | end | keep",
        ),
        (b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", "head 204 | end | keep"),
        (b"HTTP/1.1 204 No\r\n\r\nx", "head 204 | end | keep | excess \"x\""),
        (b"HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n", "head 304 | end | keep"),
        (b"HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n", "head 304 | end | keep"),
        (
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
            "interim 103 | interim 100 | head 200 | body \"a\" | end | keep | excess \"b\"",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
            "head 200 | end | keep | excess \"HTTP/1.1 200 OK\\r\\n\\r\\n\"",
        ),
    ] {
        assert_eq!(everywhere(false, bytes), expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn responses_to_head() {
    for (bytes, expected) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"[..], "head 200 | end | keep"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "head 200 | end | keep"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "head 200 | end | keep"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            "head 200 | end | keep | excess \"hi\"",
        ),
    ] {
        assert_eq!(everywhere(true, bytes), expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn broken_responses() {
    for (bytes, error) in [
        (&b""[..], ResponseError::Nothing),
        (b"x", ResponseError::StatusLine),
        (b"\0\x01garbage", ResponseError::StatusLine),
        (b"\r\nHTTP/1.1 200 OK\r\n\r\n", ResponseError::StatusLine),
        (b" HTTP/1.1 200 OK\r\n\r\n", ResponseError::StatusLine),
        (b"http/1.1 200 OK\r\n\r\n", ResponseError::StatusLine),
        (b"HTTP/2", ResponseError::StatusLine),
        (b"HTTP/1.2 200 OK\r\n\r\n", ResponseError::StatusLine),
        (b"HTTP/1.1  200 OK\r\n\r\n", ResponseError::StatusLine),
        (b"HTTP/1.1 20 OK\r\n\r\n", ResponseError::StatusLine),
        (b"HTTP/1.1 099 OK\r\n\r\n", ResponseError::StatusLine),
        (b"HTTP/1.1 2000 OK\r\n\r\n", ResponseError::StatusLine),
        (b"HTTP/1.1 200\tOK\r\n\r\n", ResponseError::StatusLine),
        (b"HTTP/1.1 200 O\rK\r\n\r\n", ResponseError::StatusLine),
        (b"HTTP/1.1 200 O\0K\r\n\r\n", ResponseError::StatusLine),
        (b"HTTP/1.1\r\n\r\n", ResponseError::StatusLine),
        (b"HTTP/1.1 101 Up\r\nUpgrade: x\r\n\r\n", ResponseError::Switching),
        (b"HTTP/1.1 200 OK\n\n", ResponseError::LineEnd),
        (b"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n", ResponseError::LineEnd),
        (b"HTTP/1.1 200 OK\r\n\n", ResponseError::LineEnd),
        (b"HTTP/1.1 200 OK\r\n\r\r\n", ResponseError::Field(FieldError::Name)),
        (b"HTTP/1.1 200 OK\r\n A: b\r\n\r\n", ResponseError::Field(FieldError::Folded)),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", ResponseError::Field(FieldError::Folded)),
        (b"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", ResponseError::Field(FieldError::Name)),
        (b"HTTP/1.1 200 OK\r\nA: b\rX: c\r\n\r\n", ResponseError::Field(FieldError::Value)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", ResponseError::Length),
        (b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", ResponseError::Length),
        (b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", ResponseError::Length),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ResponseError::Length),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n", ResponseError::Length),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\n", ResponseError::Length),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n", ResponseError::Length),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            ResponseError::LengthTwice,
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            ResponseError::LengthAndCoding,
        ),
        (
            b"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
            ResponseError::LengthAndCoding,
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", ResponseError::Coding),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", ResponseError::Coding),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", ResponseError::Coding),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            ResponseError::Coding,
        ),
        (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ResponseError::Coding),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", ResponseError::Cut),
        (b"HT", ResponseError::Cut),
        (b"HTTP/1.1 100 Continue\r\n\r\n", ResponseError::Nothing),
    ] {
        let told = everywhere(false, bytes);
        let error = error.to_string();
        assert!(told == error || told == format!("interim 100 | {error}"), "{told} for {error}");
    }
}

#[test]
fn bodies_that_break_off() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (bytes, expected) in [
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab".to_vec(),
            "head 200 | body \"ab\" | response ended before it was complete".to_owned(),
        ),
        (
            [&chunked[..], b"2\r\nab\r\n"].concat(),
            "head 200 | body \"ab\" | response ended before it was complete".to_owned(),
        ),
        (
            [&chunked[..], b"2\r\nabc\r\n0\r\n\r\n"].concat(),
            format!("head 200 | body \"ab\" | {}", ChunkError::Data),
        ),
        ([&chunked[..], b"zz\r\n"].concat(), format!("head 200 | {}", ChunkError::Size)),
    ] {
        assert_eq!(everywhere(false, &bytes), expected);
    }
}

#[test]
fn heads_have_limits() {
    let limits = Limits { bytes: 60, lines: 2 };
    let read = |bytes: &[u8]| {
        let mut results = Vec::new();
        for step in [1, 7, bytes.len()] {
            let mut parser = ResponseParser::with_limits(false, limits);
            let result = bytes.chunks(step).try_for_each(|mut piece| {
                while parser.next(&mut piece)?.is_some() {}
                Ok::<(), ResponseError>(())
            });
            results.push(result);
        }
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{results:?}");
        results[0]
    };
    let of = |bytes: usize| {
        let mut head = b"HTTP/1.1 200 OK\r\nA: ".to_vec();
        head.resize(bytes - 4, b'x');
        [&head[..], b"\r\n\r\n"].concat()
    };
    assert_eq!(read(&of(60)), Ok(()));
    assert_eq!(read(&of(61)), Err(ResponseError::HeadSize(60)));
    assert_eq!(read(&of(600)), Err(ResponseError::HeadSize(60)));
    assert_eq!(read(b"HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\n\r\n"), Ok(()));
    let three = b"HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n";
    assert_eq!(read(three), Err(ResponseError::HeadLines(2)));
}

#[test]
fn garbage_is_known_before_its_end() {
    let mut parser = ResponseParser::new(false);
    assert_eq!(parser.next(&mut &b"HTT"[..]), Ok(None));
    assert_eq!(parser.next(&mut &b"X"[..]), Err(ResponseError::StatusLine));
}

#[test]
fn fields_of_a_head() {
    let mut parser = ResponseParser::new(false);
    let mut input = &b"HTTP/1.1 404 Not  Found \r\nX-A: 1\r\nset-Cookie:a=b\r\nx-a:  2\t\r\nE:\r\n\
        Connection: close, x-hop,Content-Length\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n\
        Content-Length: 3\r\nSet-Cookie: c=d\r\n\r\n"[..];
    assert_eq!(parser.next(&mut input), Ok(Some(Event::Head)));
    let head = parser.head();
    assert_eq!((head.version(), head.status()), (Version::Http11, 404));
    assert_eq!(head.reason(), b"Not  Found ");
    assert_eq!(head.content_length(), Some(3));
    assert_eq!(head.wish(), Wish::Close);
    let text =
        |(name, value): (&[u8], &[u8])| format!("{}={}", name.escape_ascii(), value.escape_ascii());
    assert_eq!(head.fields().count(), 9);
    let names: Vec<_> = head.end_to_end().map(text).collect();
    assert_eq!(
        names,
        ["X-A=1", "set-Cookie=a=b", "x-a=2", "E=", "Content-Length=3", "Set-Cookie=c=d"]
    );
    parser.restart(true);
    let mut input = &b"HTTP/1.1 204 \r\nContent-Length: 0\r\nA: 1\r\n\r\n"[..];
    assert_eq!(parser.next(&mut input), Ok(Some(Event::Head)));
    let names: Vec<_> = parser.head().end_to_end().map(text).collect();
    assert_eq!(names, ["A=1"]);
    assert_eq!(parser.head().reason(), b"");
}

#[test]
fn data_is_not_copied() {
    let input = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let mut parser = ResponseParser::new(false);
    let mut rest = &input[..];
    parser.next(&mut rest).unwrap();
    let Ok(Some(Event::Body(piece))) = parser.next(&mut rest) else { panic!("a piece") };
    assert!(input.as_ptr_range().contains(&piece.as_ptr()));
}

/// Responses put together of sound and unsound lines and bodies.
fn responses() -> impl Strategy<Value = Vec<u8>> {
    let text = |text: &'static str| Just(text.as_bytes().to_vec());
    let status = prop_oneof![
        text("HTTP/1.1 200 OK\r\n"),
        text("HTTP/1.1 200 OK\r\n"),
        text("HTTP/1.0 404 No\r\n"),
        text("HTTP/1.1 204 \r\n"),
        text("HTTP/1.1 103 \r\n"),
        text("HTTP/1.1 999\r\n"),
    ];
    let line = prop_oneof![
        text("Content-Length: 4\r\n"),
        text("Transfer-Encoding: chunked\r\n"),
        text("Connection: close\r\n"),
        text("A: b\r\n"),
        text("\r\n"),
        text("A: b\n"),
        "[ -~]{0,12}\r\n".prop_map(String::into_bytes),
    ];
    let body = prop_oneof![
        text("4\r\nabcd\r\n"),
        text("0\r\n\r\n"),
        text("abcd"),
        text("\r\n\r\n"),
        proptest::collection::vec(any::<u8>(), 0..12),
    ];
    (status, proptest::collection::vec(line, 0..4), proptest::collection::vec(body, 0..5)).prop_map(
        |(status, lines, body)| [status, lines.concat(), b"\r\n".to_vec(), body.concat()].concat(),
    )
}

proptest! {
    #[test]
    fn any_split_tells_the_same(
        bytes in responses(),
        cuts in proptest::collection::vec(1..9_usize, 0..60),
        head_request in any::<bool>(),
    ) {
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        prop_assert_eq!(told(head_request, pieces), told(head_request, [&bytes[..]]));
    }

    #[test]
    fn any_bytes_end_in_a_value_or_an_error(bytes in any::<Vec<u8>>(), head_request in any::<bool>()) {
        prop_assert_eq!(told(head_request, bytes.chunks(1)), told(head_request, [&bytes[..]]));
    }
}
