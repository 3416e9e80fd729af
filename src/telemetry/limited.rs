//! A brake for log lines that a peer could make us write without end.
//!
//! It reads no clock and writes nothing: it only tells whether a line may be written at a given time.

use std::fmt;
use std::time::Duration;
use std::time::Instant;

/// Lets one line a second pass, and counts the others. One for each place that logs.
///
/// ```
/// use lurcher::telemetry::Limited;
/// use std::time::{Duration, Instant};
/// let (mut limited, now) = (Limited::new(), Instant::now());
/// assert_eq!(limited.allow(now).unwrap().to_string(), "");
/// assert!(limited.allow(now).is_none());
/// let held = limited.allow(now + Duration::from_secs(1)).unwrap();
/// assert_eq!(held.to_string(), " (1 more like this was not logged)");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Limited {
    next: Option<Instant>,
    held: u64,
}

/// The least time between two lines of one place: enough to follow, too few to fill a disk.
const INTERVAL: Duration = Duration::from_secs(1);

impl Limited {
    /// One that lets the first line pass.
    pub const fn new() -> Self {
        Self { next: None, held: 0 }
    }

    /// Whether a line may be written at `now`. If so, it gives what to put at its end: how many were held back before.
    pub fn allow(&mut self, now: Instant) -> Option<Held> {
        if self.next.is_some_and(|next| now < next) {
            self.held = self.held.saturating_add(1);
            return None;
        }
        self.next = now.checked_add(INTERVAL);
        Some(Held(std::mem::take(&mut self.held)))
    }
}

/// How many lines were held back. Shows as nothing when none was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held(pub u64);

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            1 => f.write_str(" (1 more like this was not logged)"),
            n => write!(f, " ({n} more like this were not logged)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_and_no_count_is_lost() {
        let start = Instant::now();
        let mut limited = Limited::new();
        let mut seen = Vec::new();
        for ms in [0, 1, 999, 1000, 1001, 1999, 5000, 5001, 6000] {
            let answer = limited.allow(start + Duration::from_millis(ms));
            seen.push(answer.map(|held| held.0));
        }
        let expected = [Some(0), None, None, Some(2), None, None, Some(2), None, Some(1)];
        assert_eq!(seen, expected);
        assert_eq!(Held(3).to_string(), " (3 more like this were not logged)");
    }
}
