//! Which workers are started and which stop taking requests: pure, a function of what there is and what is wanted.
//!
//! It answers for reload, scaling and the replacement of single workers alike: a worker that is to go is *stale*, and goes
//! only when another one is ready in its place. How long something takes, and why a worker is stale, it does not know.

use std::cmp::Reverse;

/// How far a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It loads the application.
    Loading,
    /// It takes requests.
    Ready,
    /// It was told to finish what it has and end.
    Draining,
}

/// A worker, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member<Id> {
    pub(super) id: Id,
    pub(super) stage: Stage,
    /// It is to be replaced.
    pub(super) stale: bool,
}

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Workers that take requests.
    pub(super) workers: usize,
    /// Most processes beyond these while stale ones are replaced, those included that still finish their requests.
    pub(super) surge: usize,
    /// Starts that are put off to a later moment: they count as if they had happened.
    pub(super) put_off: usize,
}

/// What is to be done now. Doing it leads to a state for which there is nothing to do until something happens.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan<Id> {
    /// So many workers are started.
    pub(super) start: usize,
    /// These get no more requests, finish what they have, and end; ones that are still loading just end.
    pub(super) drain: Vec<Id>,
}

/// Makes the plan.
pub(super) fn plan<Id: Copy + Ord>(members: &[Member<Id>], wanted: Wanted) -> Plan<Id> {
    let Wanted { workers, surge, put_off } = wanted;
    let of = |stage, stale| {
        let mut ids: Vec<Id> =
            members.iter().filter(|m| m.stage == stage && m.stale == stale).map(|m| m.id).collect();
        ids.sort_unstable();
        ids
    };
    let (stale_ready, fresh_ready) = (of(Stage::Ready, true), of(Stage::Ready, false));
    let mut fresh_loading = of(Stage::Loading, false);
    let stale_loading = of(Stage::Loading, true);
    let ready = stale_ready.len() + fresh_ready.len();
    let fresh = fresh_ready.len() + fresh_loading.len();

    // Beyond what is wanted: the youngest of those that load, then whoever is stale, then the oldest. One that is stale and
    // still loads is kept while there are too few: what is to replace it may fail.
    let mut drain = Vec::new();
    if ready >= workers {
        drain.extend(&stale_loading);
    }
    fresh_loading.sort_unstable_by_key(|id| Reverse(*id));
    drain.extend(fresh_loading.into_iter().take(fresh.saturating_sub(workers)));
    drain.extend(stale_ready.iter().chain(&fresh_ready).take(ready.saturating_sub(workers)));

    let missing = workers.saturating_sub(fresh + put_off);
    // Those that have died are replaced whatever else is there.
    let stale = stale_ready.len() + stale_loading.len();
    let dead = workers.saturating_sub(fresh + stale + put_off);
    let room = (workers + surge).saturating_sub(members.len() + put_off);
    Plan { start: missing.min(dead.max(room)), drain }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `L` loading, `R` ready, `D` draining; in lower case when stale. Ids count from 1.
    fn members(text: &str) -> Vec<Member<usize>> {
        let member = |(at, letter): (usize, char)| Member {
            id: at + 1,
            stage: match letter.to_ascii_uppercase() {
                'L' => Stage::Loading,
                'R' => Stage::Ready,
                _ => Stage::Draining,
            },
            stale: letter.is_ascii_lowercase(),
        };
        text.chars().enumerate().map(member).collect()
    }

    #[test]
    fn what_follows_from_what_there_is() {
        for (what, there, workers, surge, put_off, start, drain) in [
            ("the first start", "", 4, 1, 0, 4, &[][..]),
            ("all is well", "RRRR", 4, 1, 0, 0, &[]),
            ("one has died", "RRR", 4, 1, 0, 1, &[]),
            ("one has died in a crash loop", "RRR", 4, 1, 1, 0, &[]),
            ("a reload begins", "rrrr", 4, 1, 0, 1, &[]),
            ("with more room", "rrrr", 4, 3, 0, 3, &[]),
            ("with all at once", "rrrr", 4, 9, 0, 4, &[]),
            ("the new one loads", "rrrrL", 4, 1, 0, 0, &[]),
            ("the new one is ready", "rrrrR", 4, 1, 0, 0, &[1]),
            ("the old one finishes", "drrrR", 4, 1, 0, 0, &[]),
            ("the old one has ended", "rrrR", 4, 1, 0, 1, &[]),
            ("an old one dies meanwhile", "rrrL", 4, 1, 0, 1, &[]),
            ("the last old one goes", "rRRRR", 4, 1, 0, 0, &[1]),
            ("a reload with one worker", "r", 1, 1, 0, 1, &[]),
            ("a reload before the first is ready", "ll", 2, 1, 0, 1, &[]),
            ("a reload while the second loads", "rl", 2, 1, 0, 1, &[]),
            ("what is old and still loads is not needed", "rlR", 2, 1, 0, 0, &[2]),
            ("one is worn out", "RrRR", 4, 1, 0, 1, &[]),
            ("all are worn out", "rrrr", 4, 1, 0, 1, &[]),
            ("scaled up", "RR", 4, 1, 0, 2, &[]),
            ("scaled up while one finishes", "RRD", 4, 1, 0, 2, &[]),
            ("scaled down", "RRRR", 2, 1, 0, 0, &[1, 2]),
            ("scaled down while loading", "RRLL", 3, 1, 0, 0, &[4]),
            ("scaled down in a reload", "rrRL", 2, 1, 0, 0, &[1]),
            ("scaled down in a crash loop", "RR", 2, 1, 2, 0, &[]),
            ("scaled up in a reload", "rrR", 5, 1, 0, 3, &[]),
            ("one dies while many finish", "DDDDR", 2, 1, 0, 1, &[]),
            ("none is wanted", "R", 0, 1, 0, 0, &[1]),
        ] {
            let wanted = Wanted { workers, surge, put_off };
            let expected = Plan { start, drain: drain.to_vec() };
            assert_eq!(plan(&members(there), wanted), expected, "{what}");
        }
    }

    /// Plays a reload to its end, in every order in which what was started may get ready and what was drained may end.
    #[test]
    fn a_reload_never_takes_more_processes_or_fewer_workers_than_it_may() {
        for (workers, surge) in [(1, 1), (2, 1), (4, 1), (4, 2), (3, 5)] {
            let wanted = Wanted { workers, surge, put_off: 0 };
            for mut order in 0..512_usize {
                let mut there = members(&"r".repeat(workers));
                let mut last = workers;
                for _ in 0..100 {
                    let Plan { start, drain } = plan(&there, wanted);
                    for member in there.iter_mut().filter(|m| drain.contains(&m.id)) {
                        member.stage = Stage::Draining;
                    }
                    for _ in 0..start {
                        last += 1;
                        there.push(Member { id: last, stage: Stage::Loading, stale: false });
                    }
                    assert_eq!(plan(&there, wanted), Plan { start: 0, drain: vec![] });
                    assert!(there.len() <= workers + surge);
                    let ready = there.iter().filter(|m| m.stage == Stage::Ready).count();
                    assert!(ready >= workers);
                    let ending = there.iter().position(|m| m.stage == Stage::Draining);
                    let loading = there.iter_mut().find(|m| m.stage == Stage::Loading);
                    match (ending, loading) {
                        (Some(at), None) => drop(there.remove(at)),
                        (Some(at), Some(_)) if order & 1 == 1 => drop(there.remove(at)),
                        (_, Some(member)) => member.stage = Stage::Ready,
                        (None, None) => break,
                    }
                    order >>= 1;
                }
                assert!(there.iter().all(|m| !m.stale && m.stage == Stage::Ready));
                assert_eq!(there.len(), workers);
            }
        }
    }
}
