//! What the front end's clients meet: addresses, limits, times, what is told of them.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::Surroundings;
use crate::config::bind::Bind;
use crate::config::bind::Cidr;
use crate::config::fault::Problem;
use crate::config::reader::Reader;
use crate::config::reader::quoted;
use crate::config::reader::quoted_path;
use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;

/// The side of the clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clients {
    /// Where to listen.
    pub bind: Vec<Bind>,
    /// Most connections.
    pub max_connections: usize,
    /// Most bytes of a head.
    pub head_limit: usize,
    /// How long a head may take.
    pub head_timeout: Duration,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
    /// The longest pause within a body.
    pub body_timeout: Duration,
    /// How long a response may take to begin.
    pub response_timeout: Duration,
    /// How long a client may take nothing.
    pub send_timeout: Duration,
    /// The largest body; none: any.
    pub body_limit: Option<u64>,
    /// The largest body within a message.
    pub inline_limit: u64,
    /// What becomes of larger ones.
    pub upload: UploadWay,
    /// Bytes that may wait for a client as handlers are told; 0: they are told nothing.
    pub client_window: u64,
    /// Bytes that may wait for a client at all.
    pub reply_limit: u64,
    /// What is told of proxies.
    pub forwarded: ForwardedSetting,
}

/// How bodies that do not fit a message reach handlers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadWay {
    /// Not at all.
    Refuse,
    /// As files in this directory.
    Files(PathBuf),
    /// In parts.
    Stream,
}

/// What becomes of the fields that proxies set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardedSetting {
    /// For everybody who is not trusted.
    pub policy: ForwardedPolicy,
    /// The fields that handlers get, in lower case.
    pub fields: Vec<&'static str>,
    /// Whose word is kept.
    pub trusted: Vec<Cidr>,
}

/// What becomes of a client's own values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardedPolicy {
    /// They are replaced.
    Set,
    /// They are kept, and ours is added.
    Append,
}

/// The words for the fields, and their names.
const FIELDS: [(&str, &str); 5] = [
    ("for", "x-forwarded-for"),
    ("proto", "x-forwarded-proto"),
    ("host", "x-forwarded-host"),
    ("port", "x-forwarded-port"),
    ("forwarded", "forwarded"),
];

impl Clients {
    pub(in crate::config) fn read<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<Self> {
        let bind = reader.list(Key::Bind, Reader::bind);
        let max_connections = reader.count(Key::MaxConnections);
        let head_limit = reader.size(Key::HeadLimit);
        let head_timeout = reader.duration(Key::HeadTimeout);
        let idle_timeout = reader.duration(Key::IdleTimeout);
        let body_timeout = reader.duration(Key::BodyTimeout);
        let response_timeout = reader.duration(Key::ResponseTimeout);
        let send_timeout = reader.duration(Key::ClientSendTimeout);
        let body_limit = reader.size(Key::MaxBody);
        let inline_limit = reader.size(Key::InlineLimit);
        let upload = Self::read_upload(reader);
        let client_window = reader.size(Key::ClientWindow);
        let reply_limit = reader.size(Key::ReplyLimit);
        let forwarded = Self::read_forwarded(reader);
        Some(Self {
            bind: bind?,
            max_connections: max_connections?,
            head_limit: usize::try_from(head_limit?).ok()?,
            head_timeout: head_timeout?,
            idle_timeout: idle_timeout?,
            body_timeout: body_timeout?,
            response_timeout: response_timeout?,
            send_timeout: send_timeout?,
            body_limit: Some(body_limit?).filter(|bytes| *bytes > 0),
            inline_limit: inline_limit?,
            upload: upload?,
            client_window: client_window?,
            reply_limit: reply_limit?,
            forwarded: forwarded?,
        })
    }

