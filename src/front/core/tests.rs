//! Requests, peers and what becomes of them, without sockets and without time passing.

use super::*;
use std::fmt::Write as _;

const ROUTE: RouteId = RouteId(0);

const LIMITS: Limits =
    Limits { peer_window: 3, queue_limit: 4, queue_timeout: Duration::from_secs(10), retry: false };

struct Table {
    core: Core,
    now: Instant,
}

impl Table {
    fn new(limits: Limits) -> Table {
        Table { core: Core::new(limits, 2), now: Instant::now() }
    }

    fn submit(&mut self, conn: u32) -> Placed {
        self.submit_as(conn, true, false)
    }

    fn submit_as(&mut self, conn: u32, repeatable: bool, open: bool) -> Placed {
        let frame = format!("<{conn}>");
        let frame = frame.as_bytes();
        let conn = ConnId(conn);
        let request = Request { route: ROUTE, conn, frame, repeatable, open };
        self.core.submit(self.now, &request)
    }

    fn join(&mut self) -> PeerId {
        self.core.joined(ROUTE)
    }

    /// What waits to be written to a peer.
    fn text(&self, peer: PeerId) -> String {
        String::from_utf8(self.core.unwritten(peer).to_vec()).unwrap()
    }

    /// Writes all of it.
    fn write(&mut self, peer: PeerId) -> String {
        let text = self.text(peer);
        self.core.wrote(peer, text.len());
        text
    }

    fn over(&mut self, conn: u32) {
        self.core.over(ConnId(conn));
    }

    fn gone(&mut self, peer: PeerId) -> Vec<u32> {
        self.core.gone(self.now, peer, anew).into_iter().map(|conn| conn.0).collect()
    }
}

/// The number and the message of a request that is sent once more.
fn anew(conn: ConnId, message: &[u8]) -> (ConnId, Vec<u8>) {
    assert_eq!(message, format!("<{conn}>").as_bytes());
    let conn = ConnId(conn.0 + 100);
    (conn, format!("<{conn}>").into_bytes())
}

#[test]
fn the_peer_with_the_fewest_outstanding_gets_the_next() {
    let mut table = Table::new(LIMITS);
    let (a, b) = (table.join(), table.join());
    for conn in 1..=4 {
        assert_eq!(table.submit(conn), Placed::AtPeer);
    }
    assert_eq!((table.write(a), table.write(b)), ("<1><3>".into(), "<2><4>".into()));
    table.over(2);
    table.over(4);
    table.submit(5);
    table.submit(6);
    assert_eq!((table.text(a), table.text(b)), (String::new(), "<5><6>".into()));
    assert_eq!(table.core.peer_of(ConnId(5)), Some(b));
}

#[test]
fn beyond_the_window_requests_wait_and_beyond_the_queue_they_are_refused() {
    let mut table = Table::new(LIMITS);
    let a = table.join();
    for conn in 1..=3 {
        assert_eq!(table.submit(conn), Placed::AtPeer);
    }
    for conn in 4..=7 {
        assert_eq!(table.submit(conn), Placed::Queued);
    }
    assert_eq!(table.submit(8), Placed::Full);
    assert_eq!(table.core.peer_of(ConnId(8)), None);
    table.write(a);
    table.over(5);
    table.over(1);
    assert_eq!(table.text(a), "<4>", "the next of the queue");
    table.over(4);
    assert_eq!(table.text(a), "<4><6>", "5 was given up while it waited");
    assert_eq!((table.core.waiting(), table.core.counters().refused), (1, 1));
}

#[test]
fn limits_that_change_hold_at_once() {
    let mut table = Table::new(LIMITS);
    let a = table.join();
    for conn in 1..=5 {
        table.submit(conn);
    }
    table.write(a);
    table.core.set_limits(Limits { peer_window: 4, queue_limit: 1, ..LIMITS });
    assert_eq!(table.text(a), "<4>", "a larger window takes from the queue");
    assert_eq!(table.submit(6), Placed::Full);
    table.core.set_limits(Limits { peer_window: 1, ..LIMITS });
    assert_eq!(table.submit(6), Placed::Queued);
    table.write(a);
    table.over(1);
    assert_eq!(table.text(a), "", "what it has beyond a smaller one it keeps");
}

