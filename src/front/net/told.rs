//! What handlers have been told of connections that are gone, so that they are not told again and again. Pure.

use std::collections::HashSet;
use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use crate::front::core::PeerId;
use crate::proto::ConnId;
use crate::proto::hash::Quick;

/// How many connections are kept in mind.
const MOST: usize = 4096;

/// How often one that sends to a connection that is gone is told so.
const PAUSE: Duration = Duration::from_secs(1);

/// The last connections whose handlers were told that they are gone.
#[derive(Debug, Default)]
pub(super) struct Told {
    order: VecDeque<ConnId>,
    set: HashSet<u32, Quick>,
    /// Who was answered lately that a connection is gone to which it goes on sending.
    answered: HashSet<(PeerId, u32), Quick>,
    /// Since when.
    since: Option<Instant>,
}

impl Told {
    /// The handler of a connection was told.
    pub(super) fn add(&mut self, conn: ConnId) {
        self.set.insert(conn.0);
        self.order.push_back(conn);
        // A close that is under way when the disconnect goes out comes soon.
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.set.remove(&oldest.0);
        }
    }

    /// Whether the handler of a connection was told; no longer true after that.
    pub(super) fn forget(&mut self, conn: ConnId) -> bool {
        self.set.remove(&conn.0)
    }

    /// Whether a peer is to be told now that a connection is gone to which it has sent something. One that sends a
    /// stream would else get as many messages as it sends.
    pub(super) fn may_answer(&mut self, peer: PeerId, conn: ConnId) -> bool {
        self.answered.len() < MOST && self.answered.insert((peer, conn.0))
    }

    /// Time passes: who still sends after a while is told once more.
    pub(super) fn tick(&mut self, now: Instant) {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= PAUSE) {
            self.since = Some(now);
            self.answered.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::core::Core;
    use crate::front::core::Limits;
    use crate::front::core::RouteId;

    #[test]
    fn one_that_goes_on_sending_is_told_once_a_second() {
        let limits = Limits { peer_window: 1, queue_limit: 1, queue_timeout: PAUSE, retry: false };
        let mut core = Core::new(limits, 1);
        let [a, b] = [core.joined(RouteId(0)), core.joined(RouteId(0))];
        let mut told = Told::default();
        let start = Instant::now();
        told.tick(start);
        assert!(told.may_answer(a, ConnId(1)) && !told.may_answer(a, ConnId(1)));
        assert!(told.may_answer(a, ConnId(2)) && told.may_answer(b, ConnId(1)));
        told.tick(start + PAUSE / 2);
        assert!(!told.may_answer(a, ConnId(1)));
        told.tick(start + PAUSE);
        assert!(told.may_answer(a, ConnId(1)) && !told.may_answer(a, ConnId(1)));
    }

    #[test]
    fn what_is_kept_in_mind_is_bounded() {
        let mut told = Told::default();
        for conn in 0..10_000 {
            told.add(ConnId(conn));
        }
        assert!(
            !told.forget(ConnId(1)) && told.forget(ConnId(9_999)) && !told.forget(ConnId(9_999))
        );
        assert_eq!((told.order.len(), told.set.len()), (MOST, MOST - 1));
    }
}
