//! A client's connection: requests in, responses out, one at a time.
//!
//! The connection's task waits for its socket, for news of its [`Client`], or for both; it never waits for another task.
//! Between requests it keeps no buffers. This file has its parts; [`super::request`] takes requests, [`super::respond`]
//! gives responses.

use std::cell::RefCell;
use std::future::Future;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use std::time::Instant;

use super::client::Client;
use super::shared::Shared;
use super::stream::From;
use super::stream::Stream;
use super::turns::Turns;
use crate::config::Front;
use crate::front::core::PeerId;
use crate::front::relay::Relay;

/// What is read at once.
const READ_AT_ONCE: usize = 64 * 1024;

/// How long, and how many bytes, we go on reading what a refused client still sends, so that it gets our answer.
const LINGER_TIME: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 4 * 1024 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_AT_ONCE]);
}

/// What becomes of a connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It may have another one.
    Again,
    /// It is closed.
    Close,
    /// It is closed, once the client has had time to read what was sent although it was still sending.
    Linger,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(super) shared: Rc<Shared>,
    /// The settings as its last request has found them.
    pub(super) config: Rc<Front>,
    /// What its handlers are told of its window. It stays: they reckon with it.
    pub(super) window: u64,
    pub(super) client: Rc<Client>,
    pub(super) stream: Stream,
    pub(super) from: From,
    /// The client's address as text.
    pub(super) remote: String,
    /// What was read and not yet used.
    pub(super) input: Vec<u8>,
    /// The client has ended its half.
    pub(super) eof: bool,
    /// What is to be written; `sent` bytes of it are.
    pub(super) out: Vec<u8>,
    pub(super) sent: usize,
    /// Bytes written ever.
    pub(super) written: u64,
    pub(super) relay: Relay,
    /// What names the request that is under way, if it has a name.
    pub(super) id: Vec<u8>,
    /// When the first byte of its answer was written, if others were to follow.
    pub(super) first_byte: Option<Instant>,
    /// Requests so far.
    pub(super) requests: u64,
    /// Who had the last request.
    pub(super) peer: Option<PeerId>,
    /// The peers' generation when they were last told of credits.
    pub(super) told: Option<u64>,
    /// Bytes of handlers that came since credits were last given back.
    pub(super) received: u64,
    /// A handler has closed the connection, or knows that it is closed.
    pub(super) known_closed: bool,
    pub(super) turns: Turns,
}

/// Serves a client to the end of its connection, which counts from now on.
pub(crate) fn serve(shared: Rc<Shared>, stream: Stream) -> impl Future<Output = ()> {
    let client = shared.welcome();
    let from = stream.from();
    let config = shared.config();
    let conn = Conn {
        client,
        from,
        // Who comes through a Unix socket is on this host.
        remote: from.ip.map_or_else(|| "127.0.0.1".to_owned(), |ip| ip.to_string()),
        stream,
        input: Vec::new(),
        eof: false,
        out: Vec::new(),
        sent: 0,
        written: 0,
        relay: Relay::new(),
        id: Vec::new(),
        first_byte: None,
        requests: 0,
        peer: None,
        told: None,
        received: 0,
        known_closed: false,
        turns: Turns::default(),
        window: config.clients.client_window,
        config,
        shared,
    };
    serve_requests(conn)
}

async fn serve_requests(mut conn: Conn) {
    loop {
        match conn.one().await {
            Next::Again => conn.turns.did(Turns::REQUEST).await,
            Next::Close => break,
            Next::Linger => {
                if conn.flush().await {
                    conn.goodbye();
                    conn.shared.lingers(1);
                    conn.linger().await;
                    conn.shared.lingers(-1);
                }
                break;
            }
        }
    }
    conn.goodbye();
}

impl Conn {
    /// Ends what is under way, and tells the handler.
    fn goodbye(&mut self) {
        let conn = self.client.id.get();
        let had = self.shared.with_core(|core| core.over(conn));
        let known = std::mem::replace(&mut self.known_closed, true);
        if let Some(peer) = had.or(self.peer).filter(|_| !known) {
            self.shared.tell_gone(peer, conn);
        }
        self.shared.farewell(conn);
    }

    /// Reads what is there, if anything is; 0 is the end.
    pub(super) fn read(&mut self) -> io::Result<usize> {
        SCRATCH.with_borrow_mut(|scratch| {
            let got = self.stream.try_read(scratch)?;
            self.input.extend_from_slice(scratch.get(..got).unwrap_or_default());
            self.eof |= got == 0;
            self.shared.record.read(got);
            Ok(got)
        })
    }

    /// Reads what is there. False if the client is gone.
    pub(super) fn read_on(&mut self) -> bool {
        match self.read() {
            Ok(_) => true,
            Err(error) => is_would_block(&error),
        }
    }

    /// Writes what can be written. Gives whether all of it is; an error if the client is gone.
    pub(super) fn write(&mut self) -> io::Result<bool> {
        while self.sent < self.out.len() {
            match self.stream.try_write(&self.out[self.sent..]) {
                Ok(written) => {
                    self.sent += written;
                    self.written += written as u64;
                    self.shared.record.wrote(written);
                }
                Err(error) if is_would_block(&error) => {
                    // What was written need not be kept for the sake of a slow client.
                    if self.sent > READ_AT_ONCE {
                        self.out.drain(..self.sent);
                        self.sent = 0;
                    }
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.out.shrink_to(READ_AT_ONCE);
        self.sent = 0;
        Ok(true)
    }

    /// Where the next byte of `out` will stand among all that is ever written.
    pub(super) fn end(&self) -> u64 {
        self.written + self.backlog() as u64
    }

    /// Bytes that wait to be written.
    pub(super) fn backlog(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Waits for news of the client, and for its socket in the directions wanted.
    pub(super) async fn wait(&self, read: bool, write: bool) {
        poll_fn(|cx| {
            let ready = self.client.poll_news(cx.waker())
                || (read && self.stream.poll_read_ready(cx).is_ready())
                || (write && self.stream.poll_write_ready(cx).is_ready());
            if ready { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Writes all there is, for as long as a slow client may take. False if it is gone or took too long.
    pub(super) async fn flush(&mut self) -> bool {
        self.client.until(Some(Instant::now() + self.config.clients.send_timeout));
        loop {
            match self.write() {
                Ok(true) => return true,
                Ok(false) => {}
                Err(_) => return false,
            }
            self.wait(false, true).await;
            if self.client.look(|inbox| inbox.late || inbox.cancel) {
                return false;
            }
        }
    }

    /// Ends our half and reads on for a while, for a client that still sends would else lose our answer.
    async fn linger(&mut self) {
        self.stream.shutdown();
        let reading = async {
            let mut read = 0;
            while !self.eof && read < LINGER_BYTES {
                self.input.clear();
                match self.read() {
                    Ok(got) => read += got,
                    Err(error) if is_would_block(&error) => {
                        if poll_fn(|cx| self.stream.poll_read_ready(cx)).await.is_err() {
                            return;
                        }
                    }
                    Err(_) => return,
                }
            }
        };
        // That the time is over is no news.
        let _ = tokio::time::timeout(LINGER_TIME, reading).await;
    }
}

pub(super) fn is_would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
