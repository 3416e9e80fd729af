//! Records of events on standard error: their format, and the one write of each.
//!
//! Without [`init`] events go nowhere, as in a test that wants none. A write that fails is given up at once: there is no
//! better place to complain.

use std::fmt;
use std::fmt::Write as _;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use tracing::Event;
use tracing::Subscriber;
use tracing::field::Field;
use tracing::field::Visit;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Registry;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::FormatEvent;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;

use super::date::Utc;
use super::date::since_epoch;
use super::escape::Guard;
use super::object::object;
use super::syslog;
use super::syslog::Sent;
use crate::config::Level;
use crate::config::LogFormat;

/// Who speaks in this process's records.
static ROLE: OnceLock<String> = OnceLock::new();

/// A traceback longer than this is cut, so that an application cannot hold up the log with one.
const BLOCK_MAX: usize = 256 * 1024;

/// Changes which records are written.
static FILTER: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Whether records are JSON.
static JSON: AtomicBool = AtomicBool::new(false);

/// Starts the log of this process: records of `level` and graver go to standard error. `role` is `lurcher`, or
/// `worker-3`. Only the first call has an effect.
pub fn init(role: &str, level: Level, format: LogFormat) {
    let first = ROLE.set(role.to_owned()).is_ok();
    if first {
        set_format(format);
        super::output::remember();
        let (filter, handle) = reload::Layer::new(filter(level));
        let lines = tracing_subscriber::fmt::layer()
            .log_internal_errors(false)
            .event_format(Line)
            .with_writer(OneWrite);
        let subscriber = tracing_subscriber::registry().with(filter).with(lines);
        // An embedding program may have its own subscriber; then its format wins.
        drop(tracing::subscriber::set_global_default(subscriber));
        // Nobody else sets it.
        drop(FILTER.set(handle));
    }
}

/// From now on records of `level` and graver are written. Nothing happens without [`init`].
pub fn set_level(level: Level) {
    if let Some(handle) = FILTER.get() {
        // Fails only without a subscriber.
        let _ = handle.reload(filter(level));
    }
}

/// From now on records are written so.
pub fn set_format(format: LogFormat) {
    JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

const fn filter(level: Level) -> LevelFilter {
    match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warning => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    }
}

/// Writes an error record whose text has several lines, as a traceback has: the title as an ordinary record, then the
/// lines of `text`, indented. It is one write, so that no other record comes between, and it waits for no buffer.
pub fn error_block(title: &str, text: &str) {
    let (now, json) = (SystemTime::now(), JSON.load(Ordering::Relaxed));
    let level = tracing::Level::ERROR;
    let (before, record) = block(now, title, text, json);
    if !to_service(now, level, &record) {
        write_out((before + &record).as_bytes());
    }
}

/// What goes before a record on standard error, and the record.
fn block(now: SystemTime, title: &str, text: &str, json: bool) -> (String, String) {
    let cut =
        (0..=text.len().min(BLOCK_MAX)).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let (shown, rest) = text.split_at(cut);
    if json {
        let more =
            if rest.is_empty() { String::new() } else { format!("\n({} bytes more)", rest.len()) };
        let text = format!("{shown}{more}");
        let record = object(now, tracing::Level::ERROR, role(), title, Some(&text));
        return (String::new(), record);
    }
    let (mut before, mut out) = (String::new(), String::with_capacity(shown.len() + 256));
    // Writing to a String cannot fail.
    let _ = head(&mut before, now, tracing::Level::ERROR);
    let _ = Guard::line(&mut out).write_str(title);
    out.push('\n');
    for line in shown.lines() {
        out.push_str("    ");
        let _ = Guard::text(&mut out).write_str(line);
        out.push('\n');
    }
    if !rest.is_empty() {
        let _ = writeln!(out, "    ({} bytes more)", rest.len());
    }
    (before, out)
}

/// Whether the log service has taken a record. Where it has not, standard error says why, once.
fn to_service(now: SystemTime, level: tracing::Level, record: &str) -> bool {
    match syslog::send(now, level, role(), record) {
        Sent::Taken => true,
        Sent::No => false,
        Sent::NotAnyMore(path, error) => {
            let mut line = String::new();
            // Writing to a String cannot fail.
            let _ = head(&mut line, now, tracing::Level::WARN);
            let _ = writeln!(
                line,
                "the log service at {} takes nothing ({error}): records go to standard error until it does",
                path.display()
            );
            write_out(line.as_bytes());
            false
        }
    }
}

/// `2026-11-30T16:40:01.123Z INFO  lurcher[1234]: `
fn head(out: &mut impl fmt::Write, now: SystemTime, level: tracing::Level) -> fmt::Result {
    stamp(out, now)?;
    write!(out, " {level:<5} {}[{}]: ", role(), std::process::id())
}

fn role() -> &'static str {
    ROLE.get().map_or("lurcher", String::as_str)
}