    fn read_upload<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<UploadWay> {
        let way = reader.word(Key::Upload, str::to_owned);
        let directory = reader.get(Key::FrontUploadDir, Reader::directory, quoted_path);
        match (way?.as_str(), directory) {
            ("files", None) => {
                // A directory that was given and is none has been told of.
                reader.need(Key::FrontUploadDir, Problem::NeededBy("--upload files"));
                None
            }
            ("files", Some(directory)) => Some(UploadWay::Files(directory)),
            ("stream", _) => Some(UploadWay::Stream),
            _ => Some(UploadWay::Refuse),
        }
    }

    fn read_forwarded<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<ForwardedSetting> {
        let policy = reader.word(Key::Forwarded, |word| match word {
            "append" => ForwardedPolicy::Append,
            _ => ForwardedPolicy::Set,
        });
        let fields =
            reader.get(Key::ForwardedFields, |_, text| fields(text), |names| quoted(&words(names)));
        let trusted = reader.list(Key::TrustForwardedFrom, |_, text| {
            text.parse().map_err(|_| Problem::Network(text.to_owned()))
        });
        Some(ForwardedSetting { policy: policy?, fields: fields?, trusted: trusted? })
    }
}

fn fields(text: &str) -> Result<Vec<&'static str>, Problem> {
    let words = text.split(',').map(str::trim);
    let names =
        words.map(|word| FIELDS.iter().find(|(known, _)| *known == word).map(|(_, name)| *name));
    names.collect::<Option<Vec<_>>>().ok_or_else(|| Problem::ForwardedFields(text.to_owned()))
}

