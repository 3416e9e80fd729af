//! Requests that wait for a peer with room.

use std::time::Instant;

use super::Core;
use super::Place;
use super::RouteId;
use super::Waiting;
use crate::proto::ConnId;

/// Most bytes of all requests that wait, for few large ones are as much as many small ones. A single one is always taken.
const BYTES_MAX: usize = 64 * 1024 * 1024;

impl Core {
    /// Whether a request of so many bytes may wait.
    pub(super) fn may_wait(&self, bytes: usize) -> bool {
        let fits = self.waiting == 0 || self.waiting_bytes + bytes <= BYTES_MAX;
        self.waiting < self.limits.queue_limit && fits
    }

    /// Counts a request that waits from now on.
    pub(super) fn comes(&mut self, bytes: usize) {
        self.waiting += 1;
        self.waiting_bytes += bytes;
    }

    /// Counts a request that no longer waits.
    pub(super) fn goes(&mut self, bytes: usize) {
        self.waiting -= 1;
        self.waiting_bytes -= bytes;
    }

    /// Takes out of the queue what has waited too long; their exchanges are over.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<ConnId> {
        let mut expired = Vec::new();
        let mut bytes = 0;
        let Core { routes, exchanges, .. } = self;
        for route in routes {
            // Not only the first ones: those that were taken back from a peer stand before others and may stay longer.
            route.queue.retain(|entry| {
                let exchange = exchanges.get(&entry.conn.0);
                let Some(exchange) = exchange.filter(|found| found.serial == entry.serial) else {
                    return false;
                };
                if entry.until > now {
                    return true;
                }
                bytes += exchange.kept.as_ref().map_or(0, Vec::len);
                exchanges.remove(&entry.conn.0);
                expired.push(entry.conn);
                false
            });
        }
        self.waiting -= expired.len();
        self.waiting_bytes -= bytes;
        self.counters.timed_out += expired.len() as u64;
        expired
    }

    /// Gives what waits to peers with room.
    pub(super) fn serve(&mut self, route: RouteId) {
        while self.routes.get(route.0).is_some_and(|route| !route.queue.is_empty())
            && let Some(peer) = self.choose(route)
        {
            let Some(first) = self.routes.get_mut(route.0).and_then(|r| r.queue.pop_front()) else {
                return;
            };
            let exchange = self.exchanges.get_mut(&first.conn.0);
            let Some(exchange) = exchange.filter(|exchange| exchange.serial == first.serial) else {
                continue;
            };
            let open = exchange.open;
            let messages = exchange.kept.take().unwrap_or_default();
            let keep = exchange.repeatable;
            self.goes(messages.len());
            let place = self.give(peer, first.conn, open, &messages);
            if let Some(exchange) = self.exchanges.get_mut(&first.conn.0) {
                exchange.place = place;
                exchange.kept = keep.then_some(messages);
            }
        }
    }

    /// Puts an exchange in front of the queue: it has waited already.
    pub(super) fn requeue(&mut self, now: Instant, conn: ConnId) {
        let Some(exchange) = self.exchanges.get_mut(&conn.0) else { return };
        let Some(route) = self.routes.get_mut(exchange.route.0) else { return };
        exchange.place = Place::Queue;
        let (serial, until) = (exchange.serial, now + self.limits.queue_timeout);
        route.queue.push_front(Waiting { conn, serial, until });
        let bytes = exchange.kept.as_ref().map_or(0, Vec::len);
        self.comes(bytes);
    }
}
