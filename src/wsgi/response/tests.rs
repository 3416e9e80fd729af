//! Applications in miniature, and what their clients get.

use super::*;

/// Collects blocks; gone after `limit` of them.
struct Client {
    blocks: Vec<Vec<u8>>,
    limit: usize,
}

impl Client {
    fn new() -> Client {
        Client { blocks: Vec::new(), limit: usize::MAX }
    }

    /// Everything, with the lines that change from run to run taken out.
    fn text(&self) -> String {
        let text = String::from_utf8(self.blocks.concat()).unwrap();
        let lines = text.split_inclusive("\r\n");
        lines.filter(|l| !l.starts_with("Server: ") && !l.starts_with("Date: ")).collect()
    }
}

impl Sink for Client {
    fn block(&mut self, pieces: &[&[u8]]) -> Result<(), Gone> {
        if self.blocks.len() >= self.limit {
            return Err(Gone);
        }
        self.blocks.push(pieces.concat());
        Ok(())
    }
}

const GET: Asked = Asked { head: false, version: Version::Http11, wish: Wish::None };
const HEAD: Asked = Asked { head: true, ..GET };
const OLD: Asked = Asked { version: Version::Http10, ..GET };

fn head(status: &str, headers: &[(&str, &str)]) -> Head {
    let mut head = Head::new(Vec::new(), status.as_bytes()).unwrap();
    for (name, value) in headers {
        head.header(name.as_bytes(), value.as_bytes()).unwrap();
    }
    head
}

fn length(n: &str) -> Head {
    head("200 OK", &[("Content-Length", n)])
}

/// Plays an application that starts with `head` and yields `blocks` one by one, as long as they are wanted.
fn play(asked: Asked, head: Head, blocks: &[&str]) -> (String, Ending) {
    let mut client = Client::new();
    let mut response = Response::new(asked);
    response.start(head, false).unwrap();
    for block in blocks {
        if response.block(block.as_bytes(), &mut client).unwrap() == Next::Enough {
            break;
        }
    }
    let ending = response.finish(&mut client);
    (client.text(), ending)
}

fn whole(keep: bool, status: u16, body: u64) -> Ending {
    Ending { how: How::Whole, keep, status, body, fault: None }
}

#[test]
fn a_line_of_ours_goes_with_every_head_but_one_that_has_it() {
    for (headers, lines) in [(&[][..], 1), (&[("x-ID", "mine")][..], 0), (&[("X-ID2", "2")][..], 1)]
    {
        let mut head = Head::new(Vec::new(), b"200 OK").unwrap();
        for (name, value) in headers {
            head.header(name.as_bytes(), value.as_bytes()).unwrap();
        }
        head.add_missing(b"X-Id: ours\r\n");
        let text = String::from_utf8(head.finish(&framing::decide(
            GET,
            Given { status: 200, content_length: None, known: Some(0), close: false },
        )))
        .unwrap();
        assert_eq!(text.matches("X-Id: ours\r\n").count(), lines, "{text}");
    }
}

