//! How things stand, for who looks from outside now and then.

use std::time::Duration;
use std::time::Instant;

use super::Core;
use super::RouteId;
use super::Stay;

/// A route as it is now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RouteView {
    /// Peers that may be given requests.
    pub(crate) handlers: usize,
    /// Those that finish what they have.
    pub(crate) leaving: usize,
    /// Requests at all of them.
    pub(crate) outstanding: usize,
    /// Requests that wait for a peer.
    pub(crate) waiting: usize,
}

impl Core {
    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Most requests that may wait.
    pub(crate) fn queue_limit(&self) -> usize {
        self.limits.queue_limit
    }

    /// How long the one has waited that has waited longest. Who was taken back from a peer begins anew.
    pub(crate) fn oldest(&self, now: Instant) -> Duration {
        let waiting = self.routes.iter().flat_map(|route| &route.queue);
        let waiting = waiting.filter(|waiting| {
            self.exchanges.get(&waiting.conn.0).is_some_and(|e| e.serial == waiting.serial)
        });
        let first = waiting.map(|waiting| waiting.until).min();
        first.map_or(Duration::ZERO, |until| {
            (now + self.limits.queue_timeout).saturating_duration_since(until)
        })
    }

    /// Looks at a route.
    pub(crate) fn view(&self, route: RouteId) -> RouteView {
        let mut view = RouteView::default();
        for peer in self.peers.values().filter(|peer| peer.route == route) {
            match peer.stay {
                Stay::Coming => {}
                Stay::Here => view.handlers += 1,
                Stay::Leaving | Stay::Left => view.leaving += 1,
            }
            view.outstanding += peer.outstanding;
        }
        let waits = |exchange: &&super::Exchange| {
            exchange.route == route && exchange.place == super::Place::Queue
        };
        view.waiting = self.exchanges.values().filter(waits).count();
        view
    }
}
