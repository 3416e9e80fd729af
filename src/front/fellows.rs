//! Which publishing connection belongs to which pulling one, so that a handler's death can be told from its leaving.
//!
//! Both begin with the end of the handler's stream of requests. But who leaves keeps publishing until all is answered, and
//! who is dead does not. Nothing on the wire says which two connections are one handler's: it shows by who answers whose
//! requests, and before the first answer by where both come from. Pure.
//!
//! The same tells who is gone without an end: a puller that gives no sign of life while its fellow does only takes nothing
//! just now (a queue that is full, a slow network).

use std::collections::HashMap;
use std::rc::Rc;

use super::core::PeerId;
use super::core::RouteId;
use super::pulse::Pulse;

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

impl Source {
    /// Whether two connections from there are one handler's for certain.
    fn is_exact(&self) -> bool {
        matches!(self, Source::Process(pid) if *pid != 0)
    }
}

#[derive(Debug)]
struct Puller {
    route: RouteId,
    source: Source,
    /// Its stream has ended.
    ended: bool,
    /// Who publishes for it, once that has shown.
    publisher: Option<SubId>,
    pulse: Rc<Pulse>,
}

#[derive(Debug)]
struct Publisher {
    route: RouteId,
    source: Source,
    /// It knows to whom it publishes: nothing that it says from now on is lost.
    subscribed: bool,
    pulse: Rc<Pulse>,
}

/// All connections of handlers.
#[derive(Debug, Default)]
pub(crate) struct Fellows {
    pullers: HashMap<PeerId, Puller>,
    publishers: HashMap<SubId, Publisher>,
}

impl Fellows {
    pub(crate) fn pulls(&mut self, peer: PeerId, route: RouteId, source: Source, pulse: Rc<Pulse>) {
        self.pullers.insert(peer, Puller { route, source, ended: false, publisher: None, pulse });
    }

    pub(crate) fn publishes(
        &mut self,
        sub: SubId,
        route: RouteId,
        source: Source,
        pulse: Rc<Pulse>,
    ) {
        self.publishers.insert(sub, Publisher { route, source, subscribed: false, pulse });
    }

    /// Who publishes here has got our subscription.
    pub(crate) fn subscribed(&mut self, sub: SubId) {
        if let Some(publisher) = self.publishers.get_mut(&sub) {
            publisher.subscribed = true;
        }
    }

    /// Whether a puller's answers can reach us: one from its place publishes, and for nobody else on that host. `late`: it
    /// has been waited for; whoever publishes on the route may be it.
    pub(crate) fn may_begin(&self, peer: PeerId, late: bool) -> bool {
        let Some(puller) = self.pullers.get(&peer) else { return false };
        let mut here = self
            .publishers
            .iter()
            .filter(|(_, publisher)| publisher.subscribed && publisher.route == puller.route);
        here.any(|(sub, publisher)| {
            let same = publisher.source == puller.source;
            late || same && (puller.source.is_exact() || !self.is_taken(*sub))
        })
    }

    /// Whether one publishes for a puller that takes requests.
    fn is_taken(&self, sub: SubId) -> bool {
        self.pullers.values().any(|puller| puller.publisher == Some(sub) && !puller.ended)
    }

    /// Asks every connection for a sign of life, and cuts those that gave none for too long. Of a puller whose stream has
    /// ended nothing is asked: it cannot answer.
    pub(crate) fn beat(&self) {
        let pullers = || self.pullers.values().filter(|puller| !puller.ended);
        let pulses = || self.publishers.values().map(|publisher| &publisher.pulse);
        for pulse in pulses().chain(pullers().map(|puller| &puller.pulse)) {
            pulse.beat();
        }
        for pulse in pulses() {
            if pulse.is_mute() { pulse.cut() } else { pulse.ask() }
        }
        for puller in pullers() {
            let gone = puller.pulse.is_mute()
                && !self.fellows_of(puller).any(|publisher| !publisher.pulse.is_mute());
            if gone { puller.pulse.cut() } else { puller.pulse.ask() }
        }
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
        let Publisher { route, source, .. } = self.publishers.get(&sub)?;
        let here =
            self.pullers.iter().filter(|(_, puller)| !puller.ended && puller.route == *route);
        let rank = |puller: &Puller| (puller.publisher == Some(sub), puller.source == *source);
        here.max_by_key(|(_, puller)| rank(puller)).map(|(peer, _)| *peer)
    }

    fn is_dead(&self, peer: PeerId) -> bool {
        let puller = self.pullers.get(&peer).filter(|puller| puller.ended);
        puller.is_some_and(|puller| self.fellows_of(puller).next().is_none())
    }

