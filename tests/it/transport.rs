//! Links against a plain libzmq front end: the order of connecting, loss, and leaving.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use lurcher::config::Endpoint;
use lurcher::config::LinkSpec;
use lurcher::transport;
use lurcher::transport::Context;
use lurcher::transport::Link;
use lurcher::transport::LinkEvent;

const LIMIT: Duration = Duration::from_secs(10);

/// What Mongrel2 is to us: a PUSH and a SUB, bound. The SUB lives in a thread that touches it all the time: a socket that
/// nobody touches does not subscribe.
struct FrontEnd {
    push: zmq::Socket,
    replies: Receiver<Vec<u8>>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Drop for FrontEnd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.reader.take().unwrap().join().unwrap();
    }
}

fn bound(context: &zmq::Context, kind: zmq::SocketType, endpoint: &str) -> (zmq::Socket, String) {
    let socket = context.socket(kind).unwrap();
    socket.set_linger(0).unwrap();
    socket.set_sndtimeo(10_000).unwrap();
    socket.set_rcvtimeo(10_000).unwrap();
    socket.bind(endpoint).unwrap();
    let endpoint = socket.get_last_endpoint().unwrap().unwrap();
    (socket, endpoint)
}

fn spec(recv: &str, send: &str) -> LinkSpec {
    let endpoint = |text: &str| text.parse::<Endpoint>().unwrap();
    LinkSpec { recv: endpoint(recv), send: endpoint(send) }
}

/// Endpoints that nobody else can take while no one listens there.
fn private(dir: &tempfile::TempDir) -> LinkSpec {
    let at = |name| format!("ipc://{}", dir.path().join(name).display());
    spec(&at("recv"), &at("send"))
}

impl FrontEnd {
    /// On ports from the kernel.
    fn start(context: &zmq::Context) -> (FrontEnd, LinkSpec) {
        let (push, recv) = bound(context, zmq::PUSH, "tcp://127.0.0.1:*");
        let (sub, send) = bound(context, zmq::SUB, "tcp://127.0.0.1:*");
        (FrontEnd::with(push, sub), spec(&recv, &send))
    }

    /// On given endpoints.
    fn start_at(context: &zmq::Context, spec: &LinkSpec) -> FrontEnd {
        let (push, _) = bound(context, zmq::PUSH, spec.recv.as_str());
        let (sub, _) = bound(context, zmq::SUB, spec.send.as_str());
        FrontEnd::with(push, sub)
    }

    fn with(push: zmq::Socket, sub: zmq::Socket) -> FrontEnd {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, replies) = std::sync::mpsc::channel();
        let stopped = Arc::clone(&stop);
        sub.set_subscribe(b"").unwrap();
        sub.set_rcvtimeo(5).unwrap();
        let reader = std::thread::Builder::new().spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                if let Ok(reply) = sub.recv_bytes(0) {
                    let _ = sender.send(reply);
                }
            }
        });
        FrontEnd { push, replies, stop, reader: Some(reader.unwrap()) }
    }

    fn reply(&self) -> Vec<u8> {
        self.replies.recv_timeout(LIMIT).unwrap()
    }
}

/// One link with the messages and events it has had.
struct Driven {
    link: Link,
    events: Vec<LinkEvent>,
    messages: Vec<Vec<u8>>,
}

impl Driven {
    fn open(spec: &LinkSpec) -> (Context, Driven) {
        let context = Context::new();
        let link = Link::open(&context, 0, spec.clone(), Instant::now()).unwrap();
        (context, Driven { link, events: Vec::new(), messages: Vec::new() })
    }

    fn turn(&mut self) {
        let mut ready = Vec::new();
        let now = Instant::now();
        self.link.service(now, &mut self.events).unwrap();
        while let Some(message) = self.link.receive() {
            self.messages.push(message.to_vec());
        }
        let links = std::slice::from_mut(&mut self.link);
        transport::wait(links, &[], &mut ready, Some(Duration::from_millis(5))).unwrap();
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&Driven) -> bool) {
        let end = Instant::now() + LIMIT;
        while !done(self) {
            assert!(Instant::now() < end, "not seen within {LIMIT:?}: {what}; {:?}", self.events);
            self.turn();
        }
    }

    fn until_event(&mut self, event: LinkEvent) {
        self.until(&format!("{event:?}"), |d| d.events.contains(&event));
    }
}

#[test]
fn requests_come_only_after_the_subscription() {
    let zmq = zmq::Context::new();
    let (front, spec) = FrontEnd::start(&zmq);
    let (_context, mut driven) = Driven::open(&spec);
    driven.until_event(LinkEvent::Connected);
    assert_eq!(driven.events, [LinkEvent::Subscribed, LinkEvent::Connected]);
    front.push.send("request", 0).unwrap();
    driven.until("a message", |d| !d.messages.is_empty());
    driven.link.publish(b"reply".to_vec());
    assert_eq!(front.reply(), b"reply");
}

