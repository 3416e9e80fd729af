//! The application, and what it sees of a request.

use std::path::PathBuf;

use crate::config::Surroundings;
use crate::config::Underscore;
use crate::config::reader::Reader;
use crate::config::reader::quoted_path;
use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;
use crate::config::value;

/// What is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// The application as it was written; only Python can tell whether it is there.
    pub wsgi_app: String,
    /// Directory that workers put first on `sys.path`; absolute, UTF-8, was a directory when it was looked at.
    pub app_path: PathBuf,
    /// What the application is mounted at: empty, or `/…` without a slash at its end.
    pub script_name: String,
    /// `SERVER_NAME`; the request's Host when absent.
    pub server_name: Option<String>,
    /// What becomes of request headers with `_` in their name.
    pub underscore_headers: Underscore,
    /// Whether the application is wrapped in the reference checker.
    pub lint: bool,
}

impl Application {
    /// The directory is looked for even when the application is not named: it tells what else may be missing.
    pub(in crate::config) fn read_path<W: Surroundings>(
        reader: &mut Reader<'_, W>,
    ) -> Option<PathBuf> {
        reader.get(Key::AppPath, Reader::directory, quoted_path)
    }

    pub(in crate::config) fn read<W: Surroundings>(
        reader: &mut Reader<'_, W>,
        app_path: Option<PathBuf>,
    ) -> Option<Self> {
        let wsgi_app = reader.text(Key::WsgiApp, value::text);
        let script_name = reader.text(Key::ScriptName, value::script_name);
        let server_name = reader.text(Key::ServerName, value::host);
        let underscore_headers = reader.word(Key::UnderscoreHeaders, |word| match word {
            "refuse" => Underscore::Refuse,
            "allow" => Underscore::Allow,
            _ => Underscore::Drop,
        });
        let lint = reader.switch(Key::Lint);
        Some(Self {
            wsgi_app: wsgi_app?,
            app_path: app_path?,
            script_name: script_name?,
            server_name,
            underscore_headers: underscore_headers?,
            lint: lint?,
        })
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[
    Setting {
        key: Key::WsgiApp,
        name: "wsgi-app",
        metavar: "APP",
        kind: Kind::Text,
        fallback: Fallback::Required,
        group: Group::Application,
        help: "The application: module:callable, module.callable, module:factory(), or a path to a .py or .wsgi file, \
               with :callable if that is not `application`",
        reason: "There is nothing to serve without it.",
    },
    Setting {
        key: Key::AppPath,
        name: "app-path",
        metavar: "DIR",
        kind: Kind::Path,
        fallback: Fallback::Value("."),
        group: Group::Application,
        help: "The directory that modules of the application are found in; `~` is the home directory",
        reason: "wsgid's default. It must be there, as a misspelt one would only show as an import error.",
    },
    Setting {
        key: Key::ScriptName,
        name: "script-name",
        metavar: "PATH",
        kind: Kind::Text,
        fallback: Fallback::Value(""),
        group: Group::Application,
        help: "The path that the application is mounted at (SCRIPT_NAME), as /shop; requests for other paths get 404",
        reason: "Most applications have a host for themselves.",
    },
    Setting {
        key: Key::ServerName,
        name: "server-name",
        metavar: "HOST",
        kind: Kind::Text,
        fallback: Fallback::Unset("the Host header of each request"),
        group: Group::Application,
        help: "SERVER_NAME of every request, whatever Host a client sends",
        reason: "The Host header is right wherever the front end routes by host.",
    },
    Setting {
        key: Key::UnderscoreHeaders,
        name: "underscore-headers",
        metavar: "WHAT",
        kind: Kind::Choice(&["drop", "refuse", "allow"]),
        fallback: Fallback::Value("drop"),
        group: Group::Application,
        help: "Request headers with `_` in their name: drop them, refuse the request with 400, or allow them",
        reason: "To WSGI, X_User and X-User are the same HTTP_X_USER, so that a client could pass for a proxy. No \
                 browser sends such names.",
    },
    Setting {
        key: Key::Lint,
        name: "lint",
        metavar: "",
        kind: Kind::Switch { off: "no-lint" },
        fallback: Fallback::Value("false"),
        group: Group::Application,
        help: "Check what the application does against the WSGI standard: wrap it in Python's wsgiref.validate. What it \
               finds is a traceback in the log, and 500 to the client",
        reason: "It costs time, and refuses some things that every server takes. It is for development.",
    },
];