#[test]
fn without_a_peer_they_wait_for_a_time() {
    let mut table = Table::new(LIMITS);
    table.submit(1);
    table.now += Duration::from_secs(6);
    table.submit(2);
    table.now += Duration::from_secs(4);
    assert_eq!(table.core.expired(table.now), [ConnId(1)]);
    let a = table.join();
    assert_eq!(table.write(a), "<2>");
    table.now += Duration::from_secs(60);
    assert_eq!(table.core.expired(table.now), [], "what a peer has waits in no queue");
    assert_eq!(table.core.counters().timed_out, 1);
}

#[test]
fn other_routes_have_other_peers() {
    let mut table = Table::new(LIMITS);
    table.core.joined(RouteId(1));
    assert_eq!(table.submit(1), Placed::Queued);
    assert_eq!((table.core.peers(ROUTE), table.core.peers(RouteId(1))), (0, 1));
    let lost =
        Request { route: RouteId(9), conn: ConnId(2), frame: b"", repeatable: false, open: false };
    assert_eq!(table.core.submit(table.now, &lost), Placed::Full);
}

#[test]
fn who_leaves_finishes_what_was_written_and_others_do_the_rest() {
    let mut table = Table::new(LIMITS);
    let a = table.join();
    for conn in 1..=3 {
        table.submit(conn);
    }
    table.submit(4);
    // All of 1, and a byte of 2.
    table.core.wrote(a, 4);
    let b = table.join();
    assert_eq!(table.write(b), "<4>");
    table.core.leaving(table.now, a);
    assert_eq!(table.text(a), "2>", "what is begun is completed");
    assert_eq!(table.write(b), "<3>");
    assert_eq!(table.core.peers(ROUTE), 1);
    assert!(!table.core.may_close(a));
    table.write(a);
    assert!(table.core.may_close(a));
    table.core.left(a);
    table.submit(5);
    assert_eq!(table.write(b), "<5>", "it is given nothing more");
    table.over(1);
    assert_eq!(table.core.answered(ConnId(2)), Some(a), "its answers are still welcome");
    table.over(2);
    assert_eq!(table.gone(a), [0; 0]);
    assert_eq!(table.core.counters().moved, 1);
}

#[test]
fn nobody_else_there_what_was_not_written_waits_in_front() {
    let mut table = Table::new(LIMITS);
    let a = table.join();
    for conn in 1..=4 {
        table.submit(conn);
    }
    table.core.leaving(table.now, a);
    assert_eq!(table.text(a), "");
    assert_eq!(table.core.waiting(), 4);
    let b = table.join();
    assert_eq!(table.write(b), "<1><2><3>");
    table.over(1);
    assert_eq!(table.write(b), "<4>");
}

#[test]
fn what_was_written_to_the_dead_is_lost_and_what_was_not_is_not() {
    let mut table = Table::new(LIMITS);
    let a = table.join();
    for conn in 1..=3 {
        table.submit(conn);
    }
    // All of 1, and a byte of 2, which so cannot have been read.
    table.core.wrote(a, 4);
    assert_eq!(table.gone(a), [1]);
    let b = table.join();
    assert_eq!(table.write(b), "<2><3>");
    assert_eq!((table.core.counters().lost, table.core.counters().moved), (1, 2));
    table.over(2);
    table.over(3);
    assert_eq!(table.core.under_way(), 0);
}

