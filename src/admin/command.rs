//! What the commands do: find the instance, ask it, and print what it says. They give exit codes: 0 done, 1 refused or
//! failed, 3 no instance there, 64 it is not clear which one is meant.

use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use super::Answer;
use super::Report;
use super::Wish;
use super::client::Client;
use super::client::ClientError;
use super::place;
use super::show;
use crate::config::ControlPlace;
use crate::telemetry::Escaped;

const DONE: u8 = 0;
const FAILED: u8 = 1;
const NOBODY: u8 = 3;
const UNCLEAR: u8 = 64;

/// How long an instance may take to say how things stand. It answers within a millisecond.
const LIMIT: Duration = Duration::from_secs(10);

/// Between two looks.
const WATCH: Duration = Duration::from_secs(1);

/// Which instance is meant.
#[derive(Debug)]
pub struct Target {
    /// Where its control socket is.
    pub control: ControlPlace,
    /// Its process id, if that was said; its socket is then in a usual place.
    pub pid: Option<u32>,
}

/// How to show how things stand.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// As one line of JSON.
    pub json: bool,
    /// Again each second, until the instance ends.
    pub watch: bool,
}

/// `lurcher status`.
pub fn status(target: &Target, look: Look) -> u8 {
    let mut client = match connect(target) {
        Ok(client) => client,
        Err(code) => return code,
    };
    let mut before: Option<(u64, Instant)> = None;
    loop {
        let report = match client.ask(&Wish::Status {}, Some(LIMIT)) {
            Ok(Answer { status: Some(report), .. }) => report,
            Ok(answer) => return told(answer),
            Err(ClientError::Ended) if look.watch => {
                complain("the instance has ended");
                return NOBODY;
            }
            Err(error) => return failed(&error),
        };
        let now = Instant::now();
        #[allow(clippy::cast_precision_loss, reason = "a rate is shown without digits")]
        let rate = before.map(|(requests, at)| {
            report.totals.requests.saturating_sub(requests) as f64
                / now.duration_since(at).as_secs_f64()
        });
        before = Some((report.totals.requests, now));
        if print(&report, look, rate).is_err() || !look.watch {
            return DONE;
        }
        thread::sleep(WATCH);
    }
}

fn print(report: &Report, look: Look, rate: Option<f64>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if look.json {
        let mut line = serde_json::to_vec(report)?;
        line.push(b'\n');
        out.write_all(&line)?;
        return out.flush();
    }
    let text = show::text(report, rate);
    let screen = terminal_size::terminal_size().filter(|_| look.watch && out.is_terminal());
    let text = match screen {
        Some((width, height)) => screenful(&text, width.0.into(), height.0.into(), rate.is_none()),
        None if look.watch => text + "\n",
        None => text,
    };
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The text in place of the one before, cut to what the terminal holds so that it does not scroll.
fn screenful(text: &str, width: usize, height: usize, first: bool) -> String {
    let mut out = String::from(if first { "\x1b[2J\x1b[H" } else { "\x1b[H" });
    for line in text.lines().take(height.saturating_sub(1)) {
        out.extend(line.chars().take(width));
        out.push_str("\x1b[K\n");
    }
    out.push_str("\x1b[J");
    out
}

/// Tells an instance something, and prints what it says. With `to_the_end` it waits until the instance has ended.
pub fn tell(target: &Target, wish: &Wish, to_the_end: bool) -> u8 {
    let mut client = match connect(target) {
        Ok(client) => client,
        Err(code) => return code,
    };
    match client.ask(wish, None) {
        Ok(answer) => {
            let ok = answer.ok;
            let code = told(answer);
            if ok && to_the_end {
                return match client.wait_for_end() {
                    Ok(()) => said("ended"),
                    Err(error) => failed(&error),
                };
            }
            code
        }
        Err(error) => failed(&error),
    }
}

fn told(answer: Answer) -> u8 {
    match answer {
        Answer { ok: true, text, .. } => said(&text.unwrap_or_default()),
        Answer { error, .. } => {
            complain(&error.unwrap_or_else(|| "refused".to_owned()));
            FAILED
        }
    }
}

/// Connects to the instance that is meant.
fn connect(target: &Target) -> Result<Client, u8> {
    let path = find(target)?;
    Client::connect(&path).map_err(|error| failed(&error))
}

fn find(target: &Target) -> Result<PathBuf, u8> {
    if target.pid.is_none() {
        match &target.control {
            ControlPlace::At(path) => return Ok(path.clone()),
            ControlPlace::Off => {
                complain("the control socket is switched off (--control off)");
                return Err(FAILED);
            }
            ControlPlace::Usual => {}
        }
    }
    let mut found = place::find(|name| std::env::var_os(name));
    if let Some(pid) = target.pid {
        found.retain(|(found, _)| *found == pid);
    }
    match (found.len(), target.pid) {
        (1, _) => {}
        (0, None) => {
            complain("no instance found; if one runs, name its control socket with --control");
            return Err(NOBODY);
        }
        (0, Some(pid)) => {
            complain(&format!("no instance with pid {pid} found"));
            return Err(NOBODY);
        }
        _ => {
            complain("several instances run; choose one with --pid:");
            for (pid, path) in &found {
                complain(&format!("  --pid {pid}  {}", describe(path)));
            }
            return Err(UNCLEAR);
        }
    }
    found.pop().map(|(_, path)| path).ok_or(NOBODY)
}

/// What an instance serves, if it says so.
fn describe(path: &std::path::Path) -> String {
    let answer = Client::connect(path)
        .and_then(|mut client| client.ask(&Wish::Status {}, Some(Duration::from_secs(1))));
    match answer {
        Ok(Answer { status: Some(report), .. }) => {
            format!("{} in {}", report.application, report.app_path)
        }
        _ => "does not say what it serves".to_owned(),
    }
}

fn said(text: &str) -> u8 {
    // A reader that has gone away does not want to know.
    let _ = writeln!(io::stdout(), "{}", plain(text));
    DONE
}

fn failed(error: &ClientError) -> u8 {
    complain(&error.to_string());
    if matches!(error, ClientError::Connect { .. } | ClientError::Ended) { NOBODY } else { FAILED }
}

fn complain(text: &str) {
    // Likewise.
    let _ = writeln!(io::stderr(), "lurcher: {}", plain(text));
}

/// Lines stay, and nothing else that could move a cursor.
fn plain(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            if line.chars().any(char::is_control) {
                Escaped(line.as_bytes()).to_string()
            } else {
                line.to_owned()
            }
        })
        .collect();
    lines.join("\n")
}
