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
    use super::*;

    /// Method, version, wish; status, the application's length, the known length, whether the application closes:
    /// then the framing, whether the connection is kept, the Connection header, what becomes of the length header.
    const TABLE: &str = "
        GET  1.1 -     200 5 - -     = length 5  keep  silent     leave
        GET  1.1 -     200 5 9 -     = length 5  keep  silent     leave
        GET  1.1 -     200 - 9 -     = length 9  keep  silent     add 9
        GET  1.1 -     200 - 0 -     = length 0  keep  silent     add 0
        GET  1.1 -     200 - - -     = chunked   keep  silent     leave
        GET  1.1 keep  200 - - -     = chunked   keep  silent     leave
        GET  1.1 close 200 - - -     = chunked   end   close      leave
        GET  1.1 -     200 - - close = chunked   end   close      leave
        GET  1.1 close 200 5 - -     = length 5  end   close      leave
        GET  1.0 -     200 5 - -     = length 5  end   close      leave
        GET  1.0 -     200 - - -     = until     end   close      leave
        GET  1.0 keep  200 - - -     = until     end   close      leave
        GET  1.0 keep  200 5 - -     = length 5  keep  keep-alive leave
        GET  1.0 keep  200 - 2 -     = length 2  keep  keep-alive add 2
        GET  1.0 keep  200 5 - close = length 5  end   close      leave
        GET  1.0 close 200 5 - -     = length 5  end   close      leave
        HEAD 1.1 -     200 5 - -     = nobody    keep  silent     leave
        HEAD 1.1 -     200 - 0 -     = nobody    keep  silent     leave
        HEAD 1.0 keep  200 - - -     = nobody    keep  keep-alive leave
        HEAD 1.0 -     200 - - -     = nobody    end   close      leave
        GET  1.1 -     204 5 5 -     = nobody    keep  silent     remove
        GET  1.0 keep  204 - - -     = nobody    keep  keep-alive remove
        HEAD 1.1 -     204 0 - -     = nobody    keep  silent     remove
        GET  1.1 -     304 5 0 -     = nobody    keep  silent     leave
        GET  1.1 -     304 - 0 -     = nobody    keep  silent     leave
        GET  1.1 -     101 - - -     = nobody    end   close      remove";

    #[test]
    fn the_table() {
        for row in TABLE.trim().lines() {
            let (given, expected) = row.split_once('=').unwrap();
            let [method, version, wish, status, length, known, close] =
                given.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
            let asked = Asked {
                head: method == "HEAD",
                version: if version == "1.0" { Version::Http10 } else { Version::Http11 },
                wish: match wish {
                    "keep" => Wish::KeepAlive,
                    "close" => Wish::Close,
                    _ => Wish::None,
                },
            };
            let given = Given {
                status: status.parse().unwrap(),
                content_length: length.parse().ok(),
                known: known.parse().ok(),
                close: close == "close",
            };
            let got = decide(asked, given);
            let framing = match got.framing {
                Framing::NoBody => "nobody".to_owned(),
                Framing::Length(length) => format!("length {length}"),
                Framing::Chunked => "chunked".to_owned(),
                Framing::UntilClose => "until".to_owned(),
            };
            let keep = if got.keep { "keep" } else { "end" };
            let connection = match got.connection {
                Connection::Silent => "silent",
                Connection::Close => "close",
                Connection::KeepAlive => "keep-alive",
            };
            let length = match got.length {
                LengthHeader::Leave => "leave".to_owned(),
                LengthHeader::Remove => "remove".to_owned(),
                LengthHeader::Add(length) => format!("add {length}"),
            };
            let got = format!("{framing} {keep} {connection} {length}");
            let expected: Vec<_> = expected.split_whitespace().collect();
            assert_eq!(got, expected.join(" "), "{row}");
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
