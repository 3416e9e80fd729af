//! Prometheus' text format (version 0.0.4), written family by family. It keeps no registry: every page is made from one look
//! at the numbers.

use std::fmt::Display;
use std::fmt::Write;
use std::time::Duration;

use super::BOUNDS;
use super::Histogram;

/// What a status is counted as; the class of one is its first digit.
pub const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// A page, and the name of the family that is being written.
#[derive(Debug)]
pub struct Page {
    text: String,
    name: &'static str,
}

// Writing to a String cannot fail.
impl Page {
    /// An empty one.
    #[allow(clippy::new_without_default, reason = "there is no page that stands for another")]
    pub fn new() -> Page {
        Page { text: String::with_capacity(16 * 1024), name: "" }
    }

    /// The whole text.
    pub fn into_text(self) -> String {
        self.text
    }

    /// Begins a family; `kind` is `gauge` or `counter`. None may come twice on a page.
    pub fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One value of the family. Label values are ours or addresses; what could end one is escaped all the same.
    pub fn put(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.put_as("", labels, value);
    }

    /// A family with one value.
    pub fn one(&mut self, name: &'static str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.put(&[], value);
    }

    /// A whole family.
    pub fn histogram(&mut self, name: &'static str, help: &str, times: &Histogram) {
        self.family(name, "histogram", help);
        let mut sum = 0;
        for (bound, number) in BOUNDS.iter().zip(times.steps) {
            sum += number;
            let bound = Duration::from_nanos(*bound).as_secs_f64().to_string();
            self.put_as("_bucket", &[("le", &bound)], sum);
        }
        let all = times.count();
        self.put_as("_bucket", &[("le", "+Inf")], all);
        self.put_as("_sum", &[], Duration::from_nanos(times.sum_ns).as_secs_f64());
        self.put_as("_count", &[], all);
    }

    fn put_as(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{}{label}=\"{text}\"", if at == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_histogram_is_cumulative_and_labels_are_quoted() {
        let now = Instant::now();
        let mut times = Histogram::new(now);
        times.note(now, Duration::from_micros(200));
        times.note(now, Duration::from_secs(100));
        let mut page = Page::new();
        page.histogram("x_seconds", "Help.", &times);
        page.family("y", "gauge", "Help.");
        page.put(&[("a", "b\"\\\n"), ("c", "d")], 1.5);
        let text = page.into_text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "# HELP x_seconds Help.",
                "# TYPE x_seconds histogram",
                "x_seconds_bucket{le=\"0.00025\"} 1",
            ]
        );
        let end = &lines[lines.len() - 7..];
        assert_eq!(end[0], "x_seconds_bucket{le=\"60\"} 1");
        assert_eq!(
            end[1..4],
            ["x_seconds_bucket{le=\"+Inf\"} 2", "x_seconds_sum 100.0002", "x_seconds_count 2"]
        );
        assert_eq!(end[6], r#"y{a="b\"\\\n",c="d"} 1.5"#);
    }
}
