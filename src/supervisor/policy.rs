//! What follows when a worker is gone: pure, a function of what is known and a clock value.

use std::time::Duration;

use super::Exit;

/// A worker that lived this long after it was ready is in no crash loop.
const HEALTHY: Duration = Duration::from_secs(1);

/// Nor is one that finished so many requests.
const USEFUL: u64 = 10;

/// First and longest delay before a worker is replaced in a crash loop. The first replacement comes at once.
const DELAY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// How a worker that was not told to end has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The application could not be loaded.
    LoadFailed,
    /// It ended before it was ready, without saying why.
    NeverReady,
    /// It had been ready for so long, and had finished so many requests.
    Died { lived: Duration, finished: u64 },
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Start another one after this delay.
    Replace(Duration),
    /// Go on without it.
    GoOn,
    /// Start none before the application's files change.
    Await,
    /// The instance ends.
    Stop(Exit),
}

/// Remembers how many workers in a row came to nothing.
#[derive(Debug, Default)]
pub(super) struct Policy {
    failures: u32,
    ever_ready: bool,
    /// Changes of the application's files are heard of.
    pub(super) watches: bool,
}

impl Policy {
    /// A worker is ready.
    pub(super) fn ready(&mut self) {
        self.ever_ready = true;
    }

    /// Judges the end of a worker; `others` are alive, ready or loading.
    pub(super) fn judge(&mut self, end: End, others: usize, keep_alive: bool) -> Verdict {
        match end {
            End::LoadFailed if self.watches && (!self.ever_ready || others == 0) => {
                return Verdict::Await;
            }
            End::NeverReady if self.watches && !self.ever_ready => return Verdict::Await,
            // The first start must work, or somebody must look at it: respawning for ever would hide that.
            End::LoadFailed if !self.ever_ready || others == 0 => return Verdict::Stop(Exit::Load),
            End::NeverReady if !self.ever_ready => return Verdict::Stop(Exit::Boot),
            _ => {}
        }
        if !keep_alive {
            return if others == 0 { Verdict::Stop(Exit::NoWorkers) } else { Verdict::GoOn };
        }
        match end {
            End::Died { lived, finished } if lived >= HEALTHY || finished >= USEFUL => {
                self.failures = 0;
                Verdict::Replace(Duration::ZERO)
            }
            _ => {
                let doubled = DELAY.0.saturating_mul(1 << self.failures.saturating_sub(1).min(16));
                let delay = if self.failures == 0 { Duration::ZERO } else { doubled.min(DELAY.1) };
                self.failures += 1;
                Verdict::Replace(delay)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRASH: End = End::Died { lived: Duration::from_millis(5), finished: 0 };

    #[test]
    fn a_first_start_that_fails_ends_the_instance() {
        let mut policy = Policy::default();
        assert_eq!(policy.judge(End::LoadFailed, 3, true), Verdict::Stop(Exit::Load));
        assert_eq!(policy.judge(End::NeverReady, 3, true), Verdict::Stop(Exit::Boot));
        assert_eq!(policy.judge(End::LoadFailed, 0, false), Verdict::Stop(Exit::Load));
    }

    #[test]
    fn who_develops_is_waited_for() {
        let mut policy = Policy { watches: true, ..Policy::default() };
        for (end, others) in [(End::LoadFailed, 3), (End::LoadFailed, 0), (End::NeverReady, 0)] {
            assert_eq!(policy.judge(end, others, false), Verdict::Await);
        }
        policy.ready();
        assert_eq!(policy.judge(End::LoadFailed, 0, true), Verdict::Await);
        assert!(matches!(policy.judge(End::LoadFailed, 1, true), Verdict::Replace(_)));
        assert!(matches!(policy.judge(End::NeverReady, 0, true), Verdict::Replace(_)));
    }

    #[test]
    fn later_failures_leave_the_living_in_peace() {
        let mut policy = Policy::default();
        policy.ready();
        assert!(matches!(policy.judge(End::LoadFailed, 1, true), Verdict::Replace(_)));
        assert!(matches!(policy.judge(End::NeverReady, 0, true), Verdict::Replace(_)));
        assert_eq!(policy.judge(End::LoadFailed, 0, true), Verdict::Stop(Exit::Load));
    }

    #[test]
    fn the_delay_grows_in_a_crash_loop_and_only_there() {
        let mut policy = Policy::default();
        policy.ready();
        let delays: Vec<_> = (0..12)
            .map(|_| match policy.judge(CRASH, 1, true) {
                Verdict::Replace(delay) => delay.as_millis(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(delays[..4], [0, 200, 400, 800]);
        assert_eq!(delays[11], 15_000);
        let healthy = End::Died { lived: HEALTHY, finished: 0 };
        assert_eq!(policy.judge(healthy, 1, true), Verdict::Replace(Duration::ZERO));
        assert_eq!(policy.judge(CRASH, 1, true), Verdict::Replace(Duration::ZERO));
    }

    #[test]
    fn without_keep_alive_the_last_one_ends_it() {
        let mut policy = Policy::default();
        policy.ready();
        assert_eq!(policy.judge(CRASH, 1, false), Verdict::GoOn);
        assert_eq!(policy.judge(CRASH, 0, false), Verdict::Stop(Exit::NoWorkers));
    }
}
