//! Binds what is listened on, for clients and for handlers.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use tokio::net::TcpListener;
use tokio::net::TcpSocket;
use tokio::net::UnixListener;
use tokio::net::UnixSocket;

use super::stream::Listener;
use crate::config::Bind;
use crate::system::SocketFile;

/// Connections that may wait to be accepted; the kernel has its own limit.
const BACKLOG: u32 = 4096;

/// Something that could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {at}: {error}")]
pub(super) struct BindError {
    at: String,
    error: io::Error,
}

/// An address that is ours; nobody can connect to it yet.
#[derive(Debug)]
pub(super) struct Bound {
    at: Bind,
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpSocket),
    Unix(UnixSocket),
    /// They are bound already, and mostly listen.
    Systemd,
}

/// Binds an address. What is in the way of a Unix socket is removed if it is a socket that nobody listens on.
pub(super) fn bind(at: &Bind) -> Result<Bound, BindError> {
    let socket = match at {
        Bind::Tcp(address) => tcp(*address).map(Socket::Tcp),
        Bind::Unix(path) => unix(path).map(Socket::Unix),
        Bind::Systemd => Ok(Socket::Systemd),
    };
    match socket {
        Ok(socket) => Ok(Bound { at: at.clone(), socket }),
        Err(error) => Err(BindError { at: at.to_string(), error }),
    }
}

impl Bound {
    /// From now on one can connect.
    pub(super) fn listen(self) -> Result<Vec<Listener>, BindError> {
        let listeners = match self.socket {
            Socket::Tcp(socket) => socket.listen(BACKLOG).map(|tcp| vec![Listener::Tcp(tcp)]),
            Socket::Unix(socket) => socket.listen(BACKLOG).map(|unix| vec![Listener::Unix(unix)]),
            Socket::Systemd => systemd(),
        };
        listeners.map_err(|error| BindError { at: self.at.to_string(), error })
    }

    /// What it was asked to be.
    pub(super) fn at(&self) -> &Bind {
        &self.at
    }
}

fn tcp(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn unix(path: &Path) -> io::Result<UnixSocket> {
    SocketFile::clear_the_way(path)?;
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    Ok(socket)
}

/// The sockets that were handed over (`LISTEN_FDS`).
fn systemd() -> io::Result<Vec<Listener>> {
    let mut handed = listenfd::ListenFd::from_env();
    let mut listeners = Vec::new();
    for at in 0..handed.len() {
        // It is one or the other; asking for the wrong kind leaves it where it is.
        if let Ok(Some(listener)) = handed.take_tcp_listener(at) {
            listener.set_nonblocking(true)?;
            listeners.push(Listener::Tcp(TcpListener::from_std(listener)?));
        } else if let Ok(Some(listener)) = handed.take_unix_listener(at) {
            listener.set_nonblocking(true)?;
            listeners.push(Listener::Unix(UnixListener::from_std(listener)?));
        }
    }
    if listeners.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "systemd has handed over no socket"));
    }
    Ok(listeners)
}

/// The files of Unix sockets that go with the process.
#[derive(Debug, Default)]
pub(super) struct SocketFiles(Vec<SocketFile>);

impl SocketFiles {
    pub(super) fn add(&mut self, at: &Bind) {
        if let Bind::Unix(path) = at {
            self.0.push(SocketFile::made(path));
        }
    }

    pub(super) fn paths(&self) -> Vec<&Path> {
        self.0.iter().map(SocketFile::path).collect()
    }
}
