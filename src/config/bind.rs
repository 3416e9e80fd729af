//! Addresses of the front end: where it listens for clients and for handlers, and whom it trusts.
//!
//! It looks up no name and opens nothing.

use std::fmt;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use super::Surroundings;
use super::fault::Fault;
use super::fault::Problem;
use super::reader::Reader;
use super::source::Origin;
use super::table::Key;
use super::table::Setting;

/// An address to listen at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Bind {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket; absolute.
    Unix(PathBuf),
    /// All sockets that systemd hands over.
    Systemd,
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(at) => at.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Systemd => f.write_str("systemd"),
        }
    }
}

/// Which paths go to which handlers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSpec {
    /// What a path must begin with.
    pub path: String,
    /// Where requests are taken from.
    pub send: Bind,
    /// Where replies are published to.
    pub recv: Bind,
}

/// A network: an address, and how many of its bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// The address.
    pub address: IpAddr,
    /// Bits, from the left.
    pub prefix: u8,
}

/// Not a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no network")]
pub struct NoCidr;

impl FromStr for Cidr {
    type Err = NoCidr;

    fn from_str(text: &str) -> Result<Self, NoCidr> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().map_err(|_| NoCidr)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => most,
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().map_err(|_| NoCidr)?
            }
            Some(_) => return Err(NoCidr),
        };
        if prefix <= most { Ok(Self { address, prefix }) } else { Err(NoCidr) }
    }
}

impl<W: Surroundings> Reader<'_, W> {
    /// An address for clients.
    pub(super) fn bind(&self, text: &str) -> Result<Bind, Problem> {
        match text.strip_prefix("unix:") {
            Some(path) => self.path(path).map(Bind::Unix),
            None if text == "systemd" => Ok(Bind::Systemd),
            None => tcp(text).map(Bind::Tcp).ok_or_else(|| Problem::Bind(text.to_owned())),
        }
    }

    /// `PATH=SEND,RECV`.
    pub(super) fn route(&self, text: &str) -> Result<RouteSpec, Problem> {
        let wrong = || Problem::Route(text.to_owned());
        let (path, endpoints) = text.split_once('=').ok_or_else(wrong)?;
        let (send, recv) = endpoints.split_once(',').ok_or_else(wrong)?;
        let plain = path.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'?' | b'#' | b'"'));
        if !plain || !(path.starts_with('/') || path == "*") {
            return Err(wrong());
        }
        let endpoint = |endpoint: &str| match endpoint.split_once("://") {
            Some(("tcp", at)) => tcp(at).map(Bind::Tcp).ok_or_else(wrong),
            Some(("ipc", path)) => self.path(path).map(Bind::Unix),
            _ => Err(wrong()),
        };
        Ok(RouteSpec { path: path.to_owned(), send: endpoint(send)?, recv: endpoint(recv)? })
    }

    /// Routes whose paths and endpoints differ: each endpoint is one of one kind for one route.
    pub(super) fn different(&mut self, routes: Vec<RouteSpec>) -> Option<Vec<RouteSpec>> {
        let mut seen = Vec::new();
        for route in &routes {
            for text in [&route.path, &route.send.to_string(), &route.recv.to_string()] {
                // A port of the kernel's choice is another one each time.
                if seen.contains(text) && !text.ends_with(":0") {
                    self.need(Key::Route, Problem::RouteTwice(text.clone()));
                    return None;
                }
                seen.push(text.clone());
            }
        }
        Some(routes)
    }

    /// Notes a problem of a setting as a whole.
    pub(super) fn need(&mut self, key: Key, problem: Problem) {
        let name = Setting::of(key).name;
        let given = self.sources.all(key).last().map(|given| given.origin.clone());
        let origin = given.unwrap_or(Origin::CommandLine(name));
        self.faults.push(Fault::Value { origin, problem });
    }
}

/// `IP:PORT`, `*:PORT` or `localhost:PORT`.
fn tcp(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.rsplit_once(':')?;
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let port: u16 = if digits { port.parse().ok()? } else { return None };
    let ip: IpAddr = match host {
        "*" => [0, 0, 0, 0].into(),
        "localhost" => [127, 0, 0, 1].into(),
        _ => match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => IpAddr::V6(address.parse().ok()?),
            None => IpAddr::V4(host.parse().ok()?),
        },
    };
    Some(SocketAddr::new(ip, port))
}
