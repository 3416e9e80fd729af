//! What a `wsgid.json` says that lurcher was not told.
//!
//! wsgid let that file win over its command line; lurcher does not read it for its settings, and says so, with what should
//! be carried over, so that nobody wonders why half of their settings are gone.

use std::path::Path;

use serde_json::Value;

use super::reader::PlacedLink;
use super::resolve::Shown;
use super::source::Surroundings;
use super::table::Key;
use super::value;

/// A line about the `wsgid.json` of the application's directory, if it has one.
pub(super) fn left_over(
    app_path: &Path,
    world: &impl Surroundings,
    shown: &[Shown],
    links: &[PlacedLink],
) -> Option<String> {
    let path = app_path.join("wsgid.json");
    let text = world.read(&path).ok()?;
    let note = match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(settings)) => {
            let left: Vec<_> = settings
                .iter()
                .filter(|(name, value)| !is_told(name, value, shown, links))
                .filter_map(|(name, value)| carried_over(name, value))
                .collect();
            if left.is_empty() {
                "lurcher was told all that it sets".to_owned()
            } else {
                format!("what it sets and lurcher was not told: {}", left.join(", "))
            }
        }
        _ => "(and it is no JSON object)".to_owned(),
    };
    Some(format!("{} is not read; {note}", path.display()))
}

/// What to give to lurcher instead of a wsgid setting; nothing when it has no meaning any more.
fn carried_over(name: &str, value: &Value) -> Option<String> {
    let text = plain(value);
    let on = text.eq_ignore_ascii_case("true");
    match name {
        "recv" | "send" | "workers" => Some(format!("--{name} {text}")),
        "wsgi_app" | "mongrel2_chroot" => Some(format!("--{} {text}", name.replace('_', "-"))),
        "debug" => on.then(|| "--log-level debug".to_owned()),
        "keep_alive" => Some(if on { "--keep-alive" } else { "--no-keep-alive" }.to_owned()),
        "chroot" => on.then(|| "chroot (lurcher has none; a service manager does)".to_owned()),
        "django" => on.then(|| "django (--wsgi-app PROJECT.wsgi:application)".to_owned()),
        "envs" => value
            .as_object()
            .is_some_and(|envs| !envs.is_empty())
            .then(|| "envs (set them in lurcher's own environment)".to_owned()),
        _ => None,
    }
}

/// Whether lurcher has the same value, by whatever source.
fn is_told(name: &str, value: &Value, shown: &[Shown], links: &[PlacedLink]) -> bool {
    let text = plain(value);
    let is = |key: Key, wanted: &str| {
        let literal = shown.iter().find(|shown| shown.setting.key == key);
        literal.and_then(|shown| shown.literal.as_deref()).is_some_and(|literal| {
            literal == wanted || literal == toml::Value::from(wanted).to_string()
        })
    };
    match name {
        "recv" => links.iter().any(|(link, _)| link.recv.as_str() == text),
        "send" => links.iter().any(|(link, _)| link.send.as_str() == text),
        "workers" => is(Key::Workers, &text),
        "wsgi_app" => is(Key::WsgiApp, &text),
        "mongrel2_chroot" => is(Key::Mongrel2Chroot, &text),
        "debug" => is(Key::LogLevel, "debug"),
        "keep_alive" => value::switch(&text).is_ok_and(|on| is(Key::KeepAlive, &on.to_string())),
        _ => false,
    }
}

/// A value as it would stand on a command line: texts without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
