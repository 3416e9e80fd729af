//! How a response's body is framed and whether its connection lives on: one pure decision, made when the head is sent.
//!
//! The rules are RFC 9112 sections 6 and 9.3 and RFC 9110 section 6.4.1. The front end decides nothing of this itself
//! (it forwards our bytes), so what is chosen here must be carried out to the letter: bytes after a body that the
//! client does not expect would be taken for its next response.

/// The version in a request line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: knows no chunks; one request a connection unless it asks for more.
    Http10,
    /// HTTP/1.1, and whatever later version a front end may name: it must translate.
    Http11,
}

/// What the request says that matters for framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The request method is HEAD.
    pub head: bool,
    /// The request's version.
    pub version: Version,
    /// What its `Connection` header wishes.
    pub wish: Wish,
}

/// What a `Connection` header wishes (RFC 9112 section 9.3): `close` wins over `keep-alive`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wish {
    /// Neither word.
    #[default]
    None,
    /// `keep-alive`
    KeepAlive,
    /// `close`
    Close,
}

impl Wish {
    /// Reads one `Connection` value: a list of tokens, in any case. Called for each line of a repeated header.
    #[must_use]
    pub fn and(self, value: &[u8]) -> Wish {
        value.split(|&b| b == b',').map(<[u8]>::trim_ascii).fold(self, |wish, token| {
            if token.eq_ignore_ascii_case(b"close") {
                Wish::Close
            } else if wish == Wish::None && token.eq_ignore_ascii_case(b"keep-alive") {
                Wish::KeepAlive
            } else {
                wish
            }
        })
    }
}

/// What the response brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// The status code.
    pub status: u16,
    /// The application's `Content-Length`.
    pub content_length: Option<u64>,
    /// The length of the whole body where it is known before the head is sent.
    pub known: Option<u64>,
    /// The application wishes the connection closed.
    pub close: bool,
}

/// How the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body, whatever the application yields.
    NoBody,
    /// After this many bytes.
    Length(u64),
    /// With the last chunk.
    Chunked,
    /// With the connection.
    UntilClose,
}

/// What becomes of the application's `Content-Length`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthHeader {
    /// Stays as it is (or stays away).
    Leave,
    /// Is taken out: this status must not have one.
    Remove,
    /// This one is added.
    Add(u64),
}

/// The `Connection` header to add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// None: the version's default is what happens.
    Silent,
    /// `Connection: close`
    Close,
    /// `Connection: keep-alive`, which HTTP/1.0 clients wait for.
    KeepAlive,
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// How the body ends.
    pub framing: Framing,
    /// Whether the connection may serve another request afterwards.
    pub keep: bool,
    /// The `Connection` header.
    pub connection: Connection,
    /// The `Content-Length` header.
    pub length: LengthHeader,
}

