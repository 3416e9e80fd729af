//! What each kind of request becomes, as a WSGI application would see it.

use std::collections::BTreeMap;

use super::*;
use crate::wsgi::request::Spelled;

/// A message in tnetstring form, with the usual keys unless `pairs` has them. A list value is written `a|b`.
fn message(path: &str, pairs: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let usual = [
        ("METHOD", "GET"),
        ("VERSION", "HTTP/1.1"),
        ("URI", path),
        ("PATTERN", "/"),
        ("URL_SCHEME", "http"),
        ("REMOTE_ADDR", "10.0.0.7"),
        ("PATH", path),
    ];
    let mut dict = Vec::new();
    let mut put = |name: &str, value: &str| {
        dict.extend_from_slice(format!("{}:{name},", name.len()).as_bytes());
        if value.contains('|') {
            let texts: Vec<_> = value.split('|').map(|v| format!("{}:{v},", v.len())).collect();
            let list = texts.concat();
            dict.extend_from_slice(format!("{}:{list}]", list.len()).as_bytes());
        } else {
            dict.extend_from_slice(format!("{}:{value},", value.len()).as_bytes());
        }
    };
    for (name, value) in usual {
        if !pairs.iter().any(|(other, _)| *other == name) {
            put(name, value);
        }
    }
    for (name, value) in pairs {
        if *value != "(none)" {
            put(name, value);
        }
    }
    let mut out = format!("uuid-1 7 {path} {}:", dict.len()).into_bytes();
    out.extend_from_slice(&dict);
    out.extend_from_slice(format!("}}{}:", body.len()).as_bytes());
    out.extend_from_slice(body);
    out.push(b',');
    out
}

fn rules(script_name: &str) -> Rules {
    let ids = RequestIds::new(None, 0xfeed);
    let (server_name, underscore) = (None, Underscore::Drop);
    Rules { script_name: script_name.into(), server_name, underscore, ids }
}

fn with(
    rules: &Rules,
    path: &str,
    pairs: &[(&str, &str)],
    body: &[u8],
) -> Result<Request, Box<Refused>> {
    let message = message(path, pairs, body);
    prepare(&Envelope::parse(&message).unwrap(), rules, Came::Message, 7)
}

/// Keys and values as text, latin-1 as Python would see them.
fn environ(request: &Request) -> BTreeMap<String, String> {
    let latin1 = |bytes: &[u8]| bytes.iter().map(|&b| b as char).collect::<String>();
    let mut all = BTreeMap::new();
    for (key, value) in request.iter() {
        let key = match key {
            Spelled::Name(name) => name.as_str().to_owned(),
            Spelled::Header(key) => latin1(key),
        };
        assert!(all.insert(key.clone(), latin1(value)).is_none(), "{key} comes twice");
    }
    all
}

fn seen(path: &str, pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    environ(&with(&rules(""), path, pairs, b"").unwrap())
}

fn refused(path: &str, pairs: &[(&str, &str)], body: &[u8]) -> Why {
    with(&rules(""), path, pairs, body).unwrap_err().why
}