#[test]
fn a_front_end_that_sends_before_it_subscribes_is_no_deadlock() {
    let zmq = zmq::Context::new();
    let (push, recv) = bound(&zmq, zmq::PUSH, "tcp://127.0.0.1:*");
    let (sub, send) = bound(&zmq, zmq::SUB, "tcp://127.0.0.1:*");
    let front = std::thread::Builder::new()
        .spawn(move || {
            // Blocks until a PULL is there; only then does it look after its SUB.
            push.send("request", 0).unwrap();
            sub.set_subscribe(b"").unwrap();
            sub.recv_bytes(0).unwrap()
        })
        .unwrap();
    let (_context, mut driven) = Driven::open(&spec(&recv, &send));
    driven.until("a message", |d| !d.messages.is_empty());
    driven.until_event(LinkEvent::Connected);
    assert_eq!(driven.events[0], LinkEvent::NoFrontEnd);
    // Published when the subscription may not have come in yet: kept for it.
    driven.link.publish(b"reply".to_vec());
    driven.until("the subscription", |d| d.events.contains(&LinkEvent::Subscribed));
    assert_eq!(front.join().unwrap(), b"reply");
}

#[test]
fn a_front_end_that_comes_back_is_served_and_gets_nothing_old() {
    let zmq = zmq::Context::new();
    let dir = tempfile::tempdir().unwrap();
    let spec = private(&dir);
    let front = FrontEnd::start_at(&zmq, &spec);
    let (_context, mut driven) = Driven::open(&spec);
    driven.until_event(LinkEvent::Connected);
    drop(front);
    driven.until_event(LinkEvent::Lost);
    driven.link.publish(b"of the old life".to_vec());
    assert_eq!(driven.link.dropped(), 1);
    driven.events.clear();
    let front = FrontEnd::start_at(&zmq, &spec);
    driven.until_event(LinkEvent::Connected);
    assert_eq!(driven.events, [LinkEvent::Subscribed, LinkEvent::Connected]);
    front.push.send("request", 0).unwrap();
    driven.until("a message", |d| !d.messages.is_empty());
    driven.link.publish(b"new".to_vec());
    assert_eq!(front.reply(), b"new");
}

#[test]
fn a_front_end_that_comes_back_while_we_are_away_is_a_new_one() {
    let zmq = zmq::Context::new();
    let first = zmq::Context::new();
    let dir = tempfile::tempdir().unwrap();
    let spec = private(&dir);
    let front = FrontEnd::start_at(&first, &spec);
    let (_context, mut driven) = Driven::open(&spec);
    driven.until_event(LinkEvent::Connected);
    driven.events.clear();
    drop(front);
    // Waits until its sockets are closed, and their files gone: they could be those of the next ones.
    drop(first);
    let (push, _) = bound(&zmq, zmq::PUSH, spec.recv.as_str());
    let (sub, _) = bound(&zmq, zmq::SUB, spec.send.as_str());
    let heard = zmq.socket(zmq::PAIR).unwrap();
    heard.set_rcvtimeo(10_000).unwrap();
    let handshake = i32::from(zmq::SocketEvent::HANDSHAKE_SUCCEEDED.to_raw());
    sub.monitor("inproc://heard", handshake).unwrap();
    heard.connect("inproc://heard").unwrap();
    let front = FrontEnd::with(push, sub);
    // The link is connected again before it has been told that it was not.
    heard.recv_multipart(0).unwrap();
    driven.until_event(LinkEvent::Connected);
    assert_eq!(driven.events, [LinkEvent::Lost, LinkEvent::Subscribed, LinkEvent::Connected]);
    front.push.send("request", 0).unwrap();
    driven.until("a message", |d| !d.messages.is_empty());
    driven.link.publish(b"new".to_vec());
    assert_eq!(front.reply(), b"new");
}

#[test]
fn a_front_end_that_starts_late_is_found() {
    let zmq = zmq::Context::new();
    let dir = tempfile::tempdir().unwrap();
    let spec = private(&dir);
    let (_context, mut driven) = Driven::open(&spec);
    driven.until_event(LinkEvent::NoFrontEnd);
    let _front = FrontEnd::start_at(&zmq, &spec);
    driven.until_event(LinkEvent::Connected);
    driven.until_event(LinkEvent::Subscribed);
}

#[test]
fn a_full_front_end_loses_no_publication() {
    // Far beyond every high-water mark between us, of messages that are copied, and of such that are not.
    loses_nothing(20_000, 2_000);
    loses_nothing(2_000, 40_000);
}

