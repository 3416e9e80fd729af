//! What front end and instance tell together: one access log, one name for a request, one page of metrics.
//!
//! Whatever said so (a word, a variable, the instance's file), both are told it as words. Where the front end's own file says
//! otherwise, each goes its own way.

use std::ffi::OsString;
use std::io;
use std::net::TcpListener;

use super::place::Place;
use crate::cli::Both;
use crate::config::AccessFormat;
use crate::config::Bind;
use crate::config::LogTarget;

/// Adds to the words of both what they have to know. `terminal`: somebody looks on.
pub(super) fn share(both: &mut Both, place: &Place, terminal: bool) -> io::Result<()> {
    share_access_log(both, terminal);
    share_request_ids(both);
    share_metrics(both, place)
}

/// The instance tells of the requests that it had, the front end of all others.
fn share_access_log(both: &mut Both, terminal: bool) {
    let log = &both.config.log;
    let target = match &log.access_log {
        Some(target) => target.clone(),
        None if terminal => {
            both.instance_words.push("--access-log=-".into());
            LogTarget::Stdout
        }
        None => return,
    };
    if both.front.log.access_log.as_ref().is_some_and(|own| *own != target) {
        return;
    }
    let format = match log.access_log_format {
        AccessFormat::Combined => "combined",
        AccessFormat::Json => "json",
    };
    both.front_words.push(match target {
        LogTarget::Stdout => "--access-log=-".into(),
        LogTarget::File(path) => word("--access-log=", path),
    });
    both.front_words.push(word("--access-log-format=", format));
    both.front_words.push("--own-lines".into());
}

/// The instance finds the name that the front end gave.
fn share_request_ids(both: &mut Both) {
    let headers = [&both.front.log.request_id_header, &both.config.log.request_id_header];
    let ([Some(header), None] | [None, Some(header)]) = headers else { return };
    let word = word("--request-id-header=", header);
    both.front_words.push(word.clone());
    both.instance_words.push(word);
}

/// The front end has the address; the instance tells it in private what it adds to its own.
fn share_metrics(both: &mut Both, place: &Place) -> io::Result<()> {
    let at = match (&both.front.metrics, &both.config.admin.metrics) {
        (None, None) => return Ok(()),
        (Some(front), Some(instance)) if front != instance => return Ok(()),
        (Some(at), _) | (None, Some(at)) => at,
    };
    if let Bind::Tcp(at) = at {
        // Whether it can be had is told at once, and not by a front end that dies again and again.
        TcpListener::bind(at)?;
    }
    let path = place.metrics();
    both.front_words.push(word("--metrics=", at.to_string()));
    both.front_words.push(word("--instance-metrics=", &path));
    both.instance_words.push(word("--metrics=unix:", &path));
    Ok(())
}

fn word(before: &str, value: impl Into<OsString>) -> OsString {
    let mut word = OsString::from(before);
    word.push(value.into());
    word
}
