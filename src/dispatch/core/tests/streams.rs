//! Streamed bodies: credits as they are read, and an end in every case.

use super::*;

fn first(w: &mut World, id: u32, announced: Option<usize>, bytes: &str) {
    let length = match announced {
        Some(length) => format!(r#""content-length":"{length}""#),
        None => r#""transfer-encoding":"chunked""#.to_owned(),
    };
    let keys = format!(r#""METHOD":"POST","VERSION":"HTTP/1.1","UPLOAD_STREAM":"0",{length}"#);
    w.send(0, id, "/up", &keys, bytes);
}

fn part(w: &mut World, id: u32, offset: usize, bytes: &str, last: bool) {
    let last = if last { r#","UPLOAD_STREAM_DONE":"1""# } else { "" };
    let head = format!(r#"{{"UPLOAD_STREAM":"{offset}"{last}}}"#);
    let text = format!("me {id} /up {}:{head},{}:{bytes},", head.len(), bytes.len());
    w.core.received(0, Message::from_bytes(text.as_bytes()), w.now);
}

/// Credits that were given.
fn credits(w: &mut World) -> Vec<u64> {
    let read = |reply: String| {
        let number = reply.split_once("7:credits,")?.1.split_once('#')?.0.to_owned();
        number.split_once(':')?.1.parse().ok()
    };
    w.published(0).into_iter().filter_map(read).collect()
}

#[test]
fn a_body_comes_as_it_is_read() {
    let mut w = World::with(1, |config| config.uploads.upload_window = 100);
    w.worker(W, 1);
    first(&mut w, 1, Some(150), "0123456789");
    assert_eq!(requests(&w.frames(W)), [1]);
    assert!(credits(&mut w).is_empty(), "nobody reads yet");
    w.begin(W, 1);
    w.core.body_wanted(W, Ticket(1), 0, w.now);
    assert_eq!(credits(&mut w), [90]);
    part(&mut w, 1, 10, &"x".repeat(90), false);
    let frames = w.whole_frames(W);
    assert_eq!(frames, [(Kind::BodyPart, 0, 1, "x".repeat(90).into_bytes())]);
    w.core.body_wanted(W, Ticket(1), 70, w.now);
    assert_eq!(credits(&mut w), [70]);
    part(&mut w, 1, 100, &"y".repeat(50), true);
    assert_eq!(w.whole_frames(W), [(Kind::BodyPart, 1, 1, "y".repeat(50).into_bytes())]);
    w.core.body_wanted(W, Ticket(1), 80, w.now);
    assert!(credits(&mut w).is_empty(), "all of it has come");
    w.answer(W, 1, "thanks", true);
    assert_eq!(w.published(0), ["me 1:1, thanks"]);
    w.get(0, 1, "/next");
    assert_eq!(requests(&w.frames(W)), [2]);
}

#[test]
fn a_response_before_the_end_of_the_body_lets_a_little_in_and_closes_for_more() {
    let mut w = World::with_worker(3);
    first(&mut w, 1, Some(1000), "0123456789");
    first(&mut w, 2, Some(10_000_000), "0123456789");
    first(&mut w, 3, None, "");
    assert_eq!(requests(&w.frames(W)), [1, 2, 3]);
    for ticket in 1..=3 {
        w.begin(W, ticket);
        w.answer(W, ticket, "early", true);
    }
    let out = w.published(0);
    assert!(out.contains(&"me 1:1, early".to_owned()) && !out.contains(&"me 1:1, ".to_owned()));
    assert!(out.iter().any(|reply| reply.starts_with("me 3:X 1, ") && reply.contains("3:990#")));
    assert!(out.contains(&"me 1:2, ".to_owned()) && out.contains(&"me 1:3, ".to_owned()));
    part(&mut w, 1, 10, &"x".repeat(990), true);
    assert!(w.frames(W).is_empty(), "thrown away");
    w.get(0, 1, "/next");
    assert_eq!(requests(&w.frames(W)), [4]);
}

#[test]
fn a_body_that_cannot_be_had_ends_its_request() {
    for (trouble, status) in [("astray", 400), ("too large", 413), ("late", 408)] {
        let mut w = World::with(1, |config| config.uploads.max_body = Some(500));
        w.worker(W, 1);
        first(&mut w, 1, None, "");
        assert_eq!(requests(&w.frames(W)), [1]);
        w.begin(W, 1);
        w.core.body_wanted(W, Ticket(1), 0, w.now);
        assert_eq!(credits(&mut w), [1 << 20]);
        match trouble {
            "astray" => part(&mut w, 1, 10, "x", false),
            "too large" => part(&mut w, 1, 0, &"x".repeat(501), false),
            _ => {
                w.later(59_000);
                w.published(0);
                w.later(2_000);
            }
        }
        let out = w.published(0);
        let page = format!("me 1:1, HTTP/1.1 {status} ");
        assert!(out.iter().any(|reply| reply.starts_with(&page)), "{trouble}: {out:?}");
        assert_eq!(out.last().map(String::as_str), Some("me 1:1, "));
        assert_eq!(w.frames(W), [(Kind::Gone, 1)]);
        part(&mut w, 1, 0, "late", true);
        w.answer(W, 1, "too late", true);
        assert!(w.published(0).is_empty() && w.core.idle());
    }
}

#[test]
fn a_part_of_nobody_is_cut_off() {
    let mut w = World::with_worker(1);
    part(&mut w, 9, 4096, "x", false);
    let out = w.published(0);
    assert_eq!(out, ["me 1:9, "]);
    part(&mut w, 9, 8192, "x", true);
    assert!(w.published(0).is_empty(), "once");
    assert_eq!(w.core.counters().strange_parts, 1);
}

#[test]
fn large_bodies_that_wait_have_a_limit_together() {
    let mut w = World::with(1, |config| config.uploads.queue_memory = 200_000);
    let body = "x".repeat(90_000);
    let keys = r#""METHOD":"POST","VERSION":"HTTP/1.1","content-length":"90000""#;
    for id in 1..=3 {
        w.send(0, id, "/", keys, &body);
    }
    let out = w.published(0);
    assert!(out[0].starts_with("me 1:3, HTTP/1.1 503 "), "{out:?}");
    w.get(0, 4, "/small");
    assert_eq!(w.core.load().0, 3, "a small one may wait");
    w.worker(W, 9);
    w.turn();
    assert_eq!(w.core.load(), (0, 3));
    w.core.bridge_out(W).unwrap().clear();
    w.send(0, 5, "/", keys, &body);
    assert_eq!(requests(&w.frames(W)), [4], "who need not wait takes no room");
}

#[test]
fn a_body_that_waits_costs_nothing_and_can_change_its_worker() {
    let mut w = World::with_worker(1);
    first(&mut w, 1, Some(1000), "0123456789");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.worker(WorkerId(2), 1);
    w.core.worker_gone(W);
    assert_eq!(requests(&w.frames(WorkerId(2))), [2]);
    assert!(w.published(0).is_empty(), "no credits");
    w.begin(WorkerId(2), 2);
    w.core.body_wanted(WorkerId(2), Ticket(2), 0, w.now);
    assert_eq!(credits(&mut w), [(1 << 20) - 10]);
    w.core.worker_gone(WorkerId(2));
    let out = w.published(0);
    assert!(out[0].contains("HTTP/1.1 502 ") && out[1] == "me 1:1, ", "{out:?}");
}

#[test]
fn a_client_that_sends_but_takes_nothing_is_closed_and_not_cancelled() {
    let mut w = World::with_worker(1);
    let keys = r#""METHOD":"POST","VERSION":"HTTP/1.1","UPLOAD_STREAM":"0","content-length":"10000000","DOWNLOAD_CREDITS":"102400""#;
    w.send(0, 1, "/up", keys, "0123456789");
    assert_eq!(requests(&w.frames(W)), [1]);
    w.begin(W, 1);
    w.data(1, 200_000);
    assert_eq!(payload(&w.published(0)), 102_400);
    let timeout = w.core.delivery.send_timeout.unwrap();
    w.core.uploads.upload_timeout = None;
    w.later(u64::try_from(timeout.as_millis()).unwrap() + 2_500);
    let out = w.published(0);
    assert_eq!(out.last().unwrap(), "me 1:1, ");
    assert!(!out.iter().any(|reply| reply.contains("cancel")), "{out:?}");
    assert!(w.frames(W).contains(&(Kind::Gone, 1)));
}
