//! Signs of life, by a clock that is pushed.

use super::*;

const BEAT: u64 = 1_000;

fn watched() -> World {
    let mut w = World::with(1, |config| config.timeouts.worker = Some(Duration::from_secs(8)));
    w.worker(W, 1);
    w.core.pong(W, Ticket(1), true);
    w
}

/// Lets one beat come; gives the number of the ping, if there was one.
fn beat(w: &mut World) -> Option<u64> {
    w.later(BEAT);
    w.frames(W).iter().find(|(kind, _)| *kind == Kind::Ping).map(|(_, number)| *number)
}

#[test]
fn who_answers_is_asked_again_and_who_does_not_is_told_of() {
    let mut w = watched();
    let first = beat(&mut w).unwrap();
    w.core.pong(W, Ticket(first), false);
    w.core.pong(W, Ticket(first), true);
    let second = beat(&mut w).unwrap();
    w.core.pong(W, Ticket(second), false);
    for _ in 0..7 {
        assert_eq!(beat(&mut w), None, "one question at a time");
        assert!(w.core.news().is_empty());
    }
    beat(&mut w);
    let news = std::mem::take(w.core.news());
    assert!(matches!(news[..], [News::Silent { id: W, reader: true }]), "{news:?}");
    w.get(0, 1, "/");
    assert!(requests(&w.frames(W)).is_empty(), "it gets no more requests");
    for _ in 0..8 {
        beat(&mut w);
    }
    assert!(matches!(w.core.news()[..], [News::Silent { .. }]), "told again");
    w.core.news().clear();
    w.core.pong(W, Ticket(first), true);
    assert!(w.core.news().is_empty(), "an old answer");
    w.core.pong(W, Ticket(second), true);
    assert!(matches!(w.core.news()[..], [News::Answers(W)]));
    assert_eq!(requests(&w.frames(W)), [1]);
}

#[test]
fn an_instance_that_slept_blames_nobody() {
    let mut w = watched();
    let first = beat(&mut w).unwrap();
    w.later(3_600_000);
    w.turn();
    assert!(w.core.news().is_empty());
    w.core.pong(W, Ticket(first), true);
    assert!(beat(&mut w).is_some());
}

#[test]
fn who_loads_is_left_in_peace() {
    let mut w = World::with(1, |config| config.timeouts.worker = Some(Duration::from_secs(8)));
    w.core.add_worker(W, Board::create(1).unwrap(), b"{}");
    assert_eq!(w.frames(W), [(Kind::Setup, 0)]);
    for _ in 0..50 {
        assert_eq!(beat(&mut w), None);
    }
    assert!(w.core.news().is_empty());
}
