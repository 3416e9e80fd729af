//! Gives a client its response: from the handler's bytes, or in the handler's place.

use std::rc::Rc;
use std::time::Instant;

use super::client::Fate;
use super::conn::Conn;
use super::conn::Next;
use super::record::Outcome;
use super::request::Known;
use super::upload::Upload;
use crate::front::message;
use crate::front::relay::Asked;
use crate::front::relay::Step;
use crate::http::framing::Version;
use crate::http::page;
use crate::http::page::Page;

/// Bytes of pipelined requests that are read while a response is under way. What is beyond waits in the kernel.
const PIPELINE_MAX: usize = 64 * 1024;

/// What a client was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    /// Status and bytes of the body; none if the client did not wait for an answer.
    pub(super) told: Option<(u16, u64)>,
    pub(super) outcome: Outcome,
    pub(super) next: Next,
}

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It is complete; whether the connection lives on.
    Complete(bool),
    /// The client gets an error in its place.
    Error(u16, Outcome),
    /// Bytes of it have gone out already: the connection is cut after them.
    Cut(Outcome),
    /// A handler wants the connection gone at once.
    Dropped,
    /// The client is gone.
    Gone,
}

/// Whose turn it is, as far as time is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// Nothing has changed.
    TheSame,
    /// A handler that pauses in its response may.
    Nothing,
    /// The handler, to begin its response.
    Handler,
    /// The client, to send its body.
    Body,
    /// The client, to take what is there.
    Taking,
}

/// What has come, in short.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "each is a message without content")]
struct News {
    step: Step,
    came: bool,
    cancel: bool,
    unasked: bool,
    close: bool,
    late: bool,
    fate: Option<Fate>,
    alive: bool,
    credits: u64,
}

impl Conn {
    /// Waits for the response of a request that was handed in, and passes it on. Meanwhile it sends the rest of the body.
    pub(super) async fn respond(
        &mut self,
        known: &Known<'_>,
        mut upload: Option<Upload>,
    ) -> Answer {
        let mut end = self.run(known, upload.as_mut()).await;
        let conn = self.client.id.get();
        self.peer = self.shared.with_core(|core| core.over(conn)).or(self.peer);
        let unread = upload.as_ref().is_some_and(|upload| !upload.is_done());
        if let Some(upload) = upload {
            if upload.was_not_asked_for() && matches!(end, End::Complete(_)) {
                self.shared.doubts_streams(self.relay.status());
            }
            upload.end(matches!(end, End::Complete(_)));
        }
        if matches!(end, End::Complete(_) | End::Cut(_)) {
            self.client.set_backlog(self.backlog());
            if !self.flush().await {
                end = End::Gone;
            }
        }
        let next = match end {
            End::Error(503, outcome) if !unread => return self.busy(known.asked, outcome),
            End::Error(status, outcome) => return self.error(status, outcome),
            End::Complete(keep) if unread || (!keep && !self.input.is_empty()) => Next::Linger,
            End::Complete(true) if !self.eof || !self.input.is_empty() => Next::Again,
            End::Complete(_) | End::Cut(_) | End::Dropped | End::Gone => Next::Close,
        };
        let outcome = match end {
            End::Cut(outcome) | End::Error(_, outcome) => outcome,
            End::Complete(_) => Outcome::Ok,
            End::Dropped => Outcome::Cut,
            End::Gone => Outcome::ClientGone,
        };
        let told = self.relay.status().map(|status| (status, self.relay.body_bytes()));
        Answer { told, outcome, next }
    }

    async fn run(&mut self, known: &Known<'_>, mut upload: Option<&mut Upload>) -> End {
        let shared = Rc::clone(&self.shared);
        let mut done: Option<bool> = None;
        let mut answered = false;
        // Where the response begins. What is before it, as 100 Continue, reaches the client whatever becomes of it.
        let mut start = self.end();
        let wants = upload.as_deref().is_some_and(Upload::wants);
        self.keep_time(if wants { WaitsFor::Body } else { WaitsFor::Handler });
        loop {
            if self.relay.status().is_none() {
                start = self.end();
            }
            let uploading = upload.as_deref().is_some_and(|upload| !upload.is_done());
            let news = self.take_news(uploading || shared.stopping());
            answered |= news.came;
            match news.step {
                Step::More => {}
                Step::Done { keep } => done = Some(keep),
                Step::Broken(error) => {
                    let id = self.client.id.get();
                    shared.complain(|| {
                        format!("connection {id}: a handler's response is broken: {error}")
                    });
                    return self.failed(502, Outcome::of_broken(error), start);
                }
            }
            if news.close {
                self.known_closed = true;
                done = done.map(|_| false);
            }
            if news.cancel {
                self.known_closed = true;
                return End::Dropped;
            }
            if news.unasked && !answered {
                return End::Gone;
            }
            let before = self.backlog();
            let Ok(all) = self.write() else { return End::Gone };
            self.client.set_backlog(self.backlog());
            self.give_credits();
            if let Some(keep) = done {
                // The rest can be written without the handler.
                return End::Complete(keep);
            }
            match news.fate {
                Some(Fate::Lost) => return self.failed(502, Outcome::HandlerDied, start),
                Some(Fate::NoPeer) => return self.failed(503, Outcome::NoHandler, start),
                None => {}
            }
            if let Some(upload) = upload.as_deref_mut() {
                upload.grant(news.credits);
                match self.feed(known, upload) {
                    Ok(()) => {}
                    Err(Some(status)) => return self.failed(status, Outcome::Refused, start),
                    Err(None) => return End::Gone,
                }
            }
            let begun = self.relay.status().is_some();
            let sends = upload.as_deref().is_some_and(Upload::wants);
            if news.late {
                if begun && all && !sends {
                    // Nothing is late: the handler pauses in its response.
                    self.client.until(None);
                } else {
                    return self.late(sends, begun, start);
                }
            }
            if self.written > start {
                self.first_byte.get_or_insert_with(Instant::now);
            }
            let moved = self.backlog() < before || news.came;
            let ended = uploading && upload.as_deref().is_some_and(Upload::is_done);
            let uploading = uploading && !ended;
            let waits_for = match (all, begun) {
                (false, _) if moved => WaitsFor::Taking,
                (true, _) if sends && news.credits > 0 => WaitsFor::Body,
                (true, false) if ended || (news.alive && !sends) => WaitsFor::Handler,
                (true, true) if !sends => WaitsFor::Nothing,
                _ => WaitsFor::TheSame,
            };
            self.keep_time(waits_for);
            let wants = match upload.as_deref() {
                Some(upload) if uploading => upload.wants(),
                _ => self.input.len() < PIPELINE_MAX,
            };
            if wants && !self.eof {
                let had = self.input.len();
                if !self.read_on() || (self.eof && uploading) {
                    return End::Gone;
                }
                if self.input.len() > had && uploading {
                    self.keep_time(WaitsFor::Body);
                    self.turns.did(self.input.len() - had).await;
                    continue;
                }
            }
            self.wait(wants && !self.eof && self.input.len() < PIPELINE_MAX, !all).await;
        }
    }