#[test]
fn what_may_be_repeated_is_repeated_once() {
    let mut table = Table::new(Limits { retry: true, peer_window: 9, ..LIMITS });
    let a = table.join();
    table.submit_as(1, true, false);
    table.submit_as(2, false, false);
    table.submit_as(3, true, false);
    table.submit_as(4, true, true);
    table.write(a);
    table.core.answered(ConnId(3));
    assert_eq!(table.gone(a), [2, 3, 4], "no GET; an answer has begun; a body in parts");
    let b = table.join();
    assert_eq!(table.write(b), "<101>");
    assert_eq!(table.core.peer_of(ConnId(1)), None, "a late answer to the first one is for nobody");
    assert_eq!(table.gone(b), [101], "not a third time");
    assert_eq!(table.core.counters().retried, 1);
}

#[test]
fn what_waited_may_be_repeated_too() {
    let mut table = Table::new(Limits { retry: true, ..LIMITS });
    table.submit(1);
    let a = table.join();
    assert_eq!(table.write(a), "<1>");
    assert_eq!(table.gone(a), [0; 0]);
    let b = table.join();
    assert_eq!(table.write(b), "<101>");
}

#[test]
fn who_has_come_is_given_nothing_before_it_begins() {
    let mut table = Table::new(LIMITS);
    let a = table.core.arrived(ROUTE);
    assert_eq!((table.submit(1), table.core.peers(ROUTE)), (Placed::Queued, 0));
    assert_eq!(table.text(a), "");
    table.core.begin(a);
    table.core.begin(a);
    assert_eq!((table.write(a), table.core.peers(ROUTE)), ("<1>".into(), 1));
    let b = table.core.arrived(ROUTE);
    table.core.tell(b, ConnId(0), b"?");
    table.core.leaving(table.now, b);
    table.core.begin(b);
    assert!(table.core.may_close(b), "it left before; nothing is asked of it");
}

#[test]
fn parts_of_a_body_go_to_the_peer_that_has_its_request() {
    let mut table = Table::new(LIMITS);
    let (a, b) = (table.join(), table.join());
    table.submit_as(1, false, true);
    table.core.follow(ConnId(1), b"[part]", false);
    assert_eq!((table.write(a), table.text(b)), ("<1>[part]".into(), String::new()));
    table.core.leaving(table.now, a);
    assert!(!table.core.may_close(a), "a part is still to come");
    table.core.follow(ConnId(1), b"[last]", true);
    assert_eq!(table.write(a), "[last]");
    assert!(table.core.may_close(a));
    table.core.follow(ConnId(9), b"[of none]", true);
}

#[test]
fn parts_move_with_their_request() {
    let mut table = Table::new(LIMITS);
    table.submit_as(1, false, true);
    table.core.follow(ConnId(1), b"[1]", false);
    let a = table.join();
    table.submit(2);
    table.core.follow(ConnId(1), b"[2]", true);
    assert_eq!(table.text(a), "<1>[1]<2>[2]");
    table.core.leaving(table.now, a);
    assert!(table.core.may_close(a));
    let b = table.join();
    assert_eq!(table.write(b), "<1>[1][2]<2>");
}

#[test]
fn events_go_where_they_are_sent() {
    let mut table = Table::new(LIMITS);
    let a = table.join();
    table.submit(1);
    table.write(a);
    table.core.tell(a, ConnId(1), b"(gone)");
    let mut woken = Vec::new();
    table.core.woken(|peer| woken.push(peer));
    assert_eq!(woken, [a, a]);
    table.core.woken(|_| panic!("told before"));
    table.core.leaving(table.now, a);
    assert_eq!(table.write(a), "(gone)");
    table.core.left(a);
    table.core.tell(a, ConnId(1), b"(too late)");
    assert_eq!(table.text(a), "");
}

#[test]
fn a_long_backlog_is_written_in_pieces() {
    let mut table = Table::new(Limits { peer_window: 100_000, ..LIMITS });
    let a = table.join();
    let mut expected = String::new();
    for conn in 0..60_000 {
        table.submit(conn);
        write!(expected, "<{conn}>").unwrap();
    }
    let mut got = String::new();
    while !table.text(a).is_empty() {
        let piece: String = table.text(a).chars().take(7777).collect();
        table.core.wrote(a, piece.len());
        got.push_str(&piece);
    }
    assert_eq!(got, expected);
}

