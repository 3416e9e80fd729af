//! The peer as the front end names it: `REMOTE_ADDR` is a bare address (RFC 3875 section 4.1.8), a port goes apart.
//!
//! Mongrel2 gives an address alone; others that speak its protocol may add a port or brackets. Nothing is looked up, and
//! what is no address stays as it is.

/// Splits what the front end said into the address and the port, if it gave one.
pub(super) fn split(given: &[u8]) -> (&[u8], Option<&[u8]>) {
    if let Some(rest) = given.strip_prefix(b"[") {
        let Some(end) = rest.iter().position(|&b| b == b']') else { return (given, None) };
        let (address, after) = (&rest[..end], &rest[end + 1..]);
        return match after {
            [] => (address, None),
            [b':', port @ ..] if is_port(port) => (address, Some(port)),
            _ => (given, None),
        };
    }
    let mut colons = given.iter().enumerate().filter(|&(_, &b)| b == b':');
    match (colons.next(), colons.next()) {
        // A second colon would make it an IPv6 address, which cannot have a port without brackets.
        (Some((at, _)), None) if at > 0 && is_port(&given[at + 1..]) => {
            (&given[..at], Some(&given[at + 1..]))
        }
        _ => (given, None),
    }
}

fn is_port(text: &[u8]) -> bool {
    crate::http::head::decimal(text).is_some_and(|port| u16::try_from(port).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers() {
        for (given, address, port) in [
            ("", "", None),
            ("127.0.0.1", "127.0.0.1", None),
            ("127.0.0.1:44742", "127.0.0.1", Some("44742")),
            ("2001:db8::1", "2001:db8::1", None),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[2001:db8::1]:4711", "2001:db8::1", Some("4711")),
            ("[::1", "[::1", None),
            ("[::1]x", "[::1]x", None),
            ("[::1]:", "[::1]:", None),
            ("127.0.0.1:", "127.0.0.1:", None),
            ("127.0.0.1:65536", "127.0.0.1:65536", None),
            (":80", ":80", None),
            ("unix", "unix", None),
        ] {
            let got = split(given.as_bytes());
            assert_eq!(got, (address.as_bytes(), port.map(str::as_bytes)), "{given:?}");
        }
    }
}
