//! Settings as text for people: what holds now, and the page of what there is.
//!
//! Both are made from the table. What holds now is shown as a `lurcher.toml` that would have the same effect.

use std::fmt::Write;
use std::path::PathBuf;

use super::resolve::Resolved;
use super::resolve::Shown;
use super::source::Origin;
use super::table::FRONT;
use super::table::Fallback;
use super::table::Group;
use super::table::Key;
use super::table::Kind;
use super::table::Scope;
use super::table::Setting;
use super::table::all;

/// Where the notes on origins begin.
const NOTE_AT: usize = 48;

impl Resolved {
    /// Each effective value and where it came from, one line each; valid TOML.
    pub fn show(&self) -> String {
        let mut out = head("lurcher", self.file.as_ref()) + &values(self.shown.iter());
        for (link, (recv_at, send_at)) in self.config.front_end.links.iter().zip(&self.link_origins)
        {
            out.push_str("\n[[link]]\n");
            for (name, endpoint, origin) in
                [("recv", &link.recv, recv_at), ("send", &link.send, send_at)]
            {
                let literal = toml::Value::from(endpoint.as_str());
                put(&mut out, &format!("{name} = {literal}"), &place(origin));
            }
        }
        out
    }
}

/// What stands over the values: whose they are, and the file that they may have come from.
pub(super) fn head(of: &str, file: Option<&(PathBuf, Origin)>) -> String {
    let mut out = format!("# The effective settings of {of} {}\n", env!("CARGO_PKG_VERSION"));
    match file {
        Some((path, origin)) => {
            put(&mut out, &format!("# config: {}", path.display()), &place(origin));
        }
        None => put(&mut out, "# config: none", "default"),
    }
    out
}

/// Effective values of a front end, as its table.
pub(super) fn front<'a>(shown: impl Iterator<Item = &'a Shown>) -> String {
    format!("\n[{FRONT}]\n{}", values(shown))
}

/// Effective values, one line each.
pub(super) fn values<'a>(shown: impl Iterator<Item = &'a Shown>) -> String {
    let mut out = String::new();
    for Shown { setting, literal, origin } in shown {
        let line = match (literal, setting.fallback) {
            (Some(literal), _) => format!("{} = {literal}", setting.name),
            (None, Fallback::Unset(meaning)) => format!("# {}: {meaning}", setting.name),
            (None, _) => format!("# {}: unset", setting.name),
        };
        put(&mut out, &line, &place(origin));
    }
    out
}

fn put(out: &mut String, line: &str, note: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{line:<NOTE_AT$} # {note}");
}

fn place(origin: &Origin) -> String {
    let source = match origin {
        Origin::Default => return origin.to_string(),
        Origin::File(..) => "file",
        Origin::Environment(_) => "environment",
        Origin::CommandLine(_) => "command line",
    };
    format!("{source}, {origin}")
}

impl Setting {
    /// What holds when it is not given, for people.
    pub fn fallback_text(&self) -> String {
        match self.fallback {
            Fallback::Required => "none, it must be given".to_owned(),
            Fallback::Value("") => "empty".to_owned(),
            Fallback::Value(".") if self.key == Key::AppPath => "the current directory".to_owned(),
            Fallback::Value(text) if matches!(self.kind, Kind::Switch { .. }) => {
                if text == "true" { "on" } else { "off" }.to_owned()
            }
            Fallback::Value(text) => text.to_owned(),
            Fallback::Unset(meaning) => meaning.to_owned(),
        }
    }
}

/// The part of `docs/settings.md` that tells about every setting.
pub fn reference() -> String {
    let mut out = String::new();
    for &group in Group::ALL {
        let _ = writeln!(out, "## {}\n", group.heading());
        for setting in all().filter(|setting| setting.group == group) {
            let _ = writeln!(out, "### {}\n\n{}.\n", setting.name, code(setting.help));
            let _ = writeln!(out, "* Flag: {}", flags(setting));
            let _ = writeln!(out, "* Variable: `{}`{}", setting.variable(), listed(setting));
            let _ = match setting.file_key() {
                Some(key) => match key.split_once('.') {
                    Some((FRONT, key)) => {
                        writeln!(out, "* File: `{key}` of `[{FRONT}]`, {}", file_type(setting.kind))
                    }
                    Some((table, key)) => writeln!(out, "* File: `{key}` of a `[[{table}]]`"),
                    None => writeln!(
                        out,
                        "* File: `{key}`, {}{}",
                        file_type(setting.kind),
                        place_in_file(setting)
                    ),
                },
                None => writeln!(out, "* File: not there"),
            };
            let _ = writeln!(out, "* Default: {}", setting.fallback_text());
            let _ = writeln!(out, "* Changed by: {}", changed_by(setting));
            let _ = writeln!(out, "* Why: {}\n", code(setting.reason));
        }
    }
    out
}

/// Angle-free words that would read as emphasis or HTML are rare in the help; only `*` needs care.
fn code(text: &str) -> String {
    text.replace('*', "\\*")
}

fn flags(setting: &Setting) -> String {
    match setting.kind {
        Kind::Switch { off } => format!("`--{}`, `--{off}`", setting.name),
        Kind::Endpoints | Kind::List => {
            format!("`--{} {}`, repeatable", setting.name, setting.metavar)
        }
        _ => format!("`--{} {}`", setting.name, setting.metavar),
    }
}

fn changed_by(setting: &Setting) -> &'static str {
    if setting.is_live() { "a reload" } else { "a restart" }
}

/// What `[front]` has to do with a key that stands at the top.
fn place_in_file(setting: &Setting) -> &'static str {
    if setting.is_shared() {
        "; in `[front]` another one for the front end"
    } else if setting.is_of(Scope::Front) {
        "; the front end's is in `[front]`"
    } else {
        ""
    }
}

const fn listed(setting: &Setting) -> &'static str {
    match setting.kind {
        Kind::Endpoints => ", several separated by commas",
        Kind::List => ", several separated by blanks",
        Kind::Switch { .. } => " (`true` or `false`)",
        _ => "",
    }
}

const fn file_type(kind: Kind) -> &'static str {
    match kind {
        Kind::List => "a list of texts",
        Kind::Count { .. } => "a whole number",
        Kind::Duration => "a number of seconds or a text",
        Kind::Size { .. } => "a number of bytes or a text",
        Kind::Switch { .. } => "`true` or `false`",
        Kind::Endpoints | Kind::Text | Kind::Path | Kind::Choice(_) => "a text",
    }
}
