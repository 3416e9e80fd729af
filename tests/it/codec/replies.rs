//! Replies: what Mongrel2 took and refused when it was tried, and that the writers write only what it takes.

use lurcher::proto::reply::{MAX_TARGETS, put_close, put_ctl, put_reply, put_reply_many};
use lurcher::proto::{ConnId, Ctl, Reply, ReplyError, SenderUuid};

use super::fixtures::{UUID, recordings};

fn uuid() -> SenderUuid {
    SenderUuid::try_from(UUID).unwrap()
}

/// File, ids, extended, payload: those that Mongrel2 delivered (the table of `index.md`).
const TAKEN: [(&str, &[u32], bool, &[u8]); 12] = [
    ("ok", &[2], false, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    ("close", &[3], false, b""),
    ("payload-not-http", &[4], false, b"\x00\x01garbage"),
    ("payload-leading-space", &[5], false, b" x"),
    ("targets-trailing-space", &[6], false, b"X"),
    ("targets-repeated", &[7, 7], false, b"X"),
    ("targets-128", &[], false, b"X"),
    ("other-uuid", &[10], false, b"X"),
    ("len-leading-zero", &[11], false, b"X"),
    ("ctl-keep-alive", &[20], true, b"31:3:ctl,21:10:keep-alive,4:true!}]"),
    ("ctl-credits", &[21], true, b"27:3:ctl,17:7:credits,4:1000#}]"),
    ("ctl-cancel", &[22], true, b"26:3:ctl,16:6:cancel,4:true!}]"),
];

/// Those that it refused.
const REFUSED: [&str; 9] = [
    "targets-129",
    "bad-no-space",
    "bad-close-without-space",
    "bad-length",
    "bad-targets-leading-space",
    "bad-targets-two-spaces",
    "bad-targets-comma",
    "bad-empty-targets",
    "bad-uuid-underscore",
];

#[test]
fn replies_are_taken_and_refused_as_by_mongrel2() {
    let recordings = recordings("responses");
    assert_eq!(recordings.len(), TAKEN.len() + REFUSED.len());
    for (name, ids, extended, payload) in TAKEN {
        let reply = Reply::parse(&recordings[&format!("{name}.bin")])
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let uuid: &[u8] =
            if name == "other-uuid" { b"ffffffff-0000-0000-0000-000000000000" } else { UUID };
        assert_eq!(reply.sender, uuid, "{name}");
        assert_eq!((reply.extended, reply.payload), (extended, payload), "{name}");
        if name == "targets-128" {
            let ids: Vec<_> = [8].into_iter().chain(900_000..900_127).map(ConnId).collect();
            assert_eq!(reply.targets, ids);
        } else {
            assert!(reply.targets.iter().map(|id| id.0).eq(ids.iter().copied()), "{name}");
        }
    }
    for name in REFUSED {
        assert!(Reply::parse(&recordings[&format!("{name}.bin")]).is_err(), "{name}");
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>, &SenderUuid) -> Result<(), ReplyError>) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, &uuid()).unwrap();
    out
}

#[test]
fn writers_give_the_recorded_bytes() {
    let recordings = recordings("responses");
    let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(written(|out, to| put_reply(out, to, ConnId(2), ok)), recordings["ok.bin"]);
    assert_eq!(written(|out, to| put_close(out, to, ConnId(3))), recordings["close.bin"]);
    for (name, id, ctl) in [
        ("ctl-keep-alive.bin", 20, Ctl::KeepAlive),
        ("ctl-credits.bin", 21, Ctl::Credits(1000)),
        ("ctl-cancel.bin", 22, Ctl::Cancel),
    ] {
        assert_eq!(written(|out, to| put_ctl(out, to, ConnId(id), ctl)), recordings[name]);
    }
    let many: Vec<_> = [8].into_iter().chain(900_000..900_127).map(ConnId).collect();
    assert_eq!(
        written(|out, to| put_reply_many(out, to, &many, b"X")),
        recordings["targets-128.bin"]
    );
}

#[test]
fn writers_refuse_what_mongrel2_would() {
    let mut out = b"before".to_vec();
    for unsafe_uuid in [&b"a_b"[..], b"a.b", b"caf\xe9", b"a\0b", b"a:b"] {
        let to = SenderUuid::try_from(unsafe_uuid).unwrap();
        assert!(!to.is_reply_safe());
        assert_eq!(put_reply(&mut out, &to, ConnId(1), b"x"), Err(ReplyError::Sender));
        assert_eq!(put_close(&mut out, &to, ConnId(1)), Err(ReplyError::Sender));
        assert_eq!(put_ctl(&mut out, &to, ConnId(1), Ctl::Cancel), Err(ReplyError::Sender));
    }
    let ids = [ConnId(1); MAX_TARGETS + 1];
    assert_eq!(put_reply_many(&mut out, &uuid(), &[], b"x"), Err(ReplyError::Targets(0)));
    assert_eq!(put_reply_many(&mut out, &uuid(), &ids, b"x"), Err(ReplyError::Targets(129)));
    assert_eq!(out, b"before");
    put_reply_many(&mut out, &uuid(), &ids[1..], b"x").unwrap();
    assert_eq!(Reply::parse(&out[6..]).unwrap().targets.len(), MAX_TARGETS);
}

#[test]
fn grammar_of_replies() {
    let takes = |message: &str| Reply::parse(message.as_bytes()).is_ok();
    for taken in
        ["u 1:1, ", "u 3:X 1, ", "u 4:X 1 , ", "u 001:1, x", "u 2:07, ", "U-1 10:4294967295, "]
    {
        assert!(takes(taken), "{taken:?}");
    }
    for refused in [
        "",
        "u",
        "u ",
        "u 1",
        "u 1:1",
        "u 1:1,",
        " 1:1, ",
        "u 1:X, ",
        "u 2:X , ",
        "u 2:X1, ",
        "u 3:x 1, ",
        "u 4:X  1, ",
        "u 1: , ",
        "u :1, ",
        "u 2:1, ",
        "u 5:X X 1, ",
        "u 2:-1, ",
        "u 3:1  , ",
        "u 18446744073709551616:1, ",
        "u 10:4294967296, ",
        "u  1:1, ",
        "u 1 :1, ",
    ] {
        assert!(!takes(refused), "{refused:?}");
    }
}
