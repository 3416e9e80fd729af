//! The dispatcher's promises, without a front end, a worker process or an interpreter.

use std::time::Duration;
use std::time::Instant;

use super::Clock;
use super::Core;
use super::Fate;
use super::Loss;
use super::WorkerId;
use crate::bridge::Board;
use crate::bridge::EndInfo;
use crate::bridge::Inbox;
use crate::bridge::Kind;
use crate::bridge::Outcome;
use crate::bridge::Ticket;
use crate::config;
use crate::config::AccessFormat;
use crate::config::Config;
use crate::config::Delivery;
use crate::config::LinkSpec;
use crate::dispatch::News;
use crate::dispatch::Settings;
use crate::dispatch::spool::Spool;
use crate::proto::ident::ConnId;
use crate::transport::Message;

mod overdue;
mod pulse;
mod streams;

const W: WorkerId = WorkerId(1);

/// A core with its workers' boards, and a clock that stands until it is pushed.
struct World {
    core: Core,
    now: Instant,
    began: Instant,
    boards: Vec<(WorkerId, Board)>,
}

impl World {
    fn new(links: u16, queue_limit: usize) -> World {
        World::with(links, |config| config.limits.queue_limit = queue_limit)
    }

    fn with(links: u16, set: impl FnOnce(&mut Config)) -> World {
        let now = Instant::now();
        let link = |n| {
            let endpoint = |port: u16| format!("tcp://127.0.0.1:{port}").parse().unwrap();
            LinkSpec { recv: endpoint(2 * n + 1), send: endpoint(2 * n + 2) }
        };
        let links = (0..links).map(link).collect();
        let mut config = config::example();
        config.front_end.links = links;
        config.timeouts.worker = None;
        set(&mut config);
        let Config { front_end, limits, timeouts, uploads, delivery, .. } = config;
        let settings = Settings {
            front_end,
            limits,
            timeouts,
            uploads,
            delivery,
            access_log: None,
            access_log_format: AccessFormat::Combined,
            request_id_header: None,
            request_id_prefix: 1,
        };
        World {
            core: Core::new(&settings, Clock { at: now, ns: 0 }),
            now,
            began: now,
            boards: Vec::new(),
        }
    }

    fn with_worker(slots: usize) -> World {
        let mut world = World::new(1, 1024);
        world.worker(W, slots);
        world
    }

    fn worker(&mut self, id: WorkerId, slots: usize) {
        let board = Board::create(slots).unwrap();
        let theirs = Board::open(board.fd().try_clone_to_owned().unwrap()).unwrap();
        self.core.add_worker(id, board, b"{}");
        self.core.worker_ready(id);
        self.boards.push((id, theirs));
        assert_eq!(self.frames(id).first(), Some(&(Kind::Setup, 0)));
    }

