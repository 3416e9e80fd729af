//! The signs of life of one connection of a handler, and how many beats of our clock it gave none.
//!
//! A host that vanishes sends no end, and a stopped process does not even know that it should. So at each beat every
//! connection is asked for a sign (a PING, which libzmq answers by itself, however busy its program is), and one that gave
//! none for [`MOST`] beats is taken for gone. Pure: beats are counted, no clock is read.

use std::cell::Cell;
use std::cell::RefCell;
use std::task::Waker;
use std::time::Duration;

/// At this many beats without a sign it is gone: it has been asked one time less, and had a whole beat for each answer.
pub(crate) const MOST: u32 = 3;

/// A peer that hears nothing of us for so many beats may take us for gone. Many, for we may be stopped for a while, and
/// libzmq counts the time in which a single large message arrives.
const TTL_BEATS: u128 = 12;

/// Longest time to live that can be told, in tenths of a second: libzmq multiplies it by 100 in 16 bits.
const TTL_MAX: u128 = 655;

/// How long a peer should wait for our next sign, in tenths of a second, at this beat; 0: for ever.
pub(crate) fn time_to_live(beat: Duration) -> u16 {
    let tenths = beat.as_millis() / 100;
    let promised = (tenths * TTL_BEATS).min(TTL_MAX);
    // A promise that one late PING could break is none.
    if promised < 2 * tenths { 0 } else { u16::try_from(promised).unwrap_or(0) }
}

/// What the task of a connection and the clock tell each other.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// It can be asked.
    asked: bool,
    heard: Cell<bool>,
    missed: Cell<u32>,
    due: Cell<bool>,
    cut: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Pulse {
    /// Of a connection whose peer speaks ZMTP 3.`minor`: there are PINGs since 3.1.
    pub(crate) fn new(minor: u8) -> Pulse {
        Pulse { asked: minor >= 1, ..Pulse::default() }
    }

    /// Something has come.
    pub(crate) fn heard(&self) {
        self.heard.set(true);
    }

    /// One more beat is over.
    pub(super) fn beat(&self) {
        self.missed.set(if self.heard.take() { 0 } else { self.missed.get().saturating_add(1) });
    }

    /// Whether it has given no sign for too long.
    pub(super) fn is_mute(&self) -> bool {
        self.asked && self.missed.get() >= MOST
    }

    /// Has it asked for a sign, if it knows the question.
    pub(super) fn ask(&self) {
        if self.asked {
            self.due.set(true);
            self.wake();
        }
    }

    /// Ends it.
    pub(super) fn cut(&self) {
        self.cut.set(true);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Who is woken when there is something to do.
    pub(crate) fn waits(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if kept.as_ref().is_none_or(|kept| !kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    /// Whether a PING is due; asked for once.
    pub(crate) fn take_due(&self) -> bool {
        self.due.take()
    }

    /// Whether the connection is to end.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.get()
    }
}

/// Counts the time in which we were awake, in beats: while we are stopped ourselves we hear nobody.
#[derive(Debug, Default)]
pub(crate) struct Beats {
    passed: Duration,
}

impl Beats {
    /// So much time has passed since the last look, of which at most `most` counts. Gives whether that makes a beat, with one
    /// each `every`; never if that is 0.
    pub(crate) fn passed(&mut self, every: Duration, time: Duration, most: Duration) -> bool {
        self.passed += time.min(most);
        let full = !every.is_zero() && self.passed >= every;
        if full || every.is_zero() {
            self.passed = Duration::ZERO;
        }
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_for_some_beats_is_mute() {
        let pulse = Pulse::new(1);
        for (heard, mute) in [(true, false), (false, false), (false, false), (true, false)] {
            if heard {
                pulse.heard();
            }
            pulse.beat();
            assert_eq!(pulse.is_mute(), mute);
        }
        for beat in 1..=MOST {
            pulse.beat();
            assert_eq!(pulse.is_mute(), beat == MOST, "{beat}");
        }
        pulse.heard();
        pulse.beat();
        assert!(!pulse.is_mute());
    }

    #[test]
    fn who_knows_no_ping_is_never_asked_and_never_mute() {
        let pulse = Pulse::new(0);
        for _ in 0..9 {
            pulse.beat();
            pulse.ask();
        }
        assert!(!pulse.is_mute() && !pulse.take_due());
    }

    #[test]
    fn a_ping_is_due_once() {
        let pulse = Pulse::new(1);
        assert!(!pulse.take_due());
        pulse.ask();
        assert!(pulse.take_due() && !pulse.take_due());
    }

    #[test]
    fn the_time_in_which_we_slept_does_not_count() {
        let (second, look) = (Duration::from_secs(1), Duration::from_millis(200));
        let mut beats = Beats::default();
        assert!(!beats.passed(second, Duration::from_secs(3600), look));
        let more = (0..9).map(|_| beats.passed(second, look / 2, look)).collect::<Vec<_>>();
        assert_eq!(more.iter().position(|full| *full), Some(7));
        assert!(!beats.passed(Duration::ZERO, second, second));
    }

    #[test]
    fn what_is_promised_can_be_told_and_kept() {
        for (millis, ttl) in [(5000, 600), (200, 24), (20_000, 655), (30_000, 655), (40_000, 0)] {
            assert_eq!(time_to_live(Duration::from_millis(millis)), ttl, "{millis}");
        }
    }
}
