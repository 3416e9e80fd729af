//! What takes too long, by a clock that is pushed.

use super::*;

fn impatient(seconds: u64) -> World {
    let mut world =
        World::with(1, |config| config.timeouts.queue = Some(Duration::from_secs(seconds)));
    world.worker(W, 1);
    world
}

#[test]
fn what_waits_too_long_for_a_slot_gets_503() {
    let mut w = impatient(2);
    for id in 1..=3 {
        w.get(0, id, "/");
        w.later(500);
    }
    assert_eq!(requests(&w.frames(W)), [1]);
    assert_eq!(
        w.core.expires_at(),
        Some(w.now + Duration::from_secs(1)),
        "the second came 1 s ago"
    );
    w.later(999);
    assert!(w.published(0).is_empty());
    w.later(1);
    let out = w.published(0);
    assert!(out[0].starts_with("me 1:2, HTTP/1.1 503 ") && out[0].contains("Retry-After: "));
    assert_eq!(out[1..], ["me 1:2, "]);
    assert_eq!(w.core.load(), (1, 1), "the third has half a second left");
    w.answer(W, 1, "A", true);
    assert_eq!(w.published(0), ["me 1:1, A"]);
    assert_eq!(requests(&w.frames(W)), [2]);
    w.later(60_000);
    assert!(!w.published(0).iter().any(|r| r.contains("503")), "what runs is not timed here");
    assert_eq!(w.core.counters().waited_too_long, 1);
}

#[test]
fn a_pipelined_request_is_timed_from_when_it_could_have_run() {
    let mut w = impatient(2);
    w.get(0, 1, "/slow");
    w.get(0, 1, "/next");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.later(10_000);
    assert!(w.published(0).is_empty(), "it waits for its own connection");
    w.get(0, 2, "/other");
    w.turn();
    w.core.data(W, Ticket(1), b"A", w.now);
    w.end(W, 1, true, 10_000_000_000);
    assert_eq!(requests(&w.frames(W)), [2], "the other one's turn");
    assert_eq!(w.published(0), ["me 1:1, A"]);
    w.later(1_999);
    assert!(w.published(0).is_empty());
    w.later(1);
    assert!(w.published(0)[0].starts_with("me 1:1, HTTP/1.1 503 "));
}

#[test]
fn what_a_worker_gives_back_keeps_its_time_and_its_place() {
    let mut w = impatient(2);
    w.get(0, 1, "/");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.answer(W, 1, "quick", true);
    assert_eq!(w.published(0).len(), 1);
    for id in 2..=4 {
        w.get(0, id, "/");
    }
    assert_eq!(requests(&w.frames(W)), [2, 3, 4]);
    w.begin(W, 2);
    w.later(1_000);
    w.get(0, 5, "/");
    assert_eq!(w.frames(W), [(Kind::Recall, 4), (Kind::Recall, 3)]);
    w.core.recalled(W, Ticket(4));
    w.core.recalled(W, Ticket(3));
    w.later(1_000);
    let refused = w.published(0);
    let ids = ["me 1:3, ", "me 1:3, ", "me 1:4, ", "me 1:4, "];
    assert_eq!(refused.len(), ids.len(), "{refused:?}");
    assert!(refused.iter().zip(ids).all(|(reply, id)| reply.starts_with(id)), "{refused:?}");
}

#[test]
fn without_a_limit_nothing_is_too_long() {
    let mut w = World::with(1, |config| config.timeouts.queue = None);
    w.get(0, 1, "/");
    w.later(100_000_000);
    assert!(!w.published(0).iter().any(|r| r.contains("503")));
    assert_eq!(w.core.load(), (1, 0));
}

fn with_request_timeout(seconds: u64, slots: usize) -> World {
    let mut world = World::with(1, |config| {
        config.timeouts.request = Some(Duration::from_secs(seconds));
        config.timeouts.request_grace = Duration::from_secs(1);
        config.timeouts.worker = None;
    });
    world.worker(W, slots);
    world
}

impl World {
    /// Slot `slot` begins `ticket` now.
    fn begins(&self, slot: usize, ticket: u64) {
        let ns = u64::try_from(self.now.duration_since(self.began).as_nanos()).unwrap();
        self.boards[0].1.begin(slot, Ticket(ticket), ns);
    }
}

