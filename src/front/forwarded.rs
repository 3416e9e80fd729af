//! What handlers are told of proxies before us: `X-Forwarded-For`, `-Proto`, `-Host`, `-Port` and `Forwarded`.
//!
//! A client may say of itself what it likes, so its fields are replaced or left out, but for a proxy that is trusted
//! because of its address. Pure.

use std::net::IpAddr;

use crate::config::Cidr;
use crate::config::ForwardedPolicy;
use crate::config::ForwardedSetting;
use crate::front::http1::head::Head;
use crate::front::message::Own;
use crate::front::net::From;

/// All fields of the family.
const FAMILY: [&str; 5] =
    ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "forwarded"];

/// The fields for one request.
#[derive(Debug)]
pub(crate) struct Forwarded<'a> {
    /// The value of each that handlers get from us.
    ours: [Option<std::borrow::Cow<'a, [u8]>>; 5],
    left_out: &'static [&'static str],
    secure: bool,
}

impl<'a> Forwarded<'a> {
    /// For a request to this host that comes from there; `remote` is the address as text.
    pub(crate) fn new(
        setting: &ForwardedSetting,
        head: &Head<'a>,
        host: &'a [u8],
        from: From,
        remote: &'a str,
    ) -> Forwarded<'a> {
        let trusted = setting.trusts(from);
        let keeps = trusted || setting.policy == ForwardedPolicy::Append;
        let mut ours = [const { None }; 5];
        for (at, name) in FAMILY.into_iter().enumerate() {
            if !setting.fields.contains(&name) {
                continue;
            }
            let before: Vec<&[u8]> = if keeps { head.all(name).collect() } else { Vec::new() };
            let value = match (name, before.as_slice()) {
                ("x-forwarded-for", []) => remote.as_bytes().into(),
                ("x-forwarded-for", before) => joined(before, remote.as_bytes()).into(),
                ("forwarded", before) => joined(before, &element(from.ip, host)).into(),
                // These have no lists: what the first proxy says stands.
                (_, [first, ..]) => (*first).into(),
                ("x-forwarded-proto", []) => b"http"[..].into(),
                ("x-forwarded-host", []) => host.into(),
                (_, []) => from.local_port.to_string().into_bytes().into(),
            };
            ours[at] = Some(value);
        }
        // Those that are not ours are the proxy's to say, if it is trusted.
        let left_out: &[&str] = if trusted { &[] } else { &FAMILY };
        // Several that do not agree are no word to rely on.
        let mut protos = head.all("x-forwarded-proto").peekable();
        let secure = trusted
            && protos.peek().is_some()
            && protos.all(|proto| proto.eq_ignore_ascii_case(b"https"));
        Forwarded { ours, left_out, secure }
    }

    /// How the client speaks with the first proxy, if that is trusted to say so; else with us.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    /// The fields that take the place of the client's.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Own<'_>> {
        let named = FAMILY.into_iter().zip(&self.ours);
        named.filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// The fields of the client's that are left out.
    pub(crate) fn left_out(&self) -> &'static [&'static str] {
        self.left_out
    }
}

/// A list with one more.
fn joined(before: &[&[u8]], last: &[u8]) -> Vec<u8> {
    let mut all = before.to_vec();
    all.push(last);
    all.join(&b", "[..])
}

/// An element of `Forwarded` (RFC 7239).
fn element(ip: Option<IpAddr>, host: &[u8]) -> Vec<u8> {
    let by = match ip {
        None => "unknown".to_owned(),
        Some(IpAddr::V4(ip)) => ip.to_string(),
        Some(IpAddr::V6(ip)) => format!("\"[{ip}]\""),
    };
    let mut out = format!("for={by};proto=http").into_bytes();
    // As a quoted string; a host that could end it is left out.
    if !host.is_empty() && !host.iter().any(|byte| matches!(byte, b'"' | b'\\')) {
        out.extend_from_slice(b";host=\"");
        out.extend_from_slice(host);
        out.push(b'"');
    }
    out
}

impl ForwardedSetting {
    /// Whether what comes from there is kept.
    pub(crate) fn trusts(&self, from: From) -> bool {
        self.trusted.iter().any(|net| net.contains(from.ip))
    }
}