    fn get(&mut self, link: usize, id: u32, path: &str) {
        self.send(link, id, path, r#""METHOD":"GET","VERSION":"HTTP/1.1""#, "");
    }

    fn send(&mut self, link: usize, id: u32, path: &str, keys: &str, body: &str) {
        let head = format!(r#"{{"PATH":"{path}",{keys}}}"#);
        let text = format!("me {id} {path} {}:{head},{}:{body},", head.len(), body.len());
        self.core.received(link, Message::from_bytes(text.as_bytes()), self.now);
    }

    fn disconnect(&mut self, link: usize, id: u32) {
        let text = format!(r#"me {id} @* 17:{{"METHOD":"JSON"}},21:{{"type":"disconnect"}},"#);
        self.core.received(link, Message::from_bytes(text.as_bytes()), self.now);
    }

    fn turn(&mut self) {
        self.core.turn(self.now);
    }

    /// What went down a worker's bridge: kinds and tickets.
    fn frames(&mut self, id: WorkerId) -> Vec<(Kind, u64)> {
        self.turn();
        let bytes = std::mem::take(self.core.bridge_out(id).unwrap());
        let mut inbox = Inbox::new(1 << 20);
        inbox.space()[..bytes.len()].copy_from_slice(&bytes);
        inbox.filled(bytes.len());
        let mut seen = Vec::new();
        while let Some(frame) = inbox.next().unwrap() {
            seen.push((frame.kind, frame.ticket.0));
        }
        seen
    }

    /// The same with flags and payloads.
    fn whole_frames(&mut self, id: WorkerId) -> Vec<(Kind, u8, u64, Vec<u8>)> {
        self.turn();
        let bytes = std::mem::take(self.core.bridge_out(id).unwrap());
        let mut inbox = Inbox::new(1 << 20);
        inbox.space()[..bytes.len()].copy_from_slice(&bytes);
        inbox.filled(bytes.len());
        let mut seen = Vec::new();
        while let Some(f) = inbox.next().unwrap() {
            seen.push((f.kind, f.flags, f.ticket.0, f.payload.to_vec()));
        }
        seen
    }

    /// What was published on a link, as text.
    fn published(&mut self, link: usize) -> Vec<String> {
        self.turn();
        let replies = std::mem::take(self.core.publications(link));
        replies.into_iter().map(|r| String::from_utf8(r).unwrap()).collect()
    }

    fn begin(&self, id: WorkerId, ticket: u64) {
        self.boards.iter().find(|(i, _)| *i == id).unwrap().1.begin(0, Ticket(ticket), 1);
    }

    fn answer(&mut self, id: WorkerId, ticket: u64, text: &str, keep: bool) {
        self.core.data(id, Ticket(ticket), text.as_bytes(), self.now);
        self.end(id, ticket, keep, 10_000);
    }

    fn end(&mut self, id: WorkerId, ticket: u64, keep: bool, service_ns: u64) {
        let end = EndInfo { outcome: Outcome::Ok, keep, status: 200, service_ns, body_bytes: 0 };
        self.core.ended(id, Ticket(ticket), &end, b"", self.now);
    }

    fn later(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }
}

fn requests(frames: &[(Kind, u64)]) -> Vec<u64> {
    frames.iter().filter(|(kind, _)| *kind == Kind::Request).map(|(_, t)| *t).collect()
}

#[test]
fn an_answer_goes_back_whole_and_once() {
    let mut w = World::with_worker(2);
    w.get(0, 7, "/");
    assert_eq!(w.frames(W), [(Kind::Request, 1)]);
    w.answer(W, 1, "HELLO", true);
    assert_eq!(w.published(0), ["me 1:7, HELLO"]);
    assert!(w.core.idle());
    assert!(w.published(0).is_empty());
}

#[test]
fn pipelined_requests_are_run_one_at_a_time_and_answered_in_order() {
    let mut w = World::with_worker(4);
    for path in ["/1", "/2", "/3"] {
        w.get(0, 7, path);
    }
    assert_eq!(w.frames(W), [(Kind::Request, 1)], "one of a connection at a time");
    w.answer(W, 1, "A", true);
    assert_eq!(w.published(0), ["me 1:7, A"]);
    assert_eq!(w.frames(W), [(Kind::Request, 2)]);
    w.answer(W, 2, "B", false);
    assert_eq!(w.published(0), ["me 1:7, B", "me 1:7, "], "a close gives up the rest");
    assert!(w.frames(W).is_empty());
    w.get(0, 7, "/4");
    assert!(w.frames(W).is_empty(), "what comes after the close is not run");
    assert_eq!(w.core.counters().after_close, 1);
    assert!(w.core.idle());
}

#[test]
fn a_burst_of_pipelined_answers_stays_below_sixteen_messages() {
    let mut w = World::with_worker(1);
    for _ in 0..40 {
        w.get(0, 7, "/");
    }
    let mut messages = 0;
    for ticket in 1..=40 {
        assert_eq!(requests(&w.frames(W)), [ticket]);
        w.answer(W, ticket, "A", true);
        messages += w.published(0).len();
    }
    assert!(messages < 16, "{messages}");
    assert!(w.core.idle());
}

#[test]
fn ids_of_two_front_ends_do_not_meet() {
    let mut w = World::new(2, 10);
    w.worker(W, 4);
    w.get(0, 1, "/a");
    w.get(1, 1, "/b");
    assert_eq!(requests(&w.frames(W)), [1, 2]);
    w.answer(W, 2, "B", true);
    assert!(w.published(0).is_empty());
    assert_eq!(w.published(1), ["me 1:1, B"]);
}

#[test]
fn the_queue_has_its_limit() {
    let mut w = World::new(1, 2);
    w.worker(W, 1);
    for id in 1..=5 {
        w.get(0, id, "/");
        w.turn();
    }
    assert_eq!(w.core.load(), (2, 1));
    let refused = w.published(0);
    assert_eq!(refused.len(), 4, "two pages, two closes: {refused:?}");
    assert!(refused[0].contains("HTTP/1.1 503 ") && refused[0].contains("Retry-After: "));
    assert_eq!(refused[1], "me 1:4, ");
}

#[test]
fn a_client_that_has_left_costs_nothing_more() {
    let mut w = World::with_worker(1);
    w.get(0, 1, "/");
    w.get(0, 1, "/again");
    w.get(0, 2, "/");
    assert_eq!(w.frames(W), [(Kind::Request, 1)]);
    w.disconnect(0, 1);
    w.disconnect(0, 99);
    assert_eq!(w.frames(W), [(Kind::Gone, 1)]);
    w.answer(W, 1, "too late", false);
    assert!(w.published(0).is_empty());
    assert_eq!(w.frames(W), [(Kind::Request, 2)], "the other client's turn");
}

#[test]
fn a_request_that_its_worker_says_nothing_of_has_its_line_all_the_same() {
    let mut w = World::with_worker(1);
    w.core.want_access_lines = true;
    w.get(0, 1, "/page");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.disconnect(0, 1);
    w.end(W, 1, false, 1);
    let lines = std::mem::take(w.core.access_lines());
    let line = String::from_utf8(lines.concat()).unwrap();
    assert!(line.contains("\"GET /page HTTP/1.1\" 200 "), "{line}");
}

#[test]
fn a_front_end_that_comes_back_gets_nothing_of_its_old_life() {
    let mut w = World::with_worker(2);
    w.get(0, 1, "/old");
    w.get(0, 2, "/closed");
    assert_eq!(requests(&w.frames(W)), [1, 2]);
    w.answer(W, 2, "bye", false);
    assert_eq!(w.published(0).len(), 2);
    w.core.link_lost(0);
    w.get(0, 1, "/new");
    w.get(0, 2, "/new");
    assert_eq!(w.frames(W), [(Kind::Gone, 1), (Kind::Request, 3), (Kind::Request, 4)]);
    w.answer(W, 1, "OLD", false);
    w.answer(W, 3, "NEW", true);
    assert_eq!(w.published(0), ["me 1:1, NEW"]);
}

#[test]
fn what_a_dead_worker_had_begun_gets_502_and_the_rest_goes_to_another() {
    let mut w = World::with_worker(3);
    for id in 1..=3 {
        w.get(0, id, "/");
    }
    assert_eq!(requests(&w.frames(W)), [1, 2, 3]);
    w.begin(W, 2);
    w.core.data(W, Ticket(2), b"HTTP/1.1 200 OK\r\n\r\nhalf", w.now);
    assert_eq!(w.published(0).len(), 1, "its first bytes are out");
    w.worker(WorkerId(2), 3);
    let loss = w.core.worker_gone(W);
    assert_eq!(loss, Loss { begun: 2, put_back: 1, finished: 0 });
    let out = w.published(0);
    assert_eq!(out.len(), 3, "{out:?}");
    assert!(out.iter().any(|r| r.starts_with("me 1:1, HTTP/1.1 502 ")));
    assert!(out.contains(&"me 1:1, ".to_owned()));
    assert!(out.contains(&"me 1:2, ".to_owned()), "no second head");
    assert_eq!(w.frames(WorkerId(2)), [(Kind::Request, 4)]);
    w.answer(WorkerId(2), 4, "OK", true);
    assert_eq!(w.published(0), ["me 1:3, OK"]);
    assert!(w.core.idle());
}

#[test]
fn an_answer_that_was_read_before_the_death_counts() {
    let mut w = World::with_worker(1);
    w.get(0, 1, "/");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.begin(W, 1);
    w.answer(W, 1, "DONE", true);
    assert_eq!(w.core.worker_gone(W), Loss { begun: 0, put_back: 0, finished: 1 });
    assert_eq!(w.published(0), ["me 1:1, DONE"]);
}

#[test]
fn nobody_waits_behind_a_stuck_worker() {
    let mut w = World::with_worker(1);
    w.get(0, 1, "/");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.answer(W, 1, "quick", true);
    for id in 2..=4 {
        w.get(0, id, "/");
    }
    assert_eq!(requests(&w.frames(W)), [2, 3, 4], "a quick worker gets some ahead");
    w.begin(W, 2);
    w.later(6);
    assert_eq!(w.frames(W), [(Kind::Recall, 4), (Kind::Recall, 3)]);
    w.later(6);
    assert!(w.frames(W).is_empty(), "asked once");
    w.worker(WorkerId(2), 1);
    w.core.recalled(W, Ticket(4));
    w.core.recalled(W, Ticket(3));
    assert_eq!(w.core.load(), (2, 1));
    w.turn();
    assert_eq!(requests(&w.frames(WorkerId(2))), [5]);
    w.answer(WorkerId(2), 5, "THREE", true);
    let out = w.published(0);
    assert!(out.contains(&"me 1:3, THREE".to_owned()), "in the order of arrival: {out:?}");
}

#[test]
fn a_draining_worker_gets_nothing_new() {
    let mut w = World::with_worker(4);
    w.get(0, 1, "/");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.core.drain_worker(W);
    w.get(0, 2, "/");
    assert_eq!(w.frames(W), [(Kind::Drain, 0)]);
    w.answer(W, 1, "A", true);
    assert_eq!(w.published(0), ["me 1:1, A"]);
    assert!(!w.core.idle(), "the other one waits for a worker");
}

#[test]
fn giving_up_answers_everybody() {
    let mut w = World::with_worker(1);
    w.get(0, 1, "/");
    w.get(0, 2, "/");
    w.get(0, 2, "/pipelined");
    assert_eq!(requests(&w.frames(W)), [1]);
    assert_eq!(w.core.give_up(), 2);
    let out = w.published(0);
    assert_eq!(out.iter().filter(|r| r.contains("HTTP/1.1 503 ")).count(), 2, "{out:?}");
    assert!(w.core.idle());
}

#[test]
fn what_is_no_request_is_refused_or_ignored() {
    let mut w = World::with_worker(4);
    let http = r#""VERSION":"HTTP/1.1""#;
    w.send(0, 1, "/ws", &format!(r#""METHOD":"WEBSOCKET_HANDSHAKE",{http}"#), "accept");
    w.send(0, 1, "/ws", &format!(r#""METHOD":"WEBSOCKET","FLAGS":"0x81",{http}"#), "frame");
    w.send(0, 2, "@chat", r#""METHOD":"JSON""#, "{}");
    w.send(0, 3, "<msg", r#""METHOD":"XML""#, "<msg/>");
    w.core.received(0, Message::from_bytes(b"me 5 /x 2:{},9:short,"), w.now);
    w.core.received(0, Message::from_bytes(b"no message at all"), w.now);
    assert!(w.frames(W).is_empty(), "the application sees none of them");
    let out = w.published(0);
    let starts = ["HTTP/1.1 501 ", "", "{\"error\"", "", "<error>", "", "HTTP/1.1 400 ", ""];
    for (reply, start) in out.iter().zip(starts) {
        let payload = reply.split_once(", ").unwrap().1;
        assert!(payload.starts_with(start) && payload.is_empty() == start.is_empty(), "{reply}");
    }
    assert_eq!(w.core.counters().malformed, 2);
    assert_eq!(out.len(), starts.len(), "{out:?}");
    assert!(w.core.idle());
}

#[test]
fn a_long_wait_is_kept_alive() {
    let mut w = World::with_worker(1);
    w.get(0, 1, "/slow");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.later(29_000);
    assert!(w.published(0).is_empty());
    w.later(2_500);
    let ctl = w.published(0);
    assert_eq!(ctl.len(), 1);
    assert!(ctl[0].starts_with("me 3:X 1, ") && ctl[0].contains("keep-alive"), "{ctl:?}");
    w.later(10_000);
    assert!(w.published(0).is_empty());
}

const FLOW: &str = r#""METHOD":"GET","VERSION":"HTTP/1.1","DOWNLOAD_CREDITS":"102400""#;

/// Without the envelope: the bytes that reach the client of a one-digit connection.
fn payload(replies: &[String]) -> usize {
    let to_client = replies.iter().filter(|r| !r.contains(":X "));
    to_client.map(|r| r.len() - "me 1:1, ".len()).sum()
}

impl World {
    fn with_delivery(set: impl FnOnce(&mut Delivery)) -> World {
        let mut world = World::new(1, 10);
        set(&mut world.core.delivery);
        world.core.spool = Spool::new(&world.core.delivery, world.now);
        world.worker(W, 4);
        world
    }

    fn data(&mut self, ticket: u64, bytes: usize) {
        let block = "x".repeat(64 * 1024);
        for from in (0..bytes).step_by(block.len()) {
            let block = &block.as_bytes()[..block.len().min(bytes - from)];
            self.core.data(W, Ticket(ticket), block, self.now);
        }
    }

    fn credits(&mut self, id: u32, bytes: u64) {
        let head = format!(r#"{{"METHOD":"JSON","DOWNLOAD_CREDITS":"{bytes}"}}"#);
        let event = format!(r#"me {id} @* {}:{head},18:{{"type":"credits"}},"#, head.len());
        self.core.received(0, Message::from_bytes(event.as_bytes()), self.now);
    }

    fn acks(&mut self) -> usize {
        self.frames(W).iter().filter(|(kind, _)| *kind == Kind::Ack).count()
    }
}

#[test]
fn flow_control_is_obeyed_and_the_worker_waits_when_everything_is_full() {
    let mut w = World::with_delivery(|d| d.response_spool = 0);
    w.send(0, 1, "/big", FLOW, "");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.data(1, 256 * 1024);
    assert_eq!(payload(&w.published(0)), 102_400);
    assert_eq!(w.acks(), 2, "what was taken while there was room");
    w.credits(1, 102_400);
    assert_eq!(payload(&w.published(0)), 102_400);
    assert_eq!(w.acks(), 1, "and goes on");
}

#[test]
fn a_slow_client_does_not_hold_its_slot() {
    let mut w = World::with_worker(1);
    w.send(0, 1, "/big", FLOW, "");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.data(1, 5_000_000);
    assert_eq!(w.acks(), 76, "all of it is taken at full speed");
    w.end(W, 1, true, 10_000);
    assert!(w.core.counters().spooled_now > 4_000_000);
    w.get(0, 2, "/other");
    assert_eq!(requests(&w.frames(W)), [2], "the slot is free");
    let mut got = payload(&w.published(0));
    while got < 5_000_000 {
        w.credits(1, 50_000);
        got += payload(&w.published(0));
    }
    assert_eq!(got, 5_000_000);
    let counters = w.core.counters();
    assert_eq!((counters.spooled_now, counters.spooled > 4_000_000), (0, true));
}

#[test]
fn the_next_of_a_line_waits_until_the_first_is_delivered() {
    let mut w = World::with_worker(2);
    w.send(0, 1, "/big", FLOW, "");
    w.get(0, 1, "/next");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.data(1, 150_000);
    w.end(W, 1, true, 10_000);
    assert_eq!(payload(&w.published(0)), 102_400);
    assert!(requests(&w.frames(W)).is_empty(), "it is produced, but not delivered");
    assert!(!w.core.idle());
    w.credits(1, 102_400);
    assert_eq!(requests(&w.frames(W)), [2]);
    assert_eq!(payload(&w.published(0)), 150_000 - 102_400);
    // When nobody runs anything any more, an answer that is whole stays whole.
    w.get(0, 1, "/behind");
    w.data(2, 150_000);
    w.end(W, 2, true, 10_000);
    w.turn();
    assert_eq!(w.core.give_up(), 1);
    w.credits(1, 102_400);
    let out = w.published(0);
    assert_eq!(out.last().unwrap(), "me 1:1, ");
    assert_eq!(payload(&out), 150_000);
}

#[test]
fn flow_control_is_remembered_of_the_front_end() {
    let mut w = World::with_worker(1);
    w.send(0, 1, "/", FLOW, "");
    w.get(0, 2, "/connected-before-this-instance");
    for ticket in [1, 2] {
        assert_eq!(requests(&w.frames(W)), [ticket]);
        w.data(ticket, 200_000);
        w.end(W, ticket, true, 10_000);
    }
    let out = w.published(0);
    assert!(out.iter().all(|reply| reply.len() <= 102_400 + "me 1:1, ".len()));
    assert_eq!(payload(&out), 2 * 102_400);
}

#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    let mut w = World::with_worker(1);
    w.send(0, 1, "/big", FLOW, "");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.data(1, 200_000);
    assert_eq!(payload(&w.published(0)), 102_400);
    w.later(59_000);
    w.credits(1, 10);
    // What is overdue, as a sign of life, comes first.
    assert_eq!(payload(&w.published(0)[1..]), 10);
    w.later(59_000);
    assert!(w.published(0).iter().all(|reply| reply.contains("keep-alive")));
    w.later(2_500);
    let out = w.published(0);
    assert!(out.iter().any(|r| r.starts_with("me 3:X 1, ") && r.contains("cancel")), "{out:?}");
    assert!(w.frames(W).contains(&(Kind::Gone, 1)));
    assert_eq!(w.core.counters().send_timeouts, 1);
    w.get(0, 1, "/sent-before");
    assert!(requests(&w.frames(W)).is_empty());
    w.end(W, 1, false, 10_000);
    assert!(w.core.idle());
}

#[test]
fn clients_that_take_nothing_are_asked_after() {
    let mut w = World::with_worker(3);
    for id in 1..=3 {
        w.send(0, id, "/big", FLOW, "");
    }
    assert_eq!(requests(&w.frames(W)), [1, 2, 3]);
    w.data(1, 200_000);
    w.data(3, 200_000);
    assert_eq!(payload(&w.published(0)), 2 * 102_400);
    w.later(600);
    let out = w.published(0);
    assert_eq!(out.len(), 1, "one message for both: {out:?}");
    assert!(out[0].starts_with("me 5:X 1 3, ") || out[0].starts_with("me 5:X 3 1, "), "{out:?}");
    w.later(100);
    assert!(w.published(0).is_empty());
    w.disconnect(0, 1);
    w.credits(3, 102_400);
    w.later(600);
    assert_eq!(payload(&w.published(0)), 200_000 - 102_400, "nobody is stuck any more");
}

#[test]
fn times_may_be_never() {
    let mut w = World::with_delivery(|d| (d.send_timeout, d.keepalive_interval) = (None, None));
    w.send(0, 1, "/big", FLOW, "");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.data(1, 200_000);
    assert_eq!(payload(&w.published(0)), 102_400);
    w.later(3_000_000);
    assert_eq!(w.published(0).len(), 1, "it is asked after, but not cut off");
}

#[test]
fn a_front_end_that_takes_nothing_is_given_nothing() {
    let mut w = World::with_worker(1);
    w.core.set_congested(0, true);
    w.get(0, 1, "/");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.data(1, 10_000_000);
    assert!(w.published(0).is_empty());
    assert_eq!(w.acks(), 152, "its slot need not wait");
    w.later(1_000);
    w.core.set_congested(0, false);
    let mut got = 0;
    for _ in 0..10 {
        let turn = payload(&w.published(0));
        assert!(turn <= (4 << 20) + (16 << 20), "{turn} in one turn");
        got += turn;
        if got < 10_000_000 {
            w.later(1_000);
        }
    }
    w.end(W, 1, true, 10_000);
    got += payload(&w.published(0));
    assert_eq!(got, 10_000_000);
}

const UPLOAD: &str = r#""METHOD":"POST","VERSION":"HTTP/1.1","content-length":"30000""#;

fn upload_keys(file: &std::path::Path, done: bool) -> String {
    let file = file.display();
    let done = if done { format!(r#","x-mongrel2-upload-done":"{file}""#) } else { String::new() };
    format!(r#"{UPLOAD},"x-mongrel2-upload-start":"{file}"{done}"#)
}

#[test]
fn an_upload_runs_when_it_is_complete_and_its_file_goes_away() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("upload");
    for end in ["answer", "client", "worker"] {
        std::fs::write(&file, "body").unwrap();
        let mut w = World::with_worker(2);
        w.send(0, 1, "/up", &upload_keys(&file, false), "");
        assert!(w.frames(W).is_empty(), "nothing to run yet");
        w.send(0, 1, "/up", &upload_keys(&file, true), "");
        assert_eq!(w.frames(W), [(Kind::Request, 1)]);
        assert!(file.exists());
        w.begin(W, 1);
        match end {
            "answer" => w.answer(W, 1, "thanks", true),
            "client" => {
                w.disconnect(0, 1);
                w.answer(W, 1, "too late", true);
            }
            _ => drop(w.core.worker_gone(W)),
        }
        w.turn();
        assert!(!file.exists(), "{end}");
    }
}

#[test]
fn an_upload_may_be_what_tells_of_flow_control() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("upload");
    std::fs::write(&file, "body").unwrap();
    let mut w = World::with_worker(2);
    let begins = upload_keys(&file, false) + r#","DOWNLOAD_CREDITS":"150000""#;
    w.send(0, 1, "/up", &begins, "");
    w.send(0, 1, "/up", &upload_keys(&file, true), "");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.data(1, 200_000);
    assert_eq!(payload(&w.published(0)), 150_000);
    w.credits(1, 50_000);
    assert_eq!(payload(&w.published(0)), 50_000);
    // One that is not known, or no longer: its window is that of the others.
    w.get(0, 2, "/");
    assert_eq!(requests(&w.frames(W)), [2]);
    w.data(2, 200_000);
    assert_eq!(payload(&w.published(0)), 150_000);
}

#[test]
fn a_body_that_is_too_large_is_refused_as_early_as_it_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("upload");
    let mut w = World::with_worker(9);
    let largest = |w: &mut World, bytes| w.core.uploads.max_body = Some(bytes);
    let refused = |w: &mut World, id: u32| {
        let out = w.published(0);
        let page = format!("me {}:{id}, HTTP/1.1 413 ", id.to_string().len());
        out.len() == 2 && out[0].starts_with(&page) && out[1].ends_with(", ")
    };
    // Inline: one byte more than may be.
    largest(&mut w, 10);
    let keys = |n: usize| format!(r#""METHOD":"POST","VERSION":"HTTP/1.1","content-length":"{n}""#);
    w.send(0, 1, "/", &keys(10), "0123456789");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.send(0, 2, "/", &keys(11), "0123456789a");
    assert!(refused(&mut w, 2));
    // A file: when it is announced, which also removes it.
    std::fs::write(&file, "first bytes").unwrap();
    w.send(0, 3, "/", &upload_keys(&file, false), "");
    assert!(refused(&mut w, 3));
    assert!(!file.exists());
    w.send(0, 3, "/", &upload_keys(&file, true), "");
    assert!(w.published(0).is_empty(), "its end is not for us any more");
    // Chunks announce nothing: when all are there.
    let chunked = upload_keys(&file, false)
        .replace(r#""content-length":"30000""#, r#""transfer-encoding":"chunked""#);
    std::fs::write(&file, "0123456789a").unwrap();
    w.send(0, 4, "/", &chunked, "");
    let end = format!(r#"{chunked},"x-mongrel2-upload-done":"{}""#, file.display());
    w.send(0, 4, "/", &end, "");
    assert!(refused(&mut w, 4));
    assert!(!file.exists());
    // As large as it may be.
    largest(&mut w, 30_000);
    std::fs::write(&file, "body").unwrap();
    w.send(0, 5, "/", &upload_keys(&file, false), "");
    w.send(0, 5, "/", &upload_keys(&file, true), "");
    assert_eq!(requests(&w.frames(W)), [2]);
    w.answer(W, 1, "", true);
    w.answer(W, 2, "", true);
    w.published(0);
    assert!(w.core.idle());
}

#[test]
fn with_trust_in_a_directory_no_beginning_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let (file, other) = (dir.path().join("u.abcdef"), dir.path().join("sub/u.abcdef"));
    let mut w = World::with_worker(9);
    w.core.uploads.upload_trust = config::UploadTrust::Directory;
    w.core.upload_place.dir = Some(dir.path().to_owned());
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    for path in [&file, &other] {
        std::fs::write(path, "body").unwrap();
    }
    // Another instance has seen the beginning, or this one has: nothing is kept of it.
    w.send(0, 1, "/", &upload_keys(&file, true), "");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.answer(W, 1, "thanks", true);
    assert!(!file.exists());
    w.published(0);
    w.send(0, 2, "/", &upload_keys(&file, false), "");
    assert!(!w.core.connections.contains_key(&super::Key { link: 0, conn: ConnId(2) }));
    for path in [&file, &other] {
        w.send(0, 3, "/", &upload_keys(path, true), "");
        let out = w.published(0);
        assert!(out[0].contains("HTTP/1.1 500 ") && out[1].ends_with(", "), "{out:?}");
        w.core.link_lost(0);
    }
    assert!(other.exists());
}

#[test]
fn nobody_can_name_a_file_of_his_choice() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let other = dir.path().join("another");
    let mut w = World::with_worker(9);
    // An end without a beginning, of another file, of another connection, and twice.
    w.send(0, 1, "/", &upload_keys(&secret, true), "");
    w.send(0, 2, "/", &upload_keys(&other, false), "");
    w.send(0, 2, "/", &upload_keys(&secret, true), "");
    w.send(0, 3, "/", &upload_keys(&other, false), "");
    w.send(0, 4, "/", &upload_keys(&secret, true), "");
    let flags: Vec<u8> = {
        w.turn();
        let bytes = std::mem::take(w.core.bridge_out(W).unwrap());
        let mut inbox = Inbox::new(1 << 20);
        inbox.space()[..bytes.len()].copy_from_slice(&bytes);
        inbox.filled(bytes.len());
        std::iter::from_fn(|| inbox.next().unwrap().map(|f| f.flags)).collect()
    };
    assert_eq!(flags, [0, 0, 0], "no request has a file");
    for ticket in 1..=3 {
        w.answer(W, ticket, "", true);
    }
    // What only a client can have written is refused at once.
    let forged = r#""METHOD":"POST","VERSION":"HTTP/1.1","x-mongrel2-upload-start":"/etc/passwd""#;
    w.send(0, 5, "/", forged, "");
    assert!(w.published(0).iter().any(|r| r.starts_with("me 1:5, HTTP/1.1 400 ")));
    w.disconnect(0, 3);
    assert!(secret.exists());
}
