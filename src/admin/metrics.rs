//! How things stand in an instance, as a page for a collector of metrics.
//!
//! Every number comes from one look at the instance, so there is no registry to keep and nothing to count twice. Names and
//! labels are written here alone and told in `docs/metrics.md`.

use super::Instance;
use super::proc;
use crate::dispatch::Fate;
use crate::dispatch::View;
use crate::telemetry::metrics::CLASSES;
use crate::telemetry::metrics::Page;

/// The page.
pub(super) fn text(instance: &Instance, view: &View) -> String {
    let mut page = Page::new();
    let counters = &view.core.counters;
    let core = &view.core;
    page.family("lurcher_build_info", "gauge", "Which lurcher this is; always 1.");
    page.put(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.family("lurcher_uptime_seconds", "gauge", "For how long the instance runs.");
    page.put(&[], instance.age.as_secs());

    page.family("lurcher_requests_received_total", "counter", "Requests taken from front ends.");
    page.put(&[], counters.requests);
    page.family(
        "lurcher_requests_total",
        "counter",
        "Requests that are over, by the class of the status sent; none: closed without one.",
    );
    for (class, number) in CLASSES.iter().zip(counters.answered) {
        page.put(&[("status", class)], number);
    }
    page.family(
        "lurcher_request_outcomes_total",
        "counter",
        "Requests that are over, by how they ended.",
    );
    for (fate, number) in Fate::ALL.iter().zip(counters.fates) {
        page.put(&[("outcome", fate.as_str())], number);
    }
    page.family("lurcher_refused_total", "counter", "Requests answered by the instance itself.");
    page.put(&[], counters.refused);
    page.histogram(
        "lurcher_request_duration_seconds",
        "From receiving a request to having all of its answer.",
        &core.times.request,
    );
    page.histogram(
        "lurcher_queue_duration_seconds",
        "From receiving a request to handing it to a worker.",
        &core.times.queue,
    );
    page.family("lurcher_queue_length", "gauge", "Requests that wait.");
    page.put(&[], core.waiting);
    page.family("lurcher_queue_limit", "gauge", "Most requests that may wait.");
    page.put(&[], instance.queue_limit);
    page.family("lurcher_queue_oldest_seconds", "gauge", "How long the oldest of them has waited.");
    page.put(&[], core.oldest.unwrap_or_default().as_secs_f64());
    page.family("lurcher_connections", "gauge", "Client connections that are remembered.");
    page.put(&[], core.connections);
    page.family("lurcher_received_bytes_total", "counter", "Bytes of messages from front ends.");
    page.put(&[], counters.bytes_in);
    page.family("lurcher_sent_bytes_total", "counter", "Bytes of responses published.");
    page.put(&[], counters.bytes_out);
    page.family("lurcher_malformed_messages_total", "counter", "Messages that did not parse.");
    page.put(&[], counters.malformed);
    page.family(
        "lurcher_requests_after_close_total",
        "counter",
        "Requests that came on a connection after it was closed.",
    );
    page.put(&[], counters.after_close);
    page.family(
        "lurcher_lost_access_lines_total",
        "counter",
        "Access lines that could not be written.",
    );
    page.put(&[], view.lost_lines);
    put_links(&mut page, view);
    put_workers(&mut page, instance, view);
    page.into_text()
}

type LinkNumber = fn(&crate::dispatch::LinkView) -> u64;

fn put_links(page: &mut Page, view: &View) {
    let families: [(&'static str, &str, &str, LinkNumber); 4] = [
        ("lurcher_link_connected", "gauge", "Whether requests come in.", |l| l.connected.into()),
        ("lurcher_link_subscribed", "gauge", "Whether responses go out.", |l| l.subscribed.into()),
        ("lurcher_link_backlog_bytes", "gauge", "Response bytes not taken yet.", |l| {
            l.backlog as u64
        }),
        (
            "lurcher_dropped_messages_total",
            "counter",
            "Responses dropped because their front end was gone.",
            |l| l.dropped,
        ),
    ];
    for (name, kind, help, number) in families {
        page.family(name, kind, help);
        for link in &view.links {
            page.put(&[("recv", link.spec.recv.as_str())], number(link));
        }
    }
}

fn put_workers(page: &mut Page, instance: &Instance, view: &View) {
    let workers = &view.core.workers;
    page.family("lurcher_workers", "gauge", "Workers, by what they do.");
    for state in ["loading", "ready", "draining"] {
        page.put(&[("state", state)], workers.iter().filter(|w| w.state == state).count());
    }
    page.family("lurcher_workers_wanted", "gauge", "How many workers there ought to be.");
    page.put(&[], instance.wanted);
    page.family("lurcher_slots", "gauge", "Slots of all workers.");
    page.put(&[], workers.iter().map(|w| w.slots).sum::<usize>());
    page.family("lurcher_slots_busy", "gauge", "Those that serve a request.");
    page.put(&[], workers.iter().map(|w| w.busy_slots).sum::<usize>());
    page.family(
        "lurcher_worker_restarts_total",
        "counter",
        "Workers that were replaced, by the reason.",
    );
    for (reason, number) in &instance.restarts {
        page.put(&[("reason", reason)], *number);
    }
    page.family("lurcher_workers_resident_bytes", "gauge", "Resident memory of all workers.");
    let memory = instance.workers.values().filter_map(|process| proc::resident(process.pid));
    page.put(&[], memory.sum::<u64>());
}