#[test]
fn who_is_at_work_too_long_is_answered_for_and_its_answer_goes_nowhere() {
    let mut w = with_request_timeout(10, 2);
    w.get(0, 1, "/slow");
    w.get(0, 2, "/slow");
    assert_eq!(requests(&w.frames(W)), [1, 2]);
    w.begins(0, 1);
    w.later(4_000);
    w.begins(1, 2);
    assert!(w.published(0).is_empty());
    assert_eq!(
        w.core.looks_at(),
        Some(w.now + Duration::from_secs(6)),
        "its time began with its slot's"
    );
    w.later(5_999);
    assert!(w.frames(W).is_empty());
    w.later(1);
    assert_eq!(w.frames(W), [(Kind::TimedOut, 1)]);
    let out = w.published(0);
    assert!(out[0].starts_with("me 1:1, HTTP/1.1 504 "), "{out:?}");
    assert_eq!(out[1..], ["me 1:1, "]);
    w.get(0, 3, "/next");
    assert!(w.frames(W).is_empty(), "its slot is not free");
    w.answer(W, 1, "too late", true);
    assert_eq!(requests(&w.frames(W)), [3]);
    w.begins(0, 3);
    w.answer(W, 3, "C", true);
    w.answer(W, 2, "B", true);
    assert_eq!(w.published(0), ["me 1:3, C", "me 1:2, B"]);
    let fates = w.core.counters().fates;
    assert_eq!((fates[Fate::TimedOut as usize], fates[Fate::Ok as usize]), (1, 2), "{fates:?}");
    assert_eq!(w.core.counters().timed_out, 1);
    assert!(w.core.news().is_empty());
    assert!(w.core.idle());
}

#[test]
fn a_response_that_has_begun_is_cut_off() {
    let mut w = with_request_timeout(10, 1);
    w.get(0, 1, "/slow");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.begins(0, 1);
    w.core.data(W, Ticket(1), b"HTTP/1.1 200 OK\r\n\r\nhalf", w.now);
    assert_eq!(w.published(0).len(), 1);
    w.later(10_000);
    assert_eq!(w.published(0), ["me 1:1, "]);
    w.core.data(W, Ticket(1), b"more", w.now);
    assert!(w.published(0).is_empty());
}

#[test]
fn a_worker_with_a_request_that_does_not_end_is_told_of_once() {
    let mut w = with_request_timeout(10, 2);
    w.get(0, 1, "/stuck");
    w.get(0, 2, "/fine");
    assert_eq!(requests(&w.frames(W)), [1, 2]);
    w.begins(0, 1);
    w.later(10_000);
    w.begins(1, 2);
    w.turn();
    assert!(w.core.news().is_empty());
    w.later(1_000);
    w.turn();
    let news = std::mem::take(w.core.news());
    assert!(
        matches!(&news[..], [News::Stuck(W, what)] if what == "GET /stuck (ticket #1)"),
        "{news:?}"
    );
    w.later(5_000);
    w.turn();
    assert!(w.core.news().is_empty(), "once");
    w.core.drain_worker(W);
    w.turn();
    assert!(w.core.news().is_empty(), "the other one is still at work");
    w.answer(W, 2, "B", true);
    w.turn();
    assert!(matches!(w.core.news()[..], [News::OnlyStuck(W)]));
    assert!(w.published(0).contains(&"me 1:2, B".to_owned()));
    assert!(w.core.idle(), "nobody waits for what is stuck");
    assert_eq!(w.core.worker_gone(W).begun, 0, "it has been answered");
    assert_eq!(w.core.counters().fates[Fate::WorkerDied as usize], 0);
}

#[test]
fn who_has_left_is_timed_all_the_same_for_its_slot() {
    let mut w = with_request_timeout(10, 1);
    w.get(0, 1, "/slow");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.begins(0, 1);
    w.disconnect(0, 1);
    w.later(10_000);
    assert_eq!(w.frames(W), [(Kind::Gone, 1), (Kind::TimedOut, 1)]);
    assert!(w.published(0).is_empty());
    w.end(W, 1, false, 1);
    assert_eq!(w.core.counters().fates[Fate::ClientGone as usize], 1);
}
