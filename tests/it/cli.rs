//! The command line as a whole, as a function of arguments, environment and files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::path::PathBuf;

use lurcher::cli::Parsed;
use lurcher::cli::Verb;
use lurcher::cli::parse;
use lurcher::cli::parse_in;
use lurcher::config::Config;
use lurcher::config::Level;
use lurcher::config::Surroundings;

#[derive(Default)]
struct World {
    variables: BTreeMap<&'static str, OsString>,
    files: BTreeMap<&'static str, &'static str>,
}

impl Surroundings for World {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).cloned()
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        let text = path.to_str().and_then(|path| self.files.get(path));
        text.map(|&text| text.to_owned()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn is_dir(&self, path: &Path) -> bool {
        path == Path::new("/here")
    }

    fn current_dir(&self) -> io::Result<PathBuf> {
        Ok("/here".into())
    }
}

const NEEDED: &str =
    "--recv tcp://127.0.0.1:5000 --send tcp://127.0.0.1:5001 --wsgi-app elo.application";

fn args(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn run(line: &str) -> Config {
    match parse_in(args(&format!("{NEEDED} {line}")), &World::default()) {
        Parsed::Run(config) => *config,
        other => panic!("{line}: {other:?}"),
    }
}

/// The lines that a command line is refused with, without what each begins with.
fn refused_in(args: Vec<OsString>, world: &World) -> Vec<String> {
    match parse_in(args, world) {
        Parsed::Exit { code: 64, stdout, stderr } if stdout.is_empty() => {
            let lines = stderr
                .lines()
                .map(|line| line.strip_prefix("lurcher: ").expect("they begin alike").to_owned());
            lines.collect()
        }
        other => panic!("{other:?}"),
    }
}

fn refused(line: &str) -> Vec<String> {
    refused_in(args(&format!("{NEEDED} {line}")), &World::default())
}

fn printed(line: &str) -> String {
    match parse_in(args(line), &World::default()) {
        Parsed::Exit { code: 0, stdout, stderr } if stderr.is_empty() => stdout,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_wsgid_command_line_works_as_it_is() {
    let config = run("--keep-alive --workers 4 --app-path . --no-daemon --stdout --stderr --debug");
    assert_eq!(
        (config.workers.workers, config.workers.threads, config.workers.keep_alive),
        (4, 4, true)
    );
    assert_eq!(config.application.app_path, Path::new("/here"));
    assert_eq!(config.log.log_level, Level::Debug);
    assert_eq!(config.application.wsgi_app, "elo.application");
    let config =
        run("--app-path=/here --workers=2 --no-init --no-debug --no-chroot --no-keep-alive");
    assert_eq!((config.workers.workers, config.workers.keep_alive), (2, false));
}

#[test]
fn the_last_of_several_counts() {
    assert_eq!(run("--workers 2 --workers=3").workers.workers, 3);
    assert!(run("--no-keep-alive --keep-alive --keep-alive").workers.keep_alive);
    assert!(!run("--keep-alive --no-keep-alive").workers.keep_alive);
    assert_eq!(run("--log-level error --debug").log.log_level, Level::Error, "the explicit one");
    let links = run("--send ipc:///s --recv ipc:///r").front_end.links;
    assert_eq!(links[1].recv.as_str(), "ipc:///r");
    assert_eq!(links[1].send.as_str(), "ipc:///s");
}

#[test]
fn each_mistake_of_typing_has_its_line() {
    for (line, expected) in [
        ("--frobnicate", "--frobnicate: no such option"),
        ("--frobnicate=3", "--frobnicate: no such option"),
        ("--frobnicate 3", "--frobnicate: no such option"),
        ("--wrokers 3", "--wrokers: no such option; did you mean --workers?"),
        ("--thr 3", "--thr: options cannot be cut short; use --threads"),
        ("--wsgi_app x", "--wsgi_app: no such option; did you mean --wsgi-app?"),
        ("-w 3", "-w: no such option"),
        ("-workers 3", "-w: no such option"),
        ("--workers", "--workers: a value must follow"),
        ("--workers --threads 3", "--workers: a value must follow"),
        ("--workers 1 --workers", "--workers: a value must follow"),
        ("--workers=", "--workers: \"\" is not a whole number from 1 to 512"),
        ("--workers 0", "--workers: \"0\" is not a whole number from 1 to 512"),
        ("--workers -1", "--workers: \"-1\" is not a whole number from 1 to 512"),
        ("--keep-alive=false", "--keep-alive: takes no value; the opposite is --no-keep-alive"),
        (
            "--chroot",
            "--chroot: not supported, as workers could start no Python in there; let the service manager do it, as systemd with RootDirectory= or ProtectSystem=strict",
        ),
        ("--django", "--django: not supported; use --wsgi-app PROJECT.wsgi:application"),
        (
            "--loader-dir x",
            "--loader-dir: not supported; use --wsgi-app with module:factory() or a path to a .py file",
        ),
        (
            "--send-signal 15",
            "--send-signal: not supported; send the signal with kill, as kill -TERM PID",
        ),
        (
            "config",
            "there is no command config: settings are options, variables or a lurcher.toml; --print-config prints one to start from",
        ),
        ("bogus", "\"bogus\" stands alone: lurcher takes options and their values only"),
        ("--config gone.toml", "/here/gone.toml: cannot be read: entity not found"),
    ] {
        assert_eq!(refused(line), [expected], "{line}");
    }
}

#[test]
fn a_command_is_answered_without_asking_for_settings() {
    let refused = |line: &str| refused_in(args(line), &World::default());
    let lines = refused("config --app-path=/here");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("there is no command config: "), "{lines:?}");
    let lines = refused("start --app-path=/here");
    assert_eq!(
        lines,
        [
            "/here has no pid/master and logs; `lurcher init --app-path /here` makes what an application folder needs"
        ]
    );
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let world = World {
        variables: [("LURCHER_THREADS", "none".into())].into(),
        files: [("lurcher.toml", "log-levle = \"x\"")].into(),
    };
    let line = "--frob --recv tcp://*:5000 --workers 0 --wrokers=2 --app-path /gone --chroot --script-name x/ --threads";
    assert_eq!(
        refused_in(args(line), &world),
        [
            "--frob: no such option",
            "--wrokers: no such option; did you mean --workers?",
            "--threads: a value must follow",
            "--chroot: not supported, as workers could start no Python in there; let the service manager do it, as systemd with RootDirectory= or ProtectSystem=strict",
            "lurcher.toml: log-levle is no setting; did you mean log-level?",
            "--recv: \"tcp://*:5000\": `*` is for the side that binds; lurcher connects: name the front end's host, as \
             127.0.0.1",
            "--send is missing (or LURCHER_SEND, or send of a [[link]] in lurcher.toml)",
            "--app-path: \"/gone\" is not a directory",
            "--wsgi-app is missing (or LURCHER_WSGI_APP, or wsgi-app in lurcher.toml)",
            "--script-name: \"x/\" must start with `/`, not end with it, and be a plain path as `/shop`, without . or .. \
             and not percent-encoded",
            "--workers: \"0\" is not a whole number from 1 to 512",
            "LURCHER_THREADS: \"none\" is not a whole number from 1 to 256",
            "for example: lurcher --recv tcp://127.0.0.1:5000 --send tcp://127.0.0.1:5001 --wsgi-app module:callable",
            "--help tells about every option",
        ]
    );
}

#[test]
fn nothing_typed_is_answered_with_what_is_missing() {
    let lines = refused_in(Vec::new(), &World::default());
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert!(lines[0].starts_with("--recv is missing"));
    assert!(lines[3].starts_with("for example: lurcher --recv "));
}

#[test]
fn what_is_missing_may_stand_in_a_wsgid_json() {
    let files = [("/here/wsgid.json", r#"{"recv": "tcp://127.0.0.1:5000", "workers": 4}"#)].into();
    let lines = refused_in(Vec::new(), &World { files, ..World::default() });
    assert_eq!(
        lines[3],
        "warning: /here/wsgid.json is not read; what it sets and lurcher was not told: --recv tcp://127.0.0.1:5000, \
         --workers 4"
    );
}

#[test]
fn no_argument_can_forge_a_line() {
    let strange =
        [&b"--x\nlurcher: forged"[..], b"a\x1b[31m\r\n", b"--workers=\xff", b"--\xff\xfe=\n"];
    let args = strange.map(|bytes| OsString::from_vec(bytes.to_vec())).to_vec();
    let world = World::default();
    let Parsed::Exit { stderr, .. } = parse_in(args, &world) else { panic!("it runs") };
    assert!(stderr.lines().all(|line| line.starts_with("lurcher: ")), "{stderr}");
    assert!(!stderr.contains(['\x1b', '\r']) && !stderr.contains("\nlurcher: forged"), "{stderr}");
    assert!(stderr.contains("--workers: must be UTF-8 text"), "{stderr}");
}

#[test]
fn a_command_has_its_own_words_and_options() {
    let Parsed::Verb(order) = parse_in(args("version"), &World::default()) else { panic!() };
    assert_eq!(order.verb, Verb::Version);
    let help = printed("help version");
    assert!(help.contains("Usage: lurcher version [OPTIONS]"), "{help}");
    for line in ["version --help", "version -h", "version too many --help"] {
        assert_eq!(printed(line), help);
    }
    assert_eq!(printed("help"), printed("--help"));
    let usage = "usage: lurcher version [OPTIONS]";
    for (line, expected) in [
        ("version now", vec!["version: does not expect \"now\"", usage]),
        ("version --hlep", vec!["--hlep: no such option; did you mean --help?", usage]),
        ("version --workers 3", vec!["--workers: no such option", usage]),
        ("verison", vec!["there is no command \"verison\"; did you mean version?"]),
        ("help verison", vec!["there is no command \"verison\"; did you mean version?"]),
        ("frobnicate", vec!["there is no command \"frobnicate\"; --help lists them"]),
        ("--debug version", vec!["version: a command must be the first word"]),
    ] {
        assert_eq!(refused_in(args(line), &World::default()), expected, "{line}");
    }
}

#[test]
fn help_fits_and_names_everything() {
    let help = printed("--help");
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    for setting in lurcher::config::table::settings() {
        assert!(help.contains(&format!("--{}", setting.name)), "{}", setting.name);
        assert!(help.contains(&format!("[env: {}]", setting.variable())), "{}", setting.name);
    }
    assert_eq!(help, printed("-h"));
    assert_eq!(help, printed("--bogus --help"), "whoever asks for help gets it");
    assert!(help.contains("wsgid compatibility:") && help.contains("foreground"));
}

#[test]
fn version_and_settings_are_printed_on_demand() {
    assert_eq!(printed("--version"), concat!("lurcher ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(printed("-v"), printed("--version"));
    let shown = printed(&format!("{NEEDED} --print-config --workers 2"));
    assert!(shown.lines().any(
        |line| line.starts_with("workers = 2 ") && line.ends_with("# command line, --workers")
    ));
    assert!(
        shown.lines().any(|line| line.starts_with("threads = 4 ") && line.ends_with("# default"))
    );
    assert_eq!(refused("--print-config --workers 0").len(), 1);
}

#[test]
fn the_real_world_is_looked_at_too() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("l.toml");
    std::fs::write(&file, "threads = 3\napp-path = \"~\"\n").unwrap();
    let home = dir.path().as_os_str().to_owned();
    let env = |name: &str| match name {
        "HOME" => Some(home.clone()),
        "LURCHER_CONFIG" => Some(file.clone().into_os_string()),
        _ => None,
    };
    let Parsed::Run(config) = parse(args(NEEDED), env) else { panic!("refused") };
    assert_eq!((config.workers.threads, config.application.app_path.as_path()), (3, dir.path()));
    let Parsed::Run(config) = parse(args(&format!("{NEEDED} --config /dev/null")), |_| None) else {
        panic!("refused")
    };
    assert_eq!(config.workers.threads, 4);
    let Parsed::Exit { stderr, .. } =
        parse(args(&format!("{NEEDED} --config /dev/zero")), |_| None)
    else {
        panic!("read")
    };
    assert_eq!(stderr, "lurcher: /dev/zero: cannot be read: longer than 1 MiB\n");
}

/// `UPDATE_DOCS=1` writes the page instead.
#[test]
fn settings_page_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/settings.md");
    let page = lurcher::cli::settings_page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "docs/settings.md is not what the table says: UPDATE_DOCS=1 writes it anew"
    );
}