/// `2026-11-30T16:40:01.123Z`
pub(super) fn stamp(out: &mut impl fmt::Write, now: SystemTime) -> fmt::Result {
    let Utc { year, month, day, hour, minute, second, millis } = Utc::new(since_epoch(now));
    write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The format of a record.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (now, level) = (SystemTime::now(), *event.metadata().level());
        let mut message = String::new();
        let mut fields = Fields { out: Guard::line(&mut message), result: Ok(()) };
        event.record(&mut fields);
        fields.result?;
        let json = JSON.load(Ordering::Relaxed);
        if json {
            message = object(now, level, role(), &message, None);
        } else {
            message.push('\n');
        }
        if to_service(now, level, &message) {
            return Ok(());
        }
        if !json {
            head(&mut writer, now, level)?;
        }
        writer.write_str(&message)
    }
}

/// Puts the message, then ` name=value` of each other field.
struct Fields<'a, W> {
    out: Guard<'a, W>,
    result: fmt::Result,
}

impl<W: fmt::Write> Visit for Fields<'_, W> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.result.is_ok() {
            self.result = match field.name() {
                "message" => write!(self.out, "{value:?}"),
                name => write!(self.out, " {name}={value:?}"),
            };
        }
    }
}

/// Standard error, where a record is one write and no failure comes back.
struct OneWrite;

impl MakeWriter<'_> for OneWrite {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

impl io::Write for OneWrite {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        write_out(record);
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_out(record: &[u8]) {
    write_to(&mut io::stderr().lock(), record);
}

/// One write; the rest of a short one follows, and an error ends it in silence.
fn write_to(out: &mut impl io::Write, mut record: &[u8]) {
    while !record.is_empty() {
        match out.write(record) {
            Ok(0) => return,
            Ok(written) => record = record.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::Mutex;
    use std::time::Duration;

    /// Collects the writes instead.
    #[derive(Clone, Default)]
    struct Writes(Arc<Mutex<Vec<Vec<u8>>>>);

    impl io::Write for Writes {
        fn write(&mut self, record: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(record.to_vec());
            Ok(record.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(act: impl FnOnce()) -> Vec<String> {
        let writes = Writes::default();
        let sink = writes.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::INFO)
            .event_format(Line)
            .with_writer(move || sink.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, act);
        let writes = writes.0.lock().unwrap();
        writes.iter().map(|record| String::from_utf8(record.clone()).unwrap()).collect()
    }

    #[test]
    fn a_record_is_one_line_and_one_write() {
        let records = logged(|| {
            crate::telemetry::info!("link {}: up", 1);
            crate::telemetry::warn!(lost = 3, "forged\n2026 INFO x\x1b[31m");
            crate::telemetry::debug!("not shown");
        });
        let pid = std::process::id();
        assert_eq!(records.len(), 2);
        let (stamp, text) = records[0].split_at(24);
        assert!(stamp.ends_with('Z') && stamp.as_bytes()[10] == b'T', "{stamp}");
        assert_eq!(text, format!(" INFO  lurcher[{pid}]: link 1: up\n"));
        let expected = format!(" WARN  lurcher[{pid}]: forged\\x0a2026 INFO x\\x1b[31m lost=3\n");
        assert_eq!(records[1].split_at(24).1, expected);
    }

    #[test]
    fn a_log_that_cannot_be_written_is_no_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        write_to(&mut &writer, b"no one reads this\n");
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        write_to(&mut &full, b"no room for this\n");
        let mut short = Short { kept: Vec::new(), interrupted: false };
        write_to(&mut short, b"all of this arrives\n");
        assert_eq!(short.kept, b"all of this arrives\n");
    }

    /// Takes three bytes at a time, and is interrupted before each.
    struct Short {
        kept: Vec<u8>,
        interrupted: bool,
    }

    impl io::Write for Short {
        fn write(&mut self, record: &[u8]) -> io::Result<usize> {
            self.interrupted = !self.interrupted;
            if self.interrupted {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let taken = record.len().min(3);
            self.kept.extend_from_slice(&record[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_stamp_is_utc_with_milliseconds() {
        let mut out = String::new();
        let when = SystemTime::UNIX_EPOCH + Duration::from_millis(1_796_056_801_007);
        head(&mut out, when, tracing::Level::ERROR).unwrap();
        assert_eq!(
            out,
            format!("2026-11-30T16:40:01.007Z ERROR lurcher[{}]: ", std::process::id())
        );
    }

    #[test]
    fn a_block_keeps_its_lines_but_no_other_control_character() {
        let text = "Traceback:\n\tFile \"x\"\r\nEcole \u{c9} \x1b[31m\n";
        let (before, record) = block(SystemTime::UNIX_EPOCH, "GET /\n failed", text, false);
        let out = before + &record;
        let lines: Vec<_> = out.lines().collect();
        assert!(lines[0].ends_with("]: GET /\\x0a failed"), "{out}");
        assert_eq!(
            lines[1..],
            ["    Traceback:", "    \tFile \"x\"", "    Ecole \u{c9} \\x1b[31m"]
        );
    }

    #[test]
    fn a_block_without_end_is_cut() {
        let (before, record) =
            block(SystemTime::UNIX_EPOCH, "t", &"\u{c9}".repeat(BLOCK_MAX), false);
        let out = before + &record;
        assert!(out.len() < BLOCK_MAX + 300);
        assert!(out.ends_with(&format!("    ({BLOCK_MAX} bytes more)\n")));
    }
}
