//! Bytes from outside, made fit for a log line.
//!
//! [`Escaped`] is for values that a client or a front end chose; [`Guard`] is the net under every record, for texts whose
//! author forgot it. Neither drops anything, and neither puts out a line break.

use std::fmt;
use std::fmt::Write;

/// Shows bytes as printable ASCII: control bytes, `"`, `\` and everything above 0x7e become `\xNN` (UTF-8 text too, so that
/// look-alikes and right-to-left marks have no effect).
///
/// ```
/// use lurcher::telemetry::Escaped;
/// assert_eq!(Escaped(b"a\r\nb\"\\\xff").to_string(), r"a\x0d\x0ab\x22\x5c\xff");
/// ```
#[derive(Clone, Copy)]
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while !rest.is_empty() {
            let plain = rest.iter().position(|&b| !is_plain(b)).unwrap_or(rest.len());
            let (good, tail) = rest.split_at(plain);
            f.write_str(str::from_utf8(good).map_err(|_| fmt::Error)?)?;
            rest = match tail.split_first() {
                Some((byte, tail)) => {
                    write!(f, "\\x{byte:02x}")?;
                    tail
                }
                None => tail,
            };
        }
        Ok(())
    }
}

impl fmt::Debug for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Whether a byte may stand in a quoted field as it is.
pub(super) const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

/// Passes text on with everything escaped that could end a line or move a terminal's cursor.
pub(super) struct Guard<'a, W> {
    to: &'a mut W,
    /// Whether tabs may pass, as in a traceback.
    tabs: bool,
}

impl<'a, W: Write> Guard<'a, W> {
    /// For one line.
    pub(super) fn line(to: &'a mut W) -> Self {
        Self { to, tabs: false }
    }

    /// For one line of a longer text: tabs pass.
    pub(super) fn text(to: &'a mut W) -> Self {
        Self { to, tabs: true }
    }
}

impl<W: Write> Write for Guard<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut from = 0;
        for (at, c) in text.char_indices().filter(|&(_, c)| is_unsafe(c)) {
            if c == '\t' && self.tabs {
                continue;
            }
            self.to.write_str(text.get(from..at).unwrap_or_default())?;
            match u32::from(c) {
                code @ ..=0xff => write!(self.to, "\\x{code:02x}")?,
                code => write!(self.to, "\\u{code:04x}")?,
            }
            from = at + c.len_utf8();
        }
        self.to.write_str(text.get(from..).unwrap_or_default())
    }
}

/// Control characters, Unicode's own line breaks, and the marks that turn the direction of a line.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn guarded(text: &str) -> String {
        let mut out = String::new();
        Guard::line(&mut out).write_str(text).unwrap();
        out
    }

    #[test]
    fn a_guarded_text_keeps_what_is_harmless() {
        assert_eq!(guarded("École 水 \"x\" \\x0a"), "École 水 \"x\" \\x0a");
        assert_eq!(
            guarded("a\nb\r\tc\x1b[31m\u{85}\u{2028}\u{202e}"),
            "a\\x0ab\\x0d\\x09c\\x1b[31m\\x85\\u2028\\u202e"
        );
        let mut out = String::new();
        Guard::text(&mut out).write_str("\tx\n").unwrap();
        assert_eq!(out, "\tx\\x0a");
    }

    proptest! {
        #[test]
        fn escaped_bytes_are_one_line_of_printable_ascii(bytes: Vec<u8>) {
            let text = Escaped(&bytes).to_string();
            prop_assert!(text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'"'));
            prop_assert!(text.len() >= bytes.len());
        }

        #[test]
        fn a_guarded_text_is_one_line(text: String) {
            prop_assert!(!guarded(&text).chars().any(is_unsafe));
        }
    }
}
