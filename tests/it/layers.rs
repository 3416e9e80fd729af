//! The walls of the house: which module may name which, and the few rules of form that the compiler does not hold.
//!
//! It reads the sources as text, with comments and literals blanked out and test modules left out of the rules about
//! imports. The table is that of `docs/architecture.md`; a row changes only together with that page. Modules of the
//! table need not exist.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here, helpers included")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Module, and the modules that it may name besides itself.
const MAY_NAME: [(&str, &[&str]); 18] = [
    // layer 0
    ("proto", &[]),
    ("http", &[]),
    ("bridge", &[]),
    // layer 1
    ("wsgi", &["proto", "http"]),
    ("config", &["proto"]),
    ("cli", &["config", "proto"]),
    // layer 2
    ("transport", &["proto", "config"]),
    ("telemetry", &["config"]),
    ("system", &["config"]),
    // layer 3
    ("dispatch", &["proto", "http", "bridge", "transport", "config", "telemetry"]),
    ("worker", &["proto", "http", "bridge", "wsgi", "config", "telemetry"]),
    ("front", &["proto", "http", "config", "telemetry", "system"]),
    // layer 4
    ("admin", &["dispatch", "config", "telemetry"]),
    ("supervisor", &["admin", "dispatch", "bridge", "config", "telemetry", "system"]),
    // layer 5
    ("front_process", &["cli", "config", "front", "telemetry", "system"]),
    ("serve", &["cli", "config", "supervisor", "telemetry", "system"]),
    (
        "instance",
        &["serve", "admin", "front_process", "cli", "config", "supervisor", "system", "telemetry"],
    ),
    // layer 6
    (
        "python",
        &[
            "instance",
            "supervisor",
            "system",
            "worker",
            "wsgi",
            "config",
            "telemetry",
            "proto",
            "http",
        ],
    ),
];

/// The files of layer 7, which may name every module.
const TOP: [&str; 3] = ["lib.rs", "main.rs", "bin/lurcher_front.rs"];

/// Outside crates, and where they may be named.
const FENCED: [(&str, &[&str]); 11] = [
    ("zmq", &["transport"]),
    ("zmq_sys", &["transport"]),
    ("tracing", &["telemetry"]),
    ("tracing_subscriber", &["telemetry"]),
    ("clap", &["cli"]),
    ("pyo3", &["python", "lib.rs"]),
    ("crossbeam_channel", &["worker", "dispatch", "admin", "supervisor"]),
    ("hyper", &["front"]),
    ("tokio", &["front"]),
    ("listenfd", &["front", "serve"]),
    ("rustls", &["front"]),
];

/// Files with unsafe code: the shared mapping, what of `ZeroMQ` the safe crate lacks (an option, and messages that are not
/// copied), and raising in another thread.
const UNSAFE: [&str; 4] =
    ["bridge/board.rs", "transport/option.rs", "transport/parcel.rs", "python/interrupt.rs"];

/// Most lines of a file, its test modules not counted.
const MAX_LINES: usize = 400;

/// Files that may be longer, each with its reason in a comment.
const LONGER: [&str; 0] = [];

/// A source with comments and literals replaced by blanks; line ends stay.
fn code(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let blank = blank_length(rest);
        // A word is taken whole, so that its end is not mistaken for the prefix of a literal.
        let length = [blank, first_word(rest).len(), first.len_utf8()].into_iter().find(|n| *n > 0);
        let (taken, after) = rest.split_at(length.unwrap_or(1));
        if blank > 0 {
            out.extend(taken.chars().map(|char| if char == '\n' { '\n' } else { ' ' }));
        } else {
            out.push_str(taken);
        }
        rest = after;
    }
    out
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// Length of the prefix of a literal that begins here (`b`, `r`, `br`, `c`, `cr`), hashes not included.
fn prefix_length(text: &str) -> usize {
    let word = first_word(text);
    let next = text[word.len()..].trim_start_matches('#');
    let literal = next.starts_with('"') || (word == "b" && next.starts_with('\''));
    if literal && matches!(word, "b" | "r" | "br" | "c" | "cr") { word.len() } else { 0 }
}