/// True of a status that never has a body (RFC 9110 section 6.4.1).
pub fn bodiless(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

/// Decides.
pub fn decide(asked: Asked, given: Given) -> Decision {
    let interim = matches!(given.status, 100..=199);
    let mut wants_keep = match asked.version {
        Version::Http11 => asked.wish != Wish::Close,
        Version::Http10 => asked.wish == Wish::KeepAlive,
    };
    // After an interim status the client would wait for the final one, which no application can send: let it go.
    wants_keep &= !given.close && !interim;

    let (framing, length) = if bodiless(given.status) {
        // RFC 9110 section 8.6: no Content-Length in 1xx and 204; in a 304 it describes what a 200 would have had.
        let removed = interim || given.status == 204;
        (Framing::NoBody, if removed { LengthHeader::Remove } else { LengthHeader::Leave })
    } else if asked.head {
        (Framing::NoBody, LengthHeader::Leave)
    } else if let Some(length) = given.content_length {
        (Framing::Length(length), LengthHeader::Leave)
    } else if let Some(known) = given.known {
        (Framing::Length(known), LengthHeader::Add(known))
    } else if asked.version == Version::Http11 {
        (Framing::Chunked, LengthHeader::Leave)
    } else {
        (Framing::UntilClose, LengthHeader::Leave)
    };

    let keep = wants_keep && framing != Framing::UntilClose;
    let connection = match (keep, asked.version) {
        (false, _) => Connection::Close,
        (true, Version::Http10) => Connection::KeepAlive,
        (true, Version::Http11) => Connection::Silent,
    };
    Decision { framing, keep, connection, length }
}

#[cfg(test)]
mod tests {
    use super::Connection as C;
    use super::Framing as F;
    use super::LengthHeader as L;
    use super::*;

    const V0: Version = Version::Http10;
    const V1: Version = Version::Http11;

    #[test]
    fn the_table() {
        const GET: bool = false;
        const HEAD: bool = true;
        let rows = [
            // method, version, wish, status, app's length, known, app closes => framing, keep, connection, length
            (
                GET,
                V1,
                Wish::None,
                200,
                Some(5),
                None,
                false,
                F::Length(5),
                true,
                C::Silent,
                L::Leave,
            ),
            (
                GET,
                V1,
                Wish::None,
                200,
                Some(5),
                Some(9),
                false,
                F::Length(5),
                true,
                C::Silent,
                L::Leave,
            ),
            (
                GET,
                V1,
                Wish::None,
                200,
                None,
                Some(9),
                false,
                F::Length(9),
                true,
                C::Silent,
                L::Add(9),
            ),
            (
                GET,
                V1,
                Wish::None,
                200,
                None,
                Some(0),
                false,
                F::Length(0),
                true,
                C::Silent,
                L::Add(0),
            ),
            (GET, V1, Wish::None, 200, None, None, false, F::Chunked, true, C::Silent, L::Leave),
            (
                GET,
                V1,
                Wish::KeepAlive,
                200,
                None,
                None,
                false,
                F::Chunked,
                true,
                C::Silent,
                L::Leave,
            ),
            (GET, V1, Wish::Close, 200, None, None, false, F::Chunked, false, C::Close, L::Leave),
            (GET, V1, Wish::None, 200, None, None, true, F::Chunked, false, C::Close, L::Leave),
            (
                GET,
                V1,
                Wish::Close,
                200,
                Some(5),
                None,
                false,
                F::Length(5),
                false,
                C::Close,
                L::Leave,
            ),
            (
                GET,
                V0,
                Wish::None,
                200,
                Some(5),
                None,
                false,
                F::Length(5),
                false,
                C::Close,
                L::Leave,
            ),
            (GET, V0, Wish::None, 200, None, None, false, F::UntilClose, false, C::Close, L::Leave),
            (
                GET,
                V0,
                Wish::KeepAlive,
                200,
                None,
                None,
                false,
                F::UntilClose,
                false,
                C::Close,
                L::Leave,
            ),
            (
                GET,
                V0,
                Wish::KeepAlive,
                200,
                Some(5),
                None,
                false,
                F::Length(5),
                true,
                C::KeepAlive,
                L::Leave,
            ),
            (
                GET,
                V0,
                Wish::KeepAlive,
                200,
                None,
                Some(2),
                false,
                F::Length(2),
                true,
                C::KeepAlive,
                L::Add(2),
            ),
            (
                GET,
                V0,
                Wish::KeepAlive,
                200,
                Some(5),
                None,
                true,
                F::Length(5),
                false,
                C::Close,
                L::Leave,
            ),
            (
                GET,
                V0,
                Wish::Close,
                200,
                Some(5),
                None,
                false,
                F::Length(5),
                false,
                C::Close,
                L::Leave,
            ),
            (HEAD, V1, Wish::None, 200, Some(5), None, false, F::NoBody, true, C::Silent, L::Leave),
            (HEAD, V1, Wish::None, 200, None, Some(0), false, F::NoBody, true, C::Silent, L::Leave),
            (
                HEAD,
                V0,
                Wish::KeepAlive,
                200,
                None,
                None,
                false,
                F::NoBody,
                true,
                C::KeepAlive,
                L::Leave,
            ),
            (HEAD, V0, Wish::None, 200, None, None, false, F::NoBody, false, C::Close, L::Leave),
            (
                GET,
                V1,
                Wish::None,
                204,
                Some(5),
                Some(5),
                false,
                F::NoBody,
                true,
                C::Silent,
                L::Remove,
            ),
            (
                GET,
                V0,
                Wish::KeepAlive,
                204,
                None,
                None,
                false,
                F::NoBody,
                true,
                C::KeepAlive,
                L::Remove,
            ),
            (
                HEAD,
                V1,
                Wish::None,
                204,
                Some(0),
                None,
                false,
                F::NoBody,
                true,
                C::Silent,
                L::Remove,
            ),
            (
                GET,
                V1,
                Wish::None,
                304,
                Some(5),
                Some(0),
                false,
                F::NoBody,
                true,
                C::Silent,
                L::Leave,
            ),
            (GET, V1, Wish::None, 304, None, Some(0), false, F::NoBody, true, C::Silent, L::Leave),
            (GET, V1, Wish::None, 101, None, None, false, F::NoBody, false, C::Close, L::Remove),
        ];
        for row in rows {
            let (
                head,
                version,
                wish,
                status,
                content_length,
                known,
                close,
                framing,
                keep,
                connection,
                length,
            ) = row;
            let got = decide(
                Asked { head, version, wish },
                Given { status, content_length, known, close },
            );
            assert_eq!(got, Decision { framing, keep, connection, length }, "{row:?}");
        }
    }

    #[test]
    fn wishes() {
        for (values, wish) in [
            (&[&b""[..]][..], Wish::None),
            (&[b"close"], Wish::Close),
            (&[b"Close "], Wish::Close),
            (&[b"Keep-Alive"], Wish::KeepAlive),
            (&[b"keep-alive, close"], Wish::Close),
            (&[b"close, keep-alive"], Wish::Close),
            (&[b"upgrade,\tKEEP-ALIVE"], Wish::KeepAlive),
            (&[b"keep-alive", b"te, CLOSE"], Wish::Close),
            (&[b"closed"], Wish::None),
        ] {
            assert_eq!(values.iter().fold(Wish::None, |w, v| w.and(v)), wish, "{values:?}");
        }
    }
}
