//! Who gets which request: every decision about handlers as peers, without I/O and without a clock.
//!
//! A request goes to the peer of its route with the fewest outstanding requests, at most `peer_window` at one; the rest
//! wait in one bounded queue. A peer that has half-closed its connection is leaving: it finishes what was written to it and
//! gets nothing more. One that is gone leaves behind what was written (lost, or given to another if it may be repeated) and
//! what was not (given to another). Time comes in as a value; bytes go out through [`Core::unwritten`].

mod outbox;
mod peers;
mod queue;
mod view;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use crate::proto::ConnId;
use crate::proto::hash::Quick;
use outbox::Outbox;
pub(crate) use view::RouteView;

/// What is bounded here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Most outstanding requests at one peer.
    pub(crate) peer_window: usize,
    /// Most requests that wait, all routes together.
    pub(crate) queue_limit: usize,
    /// How long one may wait.
    pub(crate) queue_timeout: Duration,
    /// Whether a request that may be repeated goes to a second peer when its first one dies.
    pub(crate) retry: bool,
}

/// The number of a route, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RouteId(pub(crate) usize);

/// A handler's connection to us that takes requests. Never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PeerId(u64);

/// The number of one exchange. Never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Serial(u64);

/// A request as it is handed in.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) route: RouteId,
    pub(crate) conn: ConnId,
    /// The whole message, framed for the wire.
    pub(crate) frame: &'a [u8],
    /// It may be sent a second time if no byte of an answer has come.
    pub(crate) repeatable: bool,
    /// Parts of its body follow, to the same peer.
    pub(crate) open: bool,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placed {
    /// A peer has it.
    AtPeer,
    /// It waits.
    Queued,
    /// There is no room in the queue; nothing of it is kept.
    Full,
}

/// How often things happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Requests handed in.
    pub(crate) requests: u64,
    /// Requests that had to wait for a peer.
    pub(crate) queued: u64,
    /// Requests for which the queue had no room.
    pub(crate) refused: u64,
    /// Requests that waited too long.
    pub(crate) timed_out: u64,
    /// Requests taken back from a peer before it had got them, for another one.
    pub(crate) moved: u64,
    /// Requests that went to a second peer because their first one died.
    pub(crate) retried: u64,
    /// Requests that died with their peer.
    pub(crate) lost: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Queue,
    /// At this peer; the position in its bytes where the first message ends.
    Peer(PeerId, u64),
}

#[derive(Debug)]
struct Exchange {
    serial: Serial,
    route: RouteId,
    place: Place,
    open: bool,
    /// It may go to a second peer if this one dies.
    repeatable: bool,
    /// A byte of the answer has come.
    answered: bool,
    /// All its messages, while they wait or may have to be repeated.
    kept: Option<Vec<u8>>,
}

impl Exchange {
    fn is_at(&self, peer: PeerId) -> bool {
        matches!(self.place, Place::Peer(at, _) if at == peer)
    }
}

#[derive(Debug)]
struct Route {
    peers: Vec<PeerId>,
    queue: VecDeque<Waiting>,
    /// Raised when a peer joins.
    generation: u64,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    conn: ConnId,
    serial: Serial,
    until: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stay {
    /// It is not given requests yet: nobody publishes for it.
    Coming,
    /// It is given requests.
    Here,
    /// It has half-closed: what was written, and what belongs to it, still goes to it.
    Leaving,
    /// Its connection has ended as it wished; it finishes what it has.
    Left,
}

#[derive(Debug)]
struct Peer {
    route: RouteId,
    stay: Stay,
    outstanding: usize,
    /// Of these, requests whose body is not complete.
    open: usize,
    /// When it was last given something, in turns.
    turn: u64,
    out: Outbox,
}

/// The routes, their peers, and the exchanges under way.
#[derive(Debug)]
pub(crate) struct Core {
    limits: Limits,
    routes: Vec<Route>,
    peers: HashMap<PeerId, Peer, Quick>,
    exchanges: HashMap<u32, Exchange, Quick>,
    waiting: usize,
    /// Bytes of the messages of those that wait.
    waiting_bytes: usize,
    last: u64,
    wake: Vec<PeerId>,
    counters: Counters,
}

impl Core {
    /// With so many routes, and no peers yet.
    pub(crate) fn new(limits: Limits, routes: usize) -> Core {
        let route = || Route { peers: Vec::new(), queue: VecDeque::new(), generation: 0 };
        Core {
            limits,
            routes: std::iter::repeat_with(route).take(routes).collect(),
            peers: HashMap::default(),
            exchanges: HashMap::default(),
            waiting: 0,
            waiting_bytes: 0,
            last: 0,
            wake: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// From now on these hold. What is at a peer beyond them stays there.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        for route in 0..self.routes.len() {
            self.serve(RouteId(route));
        }
    }

    /// How often things have happened.
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// Exchanges under way, those that wait included.
    pub(crate) fn under_way(&self) -> usize {
        self.exchanges.len()
    }

    /// Peers of a route that may be given requests.
    pub(crate) fn peers(&self, route: RouteId) -> usize {
        let peers = self.routes.get(route.0).map_or(&[][..], |route| &route.peers);
        peers
            .iter()
            .filter(|id| self.peers.get(id).is_some_and(|peer| peer.stay == Stay::Here))
            .count()
    }