    /// Who may publish for a puller: who has done so, else all of the same process, or all from the same host that publish
    /// for nobody else.
    fn fellows_of<'a>(&'a self, puller: &'a Puller) -> impl Iterator<Item = &'a Publisher> {
        let taken = |sub: &SubId| self.pullers.values().any(|other| other.publisher == Some(*sub));
        self.publishers.iter().filter_map(move |(sub, publisher)| {
            let fits = match puller.publisher {
                Some(known) => known == *sub,
                None => {
                    publisher.route == puller.route
                        && publisher.source == puller.source
                        && (puller.source.is_exact() || !taken(sub))
                }
            };
            fits.then_some(publisher)
        })
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

    fn pulse() -> Rc<Pulse> {
        Rc::new(Pulse::new(1))
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
            fellows.publishes(sub, ROUTE, here(), pulse());
            fellows.pulls(peer, ROUTE, here(), pulse());
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
        fellows.pulls(a, ROUTE, Source::Process(10), pulse());
        fellows.pulls(b, ROUTE, Source::Process(11), pulse());
        fellows.publishes(SubId(1), ROUTE, Source::Process(10), pulse());
        fellows.publishes(SubId(2), ROUTE, Source::Process(11), pulse());
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
            fellows.pulls(peer, ROUTE, here(), pulse());
        }
        fellows.publishes(SubId(1), ROUTE, here(), pulse());
        fellows.publishes(SubId(2), ROUTE, here(), pulse());
        fellows.answered(b, SubId(2));
        assert!(!fellows.ended(a));
        assert_eq!(fellows.silent(SubId(1)), [a]);
    }
    /// Beats until one of the pulses is cut; gives which ones are, as `p` and `s`. `speaks` gives signs of life.
    fn after_beats(beats: usize, puller: &Pulse, publisher: &Pulse, fellows: &Fellows) -> String {
        for _ in 0..beats {
            fellows.beat();
        }
        let cut =
            |pulse: &Pulse, name: &str| if pulse.is_cut() { name.to_owned() } else { "-".into() };
        cut(puller, "p") + &cut(publisher, "s")
    }

    #[test]
    fn who_gives_no_sign_is_cut_unless_its_fellow_does() {
        let [a] = peers();
        let (pull, publish) = (pulse(), pulse());
        let mut fellows = Fellows::default();
        fellows.pulls(a, ROUTE, here(), Rc::clone(&pull));
        fellows.publishes(SubId(1), ROUTE, here(), Rc::clone(&publish));
        assert_eq!(after_beats(2, &pull, &publish, &fellows), "--");
        assert!(pull.take_due() && publish.take_due(), "both are asked");
        publish.heard();
        assert_eq!(after_beats(3, &pull, &publish, &fellows), "--", "a full queue");
        assert_eq!(after_beats(1, &pull, &publish, &fellows), "ps");
    }

    #[test]
    fn other_handlers_of_the_same_host_speak_for_nobody() {
        let [a, b] = peers();
        let (pull, publish) = (pulse(), pulse());
        let mut fellows = Fellows::default();
        fellows.pulls(a, ROUTE, here(), Rc::clone(&pull));
        fellows.pulls(b, ROUTE, here(), Rc::new(Pulse::new(0)));
        fellows.publishes(SubId(1), ROUTE, here(), Rc::clone(&publish));
        fellows.publishes(SubId(2), ROUTE, here(), Rc::new(Pulse::new(0)));
        assert_eq!(after_beats(9, &pull, &publish, &fellows), "-s", "who speaks may be its fellow");
        fellows.answered(b, SubId(2));
        assert_eq!(after_beats(1, &pull, &publish, &fellows), "ps", "and now is known not to be");
    }

    #[test]
    fn requests_are_for_those_whose_answers_arrive() {
        let [a, b, c] = peers();
        let mut fellows = Fellows::default();
        fellows.pulls(a, ROUTE, here(), pulse());
        assert!(!fellows.may_begin(a, true), "nobody publishes");
        fellows.publishes(SubId(1), ROUTE, here(), pulse());
        assert!(!fellows.may_begin(a, true), "nor is anybody subscribed to");
        fellows.subscribed(SubId(1));
        assert!(fellows.may_begin(a, false));
        fellows.answered(a, SubId(1));
        fellows.pulls(b, ROUTE, here(), pulse());
        assert!(!fellows.may_begin(b, false), "it publishes for another handler");
        assert!(fellows.may_begin(b, true), "but may be the one for all");
        fellows.ended(a);
        assert!(fellows.may_begin(b, false), "a comes back as b");
        fellows.pulls(c, RouteId(1), here(), pulse());
        assert!(!fellows.may_begin(c, true), "another route");
    }

    #[test]
    fn a_process_is_known_exactly() {
        let [a, b] = peers();
        let mut fellows = Fellows::default();
        fellows.publishes(SubId(1), ROUTE, Source::Process(10), pulse());
        fellows.subscribed(SubId(1));
        fellows.pulls(a, ROUTE, Source::Process(10), pulse());
        fellows.answered(a, SubId(1));
        fellows.pulls(b, ROUTE, Source::Process(10), pulse());
        assert!(fellows.may_begin(b, false));
    }

    #[test]
    fn who_leaves_is_not_asked() {
        let [a] = peers();
        let (pull, publish) = (pulse(), pulse());
        let mut fellows = Fellows::default();
        fellows.pulls(a, ROUTE, here(), Rc::clone(&pull));
        fellows.publishes(SubId(1), ROUTE, here(), Rc::clone(&publish));
        assert!(!fellows.ended(a));
        assert_eq!(after_beats(9, &pull, &publish, &fellows), "-s");
        assert!(!pull.take_due());
        assert_eq!(fellows.silent(SubId(1)), [a], "its publisher's silence is its death");
    }
}
