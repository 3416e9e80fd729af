//! A worker against an instance that the test plays, both in this process.

use std::io::Read;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::bridge::EndInfo;
use crate::bridge::Inbox;
use crate::bridge::Outcome;
use crate::bridge::frame;
use crate::bridge::frame::FLAG_MORE;
use crate::bridge::frame::MAX_DATA;
use crate::bridge::frame::WINDOW;
use crate::config::Level;
use crate::config::LogFormat;
use crate::config::Underscore;
use crate::config::WorkerSettings;
use crate::wsgi::response::Ending;
use crate::wsgi::response::Gone;
use crate::wsgi::response::How;

const WHOLE: Ending = Ending { how: How::Whole, keep: true, status: 200, body: 5, fault: None };

/// The instance's end.
pub(crate) struct Instance {
    bridge: UnixStream,
    board: Board,
    inbox: Inbox,
}

/// A frame of the worker.
pub(crate) type Seen = (Kind, u8, u64, Vec<u8>);

impl Instance {
    /// An instance and a worker of it. The reader would end the process a while after its instance has gone: here that
    /// is longer than any test.
    pub(crate) fn start() -> (Instance, Worker) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let board = Board::create(2).unwrap();
        let mut instance = Instance { bridge: ours, board, inbox: Inbox::new(1 << 20) };
        let settings = settings();
        instance.send(Kind::Setup, 0, &serde_json::to_vec(&settings).unwrap());
        let (worker, got) =
            Worker::open(theirs.as_raw_fd(), instance.board.fd().as_raw_fd()).unwrap();
        assert_eq!(got, settings);
        // The worker's end belongs to it for the life of the process.
        std::mem::forget(theirs);
        (instance, worker)
    }

    pub(crate) fn send(&mut self, kind: Kind, ticket: u64, payload: &[u8]) {
        let mut out = Vec::new();
        frame::put(&mut out, kind, 0, Ticket(ticket), payload);
        self.bridge.write_all(&out).unwrap();
    }

    pub(crate) fn request(&mut self, ticket: u64) {
        self.send(
            Kind::Request,
            ticket,
            br#"uuid 7 / 40:{"METHOD":"GET","VERSION":"HTTP/1.1"   },0:,"#,
        );
    }

    pub(crate) fn take(&mut self) -> Seen {
        loop {
            if let Some(frame) = self.inbox.next().unwrap() {
                return (frame.kind, frame.flags, frame.ticket.0, frame.payload.to_vec());
            }
            let n = self.bridge.read(self.inbox.space()).unwrap();
            assert!(n > 0, "the worker has gone");
            self.inbox.filled(n);
        }
    }

    pub(crate) fn take_end(&mut self) -> (u64, Outcome) {
        let (kind, _, ticket, payload) = self.take();
        assert_eq!(kind, Kind::End);
        (ticket, EndInfo::parse(&payload).unwrap().0.outcome)
    }
}

/// Settings of a worker with two slots.
pub(crate) fn settings() -> WorkerSettings {
    WorkerSettings {
        wsgi_app: "a:b".to_owned(),
        app_path: PathBuf::from("/"),
        threads: 2,
        script_name: String::new(),
        server_name: None,
        underscore_headers: Underscore::Drop,
        on_worker_start: None,
        on_worker_stop: None,
        lint: false,
        access_log: false,
        request_id_header: None,
        request_id_prefix: 1,
        log_format: LogFormat::Text,
        syslog: None,
        log_level: Level::Error,
        multiprocess: false,
        worker: 1,
        graceful_timeout_ms: 3_600_000,
    }
}

