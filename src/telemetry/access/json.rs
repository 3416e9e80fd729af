//! One access line as JSON: an object for each request, always printable ASCII on one line.
//!
//! What a client chose is a JSON string: UTF-8 where it is, else each byte as the character of its number; everything but
//! printable ASCII is escaped, so that no reader sees another line or another field than was written.

use std::io::Write;
use std::time::Duration;
use std::time::SystemTime;

use crate::telemetry::date::Utc;
use crate::telemetry::date::since_epoch;

/// What is told about one request. Bytes are as the front end gave them.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// When the request came in.
    pub when: SystemTime,
    /// What names the request.
    pub request_id: &'a [u8],
    /// The client's address.
    pub remote: Option<&'a [u8]>,
    /// `GET`.
    pub method: Option<&'a [u8]>,
    /// The request target as it came; what stands after `?` is told as the query.
    pub target: Option<&'a [u8]>,
    /// `HTTP/1.1`.
    pub protocol: Option<&'a [u8]>,
    /// The Referer header.
    pub referer: Option<&'a [u8]>,
    /// The User-Agent header.
    pub user_agent: Option<&'a [u8]>,
    /// The status of the response; 0 when there was none.
    pub status: u16,
    /// Bytes of the response body, as far as they are known.
    pub bytes: Option<u64>,
    /// Where it went.
    pub way: Way<'a>,
    /// From receiving it to having all of its answer, or to having written it.
    pub total: Duration,
    /// How it ended.
    pub outcome: &'a str,
}

/// Where a request went, from there where its line is written.
#[derive(Debug, Clone, Copy)]
pub enum Way<'a> {
    /// Through an instance.
    Instance {
        /// The number of the worker that had it.
        worker: Option<u32>,
        /// From receiving it to handing it to a worker.
        queue: Option<Duration>,
        /// What the application took.
        application: Option<Duration>,
    },
    /// Through a front end.
    Front {
        /// The path of its route.
        route: Option<&'a str>,
        /// From receiving it to writing the first byte of its answer.
        first_byte: Option<Duration>,
    },
}

/// The line, without its line break.
pub fn json_line(record: &Record<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(384);
    let utc = Utc::new(since_epoch(record.when));
    // Writing to a Vec cannot fail.
    let _ = write!(
        out,
        "{{\"time\":\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z\"",
        utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.millis
    );
    let (path, query) = match record.target.map(|target| (target, memchr::memchr(b'?', target))) {
        Some((target, Some(at))) => (Some(&target[..at]), Some(&target[at + 1..])),
        Some((target, None)) => (Some(target), None),
        None => (None, None),
    };
    for (name, value) in [
        ("request_id", Some(record.request_id)),
        ("remote", record.remote),
        ("method", record.method),
        ("path", path),
        ("query", query),
        ("protocol", record.protocol),
        ("referer", record.referer),
        ("user_agent", record.user_agent),
    ] {
        put_text(&mut out, name, value);
    }
    let status = (record.status != 0).then_some(u64::from(record.status));
    put_number(&mut out, "status", status);
    put_number(&mut out, "bytes", record.bytes);
    match record.way {
        Way::Instance { worker, queue, application } => {
            put_number(&mut out, "worker", worker);
            put_time(&mut out, "queue_time", queue);
            put_time(&mut out, "application_time", application);
        }
        Way::Front { route, first_byte } => {
            put_text(&mut out, "route", route.map(str::as_bytes));
            put_time(&mut out, "first_byte_time", first_byte);
        }
    }
    put_time(&mut out, "total_time", Some(record.total));
    put_name(&mut out, "outcome");
    put_string(&mut out, record.outcome.as_bytes());
    out.push(b'}');
    out
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    let _ = write!(out, ",\"{name}\":");
}

fn put_text(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    put_name(out, name);
    match value {
        Some(bytes) => put_string(out, bytes),
        None => out.extend_from_slice(b"null"),
    }
}

/// In seconds.
fn put_time(out: &mut Vec<u8>, name: &str, time: Option<Duration>) {
    let seconds = |time: Duration| format!("{}.{:06}", time.as_secs(), time.subsec_micros());
    put_number(out, name, time.map(seconds));
}

fn put_number(out: &mut Vec<u8>, name: &str, value: Option<impl std::fmt::Display>) {
    put_name(out, name);
    let _ = match value {
        Some(value) => write!(out, "{value}"),
        None => write!(out, "null"),
    };
}

fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    match str::from_utf8(bytes) {
        Ok(text) => text.chars().for_each(|c| put_char(out, c)),
        Err(_) => bytes.iter().for_each(|&byte| put_char(out, char::from(byte))),
    }
    out.push(b'"');
}

fn put_char(out: &mut Vec<u8>, c: char) {
    match c {
        '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
        ' '..='~' => out.push(c as u8),
        _ => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record<'a>(target: &'a [u8], agent: &'a [u8]) -> Record<'a> {
        Record {
            when: SystemTime::UNIX_EPOCH + Duration::from_millis(951_782_400_007),
            request_id: b"0af7",
            remote: Some(b"10.0.0.1"),
            method: Some(b"GET"),
            target: Some(target),
            protocol: Some(b"HTTP/1.1"),
            referer: None,
            user_agent: Some(agent),
            status: 200,
            bytes: Some(12),
            way: Way::Instance {
                worker: Some(3),
                queue: Some(Duration::from_micros(30)),
                application: Some(Duration::from_millis(2)),
            },
            total: Duration::from_millis(1003),
            outcome: "ok",
        }
    }

    #[test]
    fn a_line_is_an_object_with_all_fields() {
        let line = json_line(&record(b"/a?b=c?d", "\u{e9}\u{1f600}\"\n".as_bytes()));
        assert_eq!(
            String::from_utf8(line).unwrap(),
            concat!(
                r#"{"time":"2000-02-29T00:00:00.007Z","request_id":"0af7","remote":"10.0.0.1","method":"GET","path":"/a","query":"b=c?d","#,
                r#""protocol":"HTTP/1.1","referer":null,"user_agent":"\u00e9\ud83d\ude00\"\u000a","#,
                r#""status":200,"bytes":12,"worker":3,"queue_time":0.000030,"application_time":0.002000,"#,
                r#""total_time":1.003000,"outcome":"ok"}"#
            )
        );
    }

    #[test]
    fn a_front_end_tells_of_its_own_way() {
        let first_byte = Some(Duration::from_millis(5));
        let way = Way::Front { route: Some("/a\u{e9}"), first_byte };
        let line = json_line(&Record { way, status: 0, bytes: None, ..record(b"/", b"") });
        let end = r#","status":null,"bytes":null,"route":"/a\u00e9","first_byte_time":0.005000,"total_time":1.003000,"outcome":"ok"}"#;
        assert!(line.ends_with(end.as_bytes()), "{}", String::from_utf8_lossy(&line));
    }

    proptest! {
        #[test]
        fn whatever_comes_in_is_read_back(target: Vec<u8>, agent: String) {
            let line = json_line(&record(&target, agent.as_bytes()));
            prop_assert!(line.iter().all(|byte| (b' '..=b'~').contains(byte)));
            let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
            prop_assert_eq!(value["user_agent"].as_str(), Some(agent.as_str()));
            prop_assert_eq!(value["outcome"].as_str(), Some("ok"));
        }
    }
}
