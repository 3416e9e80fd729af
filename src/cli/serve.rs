//! The command line of `lurcher serve`: the settings of a front end and of an instance, checked as both will check them,
//! and the words that give each its own.

use std::ffi::OsString;

use super::Order;
use super::lines;
use crate::config;
use crate::config::Config;
use crate::config::Front;
use crate::config::Origin;
use crate::config::System;
use crate::config::table::Key;
use crate::config::table::Scope;
use crate::config::table::Setting;

/// What is to be started.
#[derive(Debug)]
pub struct Both {
    /// The instance's settings, but for its endpoints.
    pub config: Config,
    /// The front end's, but for its route.
    pub front: Front,
    /// What was typed of the instance's settings.
    pub instance_words: Vec<OsString>,
    /// What was typed of the front end's, but for what `serve` gives it itself.
    pub front_words: Vec<OsString>,
    /// Nobody has said what becomes of large bodies.
    pub any_upload: bool,
    /// Nobody has said where their files are.
    pub any_upload_dir: bool,
}

/// Settings that belong to both and that only the instance is given: it reads the file, and writes the access log.
const INSTANCE_ONLY: [Key; 2] = [Key::AccessLog, Key::Config];

/// Makes settings of what was typed with the command, or tells all that is wrong, as text for standard error.
pub fn serve(mut order: Order, env: impl Fn(&str) -> Option<OsString>) -> Result<Both, String> {
    if let Some(app) = order.words.pop() {
        order.sources.put(Key::WsgiApp, app, Origin::CommandLine("wsgi-app"));
    }
    let instance = |setting: &Setting| setting.is_of(Scope::Instance);
    let front = |setting: &Setting| {
        setting.is_of(Scope::Front)
            && setting.key != Key::Bind
            && !INSTANCE_ONLY.contains(&setting.key)
    };
    let instance_words = order.sources.words(instance);
    let front_words = order.sources.words(front);
    let mut sources = order.sources;
    // Only for the checks: the two are told where they really meet.
    let [recv, send] = ["ipc:///requests", "ipc:///responses"];
    sources.put(Key::Recv, recv, Origin::CommandLine("recv"));
    sources.put(Key::Send, send, Origin::CommandLine("send"));
    sources.put(Key::Route, format!("/={recv},{send}"), Origin::CommandLine("route"));
    let world = System(env);
    let front = config::resolve_front(sources.without(&INSTANCE_ONLY), &world);
    match (config::resolve(sources, &world), front) {
        (Ok(resolved), Ok(front)) => {
            let (any_upload, any_upload_dir) =
                (!front.is_given(Key::Upload), !front.is_given(Key::FrontUploadDir));
            Ok(Both {
                config: resolved.config,
                front: front.front(),
                instance_words,
                front_words,
                any_upload,
                any_upload_dir,
            })
        }
        (instance, front) => {
            let faults = [instance.err(), front.err()];
            let mut wrong: Vec<String> = Vec::new();
            for fault in faults.iter().flatten().flat_map(|faults| &faults.list) {
                let text = fault.to_string();
                // A setting that belongs to both is wrong for both.
                if !wrong.contains(&text) {
                    wrong.push(text);
                }
            }
            let warnings: Vec<_> =
                faults.into_iter().flatten().flat_map(|faults| faults.warnings).collect();
            Err(lines(&wrong, "") + &lines(&warnings, "warning: "))
        }
    }
}
