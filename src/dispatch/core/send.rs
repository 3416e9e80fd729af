//! What goes out to clients, and when.

use std::time::Instant;

use super::Core;
use super::FORGET;
use super::KEEP_ALIVE;
use super::Key;
use crate::dispatch::connection::Piece;
use crate::proto::reply;
use crate::proto::reply::Ctl;

impl Core {
    pub(super) fn send_later(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(&key).filter(|c| !c.listed) {
            connection.listed = true;
            self.sending.push(key);
        }
    }

    pub(super) fn send(&mut self, now: Instant) {
        let mut keys = std::mem::take(&mut self.sending);
        keys.retain(|&key| {
            let Some(connection) = self.connections.get_mut(&key) else { return false };
            let mut published = false;
            while let Some(piece) = connection.take(now) {
                let bytes = if let Piece::Bytes(bytes) = piece { bytes } else { 0 };
                let mut reply = Vec::with_capacity(bytes + 300);
                let payload = &connection.out[..bytes];
                if reply::put_reply(&mut reply, &connection.sender, key.conn, payload).is_ok() {
                    self.links[key.link].out.push(reply);
                    self.counters.bytes_out += bytes as u64;
                }
                if piece == Piece::Close {
                    self.links[key.link].closed[0].insert(key.conn);
                    self.connections.remove(&key);
                    return false;
                }
                connection.taken(now, bytes);
                published = true;
            }
            let ticket = connection.active.filter(|_| published);
            let keep = !connection.out.is_empty() && connection.credits.is_none();
            connection.listed = keep;
            if connection.forgettable() {
                self.connections.remove(&key);
            }
            if let Some(ticket) = ticket {
                self.acknowledge(ticket);
            }
            keep
        });
        self.sending.append(&mut keys);
    }

    pub(super) fn sweep(&mut self, now: Instant) {
        self.swept = now;
        for (key, connection) in &mut self.connections {
            let busy = connection.active.is_some() || !connection.line.is_empty();
            if busy && now.duration_since(connection.kept_alive) >= KEEP_ALIVE {
                connection.kept_alive = now;
                let mut reply = Vec::new();
                if reply::put_ctl(&mut reply, &connection.sender, key.conn, Ctl::KeepAlive).is_ok()
                {
                    self.links[key.link].out.push(reply);
                }
            }
        }
        self.connections.retain(|_, c| {
            !c.line.is_empty() || c.active.is_some() || now.duration_since(c.touched) < FORGET
        });
        for link in &mut self.links {
            link.closed.swap(0, 1);
            link.closed[0].clear();
        }
    }
}
