//! Which publishing connection belongs to which pulling one, so that a handler's death can be told from its leaving.
//!
//! Both begin with the end of the handler's stream of requests. But who leaves keeps publishing until all is answered, and
//! who is dead does not. Nothing on the wire says which two connections are one handler's: it shows by who answers whose
//! requests, and before the first answer by where both come from. Pure.

use std::collections::HashMap;

use super::core::PeerId;
use super::core::RouteId;

/// A connection that publishes replies. Never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SubId(pub(crate) u64);

/// Where a connection comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// From this address; several handlers may share it.
    Host(std::net::IpAddr),
    /// From this process; 0 if that is not known.
    Process(i32),
}

#[derive(Debug)]
struct Puller {
    route: RouteId,
    source: Source,
    /// Its stream has ended.
    ended: bool,
    /// Who publishes for it, once that has shown.
    publisher: Option<SubId>,
}

/// All connections of handlers.
#[derive(Debug, Default)]
pub(crate) struct Fellows {
    pullers: HashMap<PeerId, Puller>,
    publishers: HashMap<SubId, (RouteId, Source)>,
}

impl Fellows {
    pub(crate) fn pulls(&mut self, peer: PeerId, route: RouteId, source: Source) {
        self.pullers.insert(peer, Puller { route, source, ended: false, publisher: None });
    }

    pub(crate) fn publishes(&mut self, sub: SubId, route: RouteId, source: Source) {
        self.publishers.insert(sub, (route, source));
    }

    /// Who had the request has answered it.
    pub(crate) fn answered(&mut self, peer: PeerId, sub: SubId) {
        if let Some(puller) = self.pullers.get_mut(&peer) {
            puller.publisher = Some(sub);
        }
    }

    /// The stream of a peer has ended. True if it is dead, and not leaving.
    pub(crate) fn ended(&mut self, peer: PeerId) -> bool {
        if let Some(puller) = self.pullers.get_mut(&peer) {
            puller.ended = true;
        }
        self.is_dead(peer)
    }

    /// A publishing connection has ended. Gives the peers that are dead now.
    pub(crate) fn silent(&mut self, sub: SubId) -> Vec<PeerId> {
        self.publishers.remove(&sub);
        self.pullers.keys().copied().filter(|peer| self.is_dead(*peer)).collect()
    }

    /// Nothing more is asked about a peer.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.pullers.remove(&peer);
    }

    /// The pulling side of who publishes here: the one that it has answered for, else the one from the same place.
    pub(crate) fn puller_of(&self, sub: SubId) -> Option<PeerId> {
        let (route, source) = self.publishers.get(&sub)?;
        let here =
            self.pullers.iter().filter(|(_, puller)| !puller.ended && puller.route == *route);
        let rank = |puller: &Puller| (puller.publisher == Some(sub), puller.source == *source);
        here.max_by_key(|(_, puller)| rank(puller)).map(|(peer, _)| *peer)
    }

    fn is_dead(&self, peer: PeerId) -> bool {
        let Some(puller) = self.pullers.get(&peer).filter(|puller| puller.ended) else {
            return false;
        };
        if let Some(publisher) = puller.publisher {
            return !self.publishers.contains_key(&publisher);
        }
        let taken = |sub: &SubId| self.pullers.values().any(|other| other.publisher == Some(*sub));
        let mut candidates = self.publishers.iter().filter(|(sub, (route, source))| {
            *route == puller.route && *source == puller.source && !taken(sub)
        });
        candidates.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::core::Core;
    use crate::front::core::Limits;
    use std::time::Duration;

    const ROUTE: RouteId = RouteId(0);

    fn here() -> Source {
        Source::Host([127, 0, 0, 1].into())
    }

    fn peers<const N: usize>() -> [PeerId; N] {
        let limits =
            Limits { peer_window: 1, queue_limit: 1, queue_timeout: Duration::ZERO, retry: false };
        let mut core = Core::new(limits, 1);
        std::array::from_fn(|_| core.joined(ROUTE))
    }

    #[test]
    fn who_leaves_still_publishes() {
        let [a, b] = peers();
        let mut fellows = Fellows::default();
        for (peer, sub) in [(a, SubId(1)), (b, SubId(2))] {
            fellows.publishes(sub, ROUTE, here());
            fellows.pulls(peer, ROUTE, here());
            fellows.answered(peer, sub);
        }
        assert!(!fellows.ended(a));
        assert_eq!(fellows.silent(SubId(2)), [], "b may come back with another one");
        assert_eq!(fellows.silent(SubId(1)), [a]);
        assert!(fellows.ended(b));
    }

    #[test]
    fn who_never_answered_is_known_by_where_it_comes_from() {
        let [a, b] = peers();
        let mut fellows = Fellows::default();
        fellows.pulls(a, ROUTE, Source::Process(10));
        fellows.pulls(b, ROUTE, Source::Process(11));
        fellows.publishes(SubId(1), ROUTE, Source::Process(10));
        fellows.publishes(SubId(2), ROUTE, Source::Process(11));
        assert_eq!(fellows.puller_of(SubId(2)), Some(b));
        assert!(!fellows.ended(a));
        assert_eq!(fellows.puller_of(SubId(1)), Some(b), "there is nobody else");
        assert_eq!(fellows.silent(SubId(1)), [a]);
        fellows.forget(a);
        assert_eq!(fellows.silent(SubId(2)), []);
        assert!(fellows.ended(b));
    }

    #[test]
    fn one_that_answers_for_another_is_no_candidate() {
        let [a, b] = peers();
        let mut fellows = Fellows::default();
        for peer in [a, b] {
            fellows.pulls(peer, ROUTE, here());
        }
        fellows.publishes(SubId(1), ROUTE, here());
        fellows.publishes(SubId(2), ROUTE, here());
        fellows.answered(b, SubId(2));
        assert!(!fellows.ended(a));
        assert_eq!(fellows.silent(SubId(1)), [a]);
    }
}
