//! What both kinds of handlers' connections share: the handshake, what was read and is not yet understood, why one ended.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::time::Duration;

use super::conn::is_would_block;
use super::stream::Stream;
use crate::front::zmtp;
use crate::front::zmtp::Handshake;
use crate::front::zmtp::Remote;
use crate::front::zmtp::Role;
use crate::front::zmtp::ZmtpError;

/// How long a handshake may take.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// What is read at once.
const READ_AT_ONCE: usize = 256 * 1024;

/// Why a connection of a handler ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Protocol(#[from] ZmtpError),
    #[error("it was closed")]
    Eof,
    #[error("it said nothing for {} s", HANDSHAKE_TIME.as_secs())]
    Silent,
    #[error("it gave no sign of life; see --heartbeat")]
    Mute,
}

thread_local! {
    /// Where bytes are read to before they are known to be needed.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_AT_ONCE]);
}

/// What has been read and not yet understood.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    at: usize,
}

impl Input {
    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(super) fn taken(&mut self, bytes: usize) {
        self.at += bytes;
        if self.at >= self.bytes.len() {
            self.at = 0;
            self.bytes.clear();
            self.bytes.shrink_to(READ_AT_ONCE);
        } else if self.at > READ_AT_ONCE {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
    }

    /// Reads what is there: 0 is the end.
    pub(super) fn read(&mut self, stream: &Stream) -> io::Result<usize> {
        SCRATCH.with_borrow_mut(|scratch| {
            let got = stream.try_read(scratch)?;
            self.bytes.extend_from_slice(scratch.get(..got).unwrap_or_default());
            Ok(got)
        })
    }
}

/// Writes all of `bytes`, and waits for it.
pub(super) async fn write_all(stream: &Stream, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.try_write(rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if is_would_block(&error) => {
                poll_fn(|cx| stream.poll_write_ready(cx)).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Both sides say who they are.
pub(super) async fn shake_hands(
    stream: &Stream,
    role: Role,
    input: &mut Input,
) -> Result<Remote, Ended> {
    let shaking = async {
        write_all(stream, &zmtp::greeting()).await?;
        let mut handshake = Handshake::new(role);
        loop {
            let mut out = Vec::new();
            let (taken, remote) = handshake.advance(input.rest(), &mut out)?;
            input.taken(taken);
            write_all(stream, &out).await?;
            if let Some(remote) = remote {
                return Ok(remote);
            }
            if taken == 0 {
                match input.read(stream) {
                    Ok(0) => return Err(Ended::Eof),
                    Ok(_) => {}
                    Err(error) if is_would_block(&error) => {
                        poll_fn(|cx| stream.poll_read_ready(cx)).await?;
                    }
                    Err(error) => return Err(Ended::Io(error)),
                }
            }
        }
    };
    tokio::time::timeout(HANDSHAKE_TIME, shaking).await.unwrap_or(Err(Ended::Silent))
}
