//! Texts of settings, made into values.
//!
//! A text is read in one way, whatever source it came from, and a text that is not what a setting takes is refused with
//! what it should have been. Nothing is true because it is not empty.

use std::net::SocketAddr;
use std::time::Duration;

use super::fault::Problem;

/// A whole number: decimal digits and nothing else, so that `010` and `0x10` cannot be misread.
pub(super) fn count(text: &str, min: u64, max: u64) -> Result<u64, Problem> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    match text.parse() {
        Ok(number) if plain && (min..=max).contains(&number) => Ok(number),
        _ => Err(Problem::Count { text: text.to_owned(), min, max }),
    }
}

/// On or off.
pub(super) fn switch(text: &str) -> Result<bool, Problem> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        "" => Err(Problem::Empty),
        _ => Err(Problem::Switch(text.to_owned())),
    }
}

/// `30`, `30s`, `500ms`, `2m`, `1.5h`; seconds when there is no unit. Zero is a value like others.
pub(super) fn duration(text: &str) -> Result<Duration, Problem> {
    let wrong = || Problem::Duration(text.to_owned());
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number = number.trim_end_matches(' ');
    let unit_ms = match unit {
        "ms" => 1.0,
        "" | "s" => 1e3,
        "m" | "min" => 6e4,
        "h" => 3.6e6,
        _ => return Err(wrong()),
    };
    let digits = number.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && number.starts_with(|c: char| c.is_ascii_digit())
        && number.ends_with(|c: char| c.is_ascii_digit());
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let duration =
        Duration::try_from_secs_f64((number * unit_ms).round() / 1e3).map_err(|_| wrong())?;
    if digits && duration <= DURATION_MAX { Ok(duration) } else { Err(wrong()) }
}

/// A day: what is meant to be longer is more likely a slip (milliseconds for seconds).
const DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A duration in the shortest form that [`duration`] reads back as it is.
pub(super) fn show_duration(duration: Duration) -> String {
    match (duration.as_millis(), duration.as_secs()) {
        (ms, _) if ms % 1000 != 0 => format!("{ms}ms"),
        (_, s) if s > 0 && s % 3600 == 0 => format!("{}h", s / 3600),
        (_, s) if s > 60 && s % 60 == 0 => format!("{}m", s / 60),
        (_, s) => format!("{s}s"),
    }
}

/// `65536`, `64K`, `10M`, `1G`, and the same with `iB`: bytes, the units powers of 1024. `MB` is refused: it is a million
/// bytes to some and 1048576 to others.
pub(super) fn size(text: &str, min: u64, max: u64) -> Result<u64, Problem> {
    let wrong = || Problem::Size { text: text.to_owned(), min, max };
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let shift = match unit.to_ascii_lowercase().trim_start_matches(' ') {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return Err(wrong()),
    };
    let plain = (number == "0" || !number.starts_with('0')) && !unit.ends_with(' ');
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(wrong)?;
    if plain && (min..=max).contains(&bytes) { Ok(bytes) } else { Err(wrong()) }
}

