//! What follows when one of the two processes ends by itself: pure, so that its test is a table.

use std::time::Duration;

/// Who lived this long did not die of how it was started.
const GOOD_LIFE: Duration = Duration::from_secs(10);

/// So many deaths one after the other, each after a short life, and starting it again is no help.
const MOST: u32 = 5;

/// First pause; it doubles with each short life.
const PAUSE: Duration = Duration::from_millis(100);

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Start it again after this pause.
    Again(Duration),
    /// End everything.
    Enough,
}

/// How often in a row a process has died soon.
#[derive(Debug, Default)]
pub(super) struct Deaths(u32);

impl Deaths {
    /// It died, having lived so long.
    pub(super) fn died(&mut self, lived: Duration) -> Verdict {
        self.0 = if lived >= GOOD_LIFE { 1 } else { self.0 + 1 };
        match self.0 {
            1 => Verdict::Again(Duration::ZERO),
            MOST.. => Verdict::Enough,
            count => Verdict::Again(PAUSE * (1 << (count - 2))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths() {
        let mut deaths = Deaths::default();
        let again = |ms| Verdict::Again(Duration::from_millis(ms));
        for (lived, verdict) in [
            (100, again(0)),
            (0, again(100)),
            (9, again(200)),
            (10, again(0)),
            (1, again(100)),
            (1, again(200)),
            (1, again(400)),
            (1, Verdict::Enough),
        ] {
            assert_eq!(deaths.died(Duration::from_secs(lived)), verdict, "{lived}");
        }
    }
}