fn loses_nothing(count: u32, size: usize) {
    let zmq = zmq::Context::new();
    let (push, recv) = bound(&zmq, zmq::PUSH, "tcp://127.0.0.1:*");
    let (sub, send) = bound(&zmq, zmq::SUB, "tcp://127.0.0.1:*");
    sub.set_subscribe(b"").unwrap();
    let (_context, mut driven) = Driven::open(&spec(&recv, &send));
    driven.until("the subscription", |d| {
        // A look is a touch.
        let _ = sub.get_events();
        d.link.subscribed()
    });
    // Nobody reads.
    let filler = vec![b'x'; size];
    for number in 0..count {
        let mut reply = number.to_be_bytes().to_vec();
        reply.extend_from_slice(&filler);
        driven.link.publish(reply);
    }
    assert!(driven.link.congested());
    let reader = std::thread::Builder::new()
        .spawn(move || {
            for number in 0..count {
                let reply = sub.recv_bytes(0).unwrap();
                assert_eq!(reply[..4], number.to_be_bytes());
            }
            drop(push);
        })
        .unwrap();
    driven.until("an empty backlog", |d| d.link.backlog_bytes() == 0);
    reader.join().unwrap();
    driven.until("the end of the congestion", |d| !d.link.congested());
}

#[test]
fn what_a_front_end_takes_with_it_into_its_grave_congests_nobody() {
    let zmq = zmq::Context::new();
    let (front, spec) = FrontEnd::start(&zmq);
    let (_context, mut driven) = Driven::open(&spec);
    driven.until("the subscription", |d| d.link.subscribed());
    while !driven.link.congested() {
        driven.link.publish([b"me 1:1, ", &vec![b'x'; 1 << 20][..]].concat());
    }
    drop(front);
    driven.until_event(LinkEvent::Lost);
    driven.until("the end of the congestion", |d| !d.link.congested());
}

#[test]
fn a_front_end_that_listens_to_others_is_told_of() {
    let zmq = zmq::Context::new();
    let (_push, recv) = bound(&zmq, zmq::PUSH, "tcp://127.0.0.1:*");
    let (sub, send) = bound(&zmq, zmq::SUB, "tcp://127.0.0.1:*");
    sub.set_subscribe(b"somebody-else").unwrap();
    let (_context, mut driven) = Driven::open(&spec(&recv, &send));
    driven.until("the subscription", |d| {
        let _ = sub.get_events();
        d.link.subscribed()
    });
    for _ in 0..3 {
        driven.link.publish(b"me 1:1, reply".to_vec());
    }
    driven.until_event(LinkEvent::Unheard);
    driven.turn();
    assert_eq!(driven.events.iter().filter(|e| **e == LinkEvent::Unheard).count(), 1);
    assert_eq!(driven.link.dropped(), 3);
}

#[test]
fn leaving_takes_along_what_was_dealt() {
    let zmq = zmq::Context::new();
    let (front, spec) = FrontEnd::start(&zmq);
    let (_context, mut driven) = Driven::open(&spec);
    driven.until_event(LinkEvent::Connected);
    let sent = 3_000;
    for _ in 0..sent {
        front.push.send("request", 0).unwrap();
    }
    // libzmq's PUSH has passed everything on when the first have come in and its queue is idle for a moment.
    driven.until("half of the messages", |d| d.messages.len() > sent / 2);
    driven.until("all messages", |d| d.messages.len() == sent);
    driven.link.leave(Instant::now());
    driven.until_event(LinkEvent::Left);
    assert!(driven.link.left());
    assert_eq!(driven.messages.len(), sent);
    // Nobody is there any more: the front end knows it, and does not deal into the void. Its socket hears of it when it is
    // asked something; a send alone looks only once in a while.
    front.push.get_events().unwrap();
    let fresh = (0..100).filter(|_| front.push.send("late", zmq::DONTWAIT).is_ok()).count();
    assert_eq!(fresh, 0, "dealt to a link that had left");
}

#[test]
fn a_front_end_that_changes_its_mind_is_served_again() {
    let zmq = zmq::Context::new();
    let (push, recv) = bound(&zmq, zmq::PUSH, "tcp://127.0.0.1:*");
    let (sub, send) = bound(&zmq, zmq::SUB, "tcp://127.0.0.1:*");
    sub.set_subscribe(b"me").unwrap();
    let (_context, mut driven) = Driven::open(&spec(&recv, &send));
    let touch = |d: &Driven, event| {
        let _ = sub.get_events();
        d.events.contains(&event)
    };
    driven.until("a connection", |d| touch(d, LinkEvent::Connected));
    sub.set_unsubscribe(b"me").unwrap();
    driven.until("its loss", |d| touch(d, LinkEvent::Lost));
    driven.events.clear();
    sub.set_subscribe(b"me again").unwrap();
    driven.until("a new connection", |d| touch(d, LinkEvent::Connected));
    assert_eq!(driven.events, [LinkEvent::Subscribed, LinkEvent::Connected]);
    push.send("request", 0).unwrap();
    driven.until("a message", |d| touch(d, LinkEvent::Subscribed) && !d.messages.is_empty());
    driven.link.publish(b"me again 1:1, reply".to_vec());
    assert_eq!(sub.recv_bytes(0).unwrap(), b"me again 1:1, reply");
}
