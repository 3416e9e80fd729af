//! One streamed body as the dispatcher knows it: how much has come, and how much more the front end may send.
//!
//! Mongrel2 sends the first bytes with the request, and then nothing that it was not given credits for (protocol section
//! 6.4). Credits are given when the application begins to read, and again as it reads on; so no more than a window is on its
//! way or waits in a worker, and a body whose request waits costs nothing. Pure: bytes are counted here, not kept.

use std::time::Duration;
use std::time::Instant;

use crate::bridge::Ticket;

/// An unread rest up to this is let in and thrown away, so that the connection can go on; for more it is closed.
const DRAIN: u64 = 256 * 1024;

/// What a part of a body means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is the next one.
    More,
    /// It is the last one.
    Last,
    /// One before it has gone elsewhere, or it is more or less than was announced.
    Broken,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Inflow {
    announced: Option<u64>,
    arrived: u64,
    /// Credits given that no bytes have come for. A chunk may be larger than what was left (protocol section 6.4).
    outstanding: i64,
    /// Bytes that the application has not taken.
    unread: u64,
    /// Who reads it.
    pub(crate) reader: Option<Ticket>,
    /// The response is over, and the rest is thrown away.
    draining: bool,
    progress: Instant,
}

impl Inflow {
    /// A body of which `first` bytes have come with its request.
    pub(crate) fn new(announced: Option<u64>, first: usize, now: Instant) -> Inflow {
        Inflow {
            announced,
            arrived: first as u64,
            outstanding: 0,
            unread: first as u64,
            reader: None,
            draining: false,
            progress: now,
        }
    }

    /// A part that begins at `offset`, by what the front end says.
    pub(crate) fn part(&mut self, offset: u64, bytes: usize, last: bool, now: Instant) -> Step {
        let bytes = bytes as u64;
        if offset != self.arrived {
            return Step::Broken;
        }
        self.progress = now;
        self.arrived = self.arrived.saturating_add(bytes);
        self.outstanding = self.outstanding.saturating_sub_unsigned(bytes);
        if !self.draining {
            self.unread += bytes;
        }
        match self.announced {
            Some(announced) if self.arrived > announced => Step::Broken,
            Some(announced) if last && self.arrived < announced => Step::Broken,
            _ if last => Step::Last,
            _ => Step::More,
        }
    }

    /// Bytes so far.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// The application has taken `bytes` and wants more. Returns the credits to give.
    pub(crate) fn wanted(&mut self, bytes: u64, window: u64, now: Instant) -> u32 {
        self.unread = self.unread.saturating_sub(bytes);
        let free = i64::try_from(window.saturating_sub(self.unread)).unwrap_or(i64::MAX);
        self.give(free - self.outstanding, now)
    }

    /// The response is over before the body. Returns the credits that let the rest in, if it is little enough.
    pub(crate) fn drain(&mut self, now: Instant) -> Option<u32> {
        let left = self.announced?.saturating_sub(self.arrived);
        if left > DRAIN {
            return None;
        }
        self.reader = None;
        self.draining = true;
        Some(self.give(left.cast_signed() - self.outstanding, now))
    }

    fn give(&mut self, credits: i64, now: Instant) -> u32 {
        let credits = u32::try_from(credits.clamp(0, i64::from(i32::MAX))).unwrap_or(0);
        if credits > 0 {
            if self.outstanding <= 0 {
                self.progress = now;
            }
            self.outstanding += i64::from(credits);
        }
        credits
    }

    /// How long the client has sent nothing though it may.
    pub(crate) fn stuck(&self, now: Instant) -> Duration {
        if self.outstanding <= 0 {
            return Duration::ZERO;
        }
        now.saturating_duration_since(self.progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_are_given_as_the_body_is_read_and_never_more_than_the_window() {
        let now = Instant::now();
        let mut body = Inflow::new(Some(1000), 40, now);
        assert_eq!(body.wanted(0, 100, now), 60, "what came by itself counts");
        assert_eq!(body.part(40, 60, false, now), Step::More);
        assert_eq!(body.wanted(0, 100, now), 0);
        assert_eq!(body.wanted(100, 100, now), 100);
        assert_eq!(body.wanted(0, 100, now), 0);
        assert_eq!(body.part(100, 100, false, now), Step::More);
        // A chunk that is larger than the credits.
        let mut body = Inflow::new(None, 0, now);
        assert_eq!(body.wanted(0, 100, now), 100);
        assert_eq!(body.part(0, 350, false, now), Step::More);
        assert_eq!(body.wanted(300, 100, now), 300);
        assert_eq!(body.part(350, 0, true, now), Step::Last);
    }

    #[test]
    fn a_part_that_is_missing_or_too_much_is_seen() {
        let now = Instant::now();
        let new = || Inflow::new(Some(100), 10, now);
        assert_eq!(new().part(20, 10, false, now), Step::Broken);
        assert_eq!(new().part(10, 91, false, now), Step::Broken);
        assert_eq!(new().part(10, 89, true, now), Step::Broken);
        assert_eq!(new().part(10, 90, true, now), Step::Last);
        assert_eq!(Inflow::new(None, 0, now).part(0, 0, true, now), Step::Last);
    }

    #[test]
    fn a_little_rest_is_let_in_and_a_large_one_is_not() {
        let now = Instant::now();
        let mut body = Inflow::new(Some(DRAIN + 10), 10, now);
        assert_eq!(body.drain(now), Some(262_144));
        assert_eq!(body.part(10, 262_144, true, now), Step::Last);
        assert_eq!(Inflow::new(Some(DRAIN + 11), 10, now).drain(now), None);
        assert_eq!(Inflow::new(None, 10, now).drain(now), None);
    }

    #[test]
    fn only_who_may_send_can_be_late() {
        let now = Instant::now();
        let later = now + Duration::from_secs(9);
        let mut body = Inflow::new(Some(1000), 40, now);
        assert_eq!(body.stuck(later), Duration::ZERO);
        body.wanted(0, 100, later);
        assert_eq!(body.stuck(later + Duration::from_secs(5)), Duration::from_secs(5));
        body.part(40, 60, false, later);
        assert_eq!(body.stuck(later + Duration::from_secs(5)), Duration::ZERO);
    }
}
