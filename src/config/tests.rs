//! Sources against each other: what wins, what is refused, what is shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use super::table::Key;
use super::*;

/// A world of a test: `/here` is the current directory, and directories are what does not end with a suffix.
#[derive(Default)]
struct World {
    variables: BTreeMap<&'static str, &'static str>,
    files: BTreeMap<&'static str, String>,
    uid: u32,
}

impl World {
    fn with_file(text: &str) -> Self {
        Self { files: [("lurcher.toml", text.to_owned())].into(), ..Self::default() }
    }

    fn with_variables(variables: &[(&'static str, &'static str)]) -> Self {
        Self { variables: variables.iter().copied().collect(), ..Self::default() }
    }
}

impl Surroundings for World {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).map(OsString::from)
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        let text = path.to_str().and_then(|path| self.files.get(path));
        text.cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.starts_with("/here") || path == Path::new("/home/me")
    }

    fn current_dir(&self) -> io::Result<PathBuf> {
        Ok("/here".into())
    }

    fn account(&self, name: &str) -> io::Result<Option<Account>> {
        let shop =
            || Account { name: "shop".into(), uid: 1000, gid: 100, home: "/srv/shop".into() };
        Ok(matches!(name, "shop" | "1000").then(shop))
    }

    fn group(&self, name: &str) -> io::Result<Option<u32>> {
        Ok((name == "www").then_some(33))
    }

    fn identity(&self) -> (u32, u32) {
        (self.uid, if self.uid == 1000 { 100 } else { self.uid })
    }
}

const NEEDED: [(Key, &str, &str); 3] = [
    (Key::Recv, "recv", "tcp://127.0.0.1:5000"),
    (Key::Send, "send", "tcp://127.0.0.1:5001"),
    (Key::WsgiApp, "wsgi-app", "elo.application"),
];

