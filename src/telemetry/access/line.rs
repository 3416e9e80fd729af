//! One access line, rendered from what is known about a request.
//!
//! `%h - %u [10/Oct/2000:13:55:36 +0000] "METHOD URI VERSION" status bytes "referer" "user-agent"`: the fields of Apache's
//! [combined format](https://httpd.apache.org/docs/2.4/logs.html#combined), the time in UTC. Two things are stricter than
//! Apache: every byte outside printable ASCII is `\xNN` (not `\n`, `\t`), and a space within the address, the user or a
//! part of the request line is `\x20`, so that a line always has the same number of words before the referer.

use std::cell::RefCell;
use std::io::Write;
use std::time::SystemTime;

use crate::telemetry::date::Utc;
use crate::telemetry::date::since_epoch;
use crate::telemetry::escape::is_plain;

/// What is told about one request. Bytes are as the front end gave them.
#[derive(Debug, Clone, Copy)]
pub struct AccessFields<'a> {
    /// The client's address.
    pub remote_addr: &'a [u8],
    /// Who the client says it is, if it is said in a form that can be read.
    pub user: Option<&'a [u8]>,
    /// `GET`; empty when the request was not understood.
    pub method: &'a [u8],
    /// The request target as it came.
    pub uri: &'a [u8],
    /// `HTTP/1.1`.
    pub version: &'a [u8],
    /// The status of the response; 0 when its connection was closed without one, which shows as `-`.
    pub status: u16,
    /// Bytes of the response body that were sent. None (a HEAD, a 304) shows as `-`, as `%b` does.
    pub body_bytes: u64,
    /// The Referer header, if there was one; an empty one shows as `""`.
    pub referer: Option<&'a [u8]>,
    /// The User-Agent header, likewise.
    pub user_agent: Option<&'a [u8]>,
    /// When the request came in.
    pub when: SystemTime,
}

/// The line, without its line break: always printable ASCII.
///
/// ```
/// use lurcher::telemetry::access::{AccessFields, line};
/// use std::time::{Duration, SystemTime};
/// let fields = AccessFields {
///     remote_addr: b"127.0.0.1", user: Some(b"frank"), method: b"GET", uri: b"/apache_pb.gif", version: b"HTTP/1.0",
///     status: 200, body_bytes: 2326, referer: None, user_agent: Some(b"\"x\ny"),
///     when: SystemTime::UNIX_EPOCH + Duration::from_secs(971_186_136),
/// };
/// assert_eq!(String::from_utf8(line(&fields)).unwrap(),
///     r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 +0000] "GET /apache_pb.gif HTTP/1.0" 200 2326 "-" "\"x\x0ay""#);
/// ```
pub fn line(fields: &AccessFields<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    put_word(&mut out, fields.remote_addr);
    out.extend_from_slice(b" - ");
    put_word(&mut out, fields.user.unwrap_or_default());
    out.extend_from_slice(b" [");
    put_date(&mut out, fields.when);
    out.extend_from_slice(b"] \"");
    put_word(&mut out, fields.method);
    out.push(b' ');
    put_word(&mut out, fields.uri);
    out.push(b' ');
    put_word(&mut out, fields.version);
    out.extend_from_slice(b"\" ");
    put_number(&mut out, fields.status.into());
    out.push(b' ');
    put_number(&mut out, fields.body_bytes);
    for field in [fields.referer, fields.user_agent] {
        out.extend_from_slice(b" \"");
        put_escaped(&mut out, field.unwrap_or(b"-"), is_plain);
        out.push(b'"');
    }
    out
}

/// A field without quotes of its own: one word, `-` when there is nothing.
fn put_word(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        out.push(b'-');
    }
    put_escaped(out, bytes, |byte| is_plain(byte) && byte != b' ');
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    if number == 0 {
        out.push(b'-');
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}

fn put_escaped(out: &mut Vec<u8>, mut bytes: &[u8], may_stand: impl Fn(u8) -> bool) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    while let Some(at) = bytes.iter().position(|&byte| !may_stand(byte)) {
        let (plain, rest) = bytes.split_at(at);
        out.extend_from_slice(plain);
        match rest.first().copied() {
            Some(byte @ (b'"' | b'\\')) => out.extend_from_slice(&[b'\\', byte]),
            Some(byte) => {
                let [high, low] = [byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]);
                out.extend_from_slice(&[b'\\', b'x', high, low]);
            }
            None => {}
        }
        bytes = rest.get(1..).unwrap_or_default();
    }
    out.extend_from_slice(bytes);
}

