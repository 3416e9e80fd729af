//! `lurcher.toml`: its text, taken apart into what was given for each setting.
//!
//! Keys are the names of the flags; links are `[[link]]` tables, and the front end's settings are in `[front]`, which an
//! instance does not look into. A value has the type that its setting has in TOML, or is a text that is then read as a
//! flag's would be; a key that is not known is a fault, never a shrug.

use std::path::Path;

use toml::Table;
use toml::Value;

use super::fault::Fault;
use super::fault::Problem;
use super::nearest::nearest;
use super::source::Origin;
use super::source::Sources;
use super::table::FRONT;
use super::table::Key;
use super::table::Kind;
use super::table::Scope;
use super::table::Setting;
use super::table::settings_of;

/// The tables of an instance's links.
const LINK: &str = "link";

/// Puts what `text`, the content of `path`, gives to an instance or to the front end into `sources`, and what is wrong with it
/// into `faults`.
pub(super) fn put(
    path: &Path,
    text: &str,
    scope: Scope,
    sources: &mut Sources,
    faults: &mut Vec<Fault>,
) {
    let mut table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return faults.push(syntax(path, text, &error)),
    };
    let front = table.remove(FRONT);
    let at = |key: String| Origin::File(path.to_owned(), key);
    for (name, value) in table {
        match settings_of(Scope::Instance).find(|setting| setting.name == name) {
            _ if name == LINK && scope == Scope::Instance => {
                put_links(path, value, sources, faults);
            }
            // Whether they are right is for whoever uses them.
            _ if name == LINK => {}
            Some(setting) if scope == Scope::Front && !setting.is_shared() => {}
            Some(setting) => put_value(setting, value, &at(name), sources, faults),
            None if settings_of(Scope::Front).any(|setting| setting.name == name) => {
                let instead = "belongs into the [front] table";
                faults.push(Fault::Misplaced { origin: at(name), instead });
            }
            None => {
                let nearest = meant_at_top(&name);
                faults.push(Fault::Unknown { origin: at(name), nearest });
            }
        }
    }
    // After the rest: of two values from one source the last one holds.
    match front {
        Some(Value::Table(table)) if scope == Scope::Front => {
            for (name, value) in table {
                put_front(&name, value, &at, sources, faults);
            }
        }
        // An instance does not look into it.
        Some(Value::Table(_)) | None => {}
        Some(other) => {
            let problem = Problem::Type { wanted: "a [front] table", given: type_name(&other) };
            faults.push(Fault::Value { origin: at(FRONT.to_owned()), problem });
        }
    }
}

/// One key of the front end's table.
fn put_front(
    name: &str,
    value: Value,
    at: &impl Fn(String) -> Origin,
    sources: &mut Sources,
    faults: &mut Vec<Fault>,
) {
    let origin = at(format!("{FRONT}.{name}"));
    match settings_of(Scope::Front).find(|setting| setting.name == name) {
        Some(setting) => put_value(setting, value, &origin, sources, faults),
        None if settings_of(Scope::Instance).any(|setting| setting.name == name) => {
            let instead = "is a setting of the instance, and belongs above the [front] table";
            faults.push(Fault::Misplaced { origin, instead });
        }
        None => {
            let known = settings_of(Scope::Front).map(|setting| setting.name);
            let nearest = nearest(name, known).map(str::to_owned);
            faults.push(Fault::Unknown { origin, nearest });
        }
    }
}

fn put_value(
    setting: &Setting,
    value: Value,
    origin: &Origin,
    sources: &mut Sources,
    faults: &mut Vec<Fault>,
) {
    let origin = origin.clone();
    match setting.kind {
        Kind::Endpoints => {
            faults.push(Fault::Misplaced { origin, instead: "belongs into a [[link]] table" });
        }
        _ if setting.key == Key::Config => {
            faults.push(Fault::Misplaced { origin, instead: "a file cannot name another one" });
        }
        Kind::List => put_list(setting.key, value, &origin, sources, faults),
        kind => match to_text(kind, value) {
            Ok(text) => sources.put(setting.key, text, origin),
            Err(problem) => faults.push(Fault::Value { origin, problem }),
        },
    }
}

