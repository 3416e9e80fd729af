//! What is looked after now and then: connections that must be kept alive, whose clients take nothing, or that are forgotten.

use std::time::Duration;
use std::time::Instant;

use super::Core;
use super::FORGET;
use super::Key;
use super::SWEEP;
use crate::dispatch::connection::Connection;
use crate::proto::ident::ConnId;
use crate::proto::ident::SenderUuid;
use crate::proto::reply;
use crate::proto::reply::Ctl;
use crate::proto::reply::MAX_TARGETS;
use crate::telemetry;

/// A client that has taken nothing for so long is asked after, and again each time.
const PROBE: Duration = Duration::from_millis(500);

impl Core {
    /// How often [`Core::sweep`] is due.
    pub(super) fn sweep_interval(&self) -> Duration {
        let least = Duration::from_millis(100);
        let limits = [
            self.delivery.keepalive_interval,
            self.delivery.send_timeout,
            self.uploads.upload_timeout,
        ];
        let limits = limits.into_iter().flatten().map(|limit| (limit / 4).max(least));
        limits.chain(self.probing.then_some(PROBE)).fold(SWEEP, Duration::min)
    }

    pub(super) fn sweep(&mut self, now: Instant) {
        self.swept = now;
        self.probe(now);
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

    /// Asks after clients that take nothing. Mongrel2 does not tell of a client that it could not write to (protocol
    /// section 5), and without credits nothing more would be sent to it; but of any message to a connection that is not
    /// there it does tell.
    fn probe(&mut self, now: Instant) {
        let mut asked: Vec<(usize, SenderUuid, Vec<ConnId>)> = Vec::new();
        self.probing = false;
        for (key, connection) in &self.connections {
            self.probing |= !connection.out.is_empty();
            if connection.waits(now) < PROBE || self.links[key.link].congested {
                continue;
            }
            let same = asked.iter_mut().find(|(link, sender, conns)| {
                *link == key.link && *sender == connection.sender && conns.len() < MAX_TARGETS
            });
            match same {
                Some((.., conns)) => conns.push(key.conn),
                None => asked.push((key.link, connection.sender.clone(), vec![key.conn])),
            }
        }
        for (link, sender, conns) in asked {
            let mut reply = Vec::new();
            if reply::put_ctl_many(&mut reply, &sender, &conns, Ctl::KeepAlive).is_ok() {
                self.links[link].out.push(reply);
            }
        }
    }
}