/// `10/Oct/2000:13:55:36 +0000`. The text of the last second is kept for each thread: under load it is the same for
/// thousands of lines.
fn put_date(out: &mut Vec<u8>, when: SystemTime) {
    thread_local! {
        static LAST: RefCell<(Option<u64>, Vec<u8>)> = const { RefCell::new((None, Vec::new())) };
    }
    let since = since_epoch(when);
    LAST.with_borrow_mut(|(second, text)| {
        if *second != Some(since.as_secs()) {
            let utc = Utc::new(since);
            text.clear();
            // Writing to a Vec cannot fail.
            let _ = write!(
                text,
                "{:02}/{}/{:04}:{:02}:{:02}:{:02} +0000",
                utc.day,
                utc.month_name(),
                utc.year,
                utc.hour,
                utc.minute,
                utc.second
            );
            *second = Some(since.as_secs());
        }
        out.extend_from_slice(text);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn fields() -> AccessFields<'static> {
        AccessFields {
            remote_addr: b"10.0.0.1",
            user: None,
            method: b"GET",
            uri: b"/",
            version: b"HTTP/1.1",
            status: 200,
            body_bytes: 12,
            referer: None,
            user_agent: None,
            when: SystemTime::UNIX_EPOCH + Duration::from_secs(951_782_400),
        }
    }

    fn text(fields: &AccessFields<'_>) -> String {
        String::from_utf8(line(fields)).unwrap()
    }

    #[test]
    fn what_is_absent_is_a_dash() {
        let at = "[29/Feb/2000:00:00:00 +0000]";
        assert_eq!(
            text(&fields()),
            format!(r#"10.0.0.1 - - {at} "GET / HTTP/1.1" 200 12 "-" "-""#)
        );
        let nothing = AccessFields {
            remote_addr: b"",
            user: Some(b""),
            method: b"",
            uri: b"",
            version: b"",
            status: 0,
            body_bytes: 0,
            referer: Some(b""),
            ..fields()
        };
        assert_eq!(text(&nothing), format!(r#"- - - {at} "- - -" - - "" "-""#));
    }

    #[test]
    fn a_client_cannot_leave_its_field() {
        let forged = AccessFields {
            user: Some(b"x [1] \"GET"),
            uri: b"/\r\n1.2.3.4 - - \"GET /admin\x1b[31m",
            referer: Some(b"\" 200 1 \"x"),
            user_agent: Some(b"back\\slash \x80\xff \xc3\xa9"),
            ..fields()
        };
        assert_eq!(
            text(&forged),
            concat!(
                r#"10.0.0.1 - x\x20[1]\x20\"GET [29/Feb/2000:00:00:00 +0000] "#,
                r#""GET /\x0d\x0a1.2.3.4\x20-\x20-\x20\"GET\x20/admin\x1b[31m HTTP/1.1" 200 12 "#,
                r#""\" 200 1 \"x" "back\\slash \x80\xff \xc3\xa9""#
            )
        );
    }

    #[test]
    fn the_kept_date_follows_the_clock() {
        for seconds in [0, 1, 1, 86_400, 0] {
            let when = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let line = text(&AccessFields { when, ..fields() });
            let utc = Utc::new(Duration::from_secs(seconds));
            let date = format!("[{:02}/Jan/1970:00:00:{:02} +0000]", utc.day, utc.second);
            assert!(line.contains(&date), "{line}");
        }
    }

    /// Takes a line apart as a log analyser does: words up to the referer, then quoted fields.
    fn parts(line: &str) -> Option<(Vec<&str>, Vec<String>)> {
        let mut words = Vec::new();
        let mut rest = line;
        for _ in 0..10 {
            let (word, tail) = rest.split_once(' ')?;
            words.push(word);
            rest = tail;
        }
        let mut quoted = vec![String::new()];
        let (mut inside, mut escaped) = (false, false);
        for c in rest.chars() {
            match c {
                '"' if !escaped => inside = !inside,
                ' ' if !inside => quoted.push(String::new()),
                _ => quoted.last_mut()?.push(c),
            }
            escaped = c == '\\' && !escaped;
        }
        (!inside).then_some((words, quoted))
    }

    proptest! {
        #[test]
        fn whatever_comes_in_is_one_line_with_its_fields_in_place(
            bytes in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 7),
            status: u16, body_bytes: u64, seconds in 0u64..=253_402_300_799,
        ) {
            let fields = AccessFields {
                remote_addr: &bytes[0], user: Some(&bytes[1]), method: &bytes[2], uri: &bytes[3], version: &bytes[4],
                referer: Some(&bytes[5]), user_agent: Some(&bytes[6]), status, body_bytes,
                when: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
            };
            let line = text(&fields);
            prop_assert!(line.bytes().all(|b| (b' '..=b'~').contains(&b)));
            let (words, quoted) = parts(&line).expect("ten words, then whole quotes");
            prop_assert_eq!(words[1], "-");
            prop_assert!(words[3].starts_with('[') && words[4] == "+0000]");
            prop_assert!(words[5].starts_with('"') && words[7].ends_with('"'));
            prop_assert_eq!(words[8], if status == 0 { "-".into() } else { status.to_string() });
            prop_assert_eq!(quoted.len(), 2);
        }
    }
}
