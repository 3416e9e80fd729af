//! wsgid's application folder: what `lurcher start` takes from it, and its `wsgid.json` as a `lurcher.toml`.
//!
//! The folder has `wsgid.json` (or by now `lurcher.toml`), the application in `app`, pid files in `pid/master` and logs in
//! `logs`. Options on the command line win over the file, as everywhere here; wsgid had it the other way round, so each
//! value of the file that loses is told.

use std::fmt::Write;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use serde_json::Value;

use super::reader;
use super::source::Origin;
use super::source::Sources;
use super::source::Surroundings;
use super::table::Key;
use super::table::Kind;
use super::table::Setting;

/// The folders of an application folder that `lurcher start` writes to.
pub const WRITTEN: [&str; 2] = ["pid/master", "logs"];

/// The pid file of the instance that lives in a folder. One instance: it has as many workers as are wanted.
const PID_FILE: &str = "pid/master/lurcher.pid";

/// What a `wsgid.json` says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Carried {
    /// Its name there, what it is here, and as which text.
    settings: Vec<(String, Key, String)>,
    /// For the environment of the application.
    envs: Vec<(String, String)>,
    /// What has no meaning here: its name there, and what to do instead.
    dropped: Vec<(String, &'static str)>,
    /// It wants its log on the terminal.
    console: bool,
}

/// Puts into `sources` what an application folder gives, beside what was typed: its settings file, and the defaults of an
/// instance that lives in it. Gives what the operator should be told; or what is wrong, one line each.
pub fn put_folder(
    sources: &mut Sources,
    world: &impl Surroundings,
) -> Result<Vec<String>, Vec<String>> {
    let folder = folder(sources, world)?;
    let missing: Vec<_> =
        WRITTEN.into_iter().filter(|part| !world.is_dir(&folder.join(part))).collect();
    if !missing.is_empty() {
        let (folder, missing) = (folder.display(), missing.join(" and "));
        return Err(vec![format!(
            "{folder} has no {missing}; `lurcher init --app-path {folder}` makes what an application folder needs"
        )]);
    }
    sources.has_folder = true;
    let mut told = Vec::new();
    let mut console = false;
    if sources.all(Key::Config).is_empty() && world.variable("LURCHER_CONFIG").is_none() {
        let toml = folder.join("lurcher.toml");
        let json = folder.join("wsgid.json");
        let mut file = PathBuf::from("/dev/null");
        if world.read(&toml).is_ok() {
            file = toml;
        } else if let Some(carried) = read(&json, world).map_err(|fault| vec![fault])? {
            console = carried.console;
            told = put_carried(carried, &json, sources)?;
        }
        sources.put(Key::Config, file, Origin::Default);
    }
    let log = ["logs/wsgid.log", "logs/lurcher.log"].map(|name| folder.join(name));
    let there = world.read(&log[0]).is_ok();
    let place = |path: &Path| path.to_string_lossy().into_owned();
    sources.put(Key::AppPath, place(&folder), Origin::Default);
    sources.put(Key::Daemon, "true", Origin::Default);
    sources.put(Key::PidFile, place(&folder.join(PID_FILE)), Origin::Default);
    if !console {
        sources.put(Key::LogFile, place(&log[usize::from(!there)]), Origin::Default);
    }
    // wsgid became the owner of the folder.
    if let (0, Some((uid @ 1.., gid))) = (world.identity().0, world.owner(&folder)) {
        sources.put(Key::User, uid.to_string(), Origin::Default);
        sources.put(Key::Group, gid.to_string(), Origin::Default);
    }
    Ok(told)
}

/// The folder that a command is about.
pub fn folder(sources: &Sources, world: &impl Surroundings) -> Result<PathBuf, Vec<String>> {
    let typed = sources.all(Key::AppPath).last().map(|given| given.text.clone());
    let text = typed.or_else(|| world.variable("LURCHER_APP_PATH")).unwrap_or_else(|| ".".into());
    let text = text.to_str().ok_or_else(|| vec!["--app-path: must be UTF-8 text".to_owned()])?;
    reader::path(world, text).map_err(|problem| vec![format!("--app-path: {problem}")])
}

/// Why there is no process id for a folder.
#[derive(Debug)]
pub enum InFolder {
    /// The folder cannot be told; one line each.
    Wrong(Vec<String>),
    /// No instance runs in it, as far as its pid file says.
    Nobody(PathBuf),
}