fn words(names: &[&'static str]) -> String {
    let known = FIELDS.iter().filter(|(_, name)| names.contains(name));
    known.map(|(word, _)| *word).collect::<Vec<_>>().join(",")
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[
    Setting {
        key: Key::Bind,
        name: "bind",
        metavar: "ADDRESS",
        kind: Kind::List,
        fallback: Fallback::Value("127.0.0.1:8000"),
        group: Group::Clients,
        help: "Listen for HTTP at ADDRESS: IP:PORT as 0.0.0.0:8080 or [::1]:8080 (port 0: any free one, which the \
               log names), unix:PATH, or `systemd` for the sockets that systemd hands over; can be given several \
               times",
        reason: "What listens to the world should be told to; 8000 is where development servers are looked for.",
    },
    Setting {
        key: Key::MaxConnections,
        name: "max-connections",
        metavar: "N",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        fallback: Fallback::Value("10000"),
        group: Group::Clients,
        help: "Connections of clients at one time (1 to 1000000); further ones wait until one ends",
        reason: "Some tens of megabytes when all are idle; each takes a descriptor, whose limit is raised as far as \
               it may be.",
    },
    Setting {
        key: Key::HeadLimit,
        name: "head-limit",
        metavar: "SIZE",
        kind: Kind::Size { min: 1024, max: 1 << 20 },
        fallback: Fallback::Value("64K"),
        group: Group::Clients,
        help: "The largest head of a request (1K to 1M); a larger one gets 431, or 414 if it is the target",
        reason: "As much as other servers take with their largest settings; cookies alone can have several kilobytes.",
    },
    Setting {
        key: Key::HeadTimeout,
        name: "head-timeout",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("20s"),
        group: Group::Clients,
        help: "How long a head may take, from the connection or its first byte; then 408",
        reason: "Slow networks need seconds; attacks by slowness would like minutes.",
    },
    Setting {
        key: Key::IdleTimeout,
        name: "idle-timeout",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("75s"),
        group: Group::Clients,
        help: "How long a connection may wait for its next request; then it is closed",
        reason: "Longer than the 60 s for which common load balancers keep theirs, which so close first.",
    },
    Setting {
        key: Key::BodyTimeout,
        name: "body-timeout",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("30s"),
        group: Group::Clients,
        help: "How long a client may pause while it sends a body; then 408",
        reason: "Long enough for a mobile network to come back.",
    },
    Setting {
        key: Key::ResponseTimeout,
        name: "response-timeout",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("60s"),
        group: Group::Clients,
        help: "How long a response may take to begin, from the request's end; then 504. A handler's keep-alive \
               messages begin the time anew",
        reason: "What proxies and browsers wait for; instances of lurcher send such messages while they work.",
    },
    Setting {
        key: Key::ClientSendTimeout,
        name: "send-timeout",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("60s"),
        group: Group::Clients,
        help: "How long a client may take none of the bytes that wait for it; then it is cut off",
        reason: "A client that has gone without a word is noticed before its buffers cost others anything.",
    },
    Setting {
        key: Key::InlineLimit,
        name: "inline-limit",
        metavar: "SIZE",
        kind: Kind::Size { min: 1024, max: 1 << 30 },
        fallback: Fallback::Value("1M"),
        group: Group::Clients,
        help: "The largest body that travels within its request's message (1K to 1G); see --upload for larger ones",
        reason: "Nearly all forms fit, and a message of this size is no burden.",
    },
    Setting {
        key: Key::Upload,
        name: "upload",
        metavar: "WAY",
        kind: Kind::Choice(&["refuse", "files", "stream"]),
        fallback: Fallback::Value("stream"),
        group: Group::Clients,
        help: "How larger bodies reach handlers: stream (in parts, as the handler gives credits), files (in \
               --upload-dir, named to the handler, which removes them) or refuse (413). For handlers that know no \
               streams choose another way: they would take the first part for the whole. serve uses files unless \
               told otherwise",
        reason: "Instances of lurcher read streams, and nobody expects that an upload fails by default; files need a \
                 directory that both sides reach.",
    },
    Setting {
        key: Key::FrontUploadDir,
        name: "upload-dir",
        metavar: "DIRECTORY",
        kind: Kind::Path,
        fallback: Fallback::Unset("none; --upload files needs one"),
        group: Group::Clients,
        help: "Where --upload files puts bodies",
        reason: "Only who runs both sides knows a place that both can reach.",
    },
    Setting {
        key: Key::ClientWindow,
        name: "client-window",
        metavar: "SIZE",
        kind: Kind::Size { min: 0, max: 1 << 30 },
        fallback: Fallback::Value("1M"),
        group: Group::Clients,
        help: "Bytes of a response that may wait for one client, as handlers are told (DOWNLOAD_CREDITS); 0 tells \
               them nothing",
        reason: "A fast network is kept busy, and a thousand slow clients cost a gigabyte at most.",
    },
    Setting {
        key: Key::ReplyLimit,
        name: "reply-limit",
        metavar: "SIZE",
        kind: Kind::Size { min: 65_536, max: 1 << 40 },
        fallback: Fallback::Value("128M"),
        group: Group::Clients,
        help: "Bytes that may wait for one client when its handler does not heed --client-window (at least 64K); \
               with more it is cut off",
        reason: "Handlers that know no flow control send whole files in one message.",
    },
    Setting {
        key: Key::Forwarded,
        name: "forwarded",
        metavar: "POLICY",
        kind: Kind::Choice(&["set", "append"]),
        fallback: Fallback::Value("set"),
        group: Group::Clients,
        help: "What becomes of X-Forwarded-For and its like: set (the client's are replaced) or append (added to \
               what the client sent)",
        reason: "A client may say of itself what it likes; Mongrel2 replaces it too.",
    },
    Setting {
        key: Key::ForwardedFields,
        name: "forwarded-fields",
        metavar: "LIST",
        kind: Kind::Text,
        fallback: Fallback::Value("for"),
        group: Group::Clients,
        help: "Which of them handlers get: for, proto, host, port (X-Forwarded-...) and forwarded (RFC 7239), with \
               commas between",
        reason: "Scheme and host are told in other ways; what is not in the list is left out.",
    },
    Setting {
        key: Key::TrustForwardedFrom,
        name: "trust-forwarded-from",
        metavar: "NETWORK",
        kind: Kind::List,
        fallback: Fallback::Unset("nobody is trusted"),
        group: Group::Clients,
        help: "Keep what clients in NETWORK (as 10.0.0.0/8 or ::1) say in these fields, and append to it; their \
               X-Forwarded-Proto makes the scheme https; can be given several times",
        reason: "A proxy in front knows the client; anybody else could lie.",
    },
];