/// A size in the shortest form that [`size`] reads back as it is.
pub(super) fn show_size(bytes: u64) -> String {
    let unit = [(30, "G"), (20, "M"), (10, "K")]
        .into_iter()
        .find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// One of some words, exactly.
pub(super) fn choice<'a>(text: &str, words: &'static [&'static str]) -> Result<&'a str, Problem> {
    match words.iter().find(|word| **word == text) {
        Some(word) => Ok(word),
        None if text.is_empty() => Err(Problem::Empty),
        None => Err(Problem::Choice { text: text.to_owned(), words }),
    }
}

/// Text without control characters. What it means is not looked at.
pub(super) fn text(text: &str) -> Result<String, Problem> {
    match text {
        "" => Err(Problem::Empty),
        _ if text.chars().any(char::is_control) => Err(Problem::Control),
        _ => Ok(text.to_owned()),
    }
}

/// Bits of a file mode, in octal: `022`, `27`, `0o077`.
pub(super) fn umask(text: &str) -> Result<u32, Problem> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let octal = !digits.is_empty() && digits.bytes().all(|b| matches!(b, b'0'..=b'7'));
    match u32::from_str_radix(digits, 8) {
        Ok(mask) if octal && mask <= 0o777 => Ok(mask),
        _ => Err(Problem::Umask(text.to_owned())),
    }
}

/// An IP address and a port to listen at; `localhost` is 127.0.0.1.
pub(super) fn address(text: &str) -> Result<SocketAddr, Problem> {
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = numeric.as_deref().unwrap_or(text).parse();
    address.map_err(|_| Problem::Address(text.to_owned()))
}

/// Empty, or what stands before the paths of an application: compared with decoded paths, so it must be a decoded one.
pub(super) fn script_name(text: &str) -> Result<String, Problem> {
    let plain = |segment: &str| !matches!(segment, "" | "." | "..");
    let good = match text.strip_prefix('/') {
        Some(rest) => {
            rest.split('/').all(plain)
                && !text.contains(['?', '#', '%', '\\'])
                && !text.contains(|c: char| c.is_whitespace() || c.is_control())
        }
        None => text.is_empty(),
    };
    if good { Ok(text.to_owned()) } else { Err(Problem::ScriptName(text.to_owned())) }
}

/// A host name, an IPv4 address, or an IPv6 address in brackets (as it would stand in a URL).
pub(super) fn host(text: &str) -> Result<String, Problem> {
    let good = match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')),
    };
    match text {
        "" => Err(Problem::Empty),
        _ if good => Ok(text.to_owned()),
        _ => Err(Problem::Host(text.to_owned())),
    }
}

/// Headers, besides those that begin alike, whose values must stay as they are.
const TAKEN: [&str; 23] = [
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "cookie",
    "date",
    "etag",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "location",
    "origin",
    "pragma",
    "range",
    "referer",
    "server",
    "set-cookie",
    "te",
    "trailer",
    "upgrade",
    "user-agent",
    "via",
];

