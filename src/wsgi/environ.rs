//! From a Mongrel2 request to the values of an environ: bytes for each key, in one piece of memory, ready to become
//! Python strings. `docs/wsgi.md` has the table of keys.
//!
//! Only the front end's own upper-case keys are believed (protocol section 2.2). What a client sent either gets an
//! `HTTP_` key, which cannot collide with any other, or is left out, or the request is refused.

use crate::http::framing::Asked;
use crate::http::framing::Version;
use crate::http::framing::Wish;
use crate::http::head::is_token;
use crate::http::request_id::RequestIds;
use crate::proto::Envelope;
use crate::proto::Headers;
use crate::proto::Value;

use super::host;
use super::length;
use super::length::LengthError;
use super::names::Name;
use super::names::put_header_key;
use super::peer;
use super::refusal::Refused;
use super::refusal::Why;
use super::request::Key;
use super::request::Request;
use super::request::trim;
use super::target;

/// What becomes of a client header with `_` in its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Underscore {
    /// Left out, and counted.
    Drop,
    /// The request is refused.
    Refuse,
    /// Kept, unless the same name with `-` is there too.
    Allow,
}

/// The settings that an environ depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// What the application is mounted at, without a slash at its end.
    pub script_name: Vec<u8>,
    /// `SERVER_NAME`, whatever the Host header says.
    pub server_name: Option<Vec<u8>>,
    /// Headers with `_`.
    pub underscore: Underscore,
    /// How requests are named.
    pub ids: RequestIds,
}

/// Where the body of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// In the message.
    Message,
    /// In a file of so many bytes.
    File(u64),
    /// Begun in the message; the rest comes later.
    Stream,
}

/// Makes a request of a message.
///
/// # Errors
/// What could be understood comes back with the reason, for the access log and for a `HEAD` that must get no body.
///
/// `came` says where the body is; `number` is the request's own.
pub fn prepare(
    envelope: &Envelope<'_>,
    rules: &Rules,
    came: Came,
    number: u64,
) -> Result<Request, Box<Refused>> {
    let mut request = Request::new(1024);
    let headers = envelope.headers();
    let header = rules.ids.header();
    let said = header.and_then(|name| headers.as_ref().ok()?.get(name)).map(Value::first);
    let id = rules.ids.id(said, number);
    let done = headers.map_err(Why::from).and_then(|headers| {
        let found = Found::look(&headers, &mut request)?;
        fill(&mut request, envelope, &headers, &found, rules, came)
    });
    request.identify(&id, header);
    match done {
        Ok(()) => Ok(request),
        Err(why) => Err(Box::new(Refused { why, request })),
    }
}

/// What a first look over the dictionary finds.
struct Found<'h> {
    version: &'h [u8],
    scheme: &'h [u8],
    query: &'h [u8],
    pattern: &'h [u8],
    host: Option<&'h Value<'h>>,
    length: Option<&'h Value<'h>>,
    coding: Option<&'h Value<'h>>,
}

impl<'h> Found<'h> {
    /// Looks, and notes in `request` what the log wants to know even of a request that is refused.
    fn look(headers: &'h Headers<'_>, request: &mut Request) -> Result<Found<'h>, Why> {
        let (mut method, mut uri, mut remote) = (None, None, None);
        let mut version = None;
        let mut found = Found {
            version: b"",
            scheme: b"http",
            query: b"",
            pattern: b"",
            host: None,
            length: None,
            coding: None,
        };
        let mut wish = Wish::None;
        for (name, value) in headers.iter() {
            match name {
                b"METHOD" => method = value.single(),
                b"VERSION" => version = value.single(),
                b"URI" => uri = value.single(),
                b"REMOTE_ADDR" => remote = value.single(),
                b"URL_SCHEME" => found.scheme = scheme(value),
                b"QUERY" => found.query = value.single().unwrap_or_default(),
                b"PATTERN" => found.pattern = value.single().unwrap_or_default(),
                b"host" => found.host = Some(value),
                b"content-length" => found.length = Some(value),
                b"transfer-encoding" => found.coding = Some(value),
                b"connection" => wish = value.iter().fold(wish, Wish::and),
                _ => {}
            }
        }
        // RFC 3875 section 4.1.8: always there, even if nothing is known.
        let (address, port) = peer::split(remote.unwrap_or_default());
        request.put(Name::RemoteAddr, address);
        if let Some(port) = port {
            request.put(Name::RemotePort, port);
        }
        let Some(method) = method else { return Err(Why::Missing("METHOD")) };
        request.put(Name::Method, method);
        if let Some(uri) = uri {
            request.put(Name::RequestUri, uri);
        }
        let Some(version) = version else { return Err(Why::Missing("VERSION")) };
        request.put(Name::ServerProtocol, version);
        if !is_version(version) {
            return Err(Why::Version);
        }
        found.version = version;
        let old = version == b"HTTP/1.0";
        request.asked = Asked {
            head: method == b"HEAD",
            version: if old { Version::Http10 } else { Version::Http11 },
            wish,
        };
        Ok(found)
    }
}

