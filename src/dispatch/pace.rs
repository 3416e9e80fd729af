//! How many messages may go to one connection, and when: pure arithmetic over a clock value.
//!
//! Without flow control Mongrel2 keeps at most 16 unwritten messages for a connection and cuts it off at the 17th; a burst
//! counts even when the client reads fast, and nothing tells what has been written (protocol section 4.6). So messages are
//! paid for with tokens. A connection has all of them when it is known to be idle; they come back with time while little
//! is under way, and not at all while much is: then messages must double in size, so that a body of any length fits.

use std::time::Duration;
use std::time::Instant;

/// Tokens of an idle connection. With [`RESERVE`] this stays below 16, with room for one stall of the front end.
const TOKENS: u32 = 11;

/// Tokens that only the end of a response and the close may use.
const RESERVE: u32 = 2;

/// One token comes back in this time.
const REFILL_MS: u64 = 10;
const REFILL: Duration = Duration::from_millis(REFILL_MS);

/// Bytes that may be under way before time alone proves nothing: less than any kernel's socket buffer.
const TRUSTED: u64 = 128 * 1024;

/// The slowest client, in bytes a second, whose reading is taken for granted.
const SLOWEST: u64 = 32 * 1024;

/// The message budget of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    tokens: u32,
    /// Bytes sent of which we may not assume yet that the front end has written them.
    under_way: u64,
    since: Instant,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Pace {
        Pace { tokens: TOKENS, under_way: 0, since: now }
    }

    /// The client has asked for something new while nothing was under way: it has read everything before.
    pub(crate) fn idle(&mut self, now: Instant) {
        *self = Pace::new(now);
    }

    /// Whether `pending` bytes of an unfinished response may go out as one message now.
    pub(crate) fn allows(&mut self, now: Instant, pending: usize) -> bool {
        self.refill(now);
        self.tokens > RESERVE && (self.under_way <= TRUSTED || pending as u64 >= self.under_way)
    }

    /// One message of `bytes` was sent.
    pub(crate) fn sent(&mut self, now: Instant, bytes: usize) {
        self.refill(now);
        self.tokens = self.tokens.saturating_sub(1);
        self.under_way += bytes as u64;
    }

    /// When asking again makes sense, if asking now was in vain.
    pub(crate) fn again(&self) -> Instant {
        self.since + REFILL
    }

    fn refill(&mut self, now: Instant) {
        let steps = now.duration_since(self.since).as_millis() / u128::from(REFILL_MS);
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        if steps == 0 {
            return;
        }
        self.since += REFILL * steps;
        let read = SLOWEST * u64::from(steps) * REFILL_MS / 1000;
        self.under_way = self.under_way.saturating_sub(read);
        if self.under_way <= TRUSTED {
            self.tokens = self.tokens.saturating_add(steps).min(TOKENS);
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
        // 10,000 ten-byte blocks within one millisecond.
        let sent = (0..10_000).filter(|_| {
            let yes = pace.allows(start, 10);
            if yes {
                pace.sent(start, 10);
            }
            yes
        });
        assert_eq!(sent.count(), 9);
        // The end and the close always go: 11 of 16.
    }

    #[test]
    fn one_block_a_second_is_never_held_back() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for second in 0..100_000 {
            let now = start + Duration::from_secs(second);
            assert!(pace.allows(now, 1000), "second {second}");
            pace.sent(now, 1000);
        }
    }

    #[test]
    fn a_large_body_doubles_its_messages() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        let (mut left, mut pending, mut messages) = (64 << 20, 0, 0);
        while left > 0 {
            let block = 64 * 1024;
            pending += block;
            left -= block;
            if pace.allows(now, pending) {
                pace.sent(now, pending);
                pending = 0;
                messages += 1;
            }
        }
        assert!(messages <= 13, "{messages} messages and the end");
    }
}
