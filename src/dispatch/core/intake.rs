//! What front ends send: requests into their lines, events to whom they concern.

use std::time::Instant;

use super::Core;
use super::Fate;
use super::Key;
use super::bodies::Beginning;
use crate::bridge::frame;
use crate::bridge::frame::Kind;
use crate::dispatch::choice;
use crate::dispatch::connection::CREDITS;
use crate::dispatch::connection::Connection;
use crate::dispatch::connection::LINE;
use crate::dispatch::connection::Waiting;
use crate::dispatch::inflow::Inflow;
use crate::dispatch::refuse;
use crate::dispatch::refuse::Refusal;
use crate::dispatch::sort;
use crate::dispatch::sort::Sorted;
use crate::dispatch::sort::Stream;
use crate::dispatch::sort::Unusable;
use crate::proto::control::Event;
use crate::proto::ident::SenderUuid;
use crate::telemetry;
use crate::transport::Message;

/// Messages shorter than this are not looked at for how much memory they take: 1024 of them take no more than 64 MiB.
const SMALL: u64 = 64 * 1024;

impl Core {
    /// A message came in on a link.
    pub fn received(&mut self, link: usize, message: Message, now: Instant) {
        self.counters.bytes_in += message.len() as u64;
        self.spool.at(now);
        match sort::sort(&message) {
            Ok(Sorted::Request {
                sender,
                conn,
                mut refuse,
                credits,
                file,
                spoilt,
                inline,
                stream,
            }) => {
                let key = Key { link, conn };
                if let Some(file) = spoilt {
                    self.body_spoilt(file);
                }
                if self.is_closed(key) {
                    if let Some(file) = file.filter(|_| self.trusts_directory()) {
                        self.body_spoilt(file);
                    }
                    return;
                }
                self.counters.requests += 1;
                self.connection(key, sender, credits, now);
                let mut upload = None;
                if self.is_too_large(inline as u64) {
                    refuse.get_or_insert(Refusal::Page(413));
                }
                if let Some(file) = file {
                    match self.body_complete(key, file, now) {
                        Ok(found) => upload = found,
                        Err(refusal) => refuse = Some(refusal),
                    }
                }
                let mut item = Waiting::new(message, now, upload, refuse);
                if let Some(Stream { announced }) = stream {
                    if announced.is_some_and(|bytes| self.is_too_large(bytes)) {
                        item.refuse.get_or_insert(Refusal::Page(413));
                    }
                    item.streamed = true;
                    if let Some(connection) = self.connections.get_mut(&key) {
                        connection.inflow = Some(Inflow::new(announced, inline, now));
                    }
                }
                self.enqueue(key, item, now);
            }
            Ok(Sorted::Upload { sender, conn, file, announced, credits }) => {
                let begins = Beginning { sender, file, announced, credits };
                self.body_begins(Key { link, conn }, begins, message, now);
            }
            Ok(Sorted::Part { sender, conn, part, bytes }) => {
                // The comma of its netstring is behind it.
                let end = message.len().saturating_sub(1);
                let bytes = &message[end.saturating_sub(bytes)..end];
                self.body_part(Key { link, conn }, &sender, &part, bytes, now);
            }
            Ok(Sorted::Event(conn, Event::Disconnect)) => self.client_gone(Key { link, conn }),
            Ok(Sorted::Event(conn, Event::Credits(bytes))) => {
                let key = Key { link, conn };
                self.links[link].window.get_or_insert(CREDITS);
                if let Some(connection) = self.connections.get_mut(&key) {
                    connection.credited(bytes, now);
                    self.send_later(key);
                }
            }
            Ok(Sorted::Event(_, Event::Unknown) | Sorted::Ignored) => {}
            Err(unusable) => self.unusable(link, message, &unusable, now),
        }
    }

    /// Whether we have closed a connection: what its client had sent before it knew is not for us any more.
    pub(super) fn is_closed(&mut self, key: Key) -> bool {
        let closed = self.links[key.link].closed.iter().any(|ids| ids.contains(&key.conn));
        self.counters.after_close += u64::from(closed);
        closed
    }

    /// The connection, as one that a message has come of. Only its first request tells its credits (protocol section 7.2),
    /// also by the message that begins an upload; of one that was forgotten all is free again.
    pub(super) fn connection(
        &mut self,
        key: Key,
        sender: SenderUuid,
        credits: Option<u64>,
        now: Instant,
    ) -> &mut Connection {
        let link = &mut self.links[key.link];
        link.window = credits.or(link.window);
        let connection = self.connections.entry(key).or_insert_with(|| {
            let mut fresh = Connection::new(sender.clone(), now);
            fresh.credits = link.window;
            fresh
        });
        connection.credits = credits.or(connection.credits);
        connection.sender = sender;
        connection.touched = now;
        connection
    }

