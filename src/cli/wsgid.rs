//! wsgid's command line: each of its words works as there, or is refused with what to use instead.
//!
//! What means the same (`--recv`, `--send`, `--wsgi-app`, `--app-path`, `--workers`, `--keep-alive`, `--mongrel2-chroot`) is
//! an ordinary setting; here is the rest.

use std::fmt::Write;

/// An option that is taken without an effect of its own.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) name: &'static str,
    /// What it does here.
    pub(super) help: &'static str,
}

/// An option that is refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) name: &'static str,
    /// Whether a value follows it.
    pub(super) has_value: bool,
    pub(super) instead: &'static str,
}

pub(super) static ACCEPTED: [Accepted; 6] = [
    Accepted { name: "debug", help: "The same as --log-level debug" },
    Accepted {
        name: "stdout",
        help: "No effect: the log goes to standard error, as wsgid's does with this",
    },
    Accepted { name: "stderr", help: "No effect: the log goes to standard error" },
    Accepted { name: "no-debug", help: "No effect: that is the default" },
    Accepted { name: "no-chroot", help: "No effect: lurcher never changes its root" },
    Accepted { name: "no-init", help: "No effect" },
];

pub(super) static REFUSED: [Refused; 4] = [
    Refused {
        name: "chroot",
        has_value: false,
        instead: "not supported, as workers could start no Python in there; let the service manager do it, as systemd with RootDirectory= or ProtectSystem=strict",
    },
    Refused {
        name: "django",
        has_value: false,
        instead: "not supported; use --wsgi-app PROJECT.wsgi:application",
    },
    Refused {
        name: "loader-dir",
        has_value: true,
        instead: "not supported; use --wsgi-app with module:factory() or a path to a .py file",
    },
    Refused {
        name: "send-signal",
        has_value: true,
        instead: "not supported; send the signal with kill, as kill -TERM PID",
    },
];

/// Those of wsgid's commands that are none here.
static COMMANDS: [(&str, &str); 1] = [(
    "config",
    "settings are options, variables or a lurcher.toml; --print-config prints one to start from",
)];

/// What to say about a word that is a command of wsgid's.
pub(super) fn about_word(word: &str) -> Option<String> {
    let (_, instead) = COMMANDS.iter().find(|(command, _)| *command == word)?;
    Some(format!("there is no command {word}: {instead}"))
}

/// The part of `docs/settings.md` about wsgid.
pub(super) fn reference() -> String {
    let mut out = String::from("| wsgid | here |\n| --- | --- |\n");
    // Writing to a String cannot fail.
    for option in &ACCEPTED {
        let _ = writeln!(out, "| `--{}` | {} |", option.name, option.help);
    }
    for option in &REFUSED {
        let _ = writeln!(out, "| `--{}` | Refused: {} |", option.name, option.instead);
    }
    for (command, instead) in &COMMANDS {
        let _ = writeln!(out, "| `{command}` (command) | Refused: {instead} |");
    }
    out
}