/// Length of the comment or literal that begins here, or 0.
fn blank_length(text: &str) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        let (mut depth, mut at) = (0, 0);
        while at < text.len() {
            let here = &text.as_bytes()[at..];
            if here.starts_with(b"/*") {
                (depth, at) = (depth + 1, at + 2);
            } else if here.starts_with(b"*/") {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            } else {
                at += 1;
            }
        }
        return text.len();
    }
    let prefix = prefix_length(text);
    let body = &text[prefix..];
    if text[..prefix].ends_with('r') {
        let hashes = body.len() - body.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(hashes));
        let from = prefix + hashes + 1;
        return text[from..].find(&end).map_or(text.len(), |at| from + at + end.len());
    }
    let quote = match body.chars().next() {
        Some('"') => '"',
        Some('\'') if is_char_literal(body) => '\'',
        _ => return 0,
    };
    let mut escaped = false;
    for (at, char) in body.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            char if char == quote => return prefix + at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Whether a quote begins a character and not a lifetime.
fn is_char_literal(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    chars.next() == Some('\\') || chars.next() == Some('\'')
}

/// The code without its `#[cfg(test)]` modules.
fn without_tests(code: &str) -> String {
    let mut out = String::new();
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let item = from["#[cfg(test)]".len()..].trim_start();
        let end = match (item.starts_with("mod "), from.find('{'), from.find(';')) {
            (true, Some(open), semicolon) if semicolon.is_none_or(|end| open < end) => {
                open + block_length(&from[open..])
            }
            (true, _, Some(semicolon)) => semicolon + 1,
            _ => "#[cfg(test)]".len(),
        };
        rest = &from[end..];
    }
    out.push_str(rest);
    out
}

