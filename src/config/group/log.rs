//! What is written down, and where.

use std::path::PathBuf;

use serde::Deserialize;
use serde::Serialize;

use crate::config::Level;
use crate::config::LogTarget;
use crate::config::Surroundings;
use crate::config::reader::Reader;
use crate::config::reader::quoted;
use crate::config::reader::quoted_path;
use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;
use crate::config::value;

/// The log and the access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The file that the log is appended to, and all that workers write to their standard error; that of the instance when
    /// absent. Absolute.
    pub log_file: Option<PathBuf>,
    /// The socket of the log service that records go to; absolute.
    pub syslog: Option<PathBuf>,
    /// Where access lines go; nowhere when absent.
    pub access_log: Option<LogTarget>,
    /// How they are written.
    pub access_log_format: AccessFormat,
    /// The header that names a request, as it is told to clients.
    pub request_id_header: Option<String>,
    /// How the log is written.
    pub log_format: LogFormat,
    /// The least grave records that are written.
    pub log_level: Level,
}

/// How access lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessFormat {
    /// Apache's combined format, and the seconds taken.
    Combined,
    /// A JSON object each.
    Json,
}

/// How the records of the log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A line of text each; a traceback has several.
    Text,
    /// A JSON object each, on one line.
    Json,
}

impl Log {
    pub(in crate::config) fn read<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<Self> {
        let log_file = reader.get(Key::LogFile, Reader::path, quoted_path);
        let syslog = reader.get(Key::Syslog, Reader::path, quoted_path);
        let access_log = reader.get(Key::AccessLog, Reader::log_target, |target| match target {
            LogTarget::Stdout => quoted("-"),
            LogTarget::File(path) => quoted_path(path),
        });
        let access_log_format = reader.word(Key::AccessLogFormat, |word| match word {
            "json" => AccessFormat::Json,
            _ => AccessFormat::Combined,
        });
        let request_id_header = reader.text(Key::RequestIdHeader, value::id_header);
        let log_format = reader.word(Key::LogFormat, |word| match word {
            "json" => LogFormat::Json,
            _ => LogFormat::Text,
        });
        let log_level = reader.word(Key::LogLevel, |word| match word {
            "error" => Level::Error,
            "warning" => Level::Warning,
            "debug" => Level::Debug,
            _ => Level::Info,
        });
        Some(Self {
            log_file,
            syslog,
            access_log,
            access_log_format: access_log_format?,
            request_id_header,
            log_format: log_format?,
            log_level: log_level?,
        })
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[
    Setting {
        key: Key::LogFile,
        name: "log-file",
        metavar: "FILE",
        kind: Kind::Path,
        fallback: Fallback::Unset("standard error"),
        group: Group::Log,
        help: "Append the log to FILE, with all that workers write to their standard error",
        reason: "Service managers and containers collect standard error, with the time and the name of the service.",
    },
    Setting {
        key: Key::Syslog,
        name: "syslog",
        metavar: "SOCKET",
        kind: Kind::Path,
        fallback: Fallback::Unset("no log service"),
        group: Group::Log,
        help: "Send the log's records to the log service at SOCKET, as /dev/log, in the format of RFC 5424. What it does not \
               take goes to standard error or the log file, and so does what the application prints itself",
        reason: "Under systemd and in containers standard error is collected already.",
    },
    Setting {
        key: Key::AccessLog,
        name: "access-log",
        metavar: "FILE",
        kind: Kind::Path,
        fallback: Fallback::Unset("no access log"),
        group: Group::Log,
        help: "Append a line for each request to FILE, or write it to standard output (`-`): the combined format, and the \
               seconds taken",
        reason: "The front end has its own access log.",
    },
    Setting {
        key: Key::AccessLogFormat,
        name: "access-log-format",
        metavar: "FORMAT",
        kind: Kind::Choice(&["combined", "json"]),
        fallback: Fallback::Value("combined"),
        group: Group::Log,
        help: "How access lines are written: combined, or json, an object for each request with the times in the queue and \
               in the application, the worker, and how it ended; a front end's have its route and the time until the first \
               byte",
        reason: "Every log analyser reads the combined format; the other costs the instance a look at each request's headers.",
    },
    Setting {
        key: Key::RequestIdHeader,
        name: "request-id-header",
        metavar: "NAME",
        kind: Kind::Text,
        fallback: Fallback::Unset("every id is made here, and clients are not told it"),
        group: Group::Log,
        help: "Take the id of a request from this header if it is 1 to 128 visible ASCII characters without quotes and \
               backslash, and tell clients the id with it; requests without one get one. Applications find it as \
               lurcher.request_id. A front end takes it only from networks of --trust-forwarded-from, and hands it on",
        reason: "Whether the id that a client sends can be believed is known only where the front end is set up.",
    },
    Setting {
        key: Key::LogFormat,
        name: "log-format",
        metavar: "FORMAT",
        kind: Kind::Choice(&["text", "json"]),
        fallback: Fallback::Value("text"),
        group: Group::Log,
        help: "How the log's records are written: text, or json, an object with time, level, process, pid, message, and text for \
               what has several lines. What an application prints itself stays as it is",
        reason: "People read it more often than programs.",
    },
    Setting {
        key: Key::LogLevel,
        name: "log-level",
        metavar: "LEVEL",
        kind: Kind::Choice(&["error", "warning", "info", "debug"]),
        fallback: Fallback::Value("info"),
        group: Group::Log,
        help: "The least grave records that go to standard error: error, warning, info or debug",
        reason: "Starts, stops and deaths of workers and links are what an operator looks for first.",
    },
];
