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
