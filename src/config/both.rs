//! The settings of `lurcher serve`: those of a front end and of an instance, from one command line and one file, checked as
//! both will check them.
//!
//! The two meet where `serve` puts them, so what the file has of their meeting is not used, and said so. What is about the
//! process as such is one for all: it stands at the top of the file, and in `[front]` it is refused.

use super::Config;
use super::Front;
use super::Surroundings;
use super::fault::Fault;
use super::fault::Faults;
use super::front;
use super::resolve;
use super::resolve::Resolved;
use super::resolve::Shown;
use super::resolve::put_file;
use super::show;
use super::source::Origin;
use super::source::Sources;
use super::table::FRONT;
use super::table::Group;
use super::table::Key;
use super::table::Scope;
use super::table::Setting;

/// Settings that `serve` does not take as options.
pub const NOT_FOR_SERVE: [Key; 8] = [
    Key::Recv,
    Key::Send,
    Key::Mongrel2Chroot,
    Key::WsgiApp,
    Key::Daemon,
    Key::Route,
    Key::Ident,
    Key::Protocol,
];

/// Settings that belong to both and that only the instance is given: it writes the access log.
const INSTANCE_ONLY: [Key; 1] = [Key::AccessLog];

/// The settings of both, and how they came about.
#[derive(Debug)]
pub struct ResolvedBoth {
    /// The instance's, but for its endpoints.
    pub config: Config,
    /// The front end's, but for its route.
    pub front: Front,
    /// Nobody has said what becomes of large bodies.
    pub any_upload: bool,
    /// Nobody has said where their files are.
    pub any_upload_dir: bool,
    /// What the operator should be told that neither of the two says; one line each.
    pub warnings: Vec<String>,
    text: String,
}

impl ResolvedBoth {
    /// Each effective value and where it came from, one line each; valid TOML.
    pub fn show(&self) -> &str {
        &self.text
    }
}

/// Whether one value of it holds for front end, instance and `serve` itself.
fn is_of_all(setting: &Setting) -> bool {
    setting.group == Group::Process || matches!(setting.key, Key::LogFile | Key::Syslog)
}

/// Whether the front end of `serve` is given it as it was typed. The rest `serve` does itself, or tells it.
pub fn is_for_front(setting: &Setting) -> bool {
    setting.is_of(Scope::Front)
        && setting.group != Group::Process
        && !matches!(setting.key, Key::Bind | Key::LogFile)
        && !INSTANCE_ONLY.contains(&setting.key)
}

/// Merges and checks what was typed with what the file, the environment and the table have, for both.
pub fn resolve_both(typed: &Sources, world: &impl Surroundings) -> Result<ResolvedBoth, Faults> {
    let warnings = unused(typed, world);
    let mut sources = typed.clone();
    // Only for the checks: the two are told where they really meet.
    let [recv, send] = ["ipc:///requests", "ipc:///responses"];
    sources.put(Key::Recv, recv, Origin::CommandLine("recv"));
    sources.put(Key::Send, send, Origin::CommandLine("send"));
    sources.put(Key::Route, format!("/={recv},{send}"), Origin::CommandLine("route"));
    let front = front::resolve_front(sources.without(&INSTANCE_ONLY), world);
    match (resolve(sources, world), front) {
        (Ok(instance), Ok(front)) => {
            let refused: Vec<_> = front.shown.iter().filter_map(refused_in_front).collect();
            if !refused.is_empty() {
                return Err(Faults { list: refused, warnings: instance.config.warnings });
            }
            let text = show_both(&instance, &front.shown);
            Ok(ResolvedBoth {
                config: instance.config,
                any_upload: !front.is_given(Key::Upload),
                any_upload_dir: !front.is_given(Key::FrontUploadDir),
                front: front.front(),
                warnings,
                text,
            })
        }
        (instance, front) => {
            let mut all = instance.err().unwrap_or_default();
            for fault in front.err().unwrap_or_default().list {
                // A setting that belongs to both is wrong for both.
                if all.list.iter().all(|known| known.to_string() != fault.to_string()) {
                    all.list.push(fault);
                }
            }
            Err(all)
        }
    }
}

fn refused_in_front(shown: &Shown) -> Option<Fault> {
    let in_front = matches!(&shown.origin, Origin::File(_, key) if key.starts_with(FRONT));
    (in_front && is_of_all(shown.setting)).then(|| Fault::Misplaced {
        origin: shown.origin.clone(),
        instead: "belongs above the [front] table: with serve one holds for all",
    })
}

/// What the file has of how front end and instance meet.
fn unused(typed: &Sources, world: &impl Surroundings) -> Vec<String> {
    let mut warnings = Vec::new();
    for (scope, key) in [(Scope::Instance, Key::Recv), (Scope::Front, Key::Route)] {
        let mut sources = typed.clone();
        sources.put_environment(world, scope);
        // Faults are found again.
        put_file(&mut sources, world, scope, &mut Vec::new());
        let given = sources.all(key).into_iter();
        warnings.extend(given.map(|given| &given.origin).take(1).map(|origin| {
            format!("{origin}: not used, serve's front end and instance meet in a directory of their own")
        }));
    }
    warnings
}

fn show_both(instance: &Resolved, front: &[Shown]) -> String {
    let without = [Key::Mongrel2Chroot, Key::Daemon, Key::Route, Key::Protocol];
    let shown = |shown: &&Shown| !without.contains(&shown.setting.key);
    let front = front.iter().filter(shown).filter(|shown| !is_of_all(shown.setting));
    show::head("lurcher serve", instance.file.as_ref())
        + &show::values(instance.shown.iter().filter(shown))
        + &show::front(front)
}