/// Length of the block in braces that begins here.
fn block_length(text: &str) -> usize {
    let mut depth = 0;
    for (at, char) in text.char_indices() {
        depth += i32::from(char == '{') - i32::from(char == '}');
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// What comes before and after each place where `word` stands as a word and begins a path.
fn paths_from<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    code.match_indices(word).filter_map(move |(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        let outer = before.strip_suffix("::").unwrap_or(before);
        let begins = !outer.ends_with(is_word) && !outer.ends_with('>');
        (begins && !after.starts_with(is_word)).then_some((before, after))
    })
}

/// Whether the code names an outside crate: in a path, or as a whole in a `use`.
fn names_crate(code: &str, name: &str) -> bool {
    paths_from(code, name)
        .any(|(before, after)| after.starts_with("::") || before.trim_end().ends_with("use"))
}

fn first_word(text: &str) -> &str {
    &text[..text.len() - text.trim_start_matches(is_word).len()]
}

/// All faults of one file; `path` is relative to `src`.
fn faults(path: &str, source: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !source.starts_with("//!") {
        faults.push("does not open with `//!`".to_owned());
    }
    let room = path.split('/').next().unwrap_or(path);
    let room = if TOP.contains(&path) { room } else { room.trim_end_matches(".rs") };
    let code = code(source);
    if code.contains("super::super") {
        faults.push("says `super::super`: name the module from the root".to_owned());
    }
    if code.contains("crate::{") {
        faults.push("has braces at the root: one `use crate::…` line for each path".to_owned());
    }
    if !UNSAFE.contains(&path) && paths_from(&code, "unsafe").next().is_some() {
        faults.push("has unsafe code".to_owned());
    }
    let is_tests = path.ends_with("/tests.rs");
    let code = if is_tests { String::new() } else { without_tests(&code) };
    let lines = code.lines().count();
    if lines > MAX_LINES && !LONGER.contains(&path) {
        faults.push(format!("has {lines} lines: find the seam"));
    }
    let is_root = !path.contains('/') || path == format!("{room}/mod.rs");
    if is_root && paths_from(&code, "super").any(|(_, after)| after.starts_with("::")) {
        faults.push("reaches another module through `super::`".to_owned());
    }
    for (name, rooms) in FENCED {
        if names_crate(&code, name) && !rooms.contains(&room) {
            faults.push(format!("names the crate `{name}`, which is fenced to {rooms:?}"));
        }
    }
    if TOP.contains(&path) {
        return faults;
    }
    let Some((_, may_name)) = MAY_NAME.iter().find(|(name, _)| *name == room) else {
        faults.push(format!("is in the module `{room}`, which is not in the table"));
        return faults;
    };
    for (_, after) in paths_from(&code, "crate") {
        let Some(path) = after.strip_prefix("::") else { continue };
        let name = first_word(path);
        if name != room && !may_name.contains(&name) {
            faults.push(format!("names `crate::{name}`, but may name {may_name:?} only"));
        }
    }
    faults
}

/// All Rust files below a folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn every_source_file_keeps_the_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut report = String::new();
    for file in rust_files(&root) {
        let path = file.strip_prefix(&root).unwrap().to_str().unwrap();
        for fault in faults(path, &std::fs::read_to_string(&file).unwrap()) {
            writeln!(report, "src/{path} {fault}").unwrap();
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

/// A lower layer that names a higher one would make a circle sooner or later.
#[test]
fn the_table_has_no_circle() {
    for (place, (name, may_name)) in MAY_NAME.iter().enumerate() {
        for other in *may_name {
            let position = MAY_NAME.iter().position(|(name, _)| name == other).unwrap();
            assert!(position < place, "`{name}` names `{other}`, which stands at or above it");
        }
    }
}

#[test]
fn the_rules_catch_what_they_should() {
    let caught = |path: &str, body: &str| !faults(path, &format!("//! Doc.\n{body}\n")).is_empty();
    for (path, body) in [
        ("proto/x.rs", "use crate::http::Head;"),
        ("proto/x.rs", "fn f() { crate::telemetry::warn!(\"x\") }"),
        ("config.rs", "use crate::cli::Args;"),
        ("transport/mod.rs", "use super::dispatch::Queue;"),
        ("dispatch/x.rs", "use super::super::python::Call;"),
        ("dispatch/x.rs", "use crate::{proto, python};"),
        ("dispatch/x.rs", "use zmq::Socket;"),
        ("dispatch/x.rs", "use zmq;"),
        ("dispatch/x.rs", "fn f() -> ::clap::Error {}"),
        ("worker/x.rs", "use pyo3::prelude::*;"),
        ("wsgi/x.rs", "fn f() { unsafe { g() } }"),
        ("elsewhere/x.rs", ""),
        (
            "dispatch/x.rs",
            "#[cfg(test)] mod tests { fn f() { \"}\"; '}' } } use crate::python::Call;",
        ),
        ("dispatch/x.rs", "const A: &str = r#\"\"\"#; use crate::python::Call;"),
        ("dispatch/x.rs", "fn f<'a>(a: &'a str) { let _ = '\"'; } use crate::python::Call; // \""),
    ] {
        assert!(caught(path, body), "{path}: {body}");
    }
    assert!(!faults("proto/x.rs", "use std::fmt;\n").is_empty(), "no module doc");
    assert!(caught("proto/x.rs", &"fn f() {}\n".repeat(MAX_LINES)));
    for (path, body) in [
        ("proto/x.rs", "// use crate::http::Head;\n/* crate::http /* nested */ crate::http */"),
        ("proto/x.rs", "/// [`Head`](crate::http::Head)\nconst A: &str = \"crate::http\";"),
        ("proto/x.rs", "#[cfg(test)]\nmod tests {\n use crate::http::Head;\n}"),
        ("proto/x.rs", "#[cfg(test)]\nmod tests;"),
        ("proto/tests.rs", "use crate::http::Head;"),
        ("dispatch/core/mod.rs", "use super::queue::Queue;"),
        ("proto/x.rs", "use crate::proto::ident::ConnId; use super::ident; pub(super) fn f() {}"),
        ("proto/x.rs", "#![deny(unsafe_code)] fn zmq() {} struct S { clap: u8 }"),
        (
            "dispatch/x.rs",
            "fn f() { crate::telemetry::warn!(\"x\") } use crossbeam_channel::Sender;",
        ),
        ("lib.rs", "pub mod python; use pyo3::prelude::*; use crate::python::serve;"),
        ("bridge/board.rs", "fn f() { unsafe { g() } }"),
    ] {
        let faults = faults(path, &format!("//! Doc.\n{body}\n"));
        assert!(faults.is_empty(), "{path}: {body}: {faults:?}");
    }
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}", "fn f() {}\n".repeat(MAX_LINES));
    assert!(!caught("proto/x.rs", &tests), "tests do not count as lines");
}
