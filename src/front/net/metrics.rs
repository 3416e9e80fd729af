//! Those who collect metrics: a listener of their own, one request for a connection, which is closed after its answer.
//!
//! Everything is bounded: how many there are at one time, the length of a head, how long one may take. With an instance
//! behind it the page has the instance's too, as far as it comes in time.

use std::cell::Cell;
use std::fs::Permissions;
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use std::time::Instant;

use tokio::net::UnixStream;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::conn::is_would_block;
use super::page;
use super::run::accept;
use super::shared::Shared;
use super::stream::Listener;
use super::stream::Stream;
use super::wire::write_all;
use crate::config::Bind;
use crate::telemetry;
use crate::telemetry::metrics::LONGEST_HEAD;
use crate::telemetry::metrics::OK;
use crate::telemetry::metrics::Request;
use crate::telemetry::metrics::UNAVAILABLE;
use crate::telemetry::metrics::put_response;

/// Most collectors at one time; further ones wait until one has gone.
const MOST: usize = 16;

/// How long one may take for its request and for taking the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pause before it is looked again whether there is room.
const PAUSE: Duration = Duration::from_millis(50);

/// How long the instance may take for its page, and the most bytes of one.
const INSTANCE_PATIENCE: Duration = Duration::from_secs(1);
const INSTANCE_MOST: usize = 4 * 1024 * 1024;

/// Says where a listener is, and sees to it that strangers do not reach a Unix socket.
pub(super) fn opened(at: &Bind, listener: &Listener) -> io::Result<()> {
    if let Bind::Unix(path) = at {
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    }
    if let Some(Bind::Tcp(address)) = listener.address() {
        telemetry::info!("metrics at http://{address}/metrics");
    } else {
        telemetry::info!("metrics at {at}");
    }
    Ok(())
}

/// Serves all who come, for ever. `instance` is the Unix socket of the instance's metrics.
pub(super) async fn serve(shared: Rc<Shared>, listener: Listener, instance: Option<PathBuf>) {
    let started = Instant::now();
    let here = Rc::new(Cell::new(0));
    let instance = instance.map(Rc::new);
    loop {
        while here.get() >= MOST {
            tokio::time::sleep(PAUSE).await;
        }
        let stream = accept(&shared, &listener, false).await;
        here.set(here.get() + 1);
        let (shared, here, instance) = (Rc::clone(&shared), Rc::clone(&here), instance.clone());
        spawn_local(async move {
            let Ok(head) = timeout(PATIENCE, read_head(&stream)).await else {
                return here.set(here.get() - 1);
            };
            if let Ok(head) = head {
                let answer = answer(&shared, started, instance.as_deref(), head).await;
                // Whoever does not take it has to ask again.
                let _ = timeout(PATIENCE, write_all(&stream, &answer)).await;
            }
            here.set(here.get() - 1);
        });
    }
}

/// A whole head, or nothing if it is too long.
async fn read_head(stream: &Stream) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    while memchr::memmem::find(&head, b"\r\n\r\n").is_none() {
        if head.len() > LONGEST_HEAD {
            return Ok(None);
        }
        if read(stream, &mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Some(head))
}

async fn answer(
    shared: &Shared,
    started: Instant,
    instance: Option<&PathBuf>,
    head: Option<Vec<u8>>,
) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(head) = head else {
        put_response(&mut out, UNAVAILABLE, "the request is too long\n", false);
        return out;
    };
    let request = Request::parse(&head);
    if let Err(status) = request.page {
        put_response(&mut out, status, &format!("{status}; see /metrics\n"), request.head_only);
        return out;
    }
    let theirs = match instance {
        None => None,
        Some(path) => Some(timeout(INSTANCE_PATIENCE, fetch(path)).await.ok().and_then(Result::ok)),
    };
    let mut text = page::text(shared, started, theirs.as_ref().map(Option::is_some));
    text.push_str(theirs.flatten().as_deref().unwrap_or_default());
    put_response(&mut out, OK, &text, request.head_only);
    out
}

/// The page of the instance.
async fn fetch(path: &Path) -> io::Result<String> {
    let stream = Stream::Unix(UnixStream::connect(path).await?);
    write_all(&stream, b"GET /metrics HTTP/1.0\r\n\r\n").await?;
    let mut answer = Vec::new();
    while read(&stream, &mut answer).await? > 0 {
        if answer.len() > INSTANCE_MOST {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    let good = answer.starts_with(format!("HTTP/1.1 {OK}\r\n").as_bytes());
    let body = memchr::memmem::find(&answer, b"\r\n\r\n").filter(|_| good);
    let body = body.and_then(|end| str::from_utf8(&answer[end + 4..]).ok());
    body.map(str::to_owned).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Waits for bytes and appends them; 0 is the end.
async fn read(stream: &Stream, to: &mut Vec<u8>) -> io::Result<usize> {
    let mut piece = [0; 4096];
    loop {
        match stream.try_read(&mut piece) {
            Ok(got) => {
                to.extend_from_slice(&piece[..got]);
                return Ok(got);
            }
            Err(error) if is_would_block(&error) => {
                poll_fn(|cx| stream.poll_read_ready(cx)).await?;
            }
            Err(error) => return Err(error),
        }
    }
}
