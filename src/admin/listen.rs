//! Where a collector of metrics connects: a TCP address that anybody may reach, or a Unix socket for the instance's own user
//! and root, which goes with the instance.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;

use super::place::Place;
use crate::config::Bind;
use crate::telemetry;

/// A listener that does not wait.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(Place),
}

impl Listener {
    pub(super) fn open(at: &Bind) -> io::Result<Listener> {
        match at {
            Bind::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                telemetry::info!("metrics at http://{}/metrics", listener.local_addr()?);
                Ok(Listener::Tcp(listener))
            }
            Bind::Unix(path) => {
                let place = Place::open(path).map_err(io::Error::other)?;
                telemetry::info!("metrics at unix:{}", path.display());
                Ok(Listener::Unix(place))
            }
            Bind::Systemd => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(place) => place.listener.as_fd(),
        }
    }

    /// The next connection, which does not wait either, and who it is.
    pub(super) fn accept(&self) -> io::Result<(OwnedFd, String)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((stream.into(), peer.to_string()))
            }
            Listener::Unix(place) => {
                let (stream, _) = place.listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((stream.into(), "a collector of metrics".to_owned()))
            }
        }
    }
}
