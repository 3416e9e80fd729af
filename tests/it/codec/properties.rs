//! What holds for any value and any bytes: decode(encode(x)) == x, and every input ends in a value or an error.

use std::borrow::Cow;
use std::collections::BTreeMap;

use lurcher::proto::headers::MAX_VALUES;
use lurcher::proto::netstring::{self, Netstring};
use lurcher::proto::reply::{put_ctl, put_reply_many};
use lurcher::proto::tnetstring::{Item, MAX_DEPTH, MAX_ITEMS};
use lurcher::proto::{
    ConnId, Ctl, Envelope, Fault, HeaderBlock, Headers, Message, Reply, SenderUuid, Value, classify,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::bodies;

/// Name and texts; more than one text is a list.
type Pair = (Vec<u8>, Vec<Vec<u8>>);

fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    // Names that Mongrel2 lets through and some that it does not, often repeated; no quote and no backslash.
    let name = prop_oneof![
        "[A-Z_]{1,6}".prop_map(String::into_bytes),
        "[a-z-]{1,3}".prop_map(String::into_bytes),
        vec(any::<u8>().prop_filter("", |byte| !b"\"\\".contains(byte)), 0..20),
    ];
    vec((name, vec(vec(any::<u8>(), 0..30), 1..4)), 0..24)
}

/// As Mongrel2 writes it (protocol section 2.4).
fn mongrel2_json(pairs: &[Pair]) -> Vec<u8> {
    let text = |text: &[u8]| {
        let mut out = b"\"".to_vec();
        for byte in text {
            if b"\"\\".contains(byte) {
                out.push(b'\\');
            }
            out.push(*byte);
        }
        out.push(b'"');
        out
    };
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, texts)| {
            let texts: Vec<_> = texts.iter().map(|bytes| text(bytes)).collect();
            let value = match texts.as_slice() {
                [one] => one.clone(),
                many => [&b"["[..], &many.join(&b","[..]), b"]"].concat(),
            };
            [&text(name)[..], b":", &value].concat()
        })
        .collect();
    [&b"{"[..], &pairs.join(&b","[..]), b"}"].concat()
}

/// As Mongrel2 writes it (protocol section 3), without length and tag.
fn mongrel2_tnet(pairs: &[Pair]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, texts) in pairs {
        netstring::put(&mut out, name, b',');
        match texts.as_slice() {
            [one] => netstring::put(&mut out, one, b','),
            many => {
                let mut list = Vec::new();
                many.iter().for_each(|text| netstring::put(&mut list, text, b','));
                netstring::put(&mut out, &list, b']');
            }
        }
    }
    out
}

fn as_map<'h>(headers: &'h Headers<'_>) -> BTreeMap<&'h [u8], Vec<Vec<u8>>> {
    headers.iter().map(|(name, value)| (name, value.iter().map(<[u8]>::to_vec).collect())).collect()
}

/// A tnetstring value that owns its texts.
#[derive(Debug, Clone)]
enum Tree {
    Bytes(Vec<u8>),
    Integer(i64),
    Bool(bool),
    Null,
    List(Vec<Tree>),
    Dict(Vec<(Vec<u8>, Tree)>),
}

impl Tree {
    fn item(&self) -> Item<'_> {
        match self {
            Tree::Bytes(bytes) => Item::Bytes(bytes),
            Tree::Integer(number) => Item::Integer(*number),
            Tree::Bool(flag) => Item::Bool(*flag),
            Tree::Null => Item::Null,
            Tree::List(items) => Item::List(items.iter().map(Tree::item).collect()),
            Tree::Dict(pairs) => {
                Item::Dict(pairs.iter().map(|(key, tree)| (key.as_slice(), tree.item())).collect())
            }
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        vec(any::<u8>(), 0..40).prop_map(Tree::Bytes),
        any::<i64>().prop_map(Tree::Integer),
        any::<bool>().prop_map(Tree::Bool),
        Just(Tree::Null),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Tree::List),
            vec((vec(any::<u8>(), 0..9), inner), 0..5).prop_map(Tree::Dict),
        ]
    })
}