/// The instance that `lurcher start` has started in the folder, if a folder was named. Its own settings file then tells what
/// else there is to know.
pub fn pid_in_folder(
    sources: &mut Sources,
    world: &impl Surroundings,
) -> Result<Option<u32>, InFolder> {
    if sources.all(Key::AppPath).is_empty() {
        return Ok(None);
    }
    let folder = folder(sources, world).map_err(InFolder::Wrong)?;
    let toml = folder.join("lurcher.toml");
    if sources.all(Key::Config).is_empty() && world.read(&toml).is_ok() {
        sources.put(Key::Config, toml, Origin::Default);
    }
    let text = world.read(&folder.join(PID_FILE)).unwrap_or_default();
    text.trim().parse().map(Some).map_err(|_| InFolder::Nobody(folder))
}

fn put_carried(
    carried: Carried,
    json: &Path,
    sources: &mut Sources,
) -> Result<Vec<String>, Vec<String>> {
    let mut told = Vec::new();
    for (name, what) in &carried.dropped {
        let line = format!("{}: {name}: {what}", json.display());
        if name == "chroot" {
            // Whoever relies on it must not find out later that it is not there.
            return Err(vec![line]);
        }
        told.push(line);
    }
    for (name, key, text) in carried.settings {
        let stronger: Vec<String> = sources
            .all(key)
            .iter()
            .filter(|given| given.text.to_str() != Some(text.as_str()))
            .map(|given| given.origin.to_string())
            .collect();
        if let Some(stronger) = stronger.last() {
            told.push(format!(
                "{stronger} wins over {name} of {}; wsgid would have obeyed the file",
                json.display()
            ));
        }
        sources.put(key, text, Origin::File(json.to_owned(), name));
    }
    sources.envs = carried.envs;
    Ok(told)
}

