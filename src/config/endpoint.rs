//! The two addresses of a link, checked as far as text can be checked.
//!
//! It accepts what a handler can connect to and a Mongrel2 can bind: `tcp://HOST:PORT` and `ipc://PATH`. It refuses
//! wildcards, for the front end binds and we connect, and the transports that Mongrel2 cannot be reached by. It looks up
//! no name and opens nothing.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// One front end: where its requests come from, and where its responses go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinkSpec {
    /// Mongrel2's `send_spec`: we PULL requests from it.
    pub recv: Endpoint,
    /// Mongrel2's `recv_spec`: we publish responses to it.
    pub send: Endpoint,
}

/// An address that can be connected to: `tcp://HOST:PORT` or `ipc://PATH`.
///
/// ```
/// use lurcher::config::Endpoint;
/// assert_eq!("tcp://127.0.0.1:5000".parse::<Endpoint>().unwrap().as_str(), "tcp://127.0.0.1:5000");
/// assert!("tcp://*:5000".parse::<Endpoint>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint(String);

impl Endpoint {
    /// The address as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is no [`Endpoint`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Neither `tcp://` nor `ipc://`.
    #[error("an address is needed: tcp://HOST:PORT or ipc://PATH")]
    NoScheme,
    /// A transport that a front end does not offer.
    #[error("{0}:// cannot reach a front end: tcp://HOST:PORT or ipc://PATH can")]
    Transport(String),
    /// `*`: a bind address.
    #[error(
        "`*` is for the side that binds; lurcher connects: name the front end's host, as 127.0.0.1"
    )]
    Wildcard,
    /// A host that is empty, or no name and no address.
    #[error("no host name or address before the port (IPv6 addresses stand in brackets)")]
    Host,
    /// A port that is absent, or not from 1 to 65535.
    #[error("a port from 1 to 65535 must follow the host")]
    Port,
    /// An `ipc` path that is empty, or has control characters.
    #[error("no usable path after ipc://")]
    Path,
    /// An `ipc` path that the kernel cannot take.
    #[error("the path after ipc:// has {0} bytes; a socket's can have {IPC_PATH_MAX}")]
    PathTooLong(usize),
}

/// `sun_path` has 108 bytes, and libzmq wants the last one for a NUL.
const IPC_PATH_MAX: usize = 107;

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = text.split_once("://").ok_or(EndpointError::NoScheme)?;
        match scheme {
            "tcp" => check_tcp(rest)?,
            "ipc" => check_ipc(rest)?,
            "inproc" | "pgm" | "epgm" | "vmci" | "udp" | "ws" | "wss" | "tipc" | "norm" => {
                return Err(EndpointError::Transport(scheme.to_owned()));
            }
            _ => return Err(EndpointError::NoScheme),
        }
        Ok(Self(text.to_owned()))
    }
}

fn check_tcp(rest: &str) -> Result<(), EndpointError> {
    let (host, port) = rest.rsplit_once(':').ok_or(EndpointError::Port)?;
    if host == "*" {
        return Err(EndpointError::Wildcard);
    }
    let host_is_good = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => is_ipv6(address),
        // libzmq would take `source;target` here, which no front end's configuration has.
        None => {
            !host.is_empty()
                && host
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
        }
    };
    if !host_is_good {
        return Err(EndpointError::Host);
    }
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(1..) if digits => Ok(()),
        _ => Err(EndpointError::Port),
    }
}

/// An address, with the zone that link-local ones need: `fe80::1%eth0`.
fn is_ipv6(text: &str) -> bool {
    let (address, zone) =
        text.split_once('%').map_or((text, "-"), |(address, zone)| (address, zone));
    let zone_is_good =
        !zone.is_empty() && zone.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    address.parse::<Ipv6Addr>().is_ok() && zone_is_good
}

fn check_ipc(path: &str) -> Result<(), EndpointError> {
    match path {
        "*" => Err(EndpointError::Wildcard),
        _ if path.is_empty() || path.chars().any(char::is_control) => Err(EndpointError::Path),
        _ if path.len() > IPC_PATH_MAX => Err(EndpointError::PathTooLong(path.len())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_connected_to_is_taken_as_written() {
        for text in [
            "tcp://127.0.0.1:5000",
            "tcp://localhost:1",
            "tcp://front-1.example_net.org:65535",
            "tcp://0.0.0.0:5000",
            "tcp://[::1]:5000",
            "tcp://[fe80::1%eth0]:5000",
            "ipc:///run/mongrel2/send",
            "ipc://run/send",
            "ipc://@abstract",
            "ipc:///with space, and comma",
        ] {
            assert_eq!(text.parse::<Endpoint>().expect(text).as_str(), text);
        }
    }

    #[test]
    fn what_cannot_is_refused_with_its_reason() {
        use EndpointError as E;
        let long = format!("ipc:///{}", "x".repeat(107));
        for (text, error) in [
            ("", E::NoScheme),
            ("5000", E::NoScheme),
            ("127.0.0.1:5000", E::NoScheme),
            ("tcp:127.0.0.1:5000", E::NoScheme),
            ("http://127.0.0.1:5000", E::NoScheme),
            ("TCP://127.0.0.1:5000", E::NoScheme),
            ("inproc://x", E::Transport("inproc".into())),
            ("pgm://eth0;239.192.1.1:5555", E::Transport("pgm".into())),
            ("epgm://eth0;239.192.1.1:5555", E::Transport("epgm".into())),
            ("tcp://*:5000", E::Wildcard),
            ("ipc://*", E::Wildcard),
            ("tcp://:5000", E::Host),
            ("tcp://::1:5000", E::Host),
            ("tcp://[::1:5000", E::Host),
            ("tcp://[x]:5000", E::Host),
            ("tcp://[fe80::1%]:5000", E::Host),
            ("tcp://a b:5000", E::Host),
            ("tcp://1.2.3.4:0;5.6.7.8:5000", E::Host),
            ("tcp://a/b:5000", E::Host),
            ("tcp://127.0.0.1", E::Port),
            ("tcp://127.0.0.1:", E::Port),
            ("tcp://127.0.0.1:0", E::Port),
            ("tcp://127.0.0.1:65536", E::Port),
            ("tcp://127.0.0.1:+80", E::Port),
            ("tcp://127.0.0.1:80x", E::Port),
            ("tcp://127.0.0.1:5000/", E::Port),
            ("ipc://", E::Path),
            ("ipc://a\nb", E::Path),
            (&long, E::PathTooLong(108)),
        ] {
            assert_eq!(text.parse::<Endpoint>(), Err(error), "{text}");
        }
    }
}
