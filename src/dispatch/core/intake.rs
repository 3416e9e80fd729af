//! What front ends send: requests into their lines, events to whom they concern.

use std::time::Instant;

use super::Core;
use super::Fate;
use super::Key;
use crate::bridge::Ticket;
use crate::bridge::frame;
use crate::bridge::frame::Kind;
use crate::dispatch::choice;
use crate::dispatch::connection::Connection;
use crate::dispatch::connection::LINE;
use crate::dispatch::connection::Waiting;
use crate::dispatch::refuse;
use crate::dispatch::refuse::Refusal;
use crate::dispatch::sort;
use crate::dispatch::sort::Sorted;
use crate::dispatch::sort::Unusable;
use crate::dispatch::upload::Upload;
use crate::proto::control::Event;
use crate::proto::ident::SenderUuid;
use crate::telemetry;
use crate::transport::Message;

impl Core {
    /// A message came in on a link.
    pub fn received(&mut self, link: usize, message: Message, now: Instant) {
        self.counters.bytes_in += message.len() as u64;
        match sort::sort(&message) {
            Ok(Sorted::Request { sender, conn, mut refuse, credits, file, spoilt, inline }) => {
                let key = Key { link, conn };
                // The front end goes on writing to it, without a name.
                drop(spoilt.map(|name| self.upload(name)));
                if self.is_closed(key) {
                    return;
                }
                self.counters.requests += 1;
                let connection = self.connection(key, sender, now);
                if let Some(credits) = credits {
                    connection.credits = Some(credits);
                }
                let upload = match file {
                    // Between beginning and end of a body there can be only what was sent before it.
                    Some(name) => {
                        let begun = connection.uploading.take().filter(|upload| upload.is(&name));
                        if begun.is_none() && !connection.will_close() {
                            self.strange_upload(&name, now);
                        }
                        begun
                    }
                    None => None,
                };
                let body = upload.as_ref().map_or(inline as u64, Upload::size);
                if self.uploads.max_body.is_some_and(|most| body > most) {
                    refuse.get_or_insert(Refusal::Page(413));
                }
                self.enqueue(key, Waiting::new(message, now, upload, refuse), now);
            }
            Ok(Sorted::Upload { sender, conn, file, announced }) => {
                let key = Key { link, conn };
                let upload = self.upload(file);
                if self.is_closed(key) {
                    return;
                }
                let too_large = self.uploads.max_body.zip(announced).is_some_and(|(m, a)| a > m);
                let connection = self.connection(key, sender, now);
                if too_large {
                    // Answering now ends the upload (protocol section 6.3).
                    self.counters.requests += 1;
                    let refuse = Some(Refusal::Page(413));
                    let item = Waiting::new(message, now, None, refuse);
                    self.enqueue(key, item, now);
                } else {
                    connection.uploading = Some(upload).filter(|_| !connection.closing);
                }
            }
            Ok(Sorted::Event(conn, Event::Disconnect)) => self.client_gone(Key { link, conn }),
            Ok(Sorted::Event(conn, Event::Credits(bytes))) => {
                let key = Key { link, conn };
                if let Some(credits) =
                    self.connections.get_mut(&key).and_then(|c| c.credits.as_mut())
                {
                    *credits = credits.saturating_add(bytes);
                    self.send_later(key);
                }
            }
            Ok(Sorted::Event(_, Event::Unknown) | Sorted::Ignored) => {}
            Err(unusable) => self.unusable(link, message, &unusable, now),
        }
    }

    fn upload(&self, name: Vec<u8>) -> Upload {
        Upload::new(self.upload_root.as_deref(), name)
    }

    /// Whether we have closed a connection: what its client had sent before it knew is not for us any more.
    fn is_closed(&mut self, key: Key) -> bool {
        let closed = self.links[key.link].closed.iter().any(|ids| ids.contains(&key.conn));
        self.counters.after_close += u64::from(closed);
        closed
    }

    fn connection(&mut self, key: Key, sender: SenderUuid, now: Instant) -> &mut Connection {
        let connection =
            self.connections.entry(key).or_insert_with(|| Connection::new(sender.clone(), now));
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
        // Its ids start again at 1 (protocol section 1.2).
        link.closed.iter_mut().for_each(std::collections::HashSet::clear);
    }

    /// Whether publications pile up on a link; while they do, workers are not told to go on.
    pub fn set_congested(&mut self, link: usize, congested: bool) {
        let before = std::mem::replace(&mut self.links[link].congested, congested);
        if before && !congested {
            let tickets: Vec<Ticket> = self.exchanges.keys().copied().collect();
            for ticket in tickets {
                self.acknowledge(ticket);
            }
        }
    }

    fn enqueue(&mut self, key: Key, mut item: Waiting, now: Instant) {
        // A request that a worker can begin at once does not wait, so the limit is not for it.
        let full = self.waiting >= self.limits.queue_limit
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

    /// Lets the first of a connection's line have its turn, if nothing of this connection is at work.
    pub(super) fn next_in_line(&mut self, key: Key, now: Instant) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        if connection.active.is_some() || connection.queued || connection.closing {
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
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let Some(item) = connection.line.pop_front() else { return };
        self.waiting -= 1;
        connection.out.extend_from_slice(&refuse::answer(refusal, &item.message));
        self.waiting -= connection.close();
        self.send_later(key);
        self.counters.refused += 1;
        self.over_unrun(&item, Fate::Refused, refuse::status(refusal));
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

    /// The end of an upload whose beginning we have not seen: a forgery, or another instance has seen it. The request goes
    /// on without the file, and will be refused for its missing body.
    fn strange_upload(&mut self, file: &[u8], now: Instant) {
        if let Some(held) = self.malformed_lines.allow(now) {
            telemetry::warn!(
                "upload to \"{}\" is complete, but it has not begun here: not touched (uploads need a \
                 handler with one instance){held}",
                telemetry::Escaped(file),
            );
        }
    }

    /// The client of a connection is gone: its line is emptied, and what runs for it is told.
    fn client_gone(&mut self, key: Key) {
        let Some(connection) = self.connections.remove(&key) else { return };
        self.waiting -= connection.line.len();
        if connection.active.is_some() || !connection.line.is_empty() {
            self.counters.clients_gone += 1;
        }
        for item in &connection.line {
            self.over_unrun(item, Fate::ClientGone, 0);
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