#[test]
fn a_plain_request_has_exactly_these_keys() {
    let all = seen(
        "/a%20b",
        &[("QUERY", "x=%C3%A9"), ("URI", "/a%20b?x=%C3%A9"), ("host", "h:81"), ("x-other", "1")],
    );
    let expected = [
        ("HTTP_HOST", "h:81"),
        ("HTTP_X_OTHER", "1"),
        ("PATH_INFO", "/a b"),
        ("QUERY_STRING", "x=%C3%A9"),
        ("RAW_URI", "/a%20b?x=%C3%A9"),
        ("REMOTE_ADDR", "10.0.0.7"),
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", "/a%20b?x=%C3%A9"),
        ("SCRIPT_NAME", ""),
        ("SERVER_NAME", "h"),
        ("SERVER_PORT", "81"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("lurcher.connection_id", "7"),
        ("lurcher.request_id", "000000000000feed0000000000000007"),
        ("lurcher.route", "/"),
        ("lurcher.sender", "uuid-1"),
        ("wsgi.url_scheme", "http"),
    ];
    let got: Vec<_> = all.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(got, expected);
}

#[test]
fn paths() {
    for (path, host, script, info) in [
        ("/%E2%80%8E%C3%A5", "t", "", "/\u{e2}\u{80}\u{8e}\u{c3}\u{a5}"),
        ("//testing/whatever", "t", "", "//testing/whatever"),
        ("//t/p", "t", "", "/p"),
        ("*", "t", "", "*"),
        ("/app/example", "t", "/app", "/example"),
        ("/%61pp/example", "t", "/app", "/example"),
        ("/app", "t", "/app", ""),
        ("//t/app/x", "t", "/app", "/x"),
    ] {
        let request = with(&rules(script), path, &[("host", host)], b"").unwrap();
        let all = environ(&request);
        assert_eq!(
            (all["SCRIPT_NAME"].as_str(), all["PATH_INFO"].as_str()),
            (script, info),
            "{path}"
        );
    }
    for path in ["/", "/application", "/favicon.ico", "/ap"] {
        let refused = with(&rules("/app"), path, &[], b"").unwrap_err();
        assert_eq!(refused.why, Why::Outside);
        assert_eq!((refused.why.status(), refused.why.may_keep()), (404, true));
    }
    assert_eq!(refused("foo", &[], b""), Why::Path);
}

#[test]
fn servers() {
    for (host, scheme, name, port) in [
        ("(none)", "http", "localhost", "80"),
        ("", "https", "localhost", "443"),
        ("h", "http", "h", "80"),
        ("h ", "https", "h", "443"),
        ("h:8080", "https", "h", "8080"),
        ("[::1]:81", "http", "[::1]", "81"),
    ] {
        let all = seen("/", &[("host", host), ("URL_SCHEME", scheme)]);
        let got = (all["SERVER_NAME"].as_str(), all["SERVER_PORT"].as_str());
        assert_eq!(got, (name, port), "{host:?} {scheme}");
        assert_eq!(all["wsgi.url_scheme"], scheme);
    }
    let named = Rules { server_name: Some(b"www.example".to_vec()), ..rules("") };
    let all = environ(&with(&named, "/", &[("host", "h:81")], b"").unwrap());
    assert_eq!((all["SERVER_NAME"].as_str(), all["SERVER_PORT"].as_str()), ("www.example", "81"));
    assert_eq!(refused("/", &[("host", "a|a")], b""), Why::Twice("host"));
    assert_eq!(refused("/", &[("host", "a/b")], b""), Why::Host);
}

#[test]
fn headers() {
    let all = seen(
        "/",
        &[
            ("accept", "a/b|c/d"),
            ("cookie", "a=1|b=2"),
            ("x-term", "lev\u{e9}"),
            ("x-blank", "a  b  "),
            ("content-type", "text/plain"),
            ("connection", "keep-alive"),
            ("x-list", "1|2|3"),
        ],
    );
    assert_eq!(all["HTTP_ACCEPT"], "a/b, c/d");
    assert_eq!(all["HTTP_COOKIE"], "a=1; b=2");
    assert_eq!(all["HTTP_X_TERM"], "lev\u{c3}\u{a9}", "bytes, not characters");
    assert_eq!(all["HTTP_X_BLANK"], "a  b");
    assert_eq!(all["CONTENT_TYPE"], "text/plain");
    assert_eq!(all["HTTP_CONNECTION"], "keep-alive");
    assert_eq!(all["HTTP_X_LIST"], "1, 2, 3");
    assert!(!all.contains_key("HTTP_CONTENT_TYPE"));
    assert_eq!(refused("/", &[("content-type", "a|b")], b""), Why::Twice("content-type"));
}

#[test]
fn a_client_cannot_pass_for_the_front_end() {
    let all = seen(
        "/",
        &[
            ("path", "/evil"),
            ("method", "DELETE"),
            ("remote-addr", "6.6.6.6"),
            ("url-scheme", "https"),
            ("script-name", "/x"),
            ("proxy", "http://evil"),
            ("x-mongrel2-upload-start", "/etc/passwd"),
            ("x-mongrel2-upload-done", "/etc/passwd"),
            ("wsgi.url-scheme", "https"),
            ("FLAGS", "0x81"),
        ],
    );
    assert_eq!(all["REQUEST_METHOD"], "GET");
    assert_eq!(all["HTTP_METHOD"], "DELETE");
    assert_eq!(all["HTTP_PATH"], "/evil");
    assert_eq!(all["REMOTE_ADDR"], "10.0.0.7");
    assert_eq!(all["HTTP_WSGI.URL_SCHEME"], "https");
    assert_eq!(all["wsgi.url_scheme"], "http");
    for absent in ["HTTP_PROXY", "HTTP_X_MONGREL2_UPLOAD_DONE", "FLAGS", "HTTP_FLAGS"] {
        assert!(!all.contains_key(absent), "{absent}");
    }
}

#[test]
fn underscores() {
    let pairs = [
        ("x_auth_user", "evil"),
        ("x-auth-user", "good"),
        ("x_alone", "1"),
        ("content_length", "9"),
    ];
    let how = |underscore| with(&Rules { underscore, ..rules("") }, "/", &pairs, b"");
    let request = how(Underscore::Drop).unwrap();
    assert_eq!(request.dropped, 3);
    let all = environ(&request);
    assert_eq!(all["HTTP_X_AUTH_USER"], "good");
    assert!(!all.contains_key("HTTP_X_ALONE"));
    assert_eq!(how(Underscore::Refuse).unwrap_err().why, Why::Underscore);
    let request = how(Underscore::Allow).unwrap();
    assert_eq!(request.dropped, 2);
    let all = environ(&request);
    assert_eq!((all["HTTP_X_AUTH_USER"].as_str(), all["HTTP_X_ALONE"].as_str()), ("good", "1"));
    assert!(!all.contains_key("HTTP_CONTENT_LENGTH"));
    let pairs =
        [("a_b-c", "1"), ("a-b_c", "2|3"), ("x_mongrel2_upload_done", "/x"), ("user_agent", "u")];
    let allow = Rules { underscore: Underscore::Allow, ..rules("") };
    let all = environ(&with(&allow, "/", &pairs, b"").unwrap());
    assert_eq!((all["HTTP_A_B_C"].as_str(), all["HTTP_USER_AGENT"].as_str()), ("1, 2, 3", "u"));
    assert!(!all.contains_key("HTTP_X_MONGREL2_UPLOAD_DONE"));
}

#[test]
fn what_the_front_end_says_is_made_exact() {
    let all = seen("/", &[("URL_SCHEME", "HTTPS"), ("REMOTE_ADDR", "[::1]:4711")]);
    assert_eq!((all["wsgi.url_scheme"].as_str(), all["HTTPS"].as_str()), ("https", "on"));
    assert_eq!((all["REMOTE_ADDR"].as_str(), all["REMOTE_PORT"].as_str()), ("::1", "4711"));
    for scheme in ["", "gopher", "https|https", "(none)"] {
        let all = seen("/", &[("URL_SCHEME", scheme), ("https", "on")]);
        assert_eq!(all["wsgi.url_scheme"], "http", "{scheme}");
        assert!(!all.contains_key("HTTPS"), "{scheme}");
    }
    for version in ["", "HTTP/", "HTTP/None", "HTTP/1.", "HTTP/1.10", "http/1.1", "HTTP/1.1 "] {
        assert_eq!(refused("/", &[("VERSION", version)], b""), Why::Version, "{version:?}");
    }
    for version in ["HTTP/1.0", "HTTP/1.1", "HTTP/2", "HTTP/2.0"] {
        assert_eq!(seen("/", &[("VERSION", version)])["SERVER_PROTOCOL"], version);
    }
}

#[test]
fn names_and_values_that_are_refused() {
    for name in ["nocolon\r\nx-a", "a b", "a\x01b", "", "caf\u{e9}", "a:b", "\x0b"] {
        assert_eq!(refused("/", &[(name, "1")], b""), Why::HeaderName, "{name:?}");
    }
    for value in ["a\r\nb", "a\nb", "a\0b"] {
        assert_eq!(refused("/", &[("x", value)], b""), Why::HeaderValue, "{value:?}");
        assert_eq!(refused("/", &[("accept", value)], b""), Why::HeaderValue, "{value:?}");
    }
    assert_eq!(seen("/", &[("x", "a\x01\tb")])["HTTP_X"], "a\x01\tb");
}

#[test]
fn bodies() {
    let post = |pairs: &[(&str, &str)], body: &[u8]| with(&rules(""), "/", pairs, body);
    let request = post(&[("content-length", "3"), ("METHOD", "POST")], b"abc").unwrap();
    assert_eq!(request.body, b"abc");
    assert_eq!(environ(&request)["CONTENT_LENGTH"], "3");
    assert!(!seen("/", &[]).contains_key("CONTENT_LENGTH"));
    assert_eq!(seen("/", &[("content-length", "0")])["CONTENT_LENGTH"], "0");
    let all = environ(&post(&[("transfer-encoding", "chunked")], b"0123456789").unwrap());
    assert_eq!(all["CONTENT_LENGTH"], "10");
    assert!(!all.contains_key("HTTP_TRANSFER_ENCODING"));
    let refused = post(&[("content-length", "3x"), ("METHOD", "HEAD")], b"abc").unwrap_err();
    assert_eq!(refused.why, Why::Length(LengthError::Syntax));
    assert!(refused.request.asked.head);
    assert_eq!((refused.why.status(), refused.why.may_keep()), (400, false));
    let refused = post(&[("transfer-encoding", "gzip")], b"").unwrap_err();
    assert_eq!(refused.why.status(), 501);
    let old = [("transfer-encoding", "chunked"), ("VERSION", "HTTP/1.0")];
    assert_eq!(post(&old, b"abc").unwrap_err().why, Why::Length(LengthError::Coding));
}

#[test]
fn what_the_framing_asks() {
    for (pairs, head, version, wish) in [
        (&[][..], false, Version::Http11, Wish::None),
        (&[("METHOD", "HEAD")], true, Version::Http11, Wish::None),
        (
            &[("VERSION", "HTTP/1.0"), ("connection", "Keep-Alive")],
            false,
            Version::Http10,
            Wish::KeepAlive,
        ),
        (&[("connection", "keep-alive|close")], false, Version::Http11, Wish::Close),
    ] {
        let request = with(&rules(""), "/", pairs, b"").unwrap();
        assert_eq!(request.asked, Asked { head, version, wish });
    }
    assert_eq!(refused("/", &[("METHOD", "(none)")], b""), Why::Missing("METHOD"));
    assert_eq!(refused("/", &[("VERSION", "(none)")], b""), Why::Missing("VERSION"));
}

#[test]
fn a_header_block_that_does_not_parse() {
    let envelope = Envelope::parse(b"uuid-1 7 / 5:{\"a\":,0:,").unwrap();
    let refused = prepare(&envelope, &rules(""), Came::Message, 7).unwrap_err();
    assert!(matches!(refused.why, Why::Message(_)));
    assert_eq!(refused.request.asked.wish, Wish::Close);
}

#[test]
fn a_request_has_an_id_and_one_only() {
    const MADE: &str = "000000000000feed0000000000000007";
    let named = Rules { ids: RequestIds::new(Some("X-Request-ID"), 0xfeed), ..rules("") };
    let loose = Rules { underscore: Underscore::Allow, ..named.clone() };
    for (rules, pairs, id) in [
        (&named, &[][..], MADE),
        (&named, &[("x-request-id", "abc")][..], "abc"),
        (&named, &[("x-request-id", "abc|def")][..], "abc"),
        (&named, &[("x-request-id", "a b|def")][..], MADE),
        (&loose, &[("x_request_id", "forged")][..], MADE),
    ] {
        let environ = environ(&with(rules, "/", pairs, b"").unwrap());
        assert_eq!(environ["lurcher.request_id"], id, "{pairs:?}");
        assert_eq!(environ["HTTP_X_REQUEST_ID"], id, "{pairs:?}");
    }
    let unnamed = seen("/", &[("x-request-id", "abc")]);
    assert_eq!(unnamed["lurcher.request_id"], MADE);
    assert_eq!(unnamed["HTTP_X_REQUEST_ID"], "abc");
    let refused = with(&named, "/", &[("METHOD", "(none)"), ("x-request-id", "abc")], b"");
    assert_eq!(refused.unwrap_err().request.get(Name::RequestId), Some(&b"abc"[..]));
}