#[test]
fn streams() {
    let (text, ending) = play(GET, head("200 OK", &[]), &["ab", "", "c"]);
    assert_eq!(
        text,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    );
    assert_eq!(ending, whole(true, 200, 3));
    let (text, ending) = play(OLD, head("200 OK", &[]), &["ab", "", "c"]);
    assert_eq!(text, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc");
    assert_eq!(ending, whole(false, 200, 3));
    let (text, ending) = play(GET, length("3"), &["ab", "c"]);
    assert_eq!(text, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(ending, whole(true, 200, 3));
}

#[test]
fn empty_blocks_send_nothing() {
    let (text, _) = play(GET, head("201 Created", &[]), &["", "", "x"]);
    assert!(text.ends_with("\r\n\r\n1\r\nx\r\n0\r\n\r\n"), "{text}");
    let mut response = Response::new(GET);
    let mut client = Client::new();
    assert_eq!(response.block(b"", &mut client), Ok(Next::More), "even before the head");
    response.start(head("200 OK", &[]), false).unwrap();
    assert_eq!(response.whole(&[b"", b""], &mut client), Ok(Next::More));
    assert!(client.blocks.is_empty());
    assert_eq!(response.finish(&mut client), whole(true, 200, 0));
    assert_eq!(client.text(), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

#[test]
fn a_body_known_at_once_gets_its_length_and_is_one_block() {
    let mut response = Response::new(GET);
    let mut client = Client::new();
    response.start(head("200 OK", &[]), false).unwrap();
    response.whole(&[b"ab", b"", b"c"], &mut client).unwrap();
    assert_eq!(response.finish(&mut client), whole(true, 200, 3));
    assert_eq!(client.blocks.len(), 1);
    assert_eq!(client.text(), "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
}

#[test]
fn written_first_and_known_then() {
    let mut response = Response::new(GET);
    let mut client = Client::new();
    response.start(head("200 OK", &[]), false).unwrap();
    response.block(b"1", &mut client).unwrap();
    response.whole(&[b"2", b"3"], &mut client).unwrap();
    response.finish(&mut client);
    assert!(client.text().ends_with("\r\n\r\n1\r\n1\r\n2\r\n23\r\n0\r\n\r\n"));
}

#[test]
fn no_body_where_none_belongs() {
    let (text, ending) = play(HEAD, length("5"), &["hello", "more"]);
    assert_eq!(text, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(ending, whole(true, 200, 0));
    assert_eq!(play(HEAD, head("200 OK", &[]), &["x"]).0, "HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(play(HEAD, head("200 OK", &[]), &[]).0, "HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(
        play(GET, head("304 Not Modified", &[]), &[]).0,
        "HTTP/1.1 304 Not Modified\r\n\r\n"
    );
    let (text, ending) = play(GET, head("204 No Content", &[("Content-Length", "5")]), &["hello"]);
    assert_eq!(text, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(ending, Ending { fault: Some(Fault::Bodiless(204)), ..whole(true, 204, 0) });
    assert_eq!(play(GET, head("204 No Content", &[]), &[]).1, whole(true, 204, 0));
}

#[test]
fn lengths_are_kept_in_both_directions() {
    let (text, ending) = play(GET, length("5"), &["Hel", "loEX", "TRA"]);
    assert!(text.ends_with("\r\n\r\nHello"));
    assert_eq!(
        ending,
        Ending { fault: Some(Fault::Surplus { announced: 5 }), ..whole(true, 200, 5) }
    );
    let (text, ending) = play(GET, length("0"), &["x"]);
    assert!(text.ends_with("\r\n\r\n"));
    assert!(ending.keep);
    let (text, ending) = play(GET, length("300"), &["Hello"]);
    assert!(text.ends_with("\r\n\r\nHello"));
    let fault = Some(Fault::Short { announced: 300, missing: 295 });
    assert_eq!(ending, Ending { how: How::Cut, keep: false, status: 200, body: 5, fault });
    assert_eq!(play(GET, length("3"), &[]).1.how, How::Cut);
}

#[test]
fn late_errors_replace_the_head_or_are_raised() {
    let mut response = Response::new(GET);
    let mut client = Client::new();
    response.start(head("200 OK", &[]), false).unwrap();
    assert_eq!(response.start(head("200 OK", &[]), false), Err(StartError::Twice));
    response.start(head("500 Oops", &[("X-Replaced", "1")]), true).unwrap();
    response.whole(&[b"err"], &mut client).unwrap();
    assert_eq!(response.start(head("500 Oops", &[]), true), Err(StartError::Sent));
    assert_eq!(response.start(head("500 Oops", &[]), false), Err(StartError::Twice));
    response.finish(&mut client);
    assert!(client.text().starts_with("HTTP/1.1 500 Oops\r\nX-Replaced: 1\r\n"));
    assert_eq!(response.start(head("200 OK", &[]), true), Err(StartError::Over));
    assert_eq!(response.block(b"x", &mut client), Err(WriteError::Over));
    assert_eq!(response.whole(&[b"x"], &mut client), Err(WriteError::Over));
    assert_eq!(client.blocks.len(), 1);
}

#[test]
fn failures() {
    let mut response = Response::new(GET);
    let mut client = Client::new();
    assert_eq!(response.block(b"x", &mut client), Err(WriteError::NotStarted));
    let ending = response.fail(&mut client);
    assert_eq!((ending.how, ending.keep, ending.status), (How::Failed, true, 500));
    assert!(client.text().starts_with("HTTP/1.1 500 Internal Server Error\r\n"));
    assert!(!client.text().contains("Connection"));

    let mut client = Client::new();
    let ending = Response::new(HEAD).finish(&mut client);
    assert_eq!(
        (ending.how, ending.fault, ending.body),
        (How::Failed, Some(Fault::NeverStarted), 0)
    );
    assert!(client.text().ends_with("\r\n\r\n"));

    let mut client = Client::new();
    let mut response = Response::new(GET);
    response.start(head("200 OK", &[]), false).unwrap();
    response.block(b"part", &mut client).unwrap();
    let ending = response.fail(&mut client);
    assert_eq!(ending, Ending { how: How::Cut, keep: false, status: 200, body: 4, fault: None });
    assert!(client.text().ends_with("4\r\npart\r\n"), "no last chunk");

    let mut client = Client::new();
    let ending = Response::new(OLD).refuse(400, false, &mut client);
    assert_eq!((ending.how, ending.keep, ending.status), (How::Refused, false, 400));
    assert!(client.text().contains("Connection: close"));
    assert!(Response::new(GET).refuse(404, true, &mut client).keep);
    assert!(!Response::new(GET).refuse(400, false, &mut client).keep);
}

#[test]
fn a_client_that_leaves() {
    let mut response = Response::new(GET);
    let mut client = Client { limit: 1, ..Client::new() };
    response.start(head("200 OK", &[]), false).unwrap();
    response.block(b"1", &mut client).unwrap();
    assert_eq!(response.block(b"2", &mut client), Err(WriteError::Gone(Gone)));
    client.limit = usize::MAX;
    assert_eq!(response.block(b"3", &mut client), Err(WriteError::Gone(Gone)), "for good");
    let ending = response.fail(&mut client);
    assert_eq!((ending.how, ending.keep), (How::Gone, false));
    assert_eq!(client.blocks.len(), 1);
}

#[test]
fn room() {
    let mut response = Response::new(GET);
    assert_eq!(response.room(), None);
    response.start(length("9"), false).unwrap();
    assert_eq!(response.room(), Some(9));
    response.block(b"1234", &mut Client::new()).unwrap();
    assert_eq!(response.room(), Some(5));
}