impl Cidr {
    /// Whether an address is in the network. Unix sockets (no address) are in none.
    fn contains(self, ip: Option<IpAddr>) -> bool {
        let bits = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, 4),
            IpAddr::V6(ip) => (u128::from(ip), 6),
        };
        let Some(ip) = ip else { return false };
        let ((net, family), (address, its)) = (bits(self.address), bits(ip));
        let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
        family == its && (net ^ address) & mask == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::http1::head;

    const TEXT: &[u8] = b"GET / HTTP/1.1\r\nHost: example\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\n\
        Forwarded: for=x\r\nX-Forwarded-For: 7.7.7.7\r\n\r\n";

    fn told(
        policy: ForwardedPolicy,
        trusted: &[&str],
        fields: &'static [&'static str],
    ) -> (Vec<String>, usize) {
        let trusted = trusted.iter().map(|net| net.parse().unwrap()).collect();
        let setting = ForwardedSetting { policy, fields: fields.to_vec(), trusted };
        let from = From { ip: Some([10, 0, 0, 7].into()), local_port: 8000 };
        let head = head::parse(TEXT).unwrap();
        let forwarded = Forwarded::new(&setting, &head, b"example", from, "10.0.0.7");
        assert_eq!(
            forwarded.scheme(),
            if forwarded.left_out().is_empty() { "https" } else { "http" }
        );
        let shown = forwarded
            .fields()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)));
        (shown.collect(), forwarded.left_out().len())
    }

    #[test]
    fn a_client_says_nothing_of_itself() {
        let (shown, left_out) = told(ForwardedPolicy::Set, &[], &["x-forwarded-for"]);
        assert_eq!((shown, left_out), (vec!["x-forwarded-for: 10.0.0.7".into()], 5));
        let (shown, _) = told(ForwardedPolicy::Set, &["10.0.0.6/32"], &FAMILY);
        assert_eq!(
            shown,
            [
                "x-forwarded-for: 10.0.0.7",
                "x-forwarded-proto: http",
                "x-forwarded-host: example",
                "x-forwarded-port: 8000",
                "forwarded: for=10.0.0.7;proto=http;host=\"example\"",
            ]
        );
    }

    #[test]
    fn a_trusted_proxy_does() {
        let (shown, left_out) = told(ForwardedPolicy::Set, &["10.0.0.0/24"], &FAMILY);
        assert_eq!(
            shown,
            [
                "x-forwarded-for: 6.6.6.6, 7.7.7.7, 10.0.0.7",
                "x-forwarded-proto: https",
                "x-forwarded-host: example",
                "x-forwarded-port: 8000",
                "forwarded: for=x, for=10.0.0.7;proto=http;host=\"example\"",
            ]
        );
        assert_eq!(left_out, 0);
        let (shown, left_out) = told(ForwardedPolicy::Append, &[], &["x-forwarded-for"]);
        assert_eq!(
            (shown, left_out),
            (vec!["x-forwarded-for: 6.6.6.6, 7.7.7.7, 10.0.0.7".into()], 5)
        );
    }

    #[test]
    fn the_scheme_is_a_trusted_proxys_word() {
        for (said, scheme) in [
            ("X-Forwarded-Proto: HTTPS", "https"),
            ("X-Forwarded-Proto: https\r\nX-Forwarded-Proto: https", "https"),
            ("X-Forwarded-Proto: https\r\nX-Forwarded-Proto: http", "http"),
            ("X-Forwarded-Proto: https, http", "http"),
            ("X-Forwarded-Proto: http", "http"),
            ("X-Forwarded-Proto: javascript", "http"),
            ("X-Forwarded-Ssl: on", "http"),
        ] {
            let text = format!("GET / HTTP/1.0\r\n{said}\r\n\r\n");
            let head = head::parse(text.as_bytes()).unwrap();
            let trusted = vec!["127.0.0.1".parse().unwrap()];
            let setting =
                ForwardedSetting { policy: ForwardedPolicy::Set, fields: Vec::new(), trusted };
            let from = From { ip: Some([127, 0, 0, 1].into()), local_port: 80 };
            assert_eq!(Forwarded::new(&setting, &head, b"x", from, "x").scheme(), scheme, "{said}");
        }
    }

    #[test]
    fn networks() {
        let within =
            |net: &str, ip: &str| net.parse::<Cidr>().unwrap().contains(Some(ip.parse().unwrap()));
        assert!(within("10.0.0.0/8", "10.255.0.1") && !within("10.0.0.0/8", "11.0.0.1"));
        assert!(within("0.0.0.0/0", "1.2.3.4") && !within("0.0.0.0/0", "::1"));
        assert!(within("::1", "::1") && !within("::1", "::2") && within("::/0", "::2"));
        assert!(!"127.0.0.1".parse::<Cidr>().unwrap().contains(None));
        for text in ["", "x", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8/8"] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }
}
