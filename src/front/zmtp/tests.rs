//! The codec against bytes of libzmq 4.3.5, and against any bytes.

use super::command::property;
use super::*;
use proptest::prelude::*;

/// What a PULL of libzmq 4.3.5 sends: its greeting, and its READY.
const PULL_GREETING: [u8; 64] = {
    let mut bytes = [0; 64];
    bytes[0] = 0xFF;
    bytes[8] = 1;
    bytes[9] = 0x7F;
    bytes[10] = 3;
    bytes[11] = 1;
    bytes[12] = b'N';
    bytes[13] = b'U';
    bytes[14] = b'L';
    bytes[15] = b'L';
    bytes
};
const PULL_READY: &[u8] = b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04PULL";
const XPUB_READY: &[u8] = b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04XPUB";

fn whole(role: Role, input: &[u8]) -> Result<(usize, Option<Remote>), ZmtpError> {
    Handshake::new(role).advance(input, &mut Vec::new())
}

#[test]
fn a_pull_of_libzmq_is_welcome_to_the_push() {
    let input = [&PULL_GREETING[..], PULL_READY, b"\0\x03abc"].concat();
    let mut out = Vec::new();
    let mut handshake = Handshake::new(Role::Push);
    let (taken, remote) = handshake.advance(&input, &mut out).unwrap();
    assert_eq!(taken, input.len() - 5);
    assert_eq!(remote, Some(Remote { minor: 1, identity: Vec::new() }));
    assert_eq!(out, b"\x04\x27\x05READY\x0bSocket-Type\0\0\0\x04PUSH\x08Identity\0\0\0\0");
}

#[test]
fn it_may_come_in_any_pieces() {
    for role in [Role::Push, Role::Sub] {
        let ready = if role == Role::Push { PULL_READY } else { XPUB_READY };
        let input = [&PULL_GREETING[..], ready].concat();
        let mut handshake = Handshake::new(role);
        let (mut out, mut buffer, mut found) = (Vec::new(), Vec::new(), None);
        for (at, byte) in input.iter().enumerate() {
            assert_eq!(found, None, "before byte {at}");
            buffer.push(*byte);
            let (taken, remote) = handshake.advance(&buffer, &mut out).unwrap();
            buffer.drain(..taken);
            found = remote;
        }
        assert!(found.is_some() && buffer.is_empty());
    }
}

#[test]
fn strangers_are_refused() {
    let refused = |role, input: &[u8], error| assert_eq!(whole(role, input), Err(error));
    refused(Role::Push, b"GET / HTTP/1.1\r\n", ZmtpError::Signature);
    refused(Role::Push, b"\xff\0\0\0\0\0\0\0\x01\x7e", ZmtpError::Signature);
    refused(Role::Push, b"\xff\0\0\0\0\0\0\0\x01\x7f\x01", ZmtpError::Version);
    let mut plain = PULL_GREETING;
    plain[12..17].copy_from_slice(b"PLAIN");
    refused(Role::Push, &plain, ZmtpError::Mechanism);
    let with = |ready: &[u8]| [&PULL_GREETING[..], ready].concat();
    refused(Role::Sub, &with(PULL_READY), ZmtpError::SocketType);
    refused(Role::Push, &with(XPUB_READY), ZmtpError::SocketType);
    refused(Role::Push, &with(b"\0\x03abc"), ZmtpError::NotReady);
    refused(Role::Push, &with(b"\x04\x05\x04PONG"), ZmtpError::NotReady);
    refused(Role::Push, &with(b"\x04\x0b\x05ERROR\x04nope"), ZmtpError::Refused);
    refused(Role::Push, &with(b"\x04\x01\0"), ZmtpError::Command);
    refused(Role::Push, &with(b"\x04\x0a\x05READY\x0bSoc"), ZmtpError::Command);
    refused(Role::Push, &with(b"\x06\0\0\0\0\0\0\xff\xff"), ZmtpError::TooLong(0xFFFF));
    assert_eq!(whole(Role::Push, &PULL_GREETING[..63]), Ok((0, None)));
}

#[test]
fn ours_is_what_a_peer_takes() {
    assert_eq!(greeting(), PULL_GREETING);
}