    /// Begins the time of whom we wait for.
    fn keep_time(&self, waits_for: WaitsFor) {
        let clients = &self.config.clients;
        let time = match waits_for {
            WaitsFor::TheSame => return,
            WaitsFor::Nothing => return self.client.until(None),
            WaitsFor::Handler => clients.response_timeout,
            WaitsFor::Body => clients.body_timeout,
            WaitsFor::Taking => clients.send_timeout,
        };
        self.client.until(Some(Instant::now() + time));
    }

    /// Takes what has come, and puts it into `out` as the client gets it.
    fn take_news(&mut self, may_not_keep: bool) -> News {
        let Conn { client, relay, out, received, .. } = self;
        client.look(|inbox| {
            let came = !inbox.bytes.is_empty();
            let mut step = Step::More;
            if came {
                if may_not_keep {
                    relay.must_close();
                }
                *received += inbox.bytes.len() as u64;
                step = relay.take(&inbox.bytes, out);
                inbox.bytes.clear();
                inbox.bytes.shrink_to(PIPELINE_MAX);
            }
            if inbox.close && step == Step::More {
                step = relay.close();
            }
            News {
                step,
                came,
                cancel: inbox.cancel,
                unasked: inbox.unasked,
                close: inbox.close,
                late: std::mem::take(&mut inbox.late),
                fate: inbox.fate.take(),
                alive: std::mem::take(&mut inbox.alive),
                credits: std::mem::take(&mut inbox.credits),
            }
        })
    }

    /// What the client gets in place of a response that there will not be; its first byte would have been at `start`.
    fn failed(&mut self, status: u16, outcome: Outcome, start: u64) -> End {
        let Some(before) = start.checked_sub(self.written) else { return End::Cut(outcome) };
        self.out.truncate(self.sent + usize::try_from(before).unwrap_or(usize::MAX));
        End::Error(status, outcome)
    }

    /// The client does not send, or does not take; or the handler does not answer.
    fn late(&mut self, slow_body: bool, answered: bool, start: u64) -> End {
        let (status, outcome) = match (slow_body, answered) {
            (true, _) => (408, Outcome::Refused),
            (false, true) => (504, Outcome::ClientGone),
            (false, false) => (504, Outcome::TimedOut),
        };
        self.failed(status, outcome, start)
    }

    /// Tells the handler of bytes that the client has taken, once there are enough of them to be worth a message.
    fn give_credits(&mut self) {
        let window = self.window;
        let free = self.received.saturating_sub(self.backlog() as u64);
        if window == 0 || free < window / 4 {
            return;
        }
        let conn = self.client.id.get();
        let peer = self.shared.core.borrow().peer_of(conn);
        if let Some(peer) = peer {
            self.received -= free;
            self.shared.tell(peer, conn, |frame, to| message::put_credits(frame, to, free));
        }
    }

    /// Answers with an error in a handler's place, and ends the connection: what a handler may still send for it must not
    /// be taken for the next response.
    pub(super) fn error(&mut self, status: u16, outcome: Outcome) -> Answer {
        self.page(status, self.relay.asked().head, outcome)
    }

    /// Answers with an error, and ends the connection.
    pub(super) fn page(&mut self, status: u16, head_only: bool, outcome: Outcome) -> Answer {
        let line = self.id_line();
        let page = Page { head_only, line: Some(&line), ..Page::default() };
        let bytes = page::put(&mut self.out, status, page);
        Answer { told: Some((status, bytes)), outcome, next: Next::Linger }
    }

    /// Answers that there is no handler with room. The connection may live on, for no handler has heard of the request.
    pub(super) fn busy(&mut self, asked: Asked, outcome: Outcome) -> Answer {
        let keep = asked.keeps() && !self.shared.stopping() && !self.eof;
        let line = self.id_line();
        let page = Page {
            head_only: asked.head,
            keep,
            version_10: asked.version == Version::Http10,
            retry_after: Some(1),
            note: None,
            line: Some(&line),
        };
        let bytes = page::put(&mut self.out, 503, page);
        let written = self.write().is_ok_and(|all| all);
        let next = if keep && written { Next::Again } else { Next::Linger };
        Answer { told: Some((503, bytes)), outcome, next }
    }
}
