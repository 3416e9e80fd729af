//! What goes out to clients, and when.

use std::time::Instant;

use super::Core;
use super::Key;
use crate::dispatch::connection::Piece;
use crate::proto::reply;
use crate::proto::reply::Ctl;
use crate::telemetry;

impl Core {
    pub(super) fn send_later(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(&key).filter(|c| !c.listed) {
            connection.listed = true;
            self.sending.push(key);
        }
    }

    /// Sends what can be sent. True: a request has come to the head of its line by that.
    pub(super) fn send(&mut self, now: Instant) -> bool {
        self.hurry = false;
        self.links.iter_mut().for_each(|link| link.fresh = 0);
        let mut moved = false;
        loop {
            let mut delivered = Vec::new();
            let mut keys = std::mem::take(&mut self.sending);
            keys.retain(|&key| {
                let keep = self.send_to(key, now);
                if self.connections.get(&key).is_some_and(|c| c.is_free() && !c.line.is_empty()) {
                    delivered.push(key);
                }
                keep
            });
            self.sending.append(&mut keys);
            if delivered.is_empty() {
                return moved;
            }
            moved = true;
            // A refusal of ours may be next in line, and goes out at once.
            for key in delivered {
                self.next_in_line(key, now);
            }
        }
    }

    /// Sends what can be sent to one connection. False: only an event can change that nothing more can.
    fn send_to(&mut self, key: Key, now: Instant) -> bool {
        let Some(connection) = self.connections.get_mut(&key) else { return false };
        let link = &mut self.links[key.link];
        let mut published = false;
        loop {
            if link.is_full() {
                self.hurry |= !link.congested;
                break;
            }
            let Some(piece) = connection.take(now) else { break };
            let bytes = if let Piece::Bytes(bytes) = piece { bytes } else { 0 };
            let mut reply = Vec::with_capacity(bytes + 80);
            let safe = reply::put_reply(&mut reply, &connection.sender, key.conn, b"").is_ok();
            if let Err(why) = connection.out.pop(bytes, &mut reply) {
                self.spool.failed("read back", &why);
                self.cut(key);
                return false;
            }
            if safe {
                link.fresh += reply.len();
                link.out.push(reply);
                self.counters.bytes_out += bytes as u64;
            }
            if piece == Piece::Close {
                link.closed[0].insert(key.conn);
                self.connections.remove(&key);
                return false;
            }
            connection.taken(now, bytes);
            published = true;
        }
        if connection.is_held()
            && let Some(held) = self.slow_lines.allow(now)
        {
            telemetry::warn!(
                "connection {} has so much under way that the rest of its response waits for the slowest client: \
                 set download.flow_control=1 in Mongrel2 for large downloads{held}",
                key.conn,
            );
        }
        self.probing |= !connection.out.is_empty();
        let keep = link.is_full() || !connection.out.is_empty() && connection.credits.is_none();
        connection.listed = keep;
        let ticket = connection.active.filter(|_| published);
        if connection.forgettable() {
            self.connections.remove(&key);
        }
        if let Some(ticket) = ticket {
            self.acknowledge(ticket);
        }
        keep
    }

    /// Ends a connection at once, whatever still waits for it. While a body comes, Mongrel2 must not be told to cancel: it
    /// then goes on with a descriptor that is none (decision 18). There the connection is closed instead.
    pub(super) fn cut(&mut self, key: Key) {
        let Some(connection) = self.connections.get(&key) else { return };
        let mut reply = Vec::new();
        let told = if connection.inflow.is_some() || connection.uploading.is_some() {
            reply::put_reply(&mut reply, &connection.sender, key.conn, b"")
        } else {
            reply::put_ctl(&mut reply, &connection.sender, key.conn, Ctl::Cancel)
        };
        if told.is_ok() {
            self.links[key.link].out.push(reply);
        }
        self.links[key.link].closed[0].insert(key.conn);
        self.client_gone(key);
    }
}
