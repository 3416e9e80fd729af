//! Cases by hand: each rule of the grammars at its edge, every limit, and what clients may try.

use std::borrow::Cow;

use lurcher::proto::headers::MAX_VALUES;
use lurcher::proto::netstring;
use lurcher::proto::tnetstring::{Item, MAX_DEPTH, MAX_ITEMS};
use lurcher::proto::{ConnId, Envelope, Fault, HeaderBlock, Headers, Message, Value, classify};

fn json(text: &str) -> Result<Vec<(String, Vec<String>)>, Fault> {
    let headers = Headers::parse(HeaderBlock::Json(text.as_bytes())).map_err(|error| error.what)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(headers.iter().map(|(name, value)| (text(name), value.iter().map(text).collect())).collect())
}

#[test]
fn json_by_hand() {
    let pair = |name: &str, value: &str| (name.to_owned(), vec![value.to_owned()]);
    assert_eq!(json("{}"), Ok(vec![]));
    assert_eq!(json(" { \"a\" : \"b\" } \n"), Ok(vec![pair("a", "b")]));
    assert_eq!(json(r#"{"a":"\"\\\/\b\f\n\r\t"}"#), Ok(vec![pair("a", "\"\\/\u{8}\u{c}\n\r\t")]));
    assert_eq!(json(r#"{"\u0041":"\u00e9\u20AC"}"#), Ok(vec![pair("A", "é€")]));
    assert_eq!(json(r#"{"a":"\ud83d\ude00"}"#), Ok(vec![pair("a", "😀")]));
    // Half of a pair, before, after and instead of other text.
    assert_eq!(json(r#"{"a":"\ud83dx"}"#), Ok(vec![pair("a", "\u{fffd}x")]));
    assert_eq!(json(r#"{"a":"\ud83d\u0041"}"#), Ok(vec![pair("a", "\u{fffd}A")]));
    assert_eq!(json(r#"{"a":"\ude00\ud83d"}"#), Ok(vec![pair("a", "\u{fffd}\u{fffd}")]));
    // The last of a kind counts.
    assert_eq!(json(r#"{"a":"1","b":"2","a":"3"}"#), Ok(vec![pair("b", "2"), pair("a", "3")]));
    for (text, fault) in [
        ("", Fault::Short),
        ("{", Fault::Short),
        (r#"{"a"#, Fault::Short),
        (r#"{"a":"b"#, Fault::Short),
        (r#"{"a":"\"#, Fault::Short),
        (r#"{"a":"b""#, Fault::Short),
        (r#"{"a":"b"}x"#, Fault::Trailing),
        (r#"{"a":"b",}"#, Fault::Syntax),
        (r#"{"a" "b"}"#, Fault::Syntax),
        (r#"{a:"b"}"#, Fault::Syntax),
        (r#"["a"]"#, Fault::Syntax),
        (r#"{"a":["b",]}"#, Fault::Syntax),
        (r#"{"a":["b" "c"]}"#, Fault::Syntax),
        (r#"{"a":"\x"}"#, Fault::Escape),
        (r#"{"a":"\u12"}"#, Fault::Escape),
        (r#"{"a":"\u12G4"}"#, Fault::Escape),
        (r#"{"a":1}"#, Fault::Type),
        (r#"{"a":-1}"#, Fault::Type),
        (r#"{"a":null}"#, Fault::Type),
        (r#"{"a":true}"#, Fault::Type),
        (r#"{"a":{}}"#, Fault::Type),
        (r#"{"a":[["b"]]}"#, Fault::Type),
        (r#"{"a":["b",2]}"#, Fault::Type),
    ] {
        assert_eq!(json(text), Err(fault), "{text}");
    }
}

#[test]
fn values_borrow_unless_escaped() {
    let headers = Headers::parse(HeaderBlock::Json(br#"{"a":"plain","b":"q\"q"}"#)).unwrap();
    assert!(matches!(headers.get(b"a"), Some(Value::One(Cow::Borrowed(_)))));
    assert!(matches!(headers.get(b"b"), Some(Value::One(Cow::Owned(_)))));
}

#[test]
fn limits() {
    let list = |count: usize| format!("{{\"a\":[{}]}}", vec!["\"\""; count].join(","));
    assert!(Headers::parse(HeaderBlock::Json(list(MAX_VALUES).as_bytes())).is_ok());
    assert_eq!(json(&list(MAX_VALUES + 1)), Err(Fault::TooMany));
    let tnet = |count: usize| "1:a,0:,".repeat(count);
    assert_eq!(Headers::parse(HeaderBlock::Tnet(tnet(MAX_VALUES).as_bytes())).unwrap().len(), 1);
    let error = Headers::parse(HeaderBlock::Tnet(tnet(MAX_VALUES + 1).as_bytes())).unwrap_err();
    assert_eq!(error.what, Fault::TooMany);

    let nested = |depth: usize| {
        let mut text = b"0:~".to_vec();
        for _ in 0..depth {
            let inner = std::mem::take(&mut text);
            netstring::put(&mut text, &inner, b']');
        }
        text
    };
    assert!(Item::parse(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(Item::parse(&nested(MAX_DEPTH + 1)).unwrap_err().what, Fault::TooDeep);
    assert_eq!(Item::parse(&nested(3_000)).unwrap_err().what, Fault::TooDeep);
    let mut flat = Vec::new();
    netstring::put(&mut flat, "0:~".repeat(MAX_ITEMS).as_bytes(), b']');
    assert_eq!(Item::parse(&flat).unwrap_err().what, Fault::TooMany);
    for refused in
        ["3:1.5^", "2:1a#", "0:#", "1:-#", "4:nope!", "1:x~", "01:a,", "1:a,x", "-1:a,", "2:0:}"]
    {
        assert!(Item::parse(refused.as_bytes()).is_err(), "{refused}");
    }
}

#[test]
fn connection_ids() {
    for (text, id) in [
        ("0", 0),
        ("1", 1),
        ("2147483648", 1 << 31),
        ("4294967295", u32::MAX),
        ("-1", u32::MAX),
        ("-2147483648", 1 << 31),
        ("18446744073709551615", u32::MAX),
        ("18446744071562067968", 1 << 31),
    ] {
        assert_eq!(ConnId::parse(text.as_bytes()), Ok(ConnId(id)), "{text}");
    }
    for text in [
        "",
        "-",
        "-0",
        "x",
        "1x",
        "+1",
        "4294967296",
        "-2147483649",
        "18446744071562067967",
        "18446744073709551616",
        "--1",
        "1 ",
    ] {
        assert!(ConnId::parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn errors_name_the_connection_once_it_is_known() {
    let address = |message: &str| {
        let error = match Envelope::parse(message.as_bytes()) {
            Ok(envelope) => envelope.headers().unwrap_err(),
            Err(error) => error,
        };
        error.address.map(|(sender, conn)| (sender.to_string(), conn.0))
    };
    for message in ["", "u", "u ", "u 1", " 1 / 2:{},0:,", "u x / 2:{},0:,", "u  / 2:{},0:,"] {
        assert_eq!(address(message), None, "{message:?}");
    }
    for message in [
        "u 7 ",
        "u 7  2:{},0:,",
        "u 7 / ",
        "u 7 / 2:{}",
        "u 7 / 2:{}]0:,",
        "u 7 / 2:{},",
        "u 7 / 2:{},0:}",
        "u 7 / 2:{},0:,x",
        "u 7 / 3:{},0:,",
        "u 7 / 0:,0:,",
        "u 7 / 1:x}0:,",
        "u 7 / 999999999999:{},0:,",
    ] {
        assert_eq!(address(message), Some(("u".to_owned(), 7)), "{message:?}");
    }
    let long = |length: usize| format!("{} 7 / 2:{{}},0:,", "u".repeat(length));
    assert!(Envelope::parse(long(255).as_bytes()).is_ok());
    assert!(Envelope::parse(long(256).as_bytes()).is_err());
}

/// What a client can do to look like something else than HTTP (protocol sections 1.4, 2.2, 5).
#[test]
fn clients_cannot_pretend() {
    let kind = |path: &str, block: &str, body: &str| {
        let message =
            format!("u 1 {path} {}:{block},{}:{body},", block.len(), body.len()).into_bytes();
        let envelope = Envelope::parse(&message).unwrap();
        let message = classify(&envelope, &envelope.headers().unwrap());
        assert!(!envelope.looks_plain() || message == Message::Http);
        message
    };
    let gone = r#"{"type":"disconnect"}"#;
    // Methods of the client's choice: HTTP all the same, for HTTP has a VERSION.
    for method in ["JSON", "XML", "WEBSOCKET"] {
        let block = format!(r#"{{"flags":"0x81","METHOD":"{method}","VERSION":"HTTP/1.1"}}"#);
        assert_eq!(kind("/", &block, gone), Message::Http);
        assert_eq!(kind("@*", &block, gone), Message::Http);
    }
    // The front end's own words count however its encoder spells them.
    assert_eq!(kind("/", r#"{"METHOD":"\u004aSON"}"#, ""), Message::JsonSocket);
    assert_eq!(kind("/", r#"{"\u0055PLOAD_STREAM":"0"}"#, ""), Message::StreamPart);
    assert_eq!(
        kind("/", "{ \"METHOD\" : \"WEBSOCKET\", \"FLAGS\":\"0x81\"}", ""),
        Message::WebSocketFrame
    );
    // Lower-case keys are the client's.
    assert_eq!(
        kind("/", r#"{"method":"JSON","upload_stream":"0","METHOD":"GET"}"#, ""),
        Message::Http
    );
    assert_eq!(kind("@*", r#"{"method":"JSON"}"#, gone), Message::Http);
    // A JSON socket's path other than `@*`.
    assert_eq!(kind("@x", r#"{"METHOD":"JSON"}"#, gone), Message::JsonSocket);
    // Upload headers: only the pair of equal strings, and never with a body.
    let upload = |start: &str, done: &str, body: &str| {
        let block = format!(
            r#"{{"x-mongrel2-upload-start":{start},"x-mongrel2-upload-done":{done},"METHOD":"POST"}}"#
        );
        kind("/", &block, body)
    };
    assert_eq!(upload(r#""/a""#, r#""/a""#, ""), Message::UploadDone);
    assert_eq!(upload(r#""/a""#, r#""/b""#, ""), Message::UploadStart);
    assert_eq!(upload(r#"["/a","/b"]"#, r#"["/a","/b"]"#, ""), Message::UploadStart);
    assert_eq!(upload(r#""/a""#, r#"["/a"]"#, ""), Message::UploadStart);
    assert_eq!(upload(r#""/a""#, r#""/a""#, "x"), Message::Http);
    let done = r#"{"x-mongrel2-upload-done":"/a","METHOD":"POST"}"#;
    assert_eq!(kind("/", done, ""), Message::Http);
}
