//! The `Date` header's value (RFC 9110 section 5.6.7), rendered once a second in each thread.

use std::cell::Cell;
use std::fmt::Write;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// Bytes of an IMF-fixdate.
pub const LEN: usize = 29;

thread_local! {
    static LAST: Cell<(u64, [u8; LEN])> = const { Cell::new((u64::MAX, [0; LEN])) };
}

/// The present time as an IMF-fixdate.
pub fn now() -> [u8; LEN] {
    at(SystemTime::now())
}

/// `when` as an IMF-fixdate. A time before 1970 is shown as the start of 1970, one after the year 9999 as its end.
pub fn at(when: SystemTime) -> [u8; LEN] {
    /// The last second that the format can show.
    const END: u64 = 253_402_300_799;
    let seconds = when.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()).min(END);
    LAST.with(|last| {
        let (cached, text) = last.get();
        if cached == seconds {
            return text;
        }
        let mut text = Fixed { bytes: [b' '; LEN], len: 0 };
        let date = httpdate::HttpDate::from(UNIX_EPOCH + std::time::Duration::from_secs(seconds));
        // Cannot fail: the text is always `LEN` bytes.
        let _ = write!(text, "{date}");
        last.set((seconds, text.bytes));
        text.bytes
    })
}

/// A writer into exactly the bytes of one date.
struct Fixed {
    bytes: [u8; LEN],
    len: usize,
}

impl Write for Fixed {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        let end = self.len + part.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(part.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates() {
        for (seconds, text) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (253_402_300_800, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(at(UNIX_EPOCH + Duration::from_secs(seconds)), text.as_bytes());
        }
        assert_eq!(&at(UNIX_EPOCH - Duration::from_secs(5))[..8], b"Thu, 01 ");
    }
}
