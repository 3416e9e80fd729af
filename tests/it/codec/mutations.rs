//! The fuzz targets' checks over all recordings, and over thousands of inputs made from them by damage.
//!
//! Deterministic: a failure is repeated by running the test again.

use lurcher::proto::netstring;

use super::bodies;
use super::fixtures::recordings;

/// Pieces of the protocol: put where they do not belong, they go further than random bytes.
const PIECES: [&[u8]; 32] = [
    b"\"",
    b"\\",
    b"\\u004a",
    b"\\ud83d",
    b"\\ude00",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b" ",
    b"0:,",
    b"4:JSON,",
    b"\"JSON\"",
    b"\"XML\"",
    b"\"METHOD\":\"JSON\",",
    b"6:METHOD,4:JSON,",
    b"@*",
    b"\"UPLOAD_STREAM\":\"0\",",
    b"13:UPLOAD_STREAM,1:0,",
    b"WEBSOCKET",
    b"\"FLAGS\":\"0x81\",",
    b"\"x-mongrel2-upload-start\":\"/a\",",
    b"\"x-mongrel2-upload-done\":\"/a\",",
    b"null",
    b"1e9",
    b"-1",
    b"4294967296",
    b"18446744073709551616",
    b"\xff",
    b"\0",
];

/// A small generator (xorshift64*), seeded: the same numbers each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(number).unwrap() % limit.max(1)
    }

    fn damage(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len() + 1);
        let end = (at + self.below(12)).min(bytes.len());
        match self.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = u8::try_from(self.below(256)).unwrap(),
            2 => drop(bytes.drain(at..end)),
            3 => bytes.truncate(at),
            4 => {
                let from = self.below(other.len() + 1);
                let to = (from + self.below(40)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            5 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
            _ => drop(bytes.splice(at..at, PIECES[self.below(PIECES.len())].iter().copied())),
        }
    }
}

/// Head of the envelope, header block, its tag, body with its length and tag.
fn taken_apart(message: &[u8]) -> (&[u8], &[u8], u8, &[u8]) {
    let blank = message.iter().enumerate().filter(|(_, byte)| **byte == b' ').nth(2).unwrap().0;
    let (head, rest) = message.split_at(blank + 1);
    let block = netstring::Netstring::split(rest).unwrap();
    (head, block.payload, block.tag, block.rest)
}

/// The responses that were written by hand.
fn responses() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/responses");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 10, "the responses are there");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn damaged_responses_hold_all_promises() {
    const LINES: [&[u8]; 8] = [
        b"\r\n",
        b"\n",
        b"0\r\n\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"ffffffffffffffff\r\n",
    ];
    let mut dice = Dice(0x6c75_7263_6865_7223);
    let all = responses();
    for response in &all {
        bodies::response(response);
        bodies::relay(response);
    }
    for _ in 0..6000 {
        let mut response = all[dice.below(all.len())].clone();
        for _ in 0..=dice.below(3) {
            let other =
                if dice.below(2) == 0 { LINES[dice.below(8)] } else { &all[dice.below(all.len())] };
            dice.damage(&mut response, other);
        }
        bodies::response(&response);
        bodies::relay(&response);
    }
}

#[test]
fn damaged_heads_hold_all_promises() {
    const HEADS: [&[u8]; 4] = [
        b"GET /a%20b?c=d#e HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nx-a: 2\r\n\r\nrest",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody",
        b"POST http://h:1/x HTTP/1.1\r\nHost: y\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\r\nOPTIONS * HTTP/1.0\r\nConnection: keep-alive\r\nX_Y: caf\xe9\r\n\r\n",
    ];
    const LINES: [&[u8]; 12] = [
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n ",
        b"\r\n\r\n",
        b"Content-Length: 4\r\n",
        b"content-length:0x4\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: identity, chunked\r\n",
        b"x-mongrel2-upload-start: /a\r\n",
        b"METHOD: JSON\r\n",
        b"Host: \r\n",
    ];
    let mut dice = Dice(0x6c75_7263_6865_7225);
    let mut good = 0;
    for round in 0..20_000 {
        let mut head = HEADS[round % 4].to_vec();
        for _ in 0..dice.below(3) {
            let other = LINES[dice.below(LINES.len())];
            if dice.below(2) == 0 {
                let lines = memchr::memmem::find_iter(&head, b"\r\n").collect::<Vec<_>>();
                let Some(at) = lines.get(dice.below(lines.len())) else { continue };
                head.splice(at + 2..at + 2, other.iter().copied());
            } else {
                dice.damage(&mut head, other);
            }
        }
        bodies::client(&head);
        good += usize::from(matches!(lurcher::front::pure::request(&head, true), Some(Ok(_))));
    }
    assert!(good > 4000, "only {good} are still understood: the damage is too great to test much");
}

