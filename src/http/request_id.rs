//! The id of a request: taken from one of its headers, or made of a number that is unique to the instance.
//!
//! Instance and workers name a request alike without asking each other: both know its headers and its number. What
//! a client sent is believed only if it can do no harm in a log, a header or a shell; it is never mended. Ids are no secret.

/// Longest id that is taken from a client, in bytes.
pub const LONGEST: usize = 128;

/// How the requests of one instance are named.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestIds {
    header: Option<Header>,
    prefix: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Header {
    name: String,
    /// As the front end spells it.
    lower: String,
}

impl RequestIds {
    /// `header`: where clients may say an id, and where they are told it. `prefix`: begins all ids that are made.
    pub fn new(header: Option<&str>, prefix: u64) -> RequestIds {
        let header =
            header.map(|name| Header { name: name.to_owned(), lower: name.to_ascii_lowercase() });
        RequestIds { header, prefix }
    }

    /// The header in lower case, as the front end spells it, if there is one.
    pub fn header(&self) -> Option<&[u8]> {
        self.header_name().map(str::as_bytes)
    }

    /// The same as text.
    pub fn header_name(&self) -> Option<&str> {
        self.header.as_ref().map(|header| header.lower.as_str())
    }

    /// The id of request `number`, whose header said `said`.
    pub fn id(&self, said: Option<&[u8]>, number: u64) -> Vec<u8> {
        let said = said.map(<[u8]>::trim_ascii).filter(|said| is_sane(said));
        said.map_or_else(|| made(self.prefix, number).to_vec(), <[u8]>::to_vec)
    }

    /// The line of a response's head that tells an id, with its end; none without a header.
    pub fn line(&self, id: &[u8]) -> Option<Vec<u8>> {
        let header = self.header.as_ref()?;
        Some([header.name.as_bytes(), b": ", id, b"\r\n"].concat())
    }
}

/// Visible ASCII without quotes and backslash.
fn is_sane(id: &[u8]) -> bool {
    let harmless = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\');
    (1..=LONGEST).contains(&id.len()) && id.iter().all(harmless)
}

/// 32 digits.
fn made(prefix: u64, number: u64) -> [u8; 32] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = (u128::from(prefix) << 64 | u128::from(number)).to_be_bytes();
    let mut text = [0; 32];
    for (two, byte) in text.chunks_exact_mut(2).zip(bytes) {
        two.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: u64 = 0x0123_4567_89ab_cdef;

    #[test]
    fn what_can_do_no_harm_is_taken_and_else_one_is_made() {
        let ids = RequestIds::new(Some("X-Request-ID"), PREFIX);
        let longest = [b'a'; LONGEST];
        for good in [&b"a"[..], b"7b2e-11:{x}/~!", &longest] {
            assert_eq!(ids.id(Some(good), 1), good);
        }
        assert_eq!(ids.id(Some(b" a\t"), 1), b"a");
        let too_long = [b'a'; LONGEST + 1];
        for bad in [&b""[..], b" ", b"a b", b"a\"", b"a'", b"a\\", b"a\x7f", b"\xc3\xa9", &too_long]
        {
            assert_eq!(ids.id(Some(bad), 0x2a), b"0123456789abcdef000000000000002a");
        }
        assert_eq!(ids.id(None, u64::MAX), b"0123456789abcdefffffffffffffffff");
    }

    #[test]
    fn clients_are_told_where_they_may_tell() {
        let ids = RequestIds::new(Some("X-Request-ID"), PREFIX);
        assert_eq!(ids.header(), Some(&b"x-request-id"[..]));
        assert_eq!(ids.line(b"a").unwrap(), b"X-Request-ID: a\r\n");
        assert_eq!(RequestIds::new(None, PREFIX).line(b"a"), None);
    }
}
