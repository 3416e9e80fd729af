//! Points in time as text, from seconds of the Unix epoch and nothing else: no time zone but UTC, no leap seconds.

use std::time::Duration;
use std::time::SystemTime;

/// A point in time, taken apart in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Utc {
    pub(super) year: u64,
    /// 1 to 12.
    pub(super) month: u64,
    pub(super) day: u64,
    pub(super) hour: u64,
    pub(super) minute: u64,
    pub(super) second: u64,
    pub(super) millis: u32,
}

/// Time since 1970; a clock that is set to before is taken as 1970, for a log must not fail over it.
pub(super) fn since_epoch(when: SystemTime) -> Duration {
    when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

impl Utc {
    /// Proleptic Gregorian date of a time since 1970 (Howard Hinnant's `civil_from_days`, for days after 1970).
    pub(super) fn new(since_epoch: Duration) -> Self {
        let seconds = since_epoch.as_secs();
        let days = seconds / 86_400 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * from_march + 2) / 5 + 1,
            hour: seconds % 86_400 / 3_600,
            minute: seconds % 3_600 / 60,
            second: seconds % 60,
            millis: since_epoch.subsec_millis(),
        }
    }

    /// `Jan` to `Dec`.
    pub(super) fn month_name(self) -> &'static str {
        const NAMES: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        usize::try_from(self.month - 1).ok().and_then(|at| NAMES.get(at)).copied().unwrap_or("???")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn days_at_the_edges_of_months_and_years() {
        for (seconds, text) in [
            (0, "1970-1-1 0:0:0"),
            (951_782_399, "2000-2-28 23:59:59"),
            (951_782_400, "2000-2-29 0:0:0"),
            (951_868_800, "2000-3-1 0:0:0"),
            (971_211_336, "2000-10-10 20:55:36"),
            (1_767_225_599, "2025-12-31 23:59:59"),
            (1_767_225_600, "2026-1-1 0:0:0"),
            (4_107_542_400, "2100-3-1 0:0:0"),
        ] {
            let Utc { year, month, day, hour, minute, second, .. } =
                Utc::new(Duration::from_secs(seconds));
            assert_eq!(format!("{year}-{month}-{day} {hour}:{minute}:{second}"), text);
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_http_dates(seconds in 0u64..=253_402_300_799) {
            let since = Duration::from_secs(seconds);
            let utc = Utc::new(since);
            let http = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since);
            let ours = format!("{:02} {} {:04} {:02}:{:02}:{:02} GMT",
                utc.day, utc.month_name(), utc.year, utc.hour, utc.minute, utc.second);
            prop_assert_eq!(http.split_once(", ").map(|(_, date)| date), Some(ours.as_str()));
        }
    }
}