/// What a handler's sockets say: the greeting of libzmq, then frames.
#[test]
fn damaged_conversations_hold_all_promises() {
    let mut greeting = [0; 64];
    greeting[..12].copy_from_slice(b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01");
    greeting[12..16].copy_from_slice(b"NULL");
    let frames: [&[u8]; 7] = [
        b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04PULL",
        b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04XPUB",
        b"\x04\x0a\x04PING\0\x1eabc",
        b"\x04\x0c\x09SUBSCRIBEme",
        b"\0\x03abc",
        b"\x02\0\0\0\0\0\0\0\x03abc",
        b"\x04\x0b\x05ERROR\x04nope",
    ];
    let mut dice = Dice(0x6c75_7263_6865_7224);
    for round in 0..6000 {
        let mut data = if round % 2 == 0 { greeting.to_vec() } else { Vec::new() };
        for _ in 0..=dice.below(4) {
            data.extend_from_slice(frames[dice.below(7)]);
        }
        for _ in 0..dice.below(3) {
            let other = frames[dice.below(7)];
            dice.damage(&mut data, other);
        }
        bodies::zmtp(&data);
    }
}

#[test]
fn recordings_hold_all_promises() {
    for message in recordings("").values() {
        bodies::run_all(message);
        let (_, block, _, _) = taken_apart(message);
        bodies::headers(block);
    }
    for message in recordings("responses").values() {
        bodies::run_all(message);
    }
}

#[test]
fn every_truncation_is_an_error() {
    for (name, message) in recordings("") {
        // The whole of a big body adds nothing.
        for end in (0..message.len()).filter(|end| *end < 1500 || message.len() - end < 100) {
            assert!(lurcher::proto::Envelope::parse(&message[..end]).is_err(), "{name} to {end}");
        }
        let mut longer = message.clone();
        longer.push(b',');
        assert!(lurcher::proto::Envelope::parse(&longer).is_err(), "{name} and more");
    }
}

#[test]
fn damaged_messages_hold_all_promises() {
    let mut dice = Dice(0x4c75_7263_6865_7221);
    let mut all: Vec<_> = recordings("").into_values().collect();
    all.extend(recordings("responses").into_values());
    all.retain(|message| message.len() < 2000);
    for _ in 0..6000 {
        let mut message = all[dice.below(all.len())].clone();
        for _ in 0..=dice.below(4) {
            let other = dice.below(all.len());
            dice.damage(&mut message, &all[other]);
        }
        bodies::run_all(&message);
    }
}

/// Damage within the header block, with lengths that are right again, so that it gets past the envelope.
#[test]
fn damaged_headers_hold_all_promises() {
    let mut dice = Dice(0x6c75_7263_6865_7222);
    let all: Vec<_> = recordings("").into_values().filter(|message| message.len() < 2000).collect();
    let mut parsed = 0;
    for _ in 0..12_000 {
        let (head, block, tag, body) = taken_apart(&all[dice.below(all.len())]);
        let mut block = block.to_vec();
        let (_, other, _, _) = taken_apart(&all[dice.below(all.len())]);
        for _ in 0..=dice.below(2) {
            dice.damage(&mut block, other);
        }
        bodies::headers(&block);
        let mut message = head.to_vec();
        netstring::put(&mut message, &block, tag);
        message.extend_from_slice(body);
        bodies::request(&message);
        let envelope = lurcher::proto::Envelope::parse(&message).unwrap();
        parsed += usize::from(envelope.headers().is_ok());
    }
    assert!(
        parsed > 1000,
        "only {parsed} of them still parse: the damage is too great to test much"
    );
}