#[test]
fn a_peer_that_does_not_read_gets_no_more() {
    let mut table = Table::new(LIMITS);
    let (a, b) = (table.join(), table.join());
    let frame = vec![b'x'; 2 * 1024 * 1024];
    let submit = |table: &mut Table, conn, frame: &[u8]| {
        let conn = ConnId(conn);
        let request = Request { route: ROUTE, conn, frame, repeatable: false, open: false };
        table.core.submit(table.now, &request)
    };
    for conn in 1..=2 {
        assert_eq!(submit(&mut table, conn, &frame), Placed::AtPeer);
    }
    assert_eq!(submit(&mut table, 3, b"<3>"), Placed::Queued, "there is room, but no reading");
    table.core.wrote(b, 1024 * 1024 + 1);
    assert!(table.text(b).ends_with("<3>"));
    assert_eq!(submit(&mut table, 4, b"<4>"), Placed::Queued, "that was the window's rest");
    table.core.wrote(a, frame.len());
    assert_eq!(table.text(a), "<4>");
}

#[test]
fn large_requests_fill_the_queue_sooner() {
    let mut table = Table::new(Limits { queue_limit: 100, ..LIMITS });
    let frame = vec![b'x'; 40 * 1024 * 1024];
    let mut submit = |conn, length: usize| {
        let (conn, frame) = (ConnId(conn), &frame[..length]);
        let request = Request { route: ROUTE, conn, frame, repeatable: false, open: false };
        table.core.submit(table.now, &request)
    };
    assert_eq!(submit(1, frame.len()), Placed::Queued);
    assert_eq!(submit(2, frame.len()), Placed::Full);
    assert_eq!(submit(3, 1024), Placed::Queued);
    table.over(1);
    let request =
        Request { route: ROUTE, conn: ConnId(2), frame: &frame, repeatable: false, open: false };
    assert_eq!(table.core.submit(table.now, &request), Placed::Queued);
    let later = table.now + Duration::from_secs(11);
    assert_eq!(table.core.expired(later).len(), 2);
    assert_eq!((table.core.waiting, table.core.waiting_bytes), (0, 0));
}

#[test]
fn one_that_was_taken_back_does_not_hold_up_the_end_of_others() {
    let mut table = Table::new(Limits { peer_window: 1, ..LIMITS });
    let a = table.join();
    table.submit(1);
    table.submit(2);
    table.now += Duration::from_secs(9);
    table.core.leaving(table.now, a);
    assert_eq!(table.core.expired(table.now + Duration::from_secs(1)), [ConnId(2)]);
    assert_eq!(table.core.waiting(), 1);
}

#[test]
fn a_look_at_routes_and_queue() {
    let mut table = Table::new(LIMITS);
    let a = table.join();
    let start = table.now;
    for conn in 1..=3 {
        table.submit(conn);
    }
    assert_eq!(table.core.oldest(start), Duration::ZERO, "nobody waits");
    table.now += Duration::from_secs(2);
    for conn in 4..=6 {
        table.submit(conn);
        table.now += Duration::from_secs(1);
    }
    table.over(4);
    assert_eq!(table.core.oldest(table.now), Duration::from_secs(2), "the first one has gone");
    table.write(a);
    table.core.leaving(table.now, a);
    let view = RouteView { handlers: 0, leaving: 1, outstanding: 3, waiting: 2 };
    assert_eq!(table.core.view(ROUTE), view);
    table.join();
    let view = RouteView { handlers: 1, leaving: 1, outstanding: 5, waiting: 0 };
    assert_eq!(table.core.view(ROUTE), view);
    assert_eq!(table.core.view(RouteId(1)), RouteView::default());
}