    /// A front end is gone, and with it all that it had asked for.
    pub fn link_lost(&mut self, link: usize) {
        let keys: Vec<Key> = self.connections.keys().filter(|k| k.link == link).copied().collect();
        for key in keys {
            self.client_gone(key);
        }
        let link = &mut self.links[link];
        link.out.clear();
        link.window = None;
        // Its ids start again at 1 (protocol section 1.2).
        link.closed.iter_mut().for_each(std::collections::HashSet::clear);
    }

    /// Whether publications pile up on a link; while they do, responses wait here.
    pub fn set_congested(&mut self, link: usize, congested: bool) {
        self.links[link].congested = congested;
    }

    pub(super) fn enqueue(&mut self, key: Key, mut item: Waiting, now: Instant) {
        // A request that a worker can begin at once does not wait, so the limit is not for it.
        let full = (self.waiting >= self.limits.queue_limit || self.is_heavy(&item))
            && !(self.queue.is_empty() && choice::choose(self.ready_loads(), now).is_some());
        let Some(connection) = self.connections.get_mut(&key) else { return };
        connection.arrived(now);
        if connection.closing {
            // It was sent before the client knew of the closing, and no answer could reach it (RFC 9112 section 9.6).
            return;
        }
        if full || connection.line.len() >= LINE {
            item.refuse.get_or_insert(Refusal::Page(503));
        }
        // A line that is full of refusals is refused already: its connection closes at the first of them.
        if connection.line.len() > LINE {
            return;
        }
        connection.line.push_back(item);
        self.waiting += 1;
        self.next_in_line(key, now);
    }

    /// Whether requests that wait would take too much memory with this one. Small ones are bounded by their number.
    fn is_heavy(&self, item: &Waiting) -> bool {
        let bytes = item.message.len() as u64;
        if bytes < SMALL || self.waiting == 0 {
            return false;
        }
        let lines = self.connections.values().flat_map(|c| &c.line);
        let waiting: u64 = lines.map(|item| item.message.len() as u64).sum();
        waiting + bytes > self.uploads.queue_memory
    }

    /// Lets the first of a connection's line have its turn, if nothing of this connection is at work.
    pub(super) fn next_in_line(&mut self, key: Key, now: Instant) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        if !connection.is_free() {
            return;
        }
        let Some(first) = connection.line.front_mut() else {
            if connection.forgettable() {
                self.connections.remove(&key);
            }
            return;
        };
        match first.refuse {
            None => {
                first.since = Some(now);
                connection.queued = true;
                self.queue.push_back(key);
            }
            Some(refusal) => self.refuse_first(key, refusal),
        }
    }

    /// Answers the first of a connection's line instead of a worker, and closes the connection.
    pub(super) fn refuse_first(&mut self, key: Key, refusal: Refusal) {
        let ticket = self.unrun_ticket();
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let Some(item) = connection.line.pop_front() else { return };
        self.waiting -= 1;
        let page = refuse::answer(refusal, &item.message, &self.request_ids, ticket);
        connection.push(&page, &mut self.spool);
        self.waiting -= connection.close();
        self.send_later(key);
        self.counters.refused += 1;
        self.over_unrun(&item, ticket, Fate::Refused, refuse::status(refusal));
    }

    fn unusable(&mut self, link: usize, message: Message, why: &Unusable, now: Instant) {
        self.counters.malformed += 1;
        if let Some(held) = self.malformed_lines.allow(now) {
            let start = &message[..message.len().min(120)];
            telemetry::warn!(
                "message of {} bytes cannot be used: {why}; it begins with \"{}\"{}",
                message.len(),
                telemetry::Escaped(start),
                held,
            );
        }
        let Unusable::Malformed(error) = why else { return };
        let Some((sender, conn)) = error.address.clone() else { return };
        if !sender.is_reply_safe() {
            return;
        }
        let key = Key { link, conn };
        self.connections.entry(key).or_insert_with(|| Connection::new(sender, now));
        let refuse = Some(Refusal::Page(400));
        let item = Waiting::new(message, now, None, refuse);
        self.enqueue(key, item, now);
    }

    /// The client of a connection is gone: its line is emptied, and what runs for it is told.
    pub(super) fn client_gone(&mut self, key: Key) {
        let Some(connection) = self.connections.remove(&key) else { return };
        self.waiting -= connection.line.len();
        if connection.active.is_some() || !connection.line.is_empty() {
            self.counters.clients_gone += 1;
        }
        for item in &connection.line {
            let ticket = self.unrun_ticket();
            self.over_unrun(item, ticket, Fate::ClientGone, 0);
        }
        let Some(ticket) = connection.active else { return };
        if let Some(exchange) = self.exchanges.get_mut(&ticket) {
            exchange.gone = true;
            if let Some(worker) = self.workers.get_mut(&exchange.worker) {
                frame::put(&mut worker.out, Kind::Gone, 0, ticket, b"");
            }
        }
    }
}
