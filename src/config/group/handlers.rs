//! What the front end's handlers meet: where they connect, and how much each is given.

use std::time::Duration;

use crate::config::RouteSpec;
use crate::config::Surroundings;
use crate::config::fault::Problem;
use crate::config::reader::Reader;
use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;
use crate::proto::SenderUuid;

/// The side of the handlers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handlers {
    /// Which paths go where; at least one.
    pub routes: Vec<RouteSpec>,
    /// Our name; none: a new one.
    pub ident: Option<String>,
    /// Whether headers are tnetstrings and not JSON.
    pub tnetstrings: bool,
    /// Most outstanding requests at one peer.
    pub peer_window: usize,
    /// Most requests that wait.
    pub queue_limit: usize,
    /// How long one may wait.
    pub queue_timeout: Duration,
    /// Whether what may be repeated goes to a second peer when the first one dies.
    pub retry: bool,
    /// How often each is asked for a sign of life; 0: never.
    pub heartbeat: Duration,
}

impl Handlers {
    pub(in crate::config) fn read<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<Self> {
        let routes = reader.list(Key::Route, Reader::route);
        let routes = routes.and_then(|routes| reader.different(routes));
        let ident = reader.text(Key::Ident, ident);
        let tnetstrings = reader.word(Key::Protocol, |word| word == "tnetstring");
        let peer_window = reader.count(Key::PeerWindow);
        let queue_limit = reader.count(Key::FrontQueueLimit);
        let queue_timeout = reader.duration(Key::FrontQueueTimeout);
        let retry = reader.word(Key::Retry, |word| word == "idempotent");
        let heartbeat = reader.duration(Key::Heartbeat);
        Some(Self {
            routes: routes?,
            ident,
            tnetstrings: tnetstrings?,
            peer_window: peer_window?,
            queue_limit: queue_limit?,
            queue_timeout: queue_timeout?,
            retry: retry?,
            heartbeat: heartbeat?,
        })
    }
}

/// A name that replies can carry.
fn ident(text: &str) -> Result<String, Problem> {
    match SenderUuid::try_from(text.as_bytes()) {
        Ok(ident) if ident.is_reply_safe() => Ok(text.to_owned()),
        _ => Err(Problem::Ident(text.to_owned())),
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[
    Setting {
        key: Key::Route,
        name: "route",
        metavar: "PATH=SEND,RECV",
        kind: Kind::List,
        fallback: Fallback::Required,
        group: Group::Handlers,
        help: "Pass requests whose path begins with PATH to the handlers that connect to the endpoints SEND \
               (requests, their --recv) and RECV (replies, their --send), each tcp://IP:PORT or ipc://PATH; the \
               longest PATH wins; can be given several times",
        reason: "Without one there is nobody to ask.",
    },
    Setting {
        key: Key::Ident,
        name: "ident",
        metavar: "TEXT",
        kind: Kind::Text,
        fallback: Fallback::Unset("another one each time it starts"),
        group: Group::Handlers,
        help: "Our name in messages: letters, digits and `-`, as Mongrel2's send_ident",
        reason: "A new one each time keeps late replies to an earlier run from reaching strangers; handlers take it \
               from the request.",
    },
    Setting {
        key: Key::Protocol,
        name: "protocol",
        metavar: "FORM",
        kind: Kind::Choice(&["json", "tnetstring"]),
        fallback: Fallback::Value("json"),
        group: Group::Handlers,
        help: "How the headers of requests are written: json or tnetstring",
        reason: "Every handler reads JSON; tnetstrings carry any bytes as they are, and lurcher reads both.",
    },
    Setting {
        key: Key::PeerWindow,
        name: "peer-window",
        metavar: "N",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        fallback: Fallback::Value("256"),
        group: Group::Handlers,
        help: "Requests that one handler may have at one time (1 to 1000000); others wait",
        reason: "What a handler has cannot go to another one; what waits here can.",
    },
    Setting {
        key: Key::FrontQueueLimit,
        name: "queue-limit",
        metavar: "N",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        fallback: Fallback::Value("1024"),
        group: Group::Handlers,
        help: "Requests that may wait for a handler (1 to 1000000); further ones get 503 with Retry-After at once",
        reason: "Some seconds of work for quick handlers; what waits longer has mostly been given up by its client.",
    },
    Setting {
        key: Key::FrontQueueTimeout,
        name: "queue-timeout",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("10s"),
        group: Group::Handlers,
        help: "How long a request may wait for a handler, also when there is none; then 503 with Retry-After",
        reason: "Longer than the restart of a handler, shorter than the patience of most clients.",
    },
    Setting {
        key: Key::Retry,
        name: "retry",
        metavar: "WHAT",
        kind: Kind::Choice(&["never", "idempotent"]),
        fallback: Fallback::Value("never"),
        group: Group::Handlers,
        help: "Whether a request whose handler died before it answered goes to another one: never, or idempotent \
               (GET, HEAD, OPTIONS, PUT and DELETE, once)",
        reason: "It may have been done, and even a GET can do things.",
    },
    Setting {
        key: Key::Heartbeat,
        name: "heartbeat",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("5s"),
        group: Group::Handlers,
        help: "How often handlers are asked for a sign of life (0: never); who has given none three times in a row is \
               gone, with what it had. Those that speak ZMTP 3.0 are not asked",
        reason: "A host that vanishes, or a process that is stopped, says no farewell: so its clients wait 15 s and not \
                 for --response-timeout. Whoever is only busy answers, for libzmq does.",
    },
];
