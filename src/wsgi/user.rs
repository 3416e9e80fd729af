//! The user name of an Authorization header with the Basic scheme (RFC 7617), for the access log alone: nobody checks
//! the password here, so it proves nothing.

/// Longest credentials looked at; a user name that needs more is no use in a log.
const MOST: usize = 512;

/// The user name, or `None` if there is none or it cannot be read.
pub fn basic(authorization: &[u8]) -> Option<Vec<u8>> {
    let (scheme, credentials) = authorization.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") || credentials.len() > MOST {
        return None;
    }
    let mut plain = decode(credentials.trim_ascii())?;
    let colon = memchr::memchr(b':', &plain)?;
    plain.truncate(colon);
    (!plain.is_empty()).then_some(plain)
}

/// Base64 (RFC 4648 section 4), padding optional.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|&b| b != b'=').map_or(0, |last| last + 1);
    let mut out = Vec::with_capacity(end * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0);
    for &byte in &text[..end] {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held & 0xff).to_le_bytes()[0]);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users() {
        for (header, user) in [
            ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", Some(&b"Aladdin"[..])),
            ("bASIC QWxhZGRpbjpvcGVuIHNlc2FtZQ", Some(b"Aladdin")),
            ("Basic dGVzdDoxMjPCow==", Some(b"test")),
            ("Basic OmVtcHR5", None),
            ("Basic ixsTtkKzIpVTncfQjbBcnoRNoDfbnaXG", None),
            ("Basic", None),
            ("Basic ", None),
            ("Basic %%%", None),
            ("Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==", None),
            ("", None),
        ] {
            assert_eq!(basic(header.as_bytes()).as_deref(), user, "{header}");
        }
    }
}