/// The name of a header that carries the id of a request, and has no other meaning for HTTP.
pub(super) fn id_header(text: &str) -> Result<String, Problem> {
    let good = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let lower = text.to_ascii_lowercase();
    let starts = ["accept", "content-", "if-", "proxy", "sec-", "transfer-", "x-mongrel2-"];
    let meant = starts.iter().any(|start| lower.starts_with(start)) || TAKEN.contains(&&*lower);
    match text {
        "" => Err(Problem::Empty),
        _ if good && !meant => Ok(text.to_owned()),
        _ => Err(Problem::IdHeader(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_id_has_a_header_of_its_own() {
        for good in ["X-Request-ID", "traceparent", "Cf-Ray"] {
            assert_eq!(id_header(good), Ok(good.to_owned()));
        }
        for bad in ["", "X Request", "x_request_id", "a:", "Content-Length", "cookie", "Proxy"] {
            assert!(id_header(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_decimal_and_within_their_limits() {
        for (text, number) in [("1", 1), ("4", 4), ("512", 512)] {
            assert_eq!(count(text, 1, 512), Ok(number));
        }
        for text in [
            "",
            "0",
            "513",
            "-1",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "0x10",
            "010",
            "0o17",
            "four",
            "true",
            "1e2",
            "18446744073709551616",
        ] {
            let problem = count(text, 1, 512).unwrap_err();
            assert_eq!(
                problem.to_string(),
                format!("{text:?} is not a whole number from 1 to 512")
            );
        }
        assert_eq!(count("0", 0, 1), Ok(0), "zero is not unset");
    }

    #[test]
    fn no_text_is_true_because_it_is_there() {
        for (texts, value) in [
            (["true", "TRUE", "yes", "on", "1"], Ok(true)),
            (["false", "False", "no", "off", "0"], Ok(false)),
        ] {
            for text in texts {
                assert_eq!(switch(text), value, "{text}");
            }
        }
        assert_eq!(switch(""), Err(Problem::Empty));
        for text in ["2", "t", "y", " true", "none", "enabled"] {
            assert_eq!(switch(text), Err(Problem::Switch(text.into())));
        }
    }

    #[test]
    fn times_have_units() {
        for (text, ms) in [
            ("0", 0),
            ("30", 30_000),
            ("30s", 30_000),
            ("30 s", 30_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("2min", 120_000),
            ("0.5", 500),
            ("1.5h", 5_400_000),
            ("24h", 86_400_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "", "s", "-1", "+1", "1d", "25h", "86401", "1m30s", "inf", "nan", "1e3", ".5", "5.",
            "1..2", "30S", " 30", "3O",
        ] {
            assert_eq!(duration(text), Err(Problem::Duration(text.into())), "{text}");
        }
    }

    #[test]
    fn a_mask_is_octal() {
        for (text, mask) in [("022", 0o22), ("27", 0o27), ("0", 0), ("0o077", 0o77), ("777", 0o777)]
        {
            assert_eq!(umask(text), Ok(mask), "{text}");
        }
        for text in ["", "028", "1000", "-1", "+7", "0x1f", "u=rwx", " 22", "0o"] {
            assert_eq!(umask(text), Err(Problem::Umask(text.into())), "{text}");
        }
    }

    #[test]
    fn sizes_have_units() {
        let most = 1 << 40;
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65_536),
            ("5B", 5),
            ("64K", 65_536),
            ("64k", 65_536),
            ("64 KiB", 65_536),
            ("10M", 10_485_760),
            ("10mib", 10_485_760),
            ("1G", 1_073_741_824),
            ("1024GiB", most),
        ] {
            assert_eq!(size(text, 0, most), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "M",
            "-1",
            "+1",
            "1.5G",
            "10MB",
            "1T",
            "010",
            "0x10",
            "1e3",
            " 1",
            "1 ",
            "1M1",
            "1025G",
            "18446744073709551615G",
            "99999999999999999999",
        ] {
            let problem = size(text, 0, most).unwrap_err();
            assert_eq!(
                problem.to_string(),
                format!(
                    "{text:?} is no size from 0 to 1024G, as 65536, 64K, 10M or 1G (powers of 1024)"
                )
            );
        }
        assert!(size("1023", 1024, 4096).is_err() && size("1K", 1024, 4096).is_ok());
    }

    #[test]
    fn a_mount_point_is_a_plain_path() {
        for text in ["", "/a", "/a/b", "/caf\u{e9}", "/a.b/..c"] {
            assert_eq!(script_name(text).as_deref(), Ok(text));
        }
        for text in [
            "a", "/", "//", "/a/", "/a//b", "/a/../b", "/.", "/a?b", "/a#b", "/%20", "/a b",
            "/a\n", "/a\\b", " /a",
        ] {
            assert!(script_name(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_host_has_no_port() {
        for text in ["example.org", "127.0.0.1", "[::1]", "a_b-c"] {
            assert_eq!(host(text).as_deref(), Ok(text));
        }
        for text in ["", "example.org:80", "::1", "[x]", "a b", "a/b", "a\n", "http://a", "\u{e9}"]
        {
            assert!(host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn words_and_texts() {
        assert_eq!(choice("drop", &["drop", "allow"]), Ok("drop"));
        let problem = choice("Drop", &["drop", "allow"]).unwrap_err();
        assert_eq!(problem.to_string(), "\"Drop\" is none of drop, allow");
        assert_eq!(choice("", &["drop"]), Err(Problem::Empty));
        assert_eq!(text("a:b").as_deref(), Ok("a:b"));
        assert_eq!(text(""), Err(Problem::Empty));
        assert_eq!(text("a\0"), Err(Problem::Control));
    }

    proptest! {
        #[test]
        fn a_shown_duration_is_read_back(ms in 0u64..=86_400_000) {
            let value = Duration::from_millis(ms);
            prop_assert_eq!(duration(&show_duration(value)), Ok(value));
        }

        #[test]
        fn a_shown_size_is_read_back(bytes: u64) {
            prop_assert_eq!(size(&show_size(bytes), 0, u64::MAX), Ok(bytes));
        }
    }
}
