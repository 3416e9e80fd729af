//! A record as JSON: one object on one line.
//!
//! Texts go through the same guard as in a record of text, so that a reader who prints them sees no other line than was
//! written. It writes nothing itself.

use std::fmt::Write as _;
use std::time::SystemTime;

use serde::Serialize;

use super::escape::Guard;
use super::record::stamp;

/// The members, in their order.
#[derive(Serialize)]
struct Object<'a> {
    time: String,
    level: &'a str,
    process: &'a str,
    pid: u32,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// The object, with its line break. `text` is what has several lines, as a traceback.
pub(super) fn object(
    now: SystemTime,
    level: tracing::Level,
    process: &str,
    message: &str,
    text: Option<&str>,
) -> String {
    let mut time = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = stamp(&mut time, now);
    let mut guarded = String::new();
    let _ = Guard::line(&mut guarded).write_str(message);
    let text = text.map(|text| {
        let mut out = String::with_capacity(text.len());
        for line in text.lines() {
            if !out.is_empty() {
                out.push('\n');
            }
            let _ = Guard::text(&mut out).write_str(line);
        }
        out
    });
    let level = match level {
        tracing::Level::ERROR => "error",
        tracing::Level::WARN => "warning",
        tracing::Level::INFO => "info",
        _ => "debug",
    };
    let pid = std::process::id();
    let object = Object { time, level, process, pid, message: guarded, text };
    // Strings and a number can always be written.
    let mut line = serde_json::to_string(&object).unwrap_or_default();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_one_line_and_keeps_the_lines_of_a_text() {
        let line = object(
            SystemTime::UNIX_EPOCH,
            tracing::Level::WARN,
            "worker-3",
            "a \"b\"\n\u{2028}c",
            Some("Traceback:\n\tx\x1b[31m\n"),
        );
        let pid = std::process::id();
        let expected = format!(
            r#"{{"time":"1970-01-01T00:00:00.000Z","level":"warning","process":"worker-3","pid":{pid},"message":"a \"b\"\\x0a\\u2028c","text":"Traceback:\n\tx\\x1b[31m"}}"#
        );
        assert_eq!(line, expected + "\n");
    }
}
