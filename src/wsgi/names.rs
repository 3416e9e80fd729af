//! The environ keys that nearly every request has, each with a small number, so that their Python strings can be made
//! once. All other keys are spelled out by [`put_header_key`].

/// Declares [`Name`] with its texts.
macro_rules! names {
    ($($variant:ident $text:literal)*) => {
        /// A well-known environ key.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Name {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
        }

        impl Name {
            /// All of them; each stands at its own number.
            pub const ALL: &[Name] = &[$(Name::$variant),*];

            /// The environ key.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Name::$variant => $text,)*
                }
            }
        }
    };
}

names! {
    Method "REQUEST_METHOD"
    ScriptName "SCRIPT_NAME"
    PathInfo "PATH_INFO"
    QueryString "QUERY_STRING"
    ContentType "CONTENT_TYPE"
    ContentLength "CONTENT_LENGTH"
    ServerName "SERVER_NAME"
    ServerPort "SERVER_PORT"
    ServerProtocol "SERVER_PROTOCOL"
    RemoteAddr "REMOTE_ADDR"
    RemotePort "REMOTE_PORT"
    RequestUri "REQUEST_URI"
    RawUri "RAW_URI"
    UrlScheme "wsgi.url_scheme"
    Https "HTTPS"
    Sender "lurcher.sender"
    ConnectionId "lurcher.connection_id"
    Route "lurcher.route"
    RequestId "lurcher.request_id"
    Accept "HTTP_ACCEPT"
    AcceptEncoding "HTTP_ACCEPT_ENCODING"
    AcceptLanguage "HTTP_ACCEPT_LANGUAGE"
    Authorization "HTTP_AUTHORIZATION"
    CacheControl "HTTP_CACHE_CONTROL"
    Connection "HTTP_CONNECTION"
    Cookie "HTTP_COOKIE"
    Dnt "HTTP_DNT"
    Expect "HTTP_EXPECT"
    Host "HTTP_HOST"
    IfModifiedSince "HTTP_IF_MODIFIED_SINCE"
    IfNoneMatch "HTTP_IF_NONE_MATCH"
    Origin "HTTP_ORIGIN"
    Pragma "HTTP_PRAGMA"
    Range "HTTP_RANGE"
    Referer "HTTP_REFERER"
    SecFetchDest "HTTP_SEC_FETCH_DEST"
    SecFetchMode "HTTP_SEC_FETCH_MODE"
    SecFetchSite "HTTP_SEC_FETCH_SITE"
    SecFetchUser "HTTP_SEC_FETCH_USER"
    UpgradeInsecureRequests "HTTP_UPGRADE_INSECURE_REQUESTS"
    UserAgent "HTTP_USER_AGENT"
    Via "HTTP_VIA"
    XForwardedFor "HTTP_X_FORWARDED_FOR"
    XForwardedHost "HTTP_X_FORWARDED_HOST"
    XForwardedProto "HTTP_X_FORWARDED_PROTO"
    XRealIp "HTTP_X_REAL_IP"
    XRequestedWith "HTTP_X_REQUESTED_WITH"
}

impl Name {
    /// The key's place in [`Name::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The key of a client header (in lower case, as the front end sends it), if it is a well-known one.
    pub fn of_header(header: &[u8]) -> Option<Name> {
        Some(match header {
            b"accept" => Name::Accept,
            b"accept-encoding" => Name::AcceptEncoding,
            b"accept-language" => Name::AcceptLanguage,
            b"authorization" => Name::Authorization,
            b"cache-control" => Name::CacheControl,
            b"connection" => Name::Connection,
            b"content-length" => Name::ContentLength,
            b"content-type" => Name::ContentType,
            b"cookie" => Name::Cookie,
            b"dnt" => Name::Dnt,
            b"expect" => Name::Expect,
            b"host" => Name::Host,
            b"if-modified-since" => Name::IfModifiedSince,
            b"if-none-match" => Name::IfNoneMatch,
            b"origin" => Name::Origin,
            b"pragma" => Name::Pragma,
            b"range" => Name::Range,
            b"referer" => Name::Referer,
            b"sec-fetch-dest" => Name::SecFetchDest,
            b"sec-fetch-mode" => Name::SecFetchMode,
            b"sec-fetch-site" => Name::SecFetchSite,
            b"sec-fetch-user" => Name::SecFetchUser,
            b"upgrade-insecure-requests" => Name::UpgradeInsecureRequests,
            b"user-agent" => Name::UserAgent,
            b"via" => Name::Via,
            b"x-forwarded-for" => Name::XForwardedFor,
            b"x-forwarded-host" => Name::XForwardedHost,
            b"x-forwarded-proto" => Name::XForwardedProto,
            b"x-real-ip" => Name::XRealIp,
            b"x-requested-with" => Name::XRequestedWith,
            _ => return None,
        })
    }

    /// Whether the next request is likely to have the same value, and the value may be kept in memory for it.
    /// Not so: what differs in each request, and what is secret.
    pub fn repeats(self) -> bool {
        !matches!(
            self,
            Name::PathInfo
                | Name::QueryString
                | Name::RequestUri
                | Name::RawUri
                | Name::ContentLength
                | Name::ConnectionId
                | Name::RequestId
                | Name::RemotePort
                | Name::Authorization
                | Name::Cookie
                | Name::IfModifiedSince
                | Name::IfNoneMatch
                | Name::Range
        )
    }
}

/// Appends the environ key of a client header: `HTTP_`, upper case, `_` for `-` (RFC 3875 section 4.1.18).
pub fn put_header_key(out: &mut Vec<u8>, header: &[u8]) {
    out.extend_from_slice(b"HTTP_");
    out.extend(header.iter().map(|&b| if b == b'-' { b'_' } else { b.to_ascii_uppercase() }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_stands_at_its_number() {
        for (at, name) in Name::ALL.iter().enumerate() {
            assert_eq!(name.index(), at);
        }
    }

    #[test]
    fn well_known_headers_have_the_key_that_any_header_would_get() {
        for name in Name::ALL {
            let Some(rest) = name.as_str().strip_prefix("HTTP_") else { continue };
            let header = rest.replace('_', "-").to_ascii_lowercase();
            assert_eq!(Name::of_header(header.as_bytes()), Some(*name), "{header}");
            let mut key = Vec::new();
            put_header_key(&mut key, header.as_bytes());
            assert_eq!(key, name.as_str().as_bytes());
        }
        assert_eq!(Name::of_header(b"x-other"), None);
    }
}
