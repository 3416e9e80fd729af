//! How things stand, as text for people: one screen, the most telling first.

use std::fmt::Write;

use super::Report;
use super::report::Percentiles;
use super::report::Worker;

/// The whole of it. `rate` is how many requests a second came in since the last look.
pub(super) fn text(report: &Report, rate: Option<f64>) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(&mut out, report, rate);
    out
}

fn write_all(out: &mut String, report: &Report, rate: Option<f64>) -> std::fmt::Result {
    let Report { version, pid, state, application, app_path, .. } = report;
    writeln!(out, "lurcher {version}, pid {pid}, {state} for {}", age(report.uptime))?;
    writeln!(out, "serves    {application} in {app_path}")?;
    if report.links.is_empty() {
        writeln!(out, "links     not yet: no worker is ready")?;
    }
    for link in &report.links {
        let state = match (link.connected, link.subscribed) {
            (true, true) => "up",
            (true, false) => "requests come in, nobody listens for responses",
            (false, true) => "responses go out, no requests come in",
            (false, false) => "down",
        };
        write!(out, "link      {} {}: {state}", link.recv, link.send)?;
        put_some(out, ", backlog", link.backlog as u64, size)?;
        put_some(out, ", dropped", link.dropped, count)?;
        out.push('\n');
    }
    let queue = &report.queue;
    write!(out, "queue     {} of {} wait", queue.length, queue.limit)?;
    if let Some(oldest) = queue.oldest {
        write!(out, ", the oldest for {}", time(oldest))?;
    }
    out.push('\n');
    let totals = &report.totals;
    write!(out, "requests  {}", count(totals.requests))?;
    if let Some(rate) = rate {
        write!(out, ", {rate:.0}/s")?;
    }
    for (class, number) in &totals.answered {
        put_some(
            out,
            &format!(", {}", if class == "none" { "no answer" } else { class }),
            *number,
            count,
        )?;
    }
    out.push('\n');
    let troubles: Vec<String> = totals
        .outcomes
        .iter()
        .filter(|(outcome, number)| *outcome != "ok" && **number > 0)
        .map(|(outcome, number)| format!("{} {}", outcome.replace('_', " "), count(*number)))
        .chain((totals.malformed > 0).then(|| format!("malformed {}", count(totals.malformed))))
        .collect();
    if !troubles.is_empty() {
        writeln!(out, "          {}", troubles.join(", "))?;
    }
    writeln!(out, "traffic   {} in, {} out", size(totals.bytes_in), size(totals.bytes_out))?;
    writeln!(out, "times     {}", percentiles(&report.times.request))?;
    writeln!(out, "waiting   {}", percentiles(&report.times.queue))?;
    let restarts: Vec<String> =
        report.restarts.iter().map(|(why, number)| format!("{why} {number}")).collect();
    let ready = report.workers.iter().filter(|worker| worker.state == "ready").count();
    write!(out, "workers   {ready} of {} ready", report.workers_wanted)?;
    if !restarts.is_empty() {
        write!(out, "; replaced so far: {}", restarts.join(", "))?;
    }
    out.push_str("\n\n");
    let head = ["", "pid", "state", "age", "requests", "memory", "busy"];
    put_row(out, &head.map(str::to_owned))?;
    for worker in &report.workers {
        put_worker(out, worker)?;
    }
    Ok(())
}

fn put_worker(out: &mut String, worker: &Worker) -> std::fmt::Result {
    let row = [
        worker.number.to_string(),
        worker.pid.to_string(),
        worker.state.clone(),
        age(worker.age),
        count(worker.requests),
        worker.rss.map_or_else(|| "-".to_owned(), size),
        format!("{}/{}", worker.busy, worker.slots),
    ];
    put_row(out, &row)?;
    let mut requests: Vec<_> = worker.requests_at_work.iter().collect();
    requests.sort_by(|a, b| b.age.total_cmp(&a.age));
    for current in requests {
        writeln!(out, "      {:>9}  {} {}", time(current.age), current.method, current.target)?;
    }
    Ok(())
}

fn put_row(
    out: &mut String,
    [number, pid, state, age, requests, memory, busy]: &[String; 7],
) -> std::fmt::Result {
    writeln!(out, "{number:>5} {pid:>9}  {state:<9} {age:>8} {requests:>13} {memory:>10} {busy:>9}")
}

fn put_some(
    out: &mut String,
    what: &str,
    number: u64,
    show: fn(u64) -> String,
) -> std::fmt::Result {
    if number == 0 { Ok(()) } else { write!(out, "{what} {}", show(number)) }
}

fn percentiles(times: &Percentiles) -> String {
    if times.count == 0 {
        return "nothing in the last two minutes".to_owned();
    }
    let [p50, p90, p99, max] = [times.p50, times.p90, times.p99, times.max].map(time);
    format!("p50 {p50}, p90 {p90}, p99 {p99}, max {max} (the last two minutes)")
}

/// `12,345`.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1.5 MiB`.
#[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
fn size(bytes: u64) -> String {
    let mut number = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if number < 1000.0 {
            let digits = usize::from(unit != "B" && number < 10.0);
            return format!("{number:.digits$} {unit}");
        }
        number /= 1024.0;
    }
    format!("{number:.1} TiB")
}

/// A short time: `1.2 ms`.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 0.000_95 => format!("{:.0} µs", s * 1e6),
        s if s < 0.0095 => format!("{:.1} ms", s * 1e3),
        s if s < 0.95 => format!("{:.0} ms", s * 1e3),
        s if s < 9.5 => format!("{s:.1} s"),
        s => age(s),
    }
}

/// A long time, by its two greatest units: `2h 13m`.
fn age(seconds: f64) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an age is neither negative nor of astronomic size"
    )]
    let seconds = seconds.round() as u64;
    match (seconds / 86_400, seconds % 86_400 / 3_600, seconds % 3_600 / 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s}s"),
        (0, 0, m, s) => format!("{m}m {s}s"),
        (0, h, m, _) => format!("{h}h {m}m"),
        (d, h, _, _) => format!("{d}d {h}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 999, 1000, 10_240, 5 << 20, 700 << 30, 3 << 50].map(size),
            ["0 B", "999 B", "1.0 KiB", "10 KiB", "5.0 MiB", "700 GiB", "3072.0 TiB"]
        );
        assert_eq!(
            [0.0, 0.000_25, 0.001, 0.0123, 0.5, 1.26, 59.7, 3600.0].map(time),
            ["0 µs", "250 µs", "1.0 ms", "12 ms", "500 ms", "1.3 s", "1m 0s", "1h 0m"]
        );
        assert_eq!([0.4, 61.0, 7_980.0, 200_000.0].map(age), ["0s", "1m 1s", "2h 13m", "2d 7h"]);
    }
}
