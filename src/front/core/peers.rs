//! Peers come, leave and die; what becomes of what they had.

use std::collections::HashMap;
use std::time::Instant;

use super::Core;
use super::Exchange;
use super::Outbox;
use super::Peer;
use super::PeerId;
use super::Place;
use super::RouteId;
use super::Stay;
use crate::proto::ConnId;

impl Core {
    /// A peer is there. It takes requests of the route when it may [`Self::begin`].
    pub(crate) fn arrived(&mut self, route: RouteId) -> PeerId {
        let id = PeerId(self.number());
        let peer = Peer {
            route,
            stay: Stay::Coming,
            outstanding: 0,
            open: 0,
            turn: 0,
            out: Outbox::default(),
        };
        self.peers.insert(id, peer);
        id
    }

    /// A peer that has arrived takes requests from now on.
    pub(crate) fn begin(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| peer.stay == Stay::Coming) else {
            return;
        };
        peer.stay = Stay::Here;
        let route = peer.route;
        if let Some(route) = self.routes.get_mut(route.0) {
            route.peers.push(id);
            route.generation += 1;
        }
        self.serve(route);
    }

    /// A peer that has arrived, and takes requests.
    #[cfg(test)]
    pub(crate) fn joined(&mut self, route: RouteId) -> PeerId {
        let id = self.arrived(route);
        self.begin(id);
        id
    }

    /// The peers that have arrived and not yet begun.
    pub(crate) fn coming(&self) -> impl Iterator<Item = PeerId> {
        let coming = self.peers.iter().filter(|(_, peer)| peer.stay == Stay::Coming);
        coming.map(|(id, _)| *id)
    }

    /// What has to be written to a peer.
    pub(crate) fn unwritten(&self, peer: PeerId) -> &[u8] {
        self.peers.get(&peer).map_or(&[], |peer| peer.out.unwritten())
    }

    /// So many bytes of it were written.
    pub(crate) fn wrote(&mut self, peer: PeerId, bytes: usize) {
        let Some(peer) = self.peers.get_mut(&peer) else { return };
        let was_long = peer.out.is_long();
        peer.out.wrote(bytes);
        if was_long && !peer.out.is_long() {
            let route = peer.route;
            self.serve(route);
        }
    }

    /// Names the peers with something new to write, or to be looked at with [`Self::may_close`].
    pub(crate) fn woken(&mut self, wake: impl FnMut(PeerId)) {
        self.wake.drain(..).for_each(wake);
    }

    /// A peer has half-closed its connection. What was not written to it goes to others, but for what belongs to
    /// requests that it has got.
    pub(crate) fn leaving(&mut self, now: Instant, id: PeerId) {
        let comes = |peer: &&mut Peer| matches!(peer.stay, Stay::Coming | Stay::Here);
        let Some(peer) = self.peers.get_mut(&id).filter(comes) else { return };
        peer.stay = Stay::Leaving;
        let begun = peer.out.begun();
        let exchanges = &self.exchanges;
        // What is about no connection asks for an answer that it cannot give any more.
        let taken = peer.out.take(begun, |conn, _| {
            conn == ConnId(0)
                || exchanges.get(&conn.0).is_some_and(|exchange| match exchange.place {
                    Place::Peer(at, end) => at == id && end > begun,
                    Place::Queue => false,
                })
        });
        let route = peer.route;
        self.part(route, id);
        let mut order = Vec::new();
        let mut messages: HashMap<u32, Vec<u8>> = HashMap::new();
        for (conn, message) in taken {
            messages.entry(conn.0).or_insert_with(|| {
                order.push(conn);
                Vec::new()
            });
            if let Some(all) = messages.get_mut(&conn.0) {
                all.extend_from_slice(&message);
            }
        }
        for conn in order.into_iter().rev() {
            let Some(exchange) = self.exchanges.get_mut(&conn.0) else { continue };
            exchange.kept = messages.remove(&conn.0);
            if let Some(peer) = self.peers.get_mut(&id) {
                peer.outstanding -= 1;
                peer.open -= usize::from(exchange.open);
            }
            self.counters.moved += 1;
            self.requeue(now, conn);
        }
        self.wake.push(id);
        self.serve(route);
    }

    /// The connections whose requests a peer has.
    pub(crate) fn under_way_at(&self, id: PeerId) -> Vec<ConnId> {
        let here = self.exchanges.iter().filter(|(_, exchange)| exchange.is_at(id));
        here.map(|(conn, _)| ConnId(*conn)).collect()
    }

    /// Whether a leaving peer's connection may end: all is written, and no part of a body will follow.
    pub(crate) fn may_close(&self, id: PeerId) -> bool {
        self.peers.get(&id).is_some_and(|peer| {
            peer.stay == Stay::Leaving && peer.open == 0 && peer.out.unwritten().is_empty()
        })
    }

    /// The connection of a leaving peer has ended as it wished; it will answer what it has.
    pub(crate) fn left(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.stay = Stay::Left;
            self.forget_if_done(id);
        }
    }

    /// A peer is dead. Gives the connections whose requests died with it; their exchanges are over. A request that is sent
    /// once more gets the number and the message that `anew` makes of its own, so that a late answer misses it.
    pub(crate) fn gone(
        &mut self,
        now: Instant,
        id: PeerId,
        mut anew: impl FnMut(ConnId, &[u8]) -> (ConnId, Vec<u8>),
    ) -> Vec<ConnId> {
        let Some(mut peer) = self.peers.remove(&id) else { return Vec::new() };
        let route = peer.route;
        self.part(route, id);
        // In the order in which they came.
        let mut had: Vec<(u64, ConnId)> = self
            .exchanges
            .iter()
            .filter(|(_, exchange)| exchange.is_at(id))
            .map(|(conn, exchange)| (exchange.serial.0, ConnId(*conn)))
            .collect();
        had.sort_unstable();
        let whole = peer.out.whole();
        let mut rest: HashMap<u32, Vec<u8>> = HashMap::new();
        for (conn, message) in peer.out.take(whole, |_, _| true) {
            rest.entry(conn.0).or_default().extend_from_slice(&message);
        }
        let mut lost = Vec::new();
        for (_, conn) in had.into_iter().rev() {
            let Some(exchange) = self.exchanges.get_mut(&conn.0) else { continue };
            let got = matches!(exchange.place, Place::Peer(_, end) if end <= whole);
            let messages = if got { None } else { rest.remove(&conn.0) };
            if let Some(messages) = messages {
                exchange.kept = Some(messages);
                self.counters.moved += 1;
                self.requeue(now, conn);
            } else if let Exchange { repeatable: true, answered: false, kept: Some(kept), .. } =
                exchange
            {
                let (new, message) = anew(conn, kept);
                // Once more, and no more.
                (exchange.repeatable, exchange.kept) = (false, Some(message));
                if let Some(exchange) = self.exchanges.remove(&conn.0) {
                    self.exchanges.insert(new.0, exchange);
                }
                self.counters.retried += 1;
                self.requeue(now, new);
            } else {
                self.exchanges.remove(&conn.0);
                self.counters.lost += 1;
                lost.push(conn);
            }
        }
        self.serve(route);
        lost.reverse();
        lost
    }

    /// Takes a peer out of its route.
    fn part(&mut self, route: RouteId, id: PeerId) {
        if let Some(route) = self.routes.get_mut(route.0) {
            route.peers.retain(|peer| *peer != id);
        }
    }

    /// Lets go of a peer that has left and has nothing outstanding.
    pub(super) fn forget_if_done(&mut self, id: PeerId) {
        if self.peers.get(&id).is_some_and(|p| p.stay == Stay::Left && p.outstanding == 0) {
            self.peers.remove(&id);
        }
    }
}
