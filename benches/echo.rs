//! A bare handler over libzmq: it answers each request with the same 6 bytes and looks at nothing but the address.
//!
//! `echo SEND RECV` connects to the endpoints of a front end and runs until it is ended. It is what two front ends are
//! compared with: it costs a tenth of what a handler in Python would, so that what is measured is the front end.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Type: text/plain\r\n\r\nhello\n";

fn main() {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [requests, replies] = words.as_slice() else { panic!("echo SEND RECV") };
    let context = zmq::Context::new();
    let publish = context.socket(zmq::PUB).unwrap();
    publish.connect(replies).unwrap();
    let pull = context.socket(zmq::PULL).unwrap();
    pull.connect(requests).unwrap();
    let mut reply = Vec::new();
    loop {
        let message = pull.recv_msg(0).unwrap();
        let mut words = message.splitn(4, |byte| *byte == b' ');
        let (Some(sender), Some(conn), Some(path)) = (words.next(), words.next(), words.next())
        else {
            panic!("no request")
        };
        // What is said of a connection that has ended needs no answer.
        if path == b"@*" {
            continue;
        }
        reply.clear();
        reply.extend_from_slice(sender);
        reply.extend_from_slice(format!(" {}:", conn.len()).as_bytes());
        for part in [conn, b", ", RESPONSE] {
            reply.extend_from_slice(part);
        }
        publish.send(reply.as_slice(), 0).unwrap();
    }
}