#[test]
fn frames_short_and_long() {
    let mut out = Vec::new();
    put_message(&mut out, &[b"ab", b"", b"c"]);
    assert_eq!(out, b"\0\x03abc");
    let long = vec![b'x'; 256];
    out.clear();
    put_message(&mut out, &[&long]);
    assert_eq!(out[..9], [2, 0, 0, 0, 0, 0, 0, 1, 0]);
    let frame = Frame { more: false, command: false, body: &long };
    assert_eq!(Frame::split(&out, 256), Ok(Some((frame, 265))));
    assert_eq!(Frame::split(&out[..264], 256), Ok(None));
    assert_eq!(Frame::split(&out[..9], 255), Err(ZmtpError::TooLong(256)));
    // Some write every length in eight bytes.
    let (frame, length) = Frame::split(b"\x03\0\0\0\0\0\0\0\x01z", 9).unwrap().unwrap();
    assert_eq!((frame.more, frame.body, length), (true, &b"z"[..], 10));
    for flags in [0x08, 0x80, 0x05, 0xFF] {
        assert_eq!(Frame::split(&[flags, 0], 9), Err(ZmtpError::Flags));
    }
}

#[test]
fn pings_are_answered_with_their_context() {
    let (frame, _) = Frame::split(b"\x04\x0a\x04PING\0\x1eabc", 99).unwrap().unwrap();
    assert_eq!(Command::parse(frame.body), Ok(Command::Ping(b"abc")));
    let mut out = Vec::new();
    put_pong(&mut out, b"abc");
    assert_eq!(out, b"\x04\x08\x04PONGabc");
    out.clear();
    put_ping(&mut out, 0x0102);
    assert_eq!(out, b"\x04\x07\x04PING\x01\x02");
    assert_eq!(Command::parse(b"\x04PING\0"), Err(ZmtpError::Command));
    let long = [&b"\x04PING\0\0"[..], &[7; 40]].concat();
    assert_eq!(Command::parse(&long), Ok(Command::Ping(&[7; 16])));
}

#[test]
fn subscriptions_have_the_form_of_the_version() {
    let mut out = Vec::new();
    put_subscribe(&mut out, 1, b"me");
    put_cancel(&mut out, 1, b"me");
    assert_eq!(out, b"\x04\x0c\x09SUBSCRIBEme\x04\x09\x06CANCELme");
    let (frame, length) = Frame::split(&out, 99).unwrap().unwrap();
    assert_eq!(Command::parse(frame.body), Ok(Command::Subscribe(b"me")));
    let (frame, _) = Frame::split(&out[length..], 99).unwrap().unwrap();
    assert_eq!(Command::parse(frame.body), Ok(Command::Cancel(b"me")));
    out.clear();
    put_subscribe(&mut out, 0, b"me");
    put_cancel(&mut out, 0, b"");
    assert_eq!(out, b"\0\x03\x01me\0\x01\0");
}

#[test]
fn properties_add_up_or_are_refused() {
    let data = b"\x01a\0\0\0\x01x\x0bsocket-type\0\0\0\x03PUB";
    assert_eq!(property(data, "Socket-Type"), Ok(Some(&b"PUB"[..])));
    assert_eq!(property(data, "b"), Ok(None));
    for end in 1..data.len() {
        let cut = property(&data[..end], "b");
        assert!(cut == Err(ZmtpError::Command) || end == 7, "{end}");
    }
}

proptest! {
    #[test]
    fn any_message_comes_back(body in proptest::collection::vec(any::<u8>(), 0..600), more: bool) {
        let mut out = Vec::new();
        put_message(&mut out, &[&body]);
        out[0] |= u8::from(more);
        let (frame, length) = Frame::split(&out, 600).unwrap().unwrap();
        prop_assert_eq!((frame.body, frame.more, frame.command, length), (&body[..], more, false, out.len()));
    }

    #[test]
    fn any_bytes_are_borne(bytes in proptest::collection::vec(any::<u8>(), 0..300), greeted: bool) {
        let input = if greeted { [&PULL_GREETING[..], &bytes].concat() } else { bytes.clone() };
        for role in [Role::Push, Role::Sub] {
            if let Ok((taken, _)) = whole(role, &input) {
                prop_assert!(taken <= input.len());
            }
        }
        let mut rest = &bytes[..];
        while let Ok(Some((frame, length))) = Frame::split(rest, 100) {
            if frame.command {
                prop_assert!(Command::parse(frame.body).is_ok() || frame.body.len() < 100);
            }
            rest = &rest[length..];
        }
    }
}