/// Waits for what the reader does at its own pace.
fn wait_until(what: impl Fn() -> bool) {
    for _ in 0..2000 {
        if what() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it did not come to that");
}

#[test]
fn requests_come_in_order_and_are_answered() {
    let (mut instance, worker) = Instance::start();
    worker.ready();
    assert_eq!(instance.take().0, Kind::Ready);
    for ticket in 1..=3 {
        instance.request(ticket);
    }
    for ticket in 1..=3 {
        let mut begun = worker.next(0, &Bare).unwrap();
        assert!(begun.work.is_ok(), "{:?}", begun.work);
        assert_eq!(instance.board.begun(), Ticket(ticket));
        assert_eq!(instance.board.slot(0).unwrap().0, Ticket(ticket));
        begun.out.block(&[b"ab", b"", b"cde"], &Bare).unwrap();
        let memory = begun.out.end(&WHOLE, b"line", &Bare);
        assert!(memory.capacity() > 0, "the memory comes back");
        assert_eq!(instance.board.slot(0), None);
    }
    instance.send(Kind::Drain, 0, b"");
    assert!(worker.next(0, &Bare).is_none());
    for ticket in 1..=3 {
        assert_eq!(instance.take(), (Kind::Data, 0, ticket, b"abcde".to_vec()));
        assert_eq!(instance.take_end(), (ticket, Outcome::Ok));
    }
    worker.leave();
    worker.leave();
    worker.finish();
    assert_eq!(instance.take().0, Kind::Leaving);
    std::mem::forget(instance);
}

#[test]
fn a_recalled_request_is_begun_nowhere() {
    let (mut instance, worker) = Instance::start();
    instance.request(1);
    instance.request(2);
    instance.send(Kind::Recall, 1, b"");
    instance.send(Kind::Recall, 1, b"");
    assert_eq!(instance.take(), (Kind::Recalled, 0, 1, Vec::new()));
    let begun = worker.next(0, &Bare).unwrap();
    assert_eq!(begun.out.ticket(), Ticket(2));
    instance.send(Kind::Recall, 2, b"");
    begun.out.end(&WHOLE, b"", &Bare);
    instance.send(Kind::Drain, 0, b"");
    assert!(worker.next(0, &Bare).is_none());
    assert_eq!(instance.take_end(), (2, Outcome::Ok));
    std::mem::forget(instance);
}

#[test]
fn for_a_client_that_has_left_nothing_is_begun() {
    let (mut instance, worker) = Instance::start();
    instance.request(1);
    instance.send(Kind::Gone, 1, b"");
    instance.send(Kind::Drain, 0, b"");
    // The reader takes frames in order, so the notice is there once a ticket after it is.
    instance.request(2);
    assert_eq!(instance.take().0, Kind::Recalled);
    assert!(worker.next(0, &Bare).is_none());
    assert_eq!(instance.take_end(), (1, Outcome::ClientGone));
    assert_eq!(instance.board.begun(), Ticket(0));
    std::mem::forget(instance);
}

#[test]
fn what_comes_after_the_drain_goes_back() {
    let (mut instance, worker) = Instance::start();
    instance.send(Kind::Drain, 0, b"");
    assert!(worker.next(0, &Bare).is_none());
    instance.request(5);
    assert_eq!(instance.take(), (Kind::Recalled, 0, 5, Vec::new()));
    std::mem::forget(instance);
}

#[test]
fn a_lost_answer_is_ended_all_the_same() {
    let (mut instance, worker) = Instance::start();
    instance.request(1);
    let begun = worker.next(1, &Bare).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut begun = begun;
        begun.out.block(&[b"part"], &Bare).unwrap();
        std::panic::resume_unwind(Box::new("in a slot"));
    }));
    assert!(panicked.is_err());
    assert_eq!(instance.take(), (Kind::Data, 0, 1, b"part".to_vec()));
    assert_eq!(instance.take_end(), (1, Outcome::Cut));
    assert_eq!(instance.board.slot(1), None);
    std::mem::forget(instance);
}

