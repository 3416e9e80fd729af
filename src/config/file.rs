//! `lurcher.toml`: its text, taken apart into what was given for each setting.
//!
//! Keys are the names of the flags; links are `[[link]]` tables. A value has the type that its setting has in TOML, or is
//! a text that is then read as a flag's would be; a key that is not known is a fault, never a shrug.

use std::path::Path;

use toml::Table;
use toml::Value;

use super::fault::Fault;
use super::fault::Problem;
use super::nearest::nearest;
use super::source::Origin;
use super::source::Sources;
use super::table::Key;
use super::table::Kind;
use super::table::Scope;
use super::table::settings_of;

/// Puts what `text`, the content of `path`, gives into `sources`, and what is wrong with it into `faults`.
pub(super) fn put(
    path: &Path,
    text: &str,
    scope: Scope,
    sources: &mut Sources,
    faults: &mut Vec<Fault>,
) {
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return faults.push(syntax(path, text, &error)),
    };
    for (name, value) in table {
        let origin = Origin::File(path.to_owned(), name.clone());
        match settings_of(scope).find(|setting| setting.name == name) {
            _ if name == "link" && scope == Scope::Instance => {
                put_links(path, value, sources, faults);
            }
            None => faults.push(Fault::Unknown { origin, nearest: meant(&name, scope) }),
            Some(setting) if setting.kind == Kind::Endpoints => {
                faults.push(Fault::Misplaced { origin, instead: "belongs into a [[link]] table" });
            }
            Some(setting) if setting.key == Key::Config => {
                faults.push(Fault::Misplaced { origin, instead: "a file cannot name another one" });
            }
            Some(setting) if setting.kind == Kind::List => {
                put_list(setting.key, value, &origin, sources, faults);
            }
            Some(setting) => match to_text(setting.kind, value) {
                Ok(text) => sources.put(setting.key, text, origin),
                Err(problem) => faults.push(Fault::Value { origin, problem }),
            },
        }
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

fn meant(name: &str, scope: Scope) -> Option<String> {
    let keys: Vec<_> = settings_of(scope).filter_map(super::table::Setting::file_key).collect();
    let known = keys.iter().map(|key| key.split_once('.').map_or(key.as_str(), |(table, _)| table));
    nearest(name, known).map(str::to_owned)
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