    /// A number that changes when a peer joins the route.
    pub(crate) fn generation(&self, route: RouteId) -> u64 {
        self.routes.get(route.0).map_or(0, |route| route.generation)
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Takes a request. Its connection must have no other one under way.
    pub(crate) fn submit(&mut self, now: Instant, request: &Request<'_>) -> Placed {
        self.counters.requests += 1;
        let Request { route, conn, frame, repeatable, open } = *request;
        let serial = Serial(self.number());
        // What comes in parts would have to be kept whole.
        let repeatable = self.limits.retry && repeatable && !open;
        let mut exchange = Exchange {
            serial,
            route,
            place: Place::Queue,
            open,
            repeatable,
            answered: false,
            kept: repeatable.then(|| frame.to_vec()),
        };
        let placed = if let Some(peer) = self.choose(route) {
            exchange.place = self.give(peer, conn, open, frame);
            Placed::AtPeer
        } else {
            if !self.may_wait(frame.len()) {
                self.counters.refused += 1;
                return Placed::Full;
            }
            let Some(to) = self.routes.get_mut(route.0) else { return Placed::Full };
            to.queue.push_back(Waiting { conn, serial, until: now + self.limits.queue_timeout });
            exchange.kept.get_or_insert_with(|| frame.to_vec());
            self.comes(frame.len());
            self.counters.queued += 1;
            Placed::Queued
        };
        let before = self.exchanges.insert(conn.0, exchange);
        debug_assert!(before.is_none(), "one exchange at a time for a connection");
        placed
    }

    /// A further message for the request that the connection has under way: a part of its body, or its last one.
    pub(crate) fn follow(&mut self, conn: ConnId, frame: &[u8], last: bool) {
        let Some(exchange) = self.exchanges.get_mut(&conn.0) else { return };
        let closes = last && std::mem::take(&mut exchange.open);
        if let Some(kept) = &mut exchange.kept {
            kept.extend_from_slice(frame);
            if exchange.place == Place::Queue {
                self.waiting_bytes += frame.len();
            }
        }
        if let Place::Peer(id, _) = exchange.place
            && let Some(peer) = self.peers.get_mut(&id)
        {
            peer.open -= usize::from(closes);
            peer.out.push(frame, conn);
            self.wake.push(id);
        }
    }

    /// Says something about a connection to a peer: an event. It is lost if the peer is gone.
    pub(crate) fn tell(&mut self, peer: PeerId, conn: ConnId, frame: &[u8]) {
        if let Some(at) = self.peers.get_mut(&peer).filter(|peer| peer.stay != Stay::Left) {
            at.out.push(frame, conn);
            self.wake.push(peer);
        }
    }

    /// The peer that has the connection's request.
    pub(crate) fn peer_of(&self, conn: ConnId) -> Option<PeerId> {
        match self.exchanges.get(&conn.0)?.place {
            Place::Peer(peer, _) => Some(peer),
            Place::Queue => None,
        }
    }

    /// Bytes of an answer have come: from now on it must not be repeated. Gives the peer that was asked; none if nobody was,
    /// so that it is no answer.
    pub(crate) fn answered(&mut self, conn: ConnId) -> Option<PeerId> {
        let exchange = self.exchanges.get_mut(&conn.0)?;
        let Place::Peer(peer, _) = exchange.place else { return None };
        (exchange.answered, exchange.kept) = (true, None);
        Some(peer)
    }

    /// The exchange of a connection is over, however it ended. Gives the peer that had it.
    pub(crate) fn over(&mut self, conn: ConnId) -> Option<PeerId> {
        let exchange = self.exchanges.remove(&conn.0)?;
        match exchange.place {
            Place::Queue => {
                // Its place in the queue is passed over later: the number there is of no exchange any more.
                self.goes(exchange.kept.map_or(0, |kept| kept.len()));
                None
            }
            Place::Peer(id, _) => {
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.outstanding -= 1;
                    peer.open -= usize::from(exchange.open);
                    match peer.stay {
                        Stay::Coming | Stay::Here => {}
                        Stay::Leaving => self.wake.push(id),
                        Stay::Left => self.forget_if_done(id),
                    }
                }
                self.serve(exchange.route);
                Some(id)
            }
        }
    }

    /// The peer for the next request of a route.
    fn choose(&self, route: RouteId) -> Option<PeerId> {
        let peers = &self.routes.get(route.0)?.peers;
        let free = peers.iter().filter_map(|id| Some((*id, self.peers.get(id)?)));
        free.filter(|(_, peer)| {
            peer.stay == Stay::Here
                && peer.outstanding < self.limits.peer_window
                && !peer.out.is_long()
        })
        .min_by_key(|(_, peer)| (peer.outstanding, peer.turn))
        .map(|(id, _)| id)
    }

    fn give(&mut self, to: PeerId, conn: ConnId, open: bool, messages: &[u8]) -> Place {
        let turn = self.number();
        let Some(peer) = self.peers.get_mut(&to) else { return Place::Queue };
        peer.turn = turn;
        peer.outstanding += 1;
        peer.open += usize::from(open);
        peer.out.push(messages, conn);
        self.wake.push(to);
        Place::Peer(to, peer.out.end())
    }
}
