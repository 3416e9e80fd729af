//! The Host header (RFC 9110 section 7.2): a name or address, perhaps a port. Nothing is looked up.

/// A Host header, split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Host<'a> {
    /// The name or address; an IPv6 address with its brackets, as `SERVER_NAME` wants it (RFC 3875 section 4.1.14).
    pub(super) name: &'a [u8],
    /// The port, 1 to 65535.
    pub(super) port: Option<u16>,
}

/// Splits a Host value that is not empty. `None` if it is no host: such a request must get 400 (RFC 9112 section 3.2).
pub(super) fn split(value: &[u8]) -> Option<Host<'_>> {
    let (name, port) = if value.first() == Some(&b'[') {
        let end = value.iter().position(|&b| b == b']')? + 1;
        let (name, rest) = value.split_at(end);
        let inside = name.get(1..end - 1)?;
        if inside.is_empty()
            || !inside.iter().all(|&b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'))
        {
            return None;
        }
        match rest {
            [] => (name, None),
            [b':', port @ ..] => (name, Some(port)),
            _ => return None,
        }
    } else {
        match value.iter().position(|&b| b == b':') {
            Some(at) => (&value[..at], Some(&value[at + 1..])),
            None => (value, None),
        }
    };
    if name.is_empty() || (name[0] != b'[' && !name.iter().all(|&b| is_reg_name(b))) {
        return None;
    }
    let port = match port {
        // "host:" is legal and means the default port (RFC 3986 section 3.2.3).
        None | Some([]) => None,
        Some(digits) => Some(
            crate::http::head::decimal(digits)
                .and_then(|port| u16::try_from(port).ok())
                .filter(|&port| port > 0)?,
        ),
    };
    Some(Host { name, port })
}

/// A byte of a registered name (RFC 3986 section 3.2.2).
fn is_reg_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (value, expected) in [
            ("localhost", Some(("localhost", None))),
            ("localhost:6767", Some(("localhost", Some(6767)))),
            ("a_b.example:", Some(("a_b.example", None))),
            ("127.0.0.1:80", Some(("127.0.0.1", Some(80)))),
            ("[::1]", Some(("[::1]", None))),
            ("[2001:db8::1]:8443", Some(("[2001:db8::1]", Some(8443)))),
            ("[::1]x", None),
            ("[::1", None),
            ("[]", None),
            ("[a/b]", None),
            (":80", None),
            ("::1", None),
            ("a:b", None),
            ("a:0", None),
            ("a:65536", None),
            ("a:+80", None),
            ("a b", None),
            ("a/b", None),
            ("a@b", None),
            ("a\x01b", None),
            ("caf\u{e9}", None),
        ] {
            let got = split(value.as_bytes());
            let expected = expected.map(|(name, port)| Host { name: name.as_bytes(), port });
            assert_eq!(got, expected, "{value:?}");
        }
    }
}