fn sources(flags: &[(Key, &'static str, &str)]) -> Sources {
    let mut sources = Sources::default();
    for (key, name, text) in flags {
        sources.put(*key, text, Origin::CommandLine(name));
    }
    sources
}

/// With what is needed, and these flags.
fn resolved(world: &World, flags: &[(Key, &'static str, &str)]) -> Resolved {
    resolve(sources(&[&NEEDED, flags].concat()), world).unwrap()
}

fn faults(world: &World, flags: &[(Key, &'static str, &str)]) -> Vec<String> {
    let faults = resolve(sources(&[&NEEDED, flags].concat()), world).unwrap_err();
    faults.list.iter().map(ToString::to_string).collect()
}

#[test]
fn defaults_hold_when_only_the_needed_is_given() {
    let config = resolved(&World::default(), &[]).config;
    let links = config.front_end.links.clone();
    assert_eq!(links.len(), 1);
    assert_eq!(links[0].recv.as_str(), "tcp://127.0.0.1:5000");
    assert_eq!(links[0].send.as_str(), "tcp://127.0.0.1:5001");
    let expected = Config {
        front_end: FrontEnd { links, mongrel2_chroot: None, of_serve: false },
        application: Application {
            wsgi_app: "elo.application".into(),
            app_path: "/here".into(),
            script_name: String::new(),
            server_name: None,
            underscore_headers: Underscore::Drop,
            lint: false,
        },
        workers: Workers {
            workers: 1,
            threads: 4,
            keep_alive: true,
            start_timeout: Duration::from_secs(300),
            reload_surge: 1,
        },
        loading: Loading {
            preload: false,
            on_worker_start: None,
            on_worker_stop: None,
            reload_on_change: false,
        },
        recycle: Recycle {
            max_requests: None,
            max_requests_jitter: 0,
            max_lifetime: None,
            max_lifetime_jitter: Duration::ZERO,
            max_rss: None,
        },
        limits: Limits { queue_limit: 1024, graceful_timeout: Duration::from_secs(30) },
        timeouts: Timeouts {
            queue: Some(Duration::from_secs(30)),
            request: None,
            request_grace: Duration::from_secs(5),
            worker: Some(Duration::from_secs(60)),
        },
        uploads: Uploads {
            max_body: Some(1 << 30),
            queue_memory: 256 << 20,
            upload_trust: UploadTrust::Instance,
            upload_dir: None,
            upload_window: 1 << 20,
            upload_timeout: Some(Duration::from_secs(60)),
        },
        delivery: Delivery {
            response_memory: 256 << 10,
            response_spool: 64 << 20,
            response_spool_total: 1 << 30,
            spool_dir: None,
            send_timeout: Some(Duration::from_secs(60)),
            keepalive_interval: Some(Duration::from_secs(30)),
        },
        log: Log {
            log_file: None,
            access_log: None,
            access_log_format: AccessFormat::Combined,
            request_id_header: None,
            log_format: LogFormat::Text,
            syslog: None,
            log_level: Level::Info,
        },
        admin: Admin { control: ControlPlace::Usual, metrics: None },
        process: Process::default(),
        settings_file: None,
        warnings: Vec::new(),
        literals: config.literals.clone(),
    };
    assert_eq!(config, expected);
}

#[test]
fn flags_win_over_the_environment_that_over_the_file_that_over_the_default() {
    let mut world = World::with_file("workers = 2");
    assert_eq!(resolved(&world, &[]).config.workers.workers, 2);
    world.variables.insert("LURCHER_WORKERS", "3");
    assert_eq!(resolved(&world, &[]).config.workers.workers, 3);
    let flags = [(Key::Workers, "workers", "9"), (Key::Workers, "workers", "4")];
    let resolved = resolved(&world, &flags);
    assert_eq!(resolved.config.workers.workers, 4, "the last flag");
    let shown = resolved.shown.iter().find(|shown| shown.setting.key == Key::Workers).unwrap();
    assert_eq!(shown.origin, Origin::CommandLine("workers"));
}

#[test]
fn trust_in_a_directory_needs_the_directory() {
    let trust = (Key::UploadTrust, "upload-trust", "directory");
    let faults = faults(&World::default(), &[trust]);
    let text = "--upload-trust directory needs --upload-dir (or LURCHER_UPLOAD_DIR, or upload-dir in lurcher.toml)";
    assert_eq!(faults, [text]);
    let flags = [trust, (Key::UploadDir, "upload-dir", "up")];
    let config = resolved(&World::default(), &flags).config;
    assert_eq!(config.uploads.upload_dir.as_deref(), Some(Path::new("/here/up")));
}

#[test]
fn values_have_their_type_in_every_source() {
    let world = World::with_file(
        "workers = \"2\"\nkeep-alive = \"no\"\ngraceful-timeout = 2.5\naccess-log = \"~/a.log\"\nqueue-limit = 0x10\n",
    );
    let world = World { variables: [("HOME", "/home/me")].into(), ..world };
    let config = resolved(&world, &[]).config;
    assert_eq!(
        (config.workers.workers, config.workers.keep_alive, config.limits.queue_limit),
        (2, false, 16)
    );
    assert_eq!(config.limits.graceful_timeout, Duration::from_millis(2500));
    assert_eq!(config.log.access_log, Some(LogTarget::File("/home/me/a.log".into())));
    for (text, on) in [("false", false), ("0", false), ("no", false), ("TRUE", true)] {
        let world = World::with_variables(&[("LURCHER_KEEP_ALIVE", text)]);
        assert_eq!(resolved(&world, &[]).config.workers.keep_alive, on, "{text}");
    }
}

#[test]
fn what_is_of_another_type_is_refused_by_name() {
    let file = |text: &str| faults(&World::with_file(text), &[]);
    for (text, fault) in [
        ("workers = true", "workers: must be a whole number, not a boolean"),
        ("workers = 2.0", "workers: must be a whole number, not a number with a fraction"),
        ("workers = \"\"", "workers: \"\" is not a whole number from 1 to 512"),
        ("workers = 0", "workers: \"0\" is not a whole number from 1 to 512"),
        ("workers = -1", "workers: \"-1\" is not a whole number from 1 to 512"),
        ("keep-alive = 0", "keep-alive: must be true or false, not a whole number"),
        (
            "keep-alive = \"maybe\"",
            "keep-alive: \"maybe\" is neither true nor false (yes, no, on, off, 1 and 0 are known too)",
        ),
        ("keep-alive = \"\"", "keep-alive: must not be empty"),
        ("wsgi-app = [\"a\"]", "wsgi-app: must be a text, not a list"),
        ("log-level = \"loud\"", "log-level: \"loud\" is none of error, warning, info, debug"),
        (
            "graceful-timeout = \"soon\"",
            "graceful-timeout: \"soon\" is no time from 0 to 24h, as 30 or 30s, 500ms, 2m",
        ),
        ("app-path = \"/gone\"", "app-path: \"/gone\" is not a directory"),
        (
            "app-path = \"~you/x\"",
            "app-path: \"~you/x\": only `~` alone or before a `/` stands for a home directory",
        ),
        ("app-path = \"~\"", "app-path: \"~\": HOME is not set"),
        ("workes = 1", "workes is no setting; did you mean workers?"),
        ("wsgi_app = 1", "wsgi_app is no setting; did you mean wsgi-app?"),
        ("frobnicate = 1", "frobnicate is no setting"),
        ("recv = \"tcp://a:1\"", "recv: belongs into a [[link]] table"),
        ("config = \"x\"", "config: a file cannot name another one"),
        ("route = []", "route: belongs into the [front] table"),
        ("rout = []", "rout is no setting; did you mean route of [front]?"),
        ("fornt = 1", "fornt is no setting; did you mean front?"),
        ("front = 1", "front: must be a [front] table, not a whole number"),
        ("[[front]]", "front: must be a [front] table, not a list"),
        ("link = 1", "link: must be [[link]] tables, not a whole number"),
        ("[link]\nrecv = \"tcp://a:1\"", "link: must be [[link]] tables, not a table"),
        ("link = [1]", "link 1: must be a [[link]] table, not a whole number"),
        (
            "[[link]]\nrecv = \"tcp://a:1\"",
            "send of link 1 is missing; a [[link]] has recv and send",
        ),
        (
            "[[link]]\nrecv = \"tcp://a:1\"\nsend = \"tcp://a:2\"\nrcev = 1",
            "rcev of link 1 is no setting; did you mean recv?",
        ),
    ] {
        assert_eq!(file(text), [format!("lurcher.toml: {fault}")], "{text}");
    }
    assert_eq!(
        file("a = \n"),
        ["lurcher.toml: line 1: string values must be quoted, expected literal string"]
    );
}

#[test]
fn an_empty_variable_is_a_value_and_mostly_a_wrong_one() {
    let names = [
        "WORKERS",
        "KEEP_ALIVE",
        "WSGI_APP",
        "SERVER_NAME",
        "LOG_LEVEL",
        "GRACEFUL_TIMEOUT",
        "CONFIG",
    ];
    for name in names {
        let name: &'static str = Box::leak(format!("LURCHER_{name}").into_boxed_str());
        let found = faults(&World::with_variables(&[(name, "")]), &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("{name}: ")), "{found:?}");
    }
    let world = World::with_variables(&[("LURCHER_SCRIPT_NAME", "")]);
    let world = World { files: [("lurcher.toml", "script-name = \"/x\"".into())].into(), ..world };
    assert_eq!(resolved(&world, &[]).config.application.script_name, "");
}

#[test]
fn every_fault_is_told_even_of_a_value_that_another_overrides() {
    let world = World::with_variables(&[("LURCHER_WORKERS", "many"), ("LURCHER_PORT", "tcp://x")]);
    let world =
        World { files: [("lurcher.toml", "threads = 0\nworkerz = 1".into())].into(), ..world };
    let flags = [(Key::Workers, "workers", "2"), (Key::LogLevel, "log-level", "x")];
    assert_eq!(
        faults(&world, &flags),
        [
            "lurcher.toml: workerz is no setting; did you mean workers?",
            "LURCHER_WORKERS: \"many\" is not a whole number from 1 to 512",
            "lurcher.toml: threads: \"0\" is not a whole number from 1 to 256",
            "--log-level: \"x\" is none of error, warning, info, debug",
        ]
    );
}

#[test]
fn links_are_pairs_of_one_source() {
    let file = "[[link]]\nrecv = \"tcp://f:1\"\nsend = \"tcp://f:2\"\n[[link]]\nrecv = \"tcp://g:1\"\nsend = \"tcp://g:2\"\n";
    let app = [(Key::WsgiApp, "wsgi-app", "a:b")];
    let links = |world: &World, flags: &[(Key, &'static str, &str)]| {
        let resolved = resolve(sources(&[&app, flags].concat()), world);
        resolved
            .map(|resolved| {
                let links = resolved.config.front_end.links.iter();
                links.map(|link| format!("{} {}", link.recv, link.send)).collect::<Vec<_>>()
            })
            .map_err(|faults| faults.list.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let mut world = World::with_file(file);
    let ok = |texts: &[&str]| Ok(texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
    let err = |texts: &[&str]| Err(texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
    assert_eq!(links(&world, &[]), ok(&["tcp://f:1 tcp://f:2", "tcp://g:1 tcp://g:2"]));
    world.variables.insert("LURCHER_RECV", "tcp://e:1, ipc:///r");
    assert_eq!(
        links(&world, &[]),
        err(&[
            "LURCHER_RECV and LURCHER_SEND belong together in pairs, from one source; there are 2 and 0"
        ])
    );
    world.variables.insert("LURCHER_SEND", "tcp://e:2,ipc:///s");
    assert_eq!(links(&world, &[]), ok(&["tcp://e:1 tcp://e:2", "ipc:///r ipc:///s"]));
    let recv = (Key::Recv, "recv", "tcp://c:1");
    assert_eq!(
        links(&world, &[recv]),
        err(&["--recv and --send belong together in pairs, from one source; there are 1 and 0"])
    );
    assert_eq!(
        links(&world, &[recv, (Key::Send, "send", "tcp://c:2")]),
        ok(&["tcp://c:1 tcp://c:2"])
    );
    assert_eq!(
        links(&world, &[recv, (Key::Send, "send", "tcp://c:1")]),
        err(&[
            "--send: \"tcp://c:1\" is given twice; each endpoint belongs to one link, in one direction"
        ])
    );
    assert_eq!(
        links(&World::default(), &[]),
        err(&[
            "--recv is missing (or LURCHER_RECV, or recv of a [[link]] in lurcher.toml)",
            "--send is missing (or LURCHER_SEND, or send of a [[link]] in lurcher.toml)",
        ])
    );
    assert_eq!(
        links(
            &World::with_variables(&[("LURCHER_SEND", "tcp://a:1,")]),
            &[(Key::Recv, "recv", "*:5000")]
        ),
        err(&[
            "--recv: \"*:5000\": an address is needed: tcp://HOST:PORT or ipc://PATH",
            "LURCHER_SEND: must not be empty",
            "--recv and --send belong together in pairs, from one source; there are 1 and 0",
        ])
    );
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let named = |path: &'static str| World {
        files: [
            ("/etc/l.toml", "threads = 7".to_owned()),
            ("lurcher.toml", "threads = 8".to_owned()),
        ]
        .into(),
        variables: [("LURCHER_CONFIG", path)].into(),
        uid: 0,
    };
    let from_variable = resolved(&named("/etc/l.toml"), &[]);
    assert_eq!(from_variable.config.workers.threads, 7);
    let named_at = Origin::Environment("LURCHER_CONFIG".into());
    assert_eq!(from_variable.file, Some(("/etc/l.toml".into(), named_at)));
    let found = faults(&named("gone.toml"), &[]);
    assert_eq!(found, ["/here/gone.toml: cannot be read: entity not found"]);
    let flag = [(Key::Config, "config", "/etc/l.toml")];
    assert_eq!(resolved(&named("gone.toml"), &flag).config.workers.threads, 7, "the flag wins");
}

#[test]
fn what_is_shown_has_the_same_effect_as_a_file() {
    let world = World::with_variables(&[
        ("LURCHER_KEEP_ALIVE", "0"),
        ("LURCHER_SERVER_NAME", "example.org"),
    ]);
    let flags = [
        (Key::GracefulTimeout, "graceful-timeout", "1500ms"),
        (Key::AccessLog, "access-log", "-"),
        (Key::Mongrel2Chroot, "mongrel2-chroot", "a \"b\""),
        (Key::ScriptName, "script-name", "/caf\u{e9}"),
    ];
    let first = resolved(&world, &flags);
    let world = World::with_file(&first.show());
    let second = resolve(Sources::default(), &world).unwrap();
    assert_eq!(second.config.settings_file.as_deref(), Some(Path::new("lurcher.toml")));
    assert_eq!(first.config, Config { settings_file: None, ..second.config.clone() });
    assert!(second.show().lines().all(|line| !line.contains("command line")));
    assert!(first.show().contains("LURCHER_KEEP_ALIVE"), "{}", first.show());
}

#[test]
fn a_wsgid_json_is_named_with_what_it_would_have_set() {
    let warnings = |text: &str| {
        let files = [("/here/wsgid.json", text.to_owned())].into();
        resolved(&World { files, ..World::default() }, &[]).config.warnings
    };
    let told = r#"{"recv": "tcp://127.0.0.1:5000", "workers": "1", "keep_alive": "True", "no_daemon": "True"}"#;
    assert_eq!(warnings(told), ["/here/wsgid.json is not read; lurcher was told all that it sets"]);
    let untold = r#"{"recv": "tcp://127.0.0.1:6000", "workers": 4, "keep_alive": "false", "debug": "True",
        "chroot": "False", "envs": {"A": "b"}}"#;
    assert_eq!(
        warnings(untold),
        [
            "/here/wsgid.json is not read; what it sets and lurcher was not told: --log-level debug, envs (set them in \
          lurcher's own environment), --no-keep-alive, --recv tcp://127.0.0.1:6000, --workers 4"
        ]
    );
    assert_eq!(warnings(""), ["/here/wsgid.json is not read; (and it is no JSON object)"]);
}

#[test]
fn a_worker_is_told_what_it_needs() {
    let flags = [(Key::Workers, "workers", "2"), (Key::AccessLog, "access-log", "/x")];
    let settings = resolved(&World::default(), &flags).config.worker_settings(2);
    assert!(settings.multiprocess && settings.access_log);
    assert_eq!((settings.worker, settings.graceful_timeout_ms), (2, 30_000));
    let json = serde_json::to_string(&settings).unwrap();
    assert_eq!(serde_json::from_str::<WorkerSettings>(&json).unwrap(), settings);
}

#[test]
fn half_a_link_in_the_file_is_one_fault() {
    let app = [(Key::WsgiApp, "wsgi-app", "a:b")];
    let world = World::with_file("[[link]]\nrecv = \"tcp://a:1\"");
    let faults = resolve(sources(&app), &world).unwrap_err().list;
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(
        faults[0].to_string(),
        "lurcher.toml: send of link 1 is missing; a [[link]] has recv and send"
    );
}

#[test]
fn whom_to_become_is_asked_of_the_system() {
    let whom = |user: &str, group: &str| {
        let given = [(Key::User, "user", user), (Key::Group, "group", group)];
        let given: Vec<_> = given.into_iter().filter(|given| !given.2.is_empty()).collect();
        let identity = resolved(&World::default(), &given).config.process.identity;
        identity.map(|who| (who.uid, who.gid, who.account.map(|account| account.name)))
    };
    let shop = Some("shop".to_owned());
    for (user, group, who) in [
        ("", "", None),
        ("shop", "", Some((Some(1000), 100, shop.clone()))),
        ("1000", "", Some((Some(1000), 100, shop.clone()))),
        ("shop", "www", Some((Some(1000), 33, shop))),
        ("77", "88", Some((Some(77), 88, None))),
        ("", "www", Some((None, 33, None))),
        ("0", "0", None),
    ] {
        assert_eq!(whom(user, group), who, "{user:?} {group:?}");
    }
}

#[test]
fn who_cannot_be_become_is_refused_by_name() {
    let refused = |uid: u32, name: &'static str, text: &str| {
        let key = if name == "user" { Key::User } else { Key::Group };
        faults(&World { uid, ..World::default() }, &[(key, name, text)])
    };
    assert_eq!(refused(0, "user", "shpo"), ["--user: there is no user \"shpo\""]);
    assert_eq!(refused(0, "group", "shpo"), ["--group: there is no group \"shpo\""]);
    assert_eq!(
        refused(0, "user", "77"),
        ["--user: the system has no entry for user 77, so --group must say which group to become"]
    );
    for (name, text) in [("user", "shop"), ("group", "www")] {
        let fault = format!("--{name}: only root can become another user or group; this is user 5");
        assert_eq!(refused(5, name, text), [fault]);
    }
    let same = [(Key::User, "user", "shop")];
    let already = World { uid: 1000, ..World::default() };
    assert_eq!(resolved(&already, &same).config.process.identity, None, "nothing to be done");
}

const FRONT_FILE: &str = "workers = 2
max-body = \"5M\"
log-level = \"error\"
pid-file = \"/here/instance.pid\"

[front]
route = [\"/=tcp://127.0.0.1:5000,tcp://127.0.0.1:5001\"]
log-level = \"debug\"
queue-limit = 7
head-timeout = 5
";

fn front(world: &World, flags: &[(Key, &'static str, &str)]) -> Result<ResolvedFront, Vec<String>> {
    let told = |faults: Faults| faults.list.iter().map(ToString::to_string).collect();
    resolve_front(sources(flags), world).map_err(told)
}

#[test]
fn one_file_is_for_both() {
    let world = World::with_file(FRONT_FILE);
    let config = resolved(&world, &[]).config;
    assert_eq!((config.workers.workers, config.log.log_level), (2, Level::Error));
    assert_eq!(config.limits.queue_limit, 1024, "the front end's is another one");
    let settings = front(&world, &[]).unwrap().front();
    assert_eq!(settings.clients.body_limit, Some(5 << 20), "of the top, where it has no own");
    assert_eq!(settings.log.log_level, Level::Debug);
    assert_eq!(settings.handlers.queue_limit, 7);
    assert_eq!(settings.clients.head_timeout, Duration::from_secs(5));
    assert_eq!(settings.process.pid_file, None, "the instance's");
    let flags = [(Key::LogLevel, "log-level", "warning")];
    assert_eq!(front(&world, &flags).unwrap().front().log.log_level, Level::Warning);
}

#[test]
fn what_a_front_end_shows_can_be_its_file() {
    let flags = [(Key::MaxBody, "max-body", "8M"), (Key::Umask, "umask", "027")];
    let first = front(&World::with_file(FRONT_FILE), &flags).unwrap();
    let second = front(&World::with_file(&first.show()), &[]).unwrap();
    assert!(second.show().lines().all(|line| !line.contains("command line")));
    assert_eq!(second.front(), first.front());
}

#[test]
fn the_front_ends_table_has_its_own_keys_and_an_instance_does_not_look_into_it() {
    for (text, fault) in [
        (
            "workers = 3",
            "front.workers: is a setting of the instance, and belongs above the [front] table",
        ),
        ("retyr = \"never\"", "front.retyr is no setting; did you mean retry?"),
        ("retry = \"often\"", "front.retry: \"often\" is none of never, idempotent"),
        (
            "head-limit = true",
            "front.head-limit: must be a number of bytes or a text as \"10M\", not a boolean",
        ),
        ("config = \"x\"", "front.config: a file cannot name another one"),
    ] {
        let world = World::with_file(&format!("worker-timeout = \"never\"\n[front]\n{text}"));
        let route = [(Key::Route, "route", "/=ipc:///a,ipc:///b")];
        assert_eq!(front(&world, &route).unwrap_err(), [format!("lurcher.toml: {fault}")]);
        assert_eq!(faults(&world, &[]).len(), 1, "its own");
    }
    let world = World::with_file("wrokers = 3\n[front]\n");
    let route = [(Key::Route, "route", "/=ipc:///a,ipc:///b")];
    assert_eq!(
        front(&world, &route).unwrap_err(),
        ["lurcher.toml: wrokers is no setting; did you mean workers?"]
    );
    let world = World::with_file("[front\n");
    assert!(front(&world, &route).unwrap_err()[0].starts_with("lurcher.toml: line 1: "));
    assert!(faults(&world, &[])[0].starts_with("lurcher.toml: line 1: "));
    assert_eq!(
        front(&World::default(), &[]).unwrap_err(),
        ["--route is missing (or LURCHER_ROUTE, or route of [front] in lurcher.toml)"]
    );
}

#[test]
fn what_a_front_end_changes_at_once_and_what_waits_for_a_restart() {
    let settings = |text: &str| {
        let route = "route = [\"/=ipc:///a,ipc:///b\"]";
        front(&World::with_file(&format!("{text}\n[front]\n{route}")), &[]).unwrap().front()
    };
    let mut old = settings("");
    let new = "max-body = 9
        graceful-timeout = 2
        [front]
        bind = \"127.0.0.1:9000\"
        route = \"/x=ipc:///a,ipc:///b\"
        retry = \"idempotent\"
        peer-window = 3
        idle-timeout = 1
        forwarded = \"append\"
        ident = \"me\"
        access-log = \"-\"
        umask = \"077\"";
    let new = front(&World::with_file(new), &[]).unwrap().front();
    assert!(old.frozen_changes(&old).is_empty());
    assert_eq!(old.frozen_changes(&new), ["access-log", "umask", "bind", "route", "ident"]);
    let before = old.clone();
    old.adopt(new);
    assert_eq!((old.clients.body_limit, old.handlers.peer_window), (Some(9), 3));
    assert_eq!(old.clients.idle_timeout, Duration::from_secs(1));
    assert_eq!(old.clients.forwarded.policy, ForwardedPolicy::Append);
    assert_eq!((old.handlers.retry, old.graceful_timeout), (true, Duration::from_secs(2)));
    assert_eq!(old.clients.bind, before.clients.bind);
    assert_eq!(old.handlers.routes, before.handlers.routes);
    assert_eq!((old.log.access_log, old.process), (None, before.process));
}

#[test]
fn serve_reads_one_file_for_both() {
    let app = [(Key::WsgiApp, "wsgi-app", "a:b")];
    let both = |text: &str| {
        let told = |faults: Faults| faults.list.iter().map(ToString::to_string).collect();
        resolve_both(&sources(&app), &World::with_file(text)).map_err(told)
    };
    let resolved = both(FRONT_FILE).unwrap();
    assert_eq!(resolved.config.process.pid_file.as_deref(), Some(Path::new("/here/instance.pid")));
    assert_eq!(resolved.config.log.log_level, Level::Error);
    assert_eq!(resolved.front.log.log_level, Level::Debug);
    assert_eq!(resolved.front.clients.body_limit, resolved.config.uploads.max_body);
    assert_eq!(
        resolved.warnings,
        [
            "lurcher.toml: front.route: not used, serve's front end and instance meet in a directory of their own"
        ]
    );
    let again = both(resolved.show()).unwrap();
    assert_eq!(again.warnings, Vec::<String>::new());
    assert_eq!(again.front, resolved.front);
    assert_eq!(again.config.literals, resolved.config.literals);
    let wrong: Vec<String> = both("max-body = \"x\"\n[front]\nretyr = 1").unwrap_err();
    assert_eq!(wrong.len(), 2, "what is wrong for both is told once: {wrong:?}");
    let wrong: Vec<String> = both("[front]\npid-file = \"/here/x\"").unwrap_err();
    assert_eq!(
        wrong,
        [
            "lurcher.toml: front.pid-file: belongs above the [front] table: with serve one holds for all"
        ]
    );
}
