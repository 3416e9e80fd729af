//! How long things took: counts in fixed steps since the start, and percentiles of the last minute or two.
//!
//! Plain numbers in one thread's hands: noting a time costs some comparisons and no allocation. It reads no clock.

use std::time::Duration;
use std::time::Instant;

/// Upper bounds of the steps, in nanoseconds: from a quick answer of a small application to one that somebody waits for.
pub const BOUNDS: [u64; 17] = [
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
];

/// How long a window of the percentiles is. Two are looked at: the one that fills and the one before.
const WINDOW: Duration = Duration::from_secs(60);

/// Steps of a window: eight for each power of two of microseconds, so that a percentile is right to 1/8; up to 19 hours.
const FINE: usize = 280;

/// Times of one kind.
#[derive(Debug, Clone)]
pub struct Histogram {
    /// How many fell into each step of [`BOUNDS`], and last those beyond.
    pub steps: [u64; BOUNDS.len() + 1],
    /// The sum of all, in nanoseconds.
    pub sum_ns: u64,
    windows: [[u32; FINE]; 2],
    began: Instant,
}

impl Histogram {
    /// An empty one.
    pub fn new(now: Instant) -> Histogram {
        Histogram { steps: [0; BOUNDS.len() + 1], sum_ns: 0, windows: [[0; FINE]; 2], began: now }
    }

    /// Notes a time.
    pub fn note(&mut self, now: Instant, time: Duration) {
        self.turn(now);
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.steps[BOUNDS.partition_point(|&bound| bound < ns)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.windows[0][fine(ns / 1000)] += 1;
    }

    /// Begins a new window when it is time.
    pub fn turn(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.began);
        if age < WINDOW {
            return;
        }
        self.windows[1] = if age < 2 * WINDOW { self.windows[0] } else { [0; FINE] };
        self.windows[0] = [0; FINE];
        self.began = now;
    }

    /// How many were noted since the start.
    pub fn count(&self) -> u64 {
        self.steps.iter().sum()
    }

    /// How many were noted in the last one to two minutes, and the times that these shares (0 to 1) of them did not
    /// exceed.
    pub fn recent<const N: usize>(&self, shares: [f64; N]) -> (u64, [Duration; N]) {
        let [now, before] = &self.windows;
        let at = |step: usize| u64::from(now[step]) + u64::from(before[step]);
        let all: u64 = (0..FINE).map(at).sum();
        let found = shares.map(|share| {
            #[allow(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of a count is a count"
            )]
            let wanted = ((all as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let step = (0..FINE).find(|&step| {
                seen += at(step);
                seen >= wanted
            });
            step.filter(|_| all > 0)
                .map_or(Duration::ZERO, |step| Duration::from_micros(edge(step)))
        });
        (all, found)
    }
}

/// The step of a number of microseconds.
fn fine(micros: u64) -> usize {
    let Some(power) = micros.checked_ilog2().filter(|power| *power >= 3) else {
        return usize::try_from(micros).unwrap_or(0);
    };
    let eighth = (micros >> (power - 3)) & 7;
    let step = u64::from(power - 2) * 8 + eighth;
    usize::try_from(step).unwrap_or(FINE).min(FINE - 1)
}

/// The greatest number of microseconds of a step.
fn edge(step: usize) -> u64 {
    let step = step as u64;
    if step < 8 {
        return step;
    }
    let (power, eighth) = (step / 8 + 2, step % 8);
    ((8 + eighth + 1) << (power - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_are_of_the_last_minutes() {
        let start = Instant::now();
        let mut times = Histogram::new(start);
        assert_eq!(times.recent([0.5]), (0, [Duration::ZERO]));
        for ms in 1..=100 {
            times.note(start, Duration::from_millis(ms));
        }
        let (count, [half, most, all]) = times.recent([0.5, 0.99, 1.0]);
        assert_eq!(count, 100);
        for (found, ms) in [(half, 50), (most, 99), (all, 100)] {
            let right = Duration::from_millis(ms);
            assert!(found >= right && found <= right * 9 / 8, "{found:?} for {right:?}");
        }
        times.turn(start + WINDOW);
        assert_eq!(times.recent([0.5]).0, 100, "the window before counts too");
        times.turn(start + 2 * WINDOW);
        assert_eq!(times.recent([0.5]).0, 0);
        assert_eq!(times.count(), 100, "what was counted stays counted");
        assert_eq!(times.sum_ns, 5_050_000_000);
    }

    #[test]
    fn a_step_holds_what_is_not_above_its_bound() {
        let now = Instant::now();
        let mut times = Histogram::new(now);
        times.note(now, Duration::from_millis(1));
        times.note(now, Duration::from_nanos(1_000_001));
        times.note(now, Duration::MAX);
        assert_eq!((times.steps[2], times.steps[3], times.steps[BOUNDS.len()]), (1, 1, 1));
    }

    proptest! {
        #[test]
        fn an_edge_is_never_below_and_at_most_an_eighth_above(micros in 0_u64..1 << 36) {
            let found = edge(fine(micros));
            prop_assert!(found >= micros && found <= micros + micros / 8 + 1, "{found}");
        }
    }
}