fn fill(
    request: &mut Request,
    envelope: &Envelope<'_>,
    headers: &Headers<'_>,
    found: &Found<'_>,
    rules: &Rules,
    came: Came,
) -> Result<(), Why> {
    let host = match found.host {
        Some(host) => trim(host.single().ok_or(Why::Twice("host"))?),
        None => b"",
    };
    put_server(request, host, found.scheme, rules)?;
    put_path(request, envelope.path, host, rules)?;
    request.put(Name::QueryString, found.query);
    request.put(Name::UrlScheme, found.scheme);
    if found.scheme == b"https" {
        request.put(Name::Https, b"on");
    }
    request.put(Name::Sender, envelope.sender);
    request.put(Name::ConnectionId, itoa::Buffer::new().format(envelope.conn.0).as_bytes());
    request.put(Name::Route, found.pattern);
    if request.get(Name::RequestUri).is_none() {
        request.put(Name::RequestUri, envelope.path);
    }
    let uri = request.values.iter().find(|(key, _)| *key == Key::Name(Name::RequestUri));
    if let Some(span) = uri.map(|(_, span)| span.clone()) {
        request.values.push((Key::Name(Name::RawUri), span));
    }
    let said = length::announced(found.length);
    let bytes = match came {
        // Mongrel2 writes what is pipelined behind a body into its file too: it ends where it was announced to end.
        Came::File(size) => said.map_or(size, |said| said.min(size)),
        Came::Message => envelope.body.len() as u64,
        // Whether so many come is for who counts them.
        Came::Stream => said.unwrap_or(0),
    };
    if found.version == b"HTTP/1.0" && found.coding.is_some() {
        return Err(LengthError::Coding.into());
    }
    let length = length::check(found.length, found.coding, bytes)?;
    // Of chunks that are still to come nobody knows the length.
    if let Some(length) = length.filter(|_| came != Came::Stream || said.is_some()) {
        request.put(Name::ContentLength, itoa::Buffer::new().format(length).as_bytes());
    }
    for (name, value) in headers.iter() {
        put_header(request, headers, name, value, rules.underscore)?;
    }
    request.body = envelope.body.to_vec();
    Ok(())
}

