//! What holds for any value and any bytes: decode(encode(x)) == x, and every input ends in a value or an error.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lurcher::proto::netstring::{self, Netstring};
use lurcher::proto::reply::{put_ctl, put_reply_many};
use lurcher::proto::tnetstring::Item;
use lurcher::proto::{ConnId, Ctl, Envelope, HeaderBlock, Headers, Reply, SenderUuid};
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
                for text in many {
                    netstring::put(&mut list, text, b',');
                }
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

/// The same JSON text with `\u` escapes for all that is not ASCII.
fn ascii_only(json: &str) -> String {
    let mut out = String::new();
    for char in json.chars() {
        if char.is_ascii() {
            out.push(char);
        } else {
            for unit in char.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04X}").unwrap();
            }
        }
    }
    out
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
        let ascii = ascii_only(&short);
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
        bodies::run_all(&data);
    }

    #[test]
    fn bytes_of_the_protocol_end_in_a_value_or_an_error(
        data in "[0-9:,{}\\[\\]\"\\\\#!~^ Xua-c-]{0,80}",
    ) {
        bodies::run_all(data.as_bytes());
    }
}