#[test]
fn a_large_block_is_cut_and_waits_for_the_window() {
    let (mut instance, worker) = Instance::start();
    instance.request(1);
    let mut begun = worker.next(0, &Bare).unwrap();
    let block: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let slot = std::thread::Builder::new()
        .spawn({
            let block = block.clone();
            move || {
                let parts: Vec<&[u8]> = block.chunks(777).collect();
                begun.out.block(&parts, &Bare).unwrap();
                begun.out.end(&WHOLE, b"", &Bare);
                worker.finish();
            }
        })
        .unwrap();
    let mut got = Vec::new();
    let mut unacked = 0;
    while got.len() < block.len() {
        let (kind, flags, _, payload) = instance.take();
        assert_eq!(kind, Kind::Data);
        assert!(payload.len() <= MAX_DATA);
        unacked += payload.len() as u64;
        assert!(unacked <= WINDOW, "{unacked} bytes without an ack");
        got.extend_from_slice(&payload);
        assert_eq!(flags, if got.len() < block.len() { FLAG_MORE } else { 0 });
        if unacked > WINDOW - MAX_DATA as u64 {
            instance.send(Kind::Ack, 1, &unacked.to_le_bytes());
            unacked = 0;
        }
    }
    assert!(got == block, "other bytes came");
    assert_eq!(instance.take_end(), (1, Outcome::Ok));
    slot.join().unwrap();
    std::mem::forget(instance);
}

#[test]
fn a_client_that_leaves_fails_the_next_block() {
    let (mut instance, worker) = Instance::start();
    instance.request(1);
    let mut begun = worker.next(0, &Bare).unwrap();
    begun.out.block(&[b"1"], &Bare).unwrap();
    instance.send(Kind::Gone, 9, b"");
    instance.send(Kind::Gone, 1, b"");
    wait_until(|| begun.out.is_gone());
    assert_eq!(begun.out.block(&[b"2"], &Bare), Err(Gone));
    std::mem::forget(instance);
}

#[test]
fn an_instance_that_has_gone_ends_everything() {
    let (mut instance, worker) = Instance::start();
    instance.request(1);
    let mut begun = worker.next(0, &Bare).unwrap();
    instance.request(2);
    wait_until(|| worker.queue.len() == 1);
    drop(instance);
    wait_until(|| begun.out.is_gone());
    assert_eq!(begun.out.block(&[&vec![0; 1 << 20]], &Bare), Err(Gone));
    begun.out.end(&WHOLE, b"", &Bare);
    assert!(worker.next(0, &Bare).is_none(), "the second is not begun");
    worker.finish();
}

#[test]
fn a_full_socket_holds_nobody_up_for_ever() {
    let (mut instance, worker) = Instance::start();
    let worker = Arc::new(worker);
    for ticket in 1..=40 {
        instance.request(ticket);
    }
    instance.send(Kind::Drain, 0, b"");
    let slots: Vec<_> = (0..2)
        .map(|slot| {
            let worker = Arc::clone(&worker);
            let serve = move || {
                while let Some(mut begun) = worker.next(slot, &Bare) {
                    begun.out.block(&[&vec![b'x'; 200_000]], &Bare).unwrap();
                    begun.out.end(&WHOLE, b"", &Bare);
                }
            };
            std::thread::Builder::new().spawn(serve).unwrap()
        })
        .collect();
    let (mut bytes, mut ends) = (0, 0);
    while ends < 40 {
        let (kind, _, _, payload) = instance.take();
        match kind {
            Kind::Data => bytes += payload.len(),
            kind => {
                assert_eq!(kind, Kind::End);
                ends += 1;
            }
        }
    }
    assert_eq!(bytes, 40 * 200_000);
    for slot in slots {
        slot.join().unwrap();
    }
    worker.finish();
    std::mem::forget(instance);
}

#[test]
fn what_is_no_worker_says_why() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let board = Board::create(1).unwrap();
    let fd = board.fd().as_raw_fd();
    assert!(matches!(
        Worker::open(theirs.as_raw_fd(), theirs.as_raw_fd()),
        Err(OpenError::Board(_))
    ));
    drop(ours);
    assert!(matches!(Worker::open(theirs.as_raw_fd(), fd), Err(OpenError::Gone)));
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(&[0xff; 64]).unwrap();
    assert!(matches!(Worker::open(theirs.as_raw_fd(), fd), Err(OpenError::Frame(_))));
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut out = Vec::new();
    frame::put(&mut out, Kind::Drain, 0, Ticket(0), b"");
    ours.write_all(&out).unwrap();
    assert!(matches!(Worker::open(theirs.as_raw_fd(), fd), Err(OpenError::First)));
}