/// A list of texts, or one of them.
fn put_list(
    key: Key,
    value: Value,
    origin: &Origin,
    sources: &mut Sources,
    faults: &mut Vec<Fault>,
) {
    let values = match value {
        Value::Array(values) => values,
        value => vec![value],
    };
    for value in values {
        match to_text(Kind::List, value) {
            Ok(text) => sources.put(key, text, origin.clone()),
            Err(problem) => faults.push(Fault::Value { origin: origin.clone(), problem }),
        }
    }
}

fn put_links(path: &Path, value: Value, sources: &mut Sources, faults: &mut Vec<Fault>) {
    let at = |key: String| Origin::File(path.to_owned(), key);
    let links = match value {
        Value::Array(links) => links,
        other => {
            let problem = Problem::Type { wanted: "[[link]] tables", given: type_name(&other) };
            return faults.push(Fault::Value { origin: at("link".into()), problem });
        }
    };
    for (number, link) in (1..).zip(links) {
        let Value::Table(mut link) = link else {
            let problem = Problem::Type { wanted: "a [[link]] table", given: type_name(&link) };
            faults.push(Fault::Value { origin: at(format!("link {number}")), problem });
            continue;
        };
        for (name, key) in [("recv", Key::Recv), ("send", Key::Send)] {
            let origin = at(format!("{name} of link {number}"));
            match link.remove(name).map(|value| to_text(Kind::Text, value)) {
                Some(Ok(text)) => sources.put(key, text, origin),
                Some(Err(problem)) => faults.push(Fault::Value { origin, problem }),
                None => faults.push(Fault::HalfLink { origin }),
            }
        }
        for name in link.keys() {
            let nearest = nearest(name, ["recv", "send"].into_iter()).map(str::to_owned);
            faults.push(Fault::Unknown { origin: at(format!("{name} of link {number}")), nearest });
        }
    }
}

/// The text that a flag would have had, if the value has a type that the setting takes.
fn to_text(kind: Kind, value: Value) -> Result<String, Problem> {
    let wanted = match (kind, value) {
        (_, Value::String(text)) => return Ok(text),
        (Kind::Count { .. } | Kind::Duration | Kind::Size { .. }, Value::Integer(number)) => {
            return Ok(number.to_string());
        }
        (Kind::Duration, Value::Float(number)) => return Ok(number.to_string()),
        (Kind::Switch { .. }, Value::Boolean(value)) => return Ok(value.to_string()),
        (Kind::Count { .. }, value) => ("a whole number", value),
        (Kind::Duration, value) => ("a number of seconds or a text as \"2m\"", value),
        (Kind::Size { .. }, value) => ("a number of bytes or a text as \"10M\"", value),
        (Kind::Switch { .. }, value) => ("true or false", value),
        (Kind::List | Kind::Text | Kind::Path | Kind::Choice(_) | Kind::Endpoints, value) => {
            ("a text", value)
        }
    };
    Err(Problem::Type { wanted: wanted.0, given: type_name(&wanted.1) })
}

const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number with a fraction",
        Value::Boolean(_) => "a boolean",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

/// What may have been meant by a key at the top.
fn meant_at_top(name: &str) -> Option<String> {
    let own = settings_of(Scope::Instance).filter(|setting| setting.kind != Kind::Endpoints);
    let own = own.map(|setting| setting.name).chain([LINK, FRONT]);
    let theirs = settings_of(Scope::Front).filter(|setting| !setting.is_of(Scope::Instance));
    let theirs = theirs.map(|setting| setting.name);
    let meant = nearest(name, own.chain(theirs.clone()))?;
    Some(if theirs.clone().any(|theirs| theirs == meant) {
        format!("{meant} of [{FRONT}]")
    } else {
        meant.to_owned()
    })
}

fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> Fault {
    let at = error.span().map_or(0, |span| span.start);
    let before = text.get(..at).unwrap_or_default();
    Fault::Syntax {
        path: path.to_owned(),
        line: before.matches('\n').count() + 1,
        message: error.message().lines().collect::<Vec<_>>().join("; "),
    }
}
