//! How workers come to the application, and what else they call.

use crate::config::Surroundings;
use crate::config::reader::Reader;
use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;
use crate::config::value;

/// How a worker begins and ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loading {
    /// Whether the application is loaded once, in a template process that forks the workers.
    pub preload: bool,
    /// What each worker calls before its first request; only Python can tell whether it is there.
    pub on_worker_start: Option<String>,
    /// What each worker calls after its last request.
    pub on_worker_stop: Option<String>,
    /// Whether a change of the application's files is a reload.
    pub reload_on_change: bool,
}

impl Loading {
    pub(in crate::config) fn read<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<Self> {
        let preload = reader.switch(Key::Preload);
        let on_worker_start = reader.text(Key::OnWorkerStart, value::text);
        let on_worker_stop = reader.text(Key::OnWorkerStop, value::text);
        let reload_on_change = reader.switch(Key::ReloadOnChange);
        Some(Self {
            preload: preload?,
            on_worker_start,
            on_worker_stop,
            reload_on_change: reload_on_change?,
        })
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[
    Setting {
        key: Key::Preload,
        name: "preload",
        metavar: "",
        kind: Kind::Switch { off: "no-preload" },
        fallback: Fallback::Value("false"),
        group: Group::Workers,
        help: "Load the application once, in a process that forks the workers, so that they share its memory. It is \
               refused when the application starts threads while it is loaded",
        reason: "What an application opens while it is loaded (connections, random numbers, locks) is shared by all forks, \
                 and not every application can bear that.",
    },
    Setting {
        key: Key::OnWorkerStart,
        name: "on-worker-start",
        metavar: "CALLABLE",
        kind: Kind::Text,
        fallback: Fallback::Unset("nothing is called"),
        group: Group::Workers,
        help: "Call this in each worker before its first request, without arguments: module:callable or module.callable. \
               If it raises, the worker has not loaded",
        reason: "It is for what must not be shared by forks, such as connection pools.",
    },
    Setting {
        key: Key::OnWorkerStop,
        name: "on-worker-stop",
        metavar: "CALLABLE",
        kind: Kind::Text,
        fallback: Fallback::Unset("nothing is called"),
        group: Group::Workers,
        help: "Call this in each worker after its last request, without arguments",
        reason: "It is for what should be closed in good order. A worker that is killed does not come to it.",
    },
    Setting {
        key: Key::ReloadOnChange,
        name: "reload-on-change",
        metavar: "",
        kind: Kind::Switch { off: "no-reload-on-change" },
        fallback: Fallback::Value("false"),
        group: Group::Workers,
        help: "For development: reload when a .py file below --app-path changes, the file that --wsgi-app names, or the \
               settings file; an application that does not load is waited for",
        reason: "Where people are served, a deployment says when all of its files are there.",
    },
];