fn read(path: &Path, world: &impl Surroundings) -> Result<Option<Carried>, String> {
    match world.read(path) {
        Ok(text) => carry(&text).map(Some).map_err(|why| format!("{}: {why}", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: cannot be read: {error}", path.display())),
    }
}

/// Reads a `wsgid.json` as wsgid did: a switch is on if it is the word `true`, in any case.
fn carry(text: &str) -> Result<Carried, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    let Value::Object(settings) = value else { return Err("is no JSON object".to_owned()) };
    let mut carried = Carried::default();
    for (name, value) in settings {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let on = text.eq_ignore_ascii_case("true");
        let key = match name.as_str() {
            "recv" => Some((Key::Recv, text)),
            "send" => Some((Key::Send, text)),
            "workers" => Some((Key::Workers, text)),
            "wsgi_app" => Some((Key::WsgiApp, text)),
            "mongrel2_chroot" => Some((Key::Mongrel2Chroot, text)),
            "keep_alive" => Some((Key::KeepAlive, on.to_string())),
            "debug" => on.then(|| (Key::LogLevel, "debug".to_owned())),
            "no_daemon" => on.then(|| (Key::Daemon, "false".to_owned())),
            "stdout" => {
                carried.console = on;
                None
            }
            "envs" => {
                let envs = value.as_object().into_iter().flatten();
                let texts = envs.map(|(name, value)| {
                    (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                });
                carried.envs = texts.collect();
                None
            }
            _ => {
                if let Some(what) = instead(&name, on) {
                    carried.dropped.push((name, what));
                }
                continue;
            }
        };
        carried.settings.extend(key.map(|(key, text)| (name, key, text)));
    }
    // On the terminal there is a log only if wsgid stayed there.
    carried.console &= carried.settings.iter().any(|(_, key, _)| *key == Key::Daemon);
    Ok(carried)
}

/// What to do instead of a setting that means nothing here; nothing if it was off, or meant nothing there.
fn instead(name: &str, on: bool) -> Option<&'static str> {
    match name {
        "chroot" if on => Some(
            "not supported, as workers could start no Python in there; take it out, and let the service manager do it, \
             as systemd with RootDirectory= or ProtectSystem=strict",
        ),
        "django" if on => {
            Some("wsgid did not read it either; use --wsgi-app PROJECT.wsgi:application")
        }
        "chroot" | "django" => None,
        "loader_dir" => Some(
            "loaders are not read; use --wsgi-app with module:factory() or a path to a .py file",
        ),
        _ => Some("wsgid did not know it either"),
    }
}

/// A `lurcher.toml` made from a `wsgid.json`.
#[derive(Debug)]
pub struct Migration {
    /// Where it belongs.
    pub path: PathBuf,
    /// Its text.
    pub toml: String,
    /// What was kept, changed and dropped; one line each.
    pub report: Vec<String>,
}

/// Makes a `lurcher.toml` from the `wsgid.json` of a folder; or says why not, one line each.
pub fn migrate(folder: &Path, world: &impl Surroundings) -> Result<Migration, Vec<String>> {
    let json = folder.join("wsgid.json");
    let carried = read(&json, world).map_err(|fault| vec![fault])?;
    let carried = carried.ok_or_else(|| vec![format!("{}: there is none", json.display())])?;
    let mut toml = format!("# Made from {} by lurcher migrate.\n", json.display());
    let mut report = Vec::new();
    // Writing to a String cannot fail.
    let _ = writeln!(toml, "app-path = {}", literal(Key::AppPath, &folder.to_string_lossy()));
    let mut sides = String::new();
    for (name, key, text) in &carried.settings {
        // `start` goes into the background unless told otherwise, the bare command does not.
        let line = format!("{} = {}", Setting::of(*key).name, literal(*key, text));
        let place = if Setting::of(*key).kind == Kind::Endpoints { &mut sides } else { &mut toml };
        let _ = writeln!(place, "{line}");
        let same = name.replace('_', "-") == Setting::of(*key).name;
        report.push(if same {
            format!("kept: {line}")
        } else {
            format!("changed: {name} is now {line}")
        });
    }
    if !sides.is_empty() {
        let _ = write!(toml, "\n[[link]]\n{sides}");
    }
    if carried.console {
        report.push("dropped: stdout: without log-file the log goes to standard error".to_owned());
    }
    for (name, text) in &carried.envs {
        report.push(format!(
            "dropped: envs: set {name}={text:?} in the environment that starts lurcher"
        ));
    }
    report.extend(carried.dropped.iter().map(|(name, what)| format!("dropped: {name}: {what}")));
    if world.read(&folder.join("django.json")).is_ok() {
        report.push(
            "dropped: django.json is not read; put what it sets into the project's settings"
                .to_owned(),
        );
    }
    if world.is_dir(&folder.join("plugins")) {
        report.push(
            "dropped: plugins are not read; WSGI middleware does what filters did".to_owned(),
        );
    }
    if !carried.settings.iter().any(|(_, key, _)| *key == Key::WsgiApp) {
        report.push(
            "missing: wsgi-app: wsgid looked for a Django project; add wsgi-app = \"PROJECT.wsgi:application\"".to_owned(),
        );
    }
    Ok(Migration { path: folder.join("lurcher.toml"), toml, report })
}

fn literal(key: Key, text: &str) -> String {
    let plain = match Setting::of(key).kind {
        Kind::Count { .. } => text.parse::<u64>().is_ok(),
        Kind::Switch { .. } => matches!(text, "true" | "false"),
        _ => false,
    };
    if plain { text.to_owned() } else { reader::quoted(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_wsgid_did() {
        let carried = carry(
            r#"{"recv": "tcp://a:1", "workers": "4", "keep_alive": "False", "debug": "True", "no_daemon": true,
                "stdout": "true", "envs": {"A": "b", "N": 1}, "chroot": "False", "django": "True", "what": 1}"#,
        )
        .unwrap();
        let texts: Vec<_> =
            carried.settings.iter().map(|(name, _, text)| (name.as_str(), text.as_str())).collect();
        let mut expected = [
            ("debug", "debug"),
            ("keep_alive", "false"),
            ("no_daemon", "false"),
            ("recv", "tcp://a:1"),
            ("workers", "4"),
        ];
        expected.sort_unstable();
        let mut sorted = texts.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
        assert_eq!(carried.envs, [("A".into(), "b".into()), ("N".into(), "1".into())]);
        assert!(carried.console);
        let dropped: Vec<_> = carried.dropped.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(dropped, ["django", "what"]);
        for (text, why) in [("[]", "is no JSON object"), ("{", "no JSON: ")] {
            assert!(carry(text).unwrap_err().starts_with(why));
        }
    }
}
