//! The target of a request, taken apart as the protocol's keys want it: nothing is decoded, nothing normalised.

use super::Refusal;

/// A target (protocol section 1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    /// Begins with `/`, or is `*`.
    pub(crate) path: &'a [u8],
    /// Path and query, without the fragment.
    pub(crate) uri: &'a [u8],
    /// Without its `?`; may be empty.
    pub(crate) query: Option<&'a [u8]>,
    /// Without its `#`; may be empty.
    pub(crate) fragment: Option<&'a [u8]>,
    /// Of an absolute target (`http://AUTHORITY/…`): it takes the place of the Host field (RFC 9112 section 3.2.2).
    pub(crate) authority: Option<&'a [u8]>,
}

/// Takes a target apart.
pub(crate) fn parse(target: &[u8]) -> Result<Target<'_>, Refusal> {
    let (authority, origin) = match scheme(target) {
        None => (None, target),
        Some(rest) => {
            let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
            let (authority, origin) = rest.split_at(end.unwrap_or(rest.len()));
            if authority.is_empty() || !is_host(authority) {
                return Err(Refusal::Bad);
            }
            (Some(authority), origin)
        }
    };
    let (uri, fragment) = cut(origin, b'#');
    let (path, query) = cut(uri, b'?');
    let path = match (path, authority) {
        // RFC 9112 section 3.2.1: no path is the root.
        (b"", Some(_)) if query.is_none() => b"/",
        (path, _) => path,
    };
    let uri = if uri.is_empty() { path } else { uri };
    let whole =
        path.first() == Some(&b'/') || (path == b"*" && query.is_none() && authority.is_none());
    let good = whole
        && escaped(path, is_path_byte)
        && [query, fragment]
            .into_iter()
            .flatten()
            .all(|text| escaped(text, |b| b == b'?' || is_path_byte(b)));
    if good { Ok(Target { path, uri, query, fragment, authority }) } else { Err(Refusal::Bad) }
}

/// What follows `http://` or `https://`.
fn scheme(target: &[u8]) -> Option<&[u8]> {
    ["http://", "https://"].into_iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme.as_bytes()).then_some(rest)
    })
}

/// What stands before the first `mark`, and what after it.
fn cut(text: &[u8], mark: u8) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(mark, text) {
        Some(at) => (&text[..at], text.get(at + 1..)),
        None => (text, None),
    }
}

/// Whether all bytes may stand there, or are escaped with two digits after a `%`.
fn escaped(text: &[u8], may_stand: impl Fn(u8) -> bool) -> bool {
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'%', [high, low, after @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                after
            }
            (byte, after) if may_stand(*byte) => after,
            _ => return false,
        };
    }
    true
}

/// What RFC 3986 lets stand in a path, and what browsers send besides: brackets, braces, `|` and `^`.
const fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'@'
                | b'/'
                | b'['
                | b']'
                | b'{'
                | b'}'
                | b'|'
                | b'^'
        )
}

/// Whether it is a host, with a port or without, as in a target or in `Host` (RFC 3986 section 3.2); it may be empty.
/// Names and passwords of users are none.
pub(crate) fn is_host(text: &[u8]) -> bool {
    let (good, port) = if let Some(rest) = text.strip_prefix(b"[") {
        let (address, port) = cut(rest, b']');
        let stands = |byte: &u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'.' | b'%' | b'-' | b'_' | b'~')
        };
        let port = match port {
            Some([b':', port @ ..]) => port,
            Some(b"") => b"",
            _ => return false,
        };
        (!address.is_empty() && address.iter().all(stands), port)
    } else {
        let (name, port) = cut(text, b':');
        (escaped(name, is_name_byte), port.unwrap_or_default())
    };
    good && port.iter().all(u8::is_ascii_digit)
}

/// A byte of a registered name.
fn is_name_byte(byte: u8) -> bool {
    is_path_byte(byte)
        && !matches!(byte, b'/' | b':' | b'@' | b'[' | b']' | b'{' | b'}' | b'|' | b'^')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// path, uri, query, fragment, authority; `-` for none.
    fn parts(text: &str) -> String {
        let Ok(target) = parse(text.as_bytes()) else { return "refused".into() };
        let show = |text: Option<&[u8]>| {
            text.map_or("-".into(), |t| String::from_utf8_lossy(t).into_owned())
        };
        [
            show(Some(target.path)),
            show(Some(target.uri)),
            show(target.query),
            show(target.fragment),
            show(target.authority),
        ]
        .join(" ")
    }

    #[test]
    fn the_table_of_the_protocol() {
        for (text, expected) in [
            ("/a%20b?x=%C3%A9", "/a%20b /a%20b?x=%C3%A9 x=%C3%A9 - -"),
            ("/a", "/a /a - - -"),
            ("/a?", "/a /a?  - -"),
            ("/a?b#f", "/a /a?b b f -"),
            ("/a#", "/a /a -  -"),
            ("/a?b?c/d", "/a /a?b?c/d b?c/d - -"),
            ("//foo/bar", "//foo/bar //foo/bar - - -"),
            ("/a//b/../c", "/a//b/../c /a//b/../c - - -"),
            ("/a%00b", "/a%00b /a%00b - - -"),
            ("*", "* * - - -"),
            ("http://localhost/x?y=1", "/x /x?y=1 y=1 - localhost"),
            ("HTTPS://[::1]:80", "/ / - - [::1]:80"),
            ("/a[]={}|^?b[]", "/a[]={}|^ /a[]={}|^?b[] b[] - -"),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_target() {
        for text in [
            "",
            "foo/bar",
            "localhost:80",
            "*?a",
            "/a b",
            "/\"",
            "/<",
            "/\\",
            "/`",
            "/%",
            "/%2",
            "/%zz",
            "/\u{e9}",
            "/\x01",
            "/\x7f",
            "/a##",
            "/a?#b#",
            "http:///x",
            "http://a b/",
            "http://a?b",
            "http://u@h/",
            "ftp://a/",
            "**",
        ] {
            assert_eq!(parts(text), "refused", "{text:?}");
        }
    }

    #[test]
    fn hosts() {
        for text in [
            "",
            "a",
            "a.b:80",
            "a:",
            "a_b",
            "127.0.0.1",
            "[::1]",
            "[fe80::1%25eth0]:80",
            "a%41",
            "x-y.z~",
        ] {
            assert!(is_host(text.as_bytes()), "{text}");
        }
        for text in [
            "a b",
            "u@h",
            "h/x",
            "h?x",
            "h#",
            "a:b",
            "a:80:80",
            "[::1",
            "[]",
            "[::1]x",
            "::1",
            "caf\u{e9}",
            "a\t",
            "<a>",
            "a%4",
        ] {
            assert!(!is_host(text.as_bytes()), "{text}");
        }
    }
}
