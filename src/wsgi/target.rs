//! The path of a request: percent-decoding, the mount point, and absolute-form targets.

/// Appends `raw` percent-decoded. What is no escape stays as it is; bytes are not judged.
pub(super) fn decode(out: &mut Vec<u8>, raw: &[u8]) {
    let digit = |byte: u8| (byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let escape = match rest[at..] {
            [_, high, low, ..] => digit(high).zip(digit(low)),
            _ => None,
        };
        if let Some((high, low)) = escape {
            out.push(high << 4 | low);
            rest = &rest[at + 3..];
        } else {
            out.push(b'%');
            rest = &rest[at + 1..];
        }
    }
    out.extend_from_slice(rest);
}

/// The path proper of a target that may have been in absolute form.
///
/// Mongrel2 cuts off only the scheme: `http://localhost/x` arrives as `//localhost/x`, exactly as the origin-form target
/// `//localhost/x` would. What tells them apart is that a client which sends the absolute form must send an equal Host
/// header (RFC 9112 section 3.2.2). So the authority is cut off if it is the Host, and any other `//` stays.
pub(super) fn without_authority<'a>(path: &'a [u8], host: &[u8]) -> &'a [u8] {
    let Some(rest) = path.strip_prefix(b"//") else { return path };
    let end = memchr::memchr(b'/', rest).unwrap_or(rest.len());
    let (authority, local) = rest.split_at(end);
    if host.is_empty() || !authority.eq_ignore_ascii_case(host) {
        return path;
    }
    if local.is_empty() { b"/" } else { local }
}

/// Where `PATH_INFO` begins in a decoded `path` below the mount point `prefix` (no slash at its end). `None` if the path
/// lies elsewhere: `/application` is not below `/app`.
pub(super) fn below(path: &[u8], prefix: &[u8]) -> Option<usize> {
    let rest = path.strip_prefix(prefix)?;
    (prefix.is_empty() || matches!(rest.first(), None | Some(b'/'))).then_some(prefix.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding() {
        for (raw, bytes) in [
            ("/", &b"/"[..]),
            ("/%E2%80%8E%c3%a5", b"/\xe2\x80\x8e\xc3\xa5"),
            ("/a%2Fb%25%00", b"/a/b%\0"),
            ("/%", b"/%"),
            ("/%4", b"/%4"),
            ("/%zz%41", b"/%zzA"),
            ("/%%41", b"/%A"),
            ("/a+b;v=1", b"/a+b;v=1"),
        ] {
            let mut out = Vec::new();
            decode(&mut out, raw.as_bytes());
            assert_eq!(out, bytes, "{raw}");
        }
    }

    #[test]
    fn absolute_form() {
        for (path, host, expected) in [
            ("//localhost/x", "localhost", "/x"),
            ("//LocalHost:6767/x//y", "localhost:6767", "/x//y"),
            ("//localhost", "localhost", "/"),
            ("//testing/whatever", "t", "//testing/whatever"),
            ("//testing/whatever", "", "//testing/whatever"),
            ("///x", "", "///x"),
            ("//localhost/x", "localhost:80", "//localhost/x"),
            ("/localhost/x", "localhost", "/localhost/x"),
            ("*", "localhost", "*"),
        ] {
            let got = without_authority(path.as_bytes(), host.as_bytes());
            assert_eq!(got, expected.as_bytes(), "{path} at {host}");
        }
    }

    #[test]
    fn mount_points() {
        for (path, prefix, at) in [
            ("/x", "", Some(0)),
            ("/app/example", "/app", Some(4)),
            ("/app", "/app", Some(4)),
            ("/app/", "/app", Some(4)),
            ("/application", "/app", None),
            ("/", "/app", None),
            ("/favicon.ico", "/app", None),
        ] {
            assert_eq!(below(path.as_bytes(), prefix.as_bytes()), at, "{path} below {prefix}");
        }
    }
}
