//! What goes out to clients, and when.

use std::time::Duration;
use std::time::Instant;

use super::Core;
use super::FORGET;
use super::Key;
use super::SWEEP;
use crate::dispatch::connection::Connection;
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

    /// Ends a connection at once, whatever still waits for it.
    fn cut(&mut self, key: Key) {
        let Some(connection) = self.connections.get(&key) else { return };
        let mut reply = Vec::new();
        if reply::put_ctl(&mut reply, &connection.sender, key.conn, Ctl::Cancel).is_ok() {
            self.links[key.link].out.push(reply);
        }
        self.links[key.link].closed[0].insert(key.conn);
        self.client_gone(key);
    }

    /// How often [`Core::sweep`] is due.
    pub(super) fn sweep_interval(&self) -> Duration {
        let least = Duration::from_millis(100);
        let limits = [
            self.delivery.keepalive_interval,
            self.delivery.send_timeout,
            self.uploads.upload_timeout,
        ];
        limits.into_iter().flatten().map(|limit| (limit / 4).max(least)).fold(SWEEP, Duration::min)
    }

    pub(super) fn sweep(&mut self, now: Instant) {
        self.swept = now;
        if let Some(interval) = self.delivery.keepalive_interval {
            self.keep_alive(interval, now);
        }
        if let Some(timeout) = self.delivery.send_timeout {
            self.cut_stuck(timeout, now);
        }
        if let Some(timeout) = self.uploads.upload_timeout {
            self.end_slow_bodies(timeout, now);
        }
        self.connections.retain(|_, c| {
            let busy = c.active.is_some() || !c.line.is_empty() || !c.out.is_empty();
            busy || now.duration_since(c.touched) < FORGET
        });
        if now.duration_since(self.forgot) >= SWEEP {
            self.forgot = now;
            for link in &mut self.links {
                link.closed.swap(0, 1);
                link.closed[0].clear();
            }
        }
    }

    fn keep_alive(&mut self, interval: Duration, now: Instant) {
        for (key, connection) in &mut self.connections {
            let busy = connection.active.is_some()
                || !connection.line.is_empty()
                || !connection.out.is_empty();
            if busy && now.duration_since(connection.kept_alive) >= interval {
                connection.kept_alive = now;
                let mut reply = Vec::new();
                if reply::put_ctl(&mut reply, &connection.sender, key.conn, Ctl::KeepAlive).is_ok()
                {
                    self.links[key.link].out.push(reply);
                }
            }
        }
    }

    /// Cuts the connections whose client has taken nothing for too long.
    fn cut_stuck(&mut self, timeout: Duration, now: Instant) {
        let stuck = |(key, c): (&Key, &Connection)| {
            let waits = c.stuck(now, self.links[key.link].congested);
            (waits >= timeout).then(|| (*key, waits, c.out.len()))
        };
        let stuck: Vec<_> = self.connections.iter().filter_map(stuck).collect();
        for (key, waits, bytes) in stuck {
            self.counters.send_timeouts += 1;
            let who = if self.links[key.link].congested { "front end" } else { "client" };
            if let Some(held) = self.cut_lines.allow(now) {
                telemetry::warn!(
                    "the {who} of connection {} has taken nothing for {} s (send-timeout): cut off with \
                     {bytes} bytes waiting{held}",
                    key.conn,
                    waits.as_secs(),
                );
            }
            self.cut(key);
        }
    }
}
