//! Streamed bodies: their parts go to the worker that reads them, and credits to the front end as they are read.

use std::time::Duration;
use std::time::Instant;

use super::Core;
use super::Fate;
use super::Key;
use super::WorkerId;
use crate::bridge::Ticket;
use crate::bridge::frame;
use crate::bridge::frame::FLAG_LAST;
use crate::bridge::frame::Kind;
use crate::dispatch::connection::Connection;
use crate::dispatch::inflow::Inflow;
use crate::dispatch::inflow::Step;
use crate::dispatch::refuse;
use crate::dispatch::refuse::Refusal;
use crate::proto::ident::SenderUuid;
use crate::proto::reply;
use crate::proto::reply::Ctl;
use crate::telemetry;

/// One part of a streamed body, but for its bytes.
#[derive(Debug)]
pub(crate) struct Part {
    /// Where it begins, as the front end says.
    pub(crate) offset: u64,
    /// Whether the body ends with it.
    pub(crate) last: bool,
}

impl Core {
    /// A part of a streamed body has come.
    pub(super) fn body_part(
        &mut self,
        key: Key,
        sender: &SenderUuid,
        part: &Part,
        bytes: &[u8],
        now: Instant,
    ) {
        let Some(connection) = self.connections.get_mut(&key) else {
            if !self.is_closed(key) {
                self.strange_part(key, sender, now);
            }
            return;
        };
        // What it belonged to is answered, and the connection is being closed.
        let Some(body) = connection.inflow.as_mut().filter(|_| !connection.closing) else { return };
        connection.touched = now;
        let step = body.part(part.offset, bytes.len(), part.last, now);
        let (arrived, reader) = (body.arrived(), body.reader);
        if step == Step::Broken {
            if let Some(held) = self.malformed_lines.allow(now) {
                telemetry::warn!(
                    "a streamed body on connection {} lacks a part, or is of another length than announced: refused. \
                     upload.stream needs a handler with one instance; give that more workers{held}",
                    key.conn
                );
            }
            self.abort(key, 400);
            return;
        }
        if self.is_too_large(arrived) {
            self.abort(key, 413);
            return;
        }
        let exchange =
            reader.and_then(|ticket| Some((ticket, self.exchanges.get(&ticket)?.worker)));
        if let Some((ticket, id)) = exchange
            && let Some(worker) = self.workers.get_mut(&id)
        {
            let flags = if step == Step::Last { FLAG_LAST } else { 0 };
            frame::put(&mut worker.out, Kind::BodyPart, flags, ticket, bytes);
        }
        if step == Step::Last
            && let Some(connection) = self.connections.get_mut(&key)
        {
            connection.inflow = None;
            self.next_in_line(key, now);
        }
    }

    /// An application has taken so many bytes of its body, and wants more.
    pub fn body_wanted(&mut self, id: WorkerId, ticket: Ticket, bytes: u64, now: Instant) {
        let Some(exchange) = self.exchanges.get(&ticket).filter(|e| e.worker == id && !e.gone)
        else {
            return;
        };
        let (key, window) = (exchange.key, self.uploads.upload_window);
        let body = self.connections.get_mut(&key).and_then(|c| c.inflow.as_mut());
        if let Some(body) = body.filter(|body| body.reader == Some(ticket)) {
            let credits = body.wanted(bytes, window, now);
            self.give_credits(key, credits);
        }
    }

    fn give_credits(&mut self, key: Key, credits: u32) {
        let Some(connection) = self.connections.get(&key).filter(|_| credits > 0) else { return };
        let mut reply = Vec::new();
        let ctl = Ctl::Credits(credits);
        if reply::put_ctl(&mut reply, &connection.sender, key.conn, ctl).is_ok() {
            self.links[key.link].out.push(reply);
        }
    }

    /// The response to `ticket` is over. Whether its connection can go on, as far as the body is concerned: when all of it
    /// has come, or the rest is worth waiting for.
    pub(super) fn body_over(&mut self, key: Key, ticket: Ticket, now: Instant) -> bool {
        let inflow = self.connections.get_mut(&key).and_then(|c| c.inflow.as_mut());
        let Some(body) = inflow.filter(|body| body.reader == Some(ticket)) else { return true };
        let credits = body.drain(now);
        self.give_credits(key, credits.unwrap_or(0));
        credits.is_some()
    }

    /// Gives up a request whose body cannot be had: `status`, if nothing of a response has gone out, and the end of the
    /// connection. For the application it is as if the client had left.
    fn abort(&mut self, key: Key, status: u16) {
        let number = self.unrun_ticket();
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let Some(ticket) = connection.active else {
            let page = refuse::answer(Refusal::Page(status), b"", &self.request_ids, number);
            self.waiting -= connection.fail(&page);
            self.send_later(key);
            return;
        };
        let Some(mut exchange) = self.exchanges.remove(&ticket) else { return };
        self.answer_for(&exchange, Fate::Refused, status);
        exchange.answered = true;
        exchange.gone = true;
        if let Some(worker) = self.workers.get_mut(&exchange.worker) {
            frame::put(&mut worker.out, Kind::Gone, 0, ticket, b"");
        }
        // Its slot is busy all the same, and its worker still owes its end.
        self.exchanges.insert(ticket, exchange);
    }

    /// A front end is left: what it has yet to say of bodies goes to another instance, or to nobody. Their requests are
    /// given up now, so that nobody waits for what cannot come.
    pub fn link_left(&mut self, link: usize) {
        let torn = |c: &Connection| {
            let free = c.active.is_none() && c.line.is_empty();
            !c.closing && (c.inflow.is_some() || c.uploading.is_some() && free)
        };
        let torn = self.connections.iter().filter(|(key, c)| key.link == link && torn(c));
        let keys: Vec<Key> = torn.map(|(key, _)| *key).collect();
        for key in keys {
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.uploading = None;
            }
            self.abort(key, 503);
        }
    }

    /// Gives up the requests whose clients have stopped sending.
    pub(super) fn end_slow_bodies(&mut self, limit: Duration, now: Instant) {
        let late = |body: &Inflow| body.stuck(now) >= limit;
        let keys: Vec<Key> = self
            .connections
            .iter()
            .filter(|(_, c)| !c.closing && c.inflow.as_ref().is_some_and(late))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            self.counters.upload_timeouts += 1;
            if let Some(held) = self.cut_lines.allow(now) {
                telemetry::warn!(
                    "nothing more of the body on connection {} has come for {} s (upload-timeout): given up. Where several \
                     instances share a handler with upload.stream, its parts go astray{held}",
                    key.conn,
                    limit.as_secs(),
                );
            }
            self.abort(key, 408);
        }
    }

    /// A part of a body of which this instance knows nothing: another one has its beginning, and waits for it in vain.
    fn strange_part(&mut self, key: Key, sender: &SenderUuid, now: Instant) {
        self.counters.strange_parts += 1;
        if let Some(held) = self.malformed_lines.allow(now) {
            telemetry::warn!(
                "a part of a streamed body came for connection {}, which is not known here: its connection is closed. \
                 upload.stream needs a handler with one instance; give that more workers{held}",
                key.conn
            );
        }
        // Not `cancel`: in the middle of an upload that makes Mongrel2 1.12.2 mix up descriptors, and a later client hangs.
        let mut reply = Vec::new();
        if reply::put_close(&mut reply, sender, key.conn).is_ok() {
            let link = &mut self.links[key.link];
            link.out.push(reply);
            link.closed[0].insert(key.conn);
        }
    }
}
