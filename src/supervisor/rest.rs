//! When changes of files have come to rest: pure, a function of changes and clock values.
//!
//! An editor's save is several events, and a checkout many: each burst is one change.

use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

/// How long nothing may have changed before a change is told.
const QUIET: Duration = Duration::from_millis(200);

/// How long a change is kept back at most.
const PATIENCE: Duration = Duration::from_secs(2);

/// What has changed and was not told yet.
#[derive(Debug, Default)]
pub(super) struct Rest(Option<Burst>);

#[derive(Debug)]
struct Burst {
    file: PathBuf,
    first: Instant,
    last: Instant,
}

impl Rest {
    /// A file has changed.
    pub(super) fn changed(&mut self, file: PathBuf, now: Instant) {
        let burst = self.0.get_or_insert(Burst { file, first: now, last: now });
        burst.last = now;
    }

    /// When [`Rest::take`] has something to give, if nothing else changes.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.as_ref().map(|burst| (burst.last + QUIET).min(burst.first + PATIENCE))
    }

    /// The first file of a burst that is over.
    pub(super) fn take(&mut self, now: Instant) -> Option<PathBuf> {
        self.due().filter(|due| *due <= now)?;
        self.0.take().map(|burst| burst.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_one_change() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        // When files change, and when a change is told, in milliseconds.
        for (what, changes, told) in [
            ("nothing", &[][..], &[][..]),
            ("one", &[0], &[200]),
            ("a save", &[0, 1, 7], &[207]),
            ("a checkout", &[0, 150, 300, 450], &[650]),
            ("two saves", &[0, 400], &[200, 600]),
            (
                "no end",
                &[0, 150, 300, 450, 600, 750, 900, 1050, 1200, 1350, 1500, 1650, 1800, 1950, 2100],
                &[2000, 2300],
            ),
        ] {
            let mut rest = Rest::default();
            let mut seen = Vec::new();
            for ms in 0..4000 {
                if changes.contains(&ms) {
                    rest.changed(PathBuf::from(ms.to_string()), at(ms));
                }
                if rest.take(at(ms)).is_some() {
                    seen.push(ms);
                }
            }
            assert_eq!(seen, told, "{what}");
            assert_eq!(rest.due(), None, "{what}");
        }
    }

    #[test]
    fn the_first_file_gives_the_name() {
        let now = Instant::now();
        let mut rest = Rest::default();
        for name in ["a.py", "b.py"] {
            rest.changed(PathBuf::from(name), now);
        }
        assert_eq!(rest.take(now + QUIET), Some(PathBuf::from("a.py")));
    }
}
