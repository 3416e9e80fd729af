//! How many messages may go to one connection, and when: pure arithmetic over a clock value.
//!
//! Without flow control Mongrel2 keeps at most 16 unwritten messages for a connection and cuts it off at the 17th; a burst
//! counts even when the client reads fast, and nothing tells what has been written (protocol section 4.6). So of every
//! message it is presumed how long it stays unwritten: a little in any case, and as long as a very slow client would need to
//! read what is before it. While much is under way messages must grow, so that a body of many megabytes fits; beyond that
//! they wait. Nothing is ever sent in the hope that the client is fast.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

/// Most bytes of one message. It is in memory as a whole, here and in the front end.
pub(crate) const MESSAGE: usize = 16 << 20;

/// Unwritten messages at which the end of a response, or a message of full size, must wait. The close comes on top, and
/// one is left.
const MOST: usize = 14;

/// The same for a message that is as large as all that is under way.
const LARGE: usize = 9;

/// The same for a small one while little is under way.
const SMALL: usize = 6;

/// The same for a small one while much is under way.
const FEW: usize = 4;

/// A message is presumed unwritten for this time, multiplied by the number of such messages: the more there are, the more
/// a front end that does not get its turn would hurt. With [`SMALL`] it may be stuck for half a second.
const STEP_MS: u64 = 10;

/// Bytes that may be under way without the client having read any: less than any kernel's socket buffer.
const TRUSTED: u64 = 128 * 1024;

/// The slowest client, in bytes a second, whose reading is taken for granted.
const SLOWEST: u64 = 32 * 1024;

/// The message budget of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    /// Sizes of the messages presumed unwritten, the oldest first.
    unwritten: VecDeque<u64>,
    /// Their sum.
    sum: u64,
    /// When the oldest of them became the oldest.
    since: Instant,
    /// Bytes sent and not presumed read, at `read_at`.
    under_way: u64,
    read_at: Instant,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Pace {
        Pace { unwritten: VecDeque::new(), sum: 0, since: now, under_way: 0, read_at: now }
    }

    /// The client has asked for something new while nothing was under way: it has read everything before.
    pub(crate) fn idle(&mut self, now: Instant) {
        self.unwritten.clear();
        (self.sum, self.under_way) = (0, 0);
        (self.since, self.read_at) = (now, now);
    }

    /// How many of `pending` bytes may go out as one message now, if any; `last` says that no more come.
    pub(crate) fn allows(&mut self, now: Instant, pending: usize, last: bool) -> Option<usize> {
        self.pass(now);
        let most = if last || pending >= MESSAGE {
            MOST
        } else if pending as u64 >= self.under_way {
            LARGE
        } else if self.under_way <= TRUSTED {
            SMALL
        } else {
            FEW
        };
        (pending > 0 && self.unwritten.len() < most).then_some(pending.min(MESSAGE))
    }

    /// Whether nothing at all may be sent for now.
    pub(crate) fn is_full(&self) -> bool {
        self.unwritten.len() >= MOST
    }

    /// One message of `bytes` was sent.
    pub(crate) fn sent(&mut self, now: Instant, bytes: usize) {
        self.pass(now);
        if self.unwritten.is_empty() {
            self.since = now;
        }
        self.unwritten.push_back(bytes as u64);
        self.sum += bytes as u64;
        self.under_way += bytes as u64;
    }

    /// When asking again makes sense, if asking now was in vain.
    pub(crate) fn again(&self) -> Instant {
        let step = self.since + Duration::from_millis(STEP_MS * self.unwritten.len() as u64);
        let millis = self.to_read().saturating_mul(1000).div_ceil(SLOWEST);
        step.max(self.read_at + Duration::from_millis(millis))
    }

    /// Bytes to be read before the oldest message counts as written.
    fn to_read(&self) -> u64 {
        let after = self.sum - self.unwritten.front().copied().unwrap_or(0);
        self.under_way.saturating_sub(TRUSTED + after)
    }

    fn pass(&mut self, now: Instant) {
        let millis = now.saturating_duration_since(self.read_at).as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        if self.under_way > 0 && millis > 0 {
            let read = SLOWEST.saturating_mul(millis) / 1000;
            self.under_way = self.under_way.saturating_sub(read);
        }
        self.read_at += Duration::from_millis(millis);
        while !self.unwritten.is_empty() && self.again() <= now {
            self.since = self.again();
            self.sum -= self.unwritten.pop_front().unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_generator_never_makes_sixteen() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        // 10,000 ten-byte blocks within one millisecond, then half a second of silence of the front end.
        let mut messages = 0;
        for block in 0..20_000_u32 {
            let now = start + Duration::from_micros(u64::from(block.saturating_sub(10_000) * 50));
            if pace.allows(now, 10, false).is_some() {
                pace.sent(now, 10);
                messages += 1;
            }
        }
        assert!((6..=14).contains(&messages), "{messages}");
    }

    #[test]
    fn blocks_with_pauses_are_never_held_back() {
        for millis in [20, 100, 1000] {
            let start = Instant::now();
            let mut pace = Pace::new(start);
            for block in 0..1000 {
                let now = start + Duration::from_millis(block * millis);
                assert!(pace.allows(now, 300, false).is_some(), "block {block} of {millis} ms");
                pace.sent(now, 300);
            }
        }
    }

    #[test]
    fn a_large_body_doubles_its_messages_and_ends_within_sixteen() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        let (mut left, mut pending, mut messages) = (64 << 20, 0, 0);
        while left + pending > 0 {
            let block = left.min(64 * 1024);
            pending += block;
            left -= block;
            while let Some(bytes) = pace.allows(now, pending, left == 0) {
                assert!(bytes <= MESSAGE);
                pace.sent(now, bytes);
                pending -= bytes;
                messages += 1;
            }
            assert!(left > 0 || pending == 0, "{pending} of the end are held back");
        }
        assert!(messages <= MOST, "{messages}");
    }

    #[test]
    fn what_a_slow_client_cannot_have_read_is_waited_for() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let mut sent = 0;
        let mut now = start;
        for _ in 0..40 {
            while let Some(bytes) = pace.allows(now, 1 << 30, false) {
                pace.sent(now, bytes);
                sent += bytes as u64;
            }
            assert!(pace.unwritten.len() <= MOST);
            let again = pace.again();
            assert!(again > now, "asking again must make sense");
            now = again;
        }
        // Fourteen at once; then no more than the slowest client reads, in whole messages.
        let seconds = (now - start).as_secs();
        assert!(
            sent <= (MOST as u64 + 1) * MESSAGE as u64 + SLOWEST * seconds,
            "{sent} in {seconds} s"
        );
    }

    #[test]
    fn a_small_block_after_a_large_one_goes_out_at_once() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        pace.sent(now, 5_000_000);
        assert!(pace.allows(now, 10, false).is_some());
    }
}