proptest! {
    #[test]
    fn headers_come_back(pairs in pairs()) {
        let expected: BTreeMap<&[u8], Vec<Vec<u8>>> =
            pairs.iter().map(|(name, texts)| (name.as_slice(), texts.clone())).collect();
        let json = mongrel2_json(&pairs);
        let tnet = mongrel2_tnet(&pairs);
        for block in [HeaderBlock::Json(&json), HeaderBlock::Tnet(&tnet)] {
            let headers = Headers::parse(block).unwrap();
            prop_assert_eq!(&as_map(&headers), &expected);
            for (name, texts) in &expected {
                let value = headers.get(name).unwrap();
                prop_assert_eq!(value.first(), &texts[0][..]);
                prop_assert_eq!(value.single().is_some(), texts.len() == 1);
                prop_assert_eq!(value.joined(b"; "), texts.join(&b"; "[..]));
            }
        }
        bodies::headers(&json);
        bodies::headers(&tnet);
    }

    #[test]
    fn requests_come_back(
        sender in vec(any::<u8>().prop_filter("", |byte| *byte != b' '), 1..=255),
        id in any::<u32>(),
        path in vec(any::<u8>().prop_filter("", |byte| *byte != b' '), 1..50),
        pairs in pairs(),
        body in vec(any::<u8>(), 0..300),
    ) {
        let signed = i64::from(id.cast_signed());
        let forms = [id.to_string(), signed.to_string(), signed.cast_unsigned().to_string()];
        for (form, (block, tag)) in forms.iter().zip(
            [(mongrel2_json(&pairs), b','), (mongrel2_tnet(&pairs), b'}'), (b"{}".to_vec(), b',')],
        ) {
            let mut message = [&sender, &b" "[..], form.as_bytes(), b" ", &path, b" "].concat();
            netstring::put(&mut message, &block, tag);
            netstring::put(&mut message, &body, b',');
            let envelope = Envelope::parse(&message).unwrap();
            prop_assert_eq!(envelope.sender, &sender[..]);
            prop_assert_eq!(envelope.conn, ConnId(id));
            prop_assert_eq!(envelope.path, &path[..]);
            prop_assert_eq!(envelope.body, &body[..]);
            bodies::request(&message);
        }
    }

    #[test]
    fn tnetstrings_come_back(tree in tree()) {
        let mut out = Vec::new();
        tree.item().put(&mut out);
        prop_assert_eq!(Item::parse(&out), Ok(tree.item()));
        for end in 0..out.len() {
            prop_assert!(Item::parse(&out[..end]).is_err());
        }
    }

    #[test]
    fn netstrings_come_back(payload in vec(any::<u8>(), 0..300), tag in any::<u8>(), rest in vec(any::<u8>(), 0..9)) {
        let mut out = Vec::new();
        netstring::put(&mut out, &payload, tag);
        let length = out.len();
        out.extend_from_slice(&rest);
        prop_assert_eq!(Netstring::split(&out), Ok(Netstring { payload: &payload, tag, rest: &rest }));
        for end in 0..length {
            prop_assert!(Netstring::split(&out[..end]).is_err());
        }
    }

    #[test]
    fn replies_come_back(
        sender in "[A-Za-z0-9-]{1,255}",
        ids in vec(any::<u32>().prop_map(ConnId), 1..=128),
        payload in vec(any::<u8>(), 0..300),
        credits in any::<u32>(),
    ) {
        let to = SenderUuid::try_from(sender.as_bytes()).unwrap();
        let mut out = Vec::new();
        put_reply_many(&mut out, &to, &ids, &payload).unwrap();
        let reply = Reply { sender: sender.as_bytes(), targets: ids.clone(), extended: false, payload: &payload };
        prop_assert_eq!(Reply::parse(&out), Ok(reply));

        let mut out = Vec::new();
        put_ctl(&mut out, &to, ids[0], Ctl::Credits(credits)).unwrap();
        let reply = Reply::parse(&out).unwrap();
        prop_assert!(reply.extended && reply.targets == [ids[0]]);
        let number = Item::Integer(i64::from(credits));
        let ctl = Item::List(vec![Item::Bytes(b"ctl"), Item::Dict(vec![(b"credits", number)])]);
        prop_assert_eq!(Item::parse(reply.payload), Ok(ctl));
    }

    /// A front end with a real JSON encoder: any text, in three styles of encoding.
    #[test]
    fn real_json_is_read(map in proptest::collection::btree_map(any::<String>(), vec(any::<String>(), 0..4), 0..9)) {
        let object: serde_json::Map<_, _> = map
            .iter()
            .map(|(name, texts)| match texts.as_slice() {
                [one] => (name.clone(), one.clone().into()),
                many => (name.clone(), many.into()),
            })
            .collect();
        let json = serde_json::Value::Object(object);
        let short = json.to_string();
        let ascii: String = short.chars().map(|char| if char.is_ascii() {
            char.to_string()
        } else {
            char.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect()
        }).collect();
        for text in [short, ascii, serde_json::to_string_pretty(&json).unwrap()] {
            let headers = Headers::parse(HeaderBlock::Json(text.as_bytes())).unwrap();
            prop_assert_eq!(headers.len(), map.len());
            for (name, texts) in &map {
                let value = headers.get(name.as_bytes()).unwrap();
                prop_assert!(value.iter().eq(texts.iter().map(String::as_bytes)));
            }
            bodies::headers(text.as_bytes());
        }
    }

    #[test]
    fn any_bytes_end_in_a_value_or_an_error(data in vec(any::<u8>(), 0..200)) {
        bodies::ALL.iter().for_each(|(_, body)| body(&data));
    }

    #[test]
    fn bytes_of_the_protocol_end_in_a_value_or_an_error(
        data in "[0-9:,{}\\[\\]\"\\\\#!~^ Xua-c-]{0,80}",
    ) {
        bodies::ALL.iter().for_each(|(_, body)| body(data.as_bytes()));
    }
}

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
    assert_eq!(Item::parse(&nested(100_000)).unwrap_err().what, Fault::TooDeep);
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