/// `wsgi.url_scheme`: one of the two that PEP 3333 knows; whatever is not https is not safe to be called so.
fn scheme(value: &Value<'_>) -> &'static [u8] {
    match value.single() {
        Some(scheme) if scheme.eq_ignore_ascii_case(b"https") => b"https",
        _ => b"http",
    }
}

/// Whether a text is the name of an HTTP version (RFC 9112 section 2.3; RFC 9113 has `HTTP/2`).
fn is_version(text: &[u8]) -> bool {
    match text.strip_prefix(b"HTTP/") {
        Some([major]) => major.is_ascii_digit(),
        Some([major, b'.', minor]) => major.is_ascii_digit() && minor.is_ascii_digit(),
        _ => false,
    }
}

/// `SERVER_NAME` and `SERVER_PORT`: never empty (PEP 3333, "environ Variables").
fn put_server(request: &mut Request, host: &[u8], scheme: &[u8], rules: &Rules) -> Result<(), Why> {
    let host = if host.is_empty() { None } else { Some(host::split(host).ok_or(Why::Host)?) };
    let name = rules.server_name.as_deref().or(host.map(|host| host.name));
    request.put(Name::ServerName, name.unwrap_or(b"localhost"));
    let port = host.and_then(|host| host.port).unwrap_or(if scheme == b"https" { 443 } else { 80 });
    request.put(Name::ServerPort, itoa::Buffer::new().format(port).as_bytes());
    Ok(())
}

/// `SCRIPT_NAME` and `PATH_INFO`: together the decoded path.
fn put_path(request: &mut Request, path: &[u8], host: &[u8], rules: &Rules) -> Result<(), Why> {
    // `OPTIONS *` asks about the server, so it lies below no mount point.
    if path == b"*" {
        request.put(Name::ScriptName, b"");
        request.put(Name::PathInfo, b"*");
        return Ok(());
    }
    let path = target::without_authority(path, host);
    if path.first() != Some(&b'/') {
        return Err(Why::Path);
    }
    let start = request.text.len();
    target::decode(&mut request.text, path);
    let end = request.text.len();
    let at = target::below(&request.text[start..end], &rules.script_name).ok_or(Why::Outside)?;
    request.values.push((Key::Name(Name::ScriptName), start..start + at));
    request.values.push((Key::Name(Name::PathInfo), start + at..end));
    Ok(())
}

/// One entry of the dictionary that may be a client's header.
fn put_header(
    request: &mut Request,
    headers: &Headers<'_>,
    name: &[u8],
    value: &Value<'_>,
    underscore: Underscore,
) -> Result<(), Why> {
    if let Some(known) = Name::of_header(name) {
        let separator: &[u8] = match known {
            Name::ContentLength => return Ok(()),
            Name::ContentType if value.single().is_none() => {
                return Err(Why::Twice("content-type"));
            }
            // RFC 6265 section 5.4: one header, `; ` between the pairs.
            Name::Cookie => b"; ",
            _ => b", ",
        };
        let span = request.span_joined(value, separator)?;
        request.values.push((Key::Name(known), span));
        return Ok(());
    }
    // Clients' names come in lower case: this is one of the front end's own.
    if name.iter().any(u8::is_ascii_uppercase) {
        return Ok(());
    }
    if !is_token(name) {
        return Err(Why::HeaderName);
    }
    if is_left_out(name) {
        return Ok(());
    }
    if name.contains(&b'_') {
        match underscore {
            Underscore::Refuse => return Err(Why::Underscore),
            Underscore::Allow if !is_shadow(headers, name) => {}
            Underscore::Allow | Underscore::Drop => {
                request.dropped += 1;
                return Ok(());
            }
        }
    }
    let start = request.text.len();
    put_header_key(&mut request.text, name);
    let key = start..request.text.len();
    if name.contains(&b'_')
        && let Some(before) = request.position(&key)
    {
        // Two spellings of one key: neither may be lost (RFC 9110 section 5.3).
        let joined = request.span_after(before, value)?;
        request.values[before].1 = joined;
        return Ok(());
    }
    let span = request.span_joined(value, b", ")?;
    request.values.push((Key::Header(key), span));
    Ok(())
}

/// Headers that no application gets to see.
fn is_left_out(name: &[u8]) -> bool {
    matches!(
        name,
        // The body is decoded already; an application that reads this would decode it again.
        b"transfer-encoding"
        // Would become HTTP_PROXY, which libraries take for a setting (CVE-2016-5385 and its kin).
        | b"proxy"
        // The client may have written these (protocol section 6.3).
        | b"x-mongrel2-upload-start"
        | b"x-mongrel2-upload-done"
    )
}

/// Whether a name with `_` would take the place of a header that must not be had so.
fn is_shadow(headers: &Headers<'_>, name: &[u8]) -> bool {
    let twin: Vec<u8> = name.iter().map(|&b| if b == b'_' { b'-' } else { b }).collect();
    matches!(twin.as_slice(), b"content-length" | b"content-type")
        || is_left_out(&twin)
        || headers.get(&twin).is_some()
}

#[cfg(test)]
mod tests;
