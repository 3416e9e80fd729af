//! How things stand in a front end, as a page for a collector of metrics.
//!
//! Every number comes from one look. Names and labels are written here alone and told in `docs/metrics.md`; none of them is an
//! instance's, so that one page can have both.

use std::time::Instant;

use super::record::Counts;
use super::record::Outcome;
use super::shared::Shared;
use crate::front::core::Counters;
use crate::front::core::RouteId;
use crate::front::core::RouteView;
use crate::telemetry::metrics::CLASSES;
use crate::telemetry::metrics::Page;

/// The page. `instance_up`: whether the instance behind it could be asked, if there is one to be asked.
pub(super) fn text(shared: &Shared, started: Instant, instance_up: Option<bool>) -> String {
    let mut page = Page::new();
    let now = Instant::now();
    page.family("lurcher_front_build_info", "gauge", "Which lurcher this is; always 1.");
    page.put(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let age = now.saturating_duration_since(started).as_secs();
    page.one("lurcher_front_uptime_seconds", "gauge", "For how long the front end runs.", age);
    if let Some(up) = instance_up {
        let help = "Whether the instance behind it has told its metrics.";
        page.one("lurcher_front_instance_up", "gauge", help, u8::from(up));
    }
    let counts = shared.record.counts();
    put_connections(&mut page, shared, &counts);
    put_requests(&mut page, &counts);
    shared.record.with_times(|times| {
        page.histogram(
            "lurcher_front_request_duration_seconds",
            "From the end of a request's head to the last byte of its response.",
            &times.request,
        );
        page.histogram(
            "lurcher_front_first_byte_seconds",
            "From the end of a request's head to the first byte of its response.",
            &times.first_byte,
        );
    });
    put_queue(&mut page, shared, now);
    put_routes(&mut page, shared);
    page.into_text()
}

fn put_connections(page: &mut Page, shared: &Shared, counts: &Counts) {
    let most = shared.config().clients.max_connections;
    for (name, kind, help, number) in [
        (
            "lurcher_front_connections",
            "gauge",
            "Connections of clients.",
            shared.connections() as u64,
        ),
        ("lurcher_front_connections_limit", "gauge", "Most of them at one time.", most as u64),
        (
            "lurcher_front_connections_accepted_total",
            "counter",
            "Connections of clients since the start.",
            counts.accepted,
        ),
        ("lurcher_front_received_bytes_total", "counter", "Bytes from clients.", counts.bytes_in),
        ("lurcher_front_sent_bytes_total", "counter", "Bytes to clients.", counts.bytes_out),
        (
            "lurcher_front_bad_replies_total",
            "counter",
            "Messages of handlers that were no replies.",
            counts.bad_replies,
        ),
        (
            "lurcher_front_lost_access_lines_total",
            "counter",
            "Access lines that could not be written.",
            counts.lost_lines,
        ),
    ] {
        page.one(name, kind, help, number);
    }
}

fn put_requests(page: &mut Page, counts: &Counts) {
    page.family(
        "lurcher_front_requests_total",
        "counter",
        "Requests that are over, by the class of the status sent; none: the client had gone.",
    );
    for (class, number) in CLASSES.iter().zip(counts.answered) {
        page.put(&[("status", class)], number);
    }
    page.family(
        "lurcher_front_request_outcomes_total",
        "counter",
        "Requests that are over, by how they ended.",
    );
    for outcome in Outcome::ALL {
        page.put(&[("outcome", outcome.as_str())], counts.of(outcome));
    }
}

fn put_queue(page: &mut Page, shared: &Shared, now: Instant) {
    let core = shared.core.borrow();
    let Counters { queued, refused, timed_out, moved, retried, lost, .. } = core.counters();
    for (name, help, number) in [
        ("lurcher_front_queue_length", "Requests that wait for a handler.", core.waiting()),
        ("lurcher_front_queue_limit", "Most requests that may wait.", core.queue_limit()),
    ] {
        page.one(name, "gauge", help, number);
    }
    page.one(
        "lurcher_front_queue_oldest_seconds",
        "gauge",
        "How long the oldest of them has waited.",
        core.oldest(now).as_secs_f64(),
    );
    for (name, help, number) in [
        ("lurcher_front_queued_total", "Requests that had to wait.", queued),
        ("lurcher_front_queue_full_total", "Requests for which the queue had no room.", refused),
        ("lurcher_front_queue_timeouts_total", "Requests that waited too long.", timed_out),
        (
            "lurcher_front_moved_requests_total",
            "Requests that went to another handler before their first one had got them.",
            moved,
        ),
        (
            "lurcher_front_retried_requests_total",
            "Requests that went to a second handler because their first one died.",
            retried,
        ),
        ("lurcher_front_lost_requests_total", "Requests that died with their handler.", lost),
    ] {
        page.one(name, "counter", help, number);
    }
}

type RouteNumber = fn(&RouteView) -> usize;

fn put_routes(page: &mut Page, shared: &Shared) {
    let core = shared.core.borrow();
    let config = shared.config();
    let routes = &config.handlers.routes;
    let views: Vec<_> = (0..routes.len()).map(|number| core.view(RouteId(number))).collect();
    let families: [(&'static str, &str, RouteNumber); 4] = [
        ("lurcher_front_handlers", "Handlers that take requests.", |view| view.handlers),
        ("lurcher_front_handlers_leaving", "Handlers that finish what they have.", |view| {
            view.leaving
        }),
        ("lurcher_front_outstanding_requests", "Requests that handlers have.", |view| {
            view.outstanding
        }),
        ("lurcher_front_waiting_requests", "Requests that wait for a handler.", |view| {
            view.waiting
        }),
    ];
    for (name, help, number) in families {
        page.family(name, "gauge", help);
        for (route, view) in routes.iter().zip(&views) {
            page.put(&[("route", &route.path)], number(view));
        }
    }
}
