//! The sockets that HTTP clients connect to: bound before anything else is started, opened to clients when the application
//! is loaded, and kept for as long as `serve` runs.
//!
//! A front end process gets copies of them. So an address that somebody listens at is known at once (one that another `serve`
//! has bound and not opened yet, only when the second of them opens it), and a front end that must be started again finds
//! the clients that have come meanwhile waiting in the kernel.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::sys::socket;
use nix::sys::socket::AddressFamily;
use nix::sys::socket::Backlog;
use nix::sys::socket::SockFlag;
use nix::sys::socket::SockType;
use nix::sys::socket::SockaddrIn;
use nix::sys::socket::SockaddrIn6;
use nix::sys::socket::SockaddrStorage;
use nix::sys::socket::UnixAddr;
use nix::sys::socket::sockopt;

use crate::config::Bind;
use crate::system::SocketFile;

/// Clients that may wait for the front end to accept them; the kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// A bound socket.
#[derive(Debug)]
pub(super) struct Listener {
    socket: OwnedFd,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Tcp(SocketAddr),
    /// Removed in the end.
    Unix(SocketFile),
    /// A service manager's, which listens already and stays when we have gone; as a URL.
    Handed(String),
}

impl Listener {
    /// Binds an address; `systemd` stands for all sockets that were handed over (`sd_listen_fds(3)`).
    pub(super) fn bind(address: &Bind) -> io::Result<Vec<Listener>> {
        Ok(match address {
            Bind::Unix(path) => vec![Listener::bind_unix(path)?],
            Bind::Tcp(address) => vec![Listener::bind_tcp(*address)?],
            Bind::Systemd => Listener::handed()?,
        })
    }

    fn handed() -> io::Result<Vec<Listener>> {
        let mut handed = listenfd::ListenFd::from_env();
        let mut listeners = Vec::new();
        for at in 0..handed.len() {
            // It is one or the other; asking for the wrong kind leaves it where it is.
            let (socket, place) = if let Ok(Some(listener)) = handed.take_tcp_listener(at) {
                let shown = format!("http://{}", listener.local_addr()?);
                (OwnedFd::from(listener), shown)
            } else if let Some(listener) = handed.take_unix_listener(at)? {
                let path = listener.local_addr()?;
                let path = path.as_pathname().map(|path| path.display().to_string());
                (OwnedFd::from(listener), format!("unix:{}", path.unwrap_or_default()))
            } else {
                continue;
            };
            listeners.push(Listener { socket, place: Place::Handed(place) });
        }
        if listeners.is_empty() {
            return Err(io::Error::other("no socket was handed over"));
        }
        Ok(listeners)
    }

    /// The file that it has made.
    pub(super) fn file(&self) -> Option<&Path> {
        match &self.place {
            Place::Unix(file) => Some(file.path()),
            Place::Tcp(_) | Place::Handed(_) => None,
        }
    }

    fn bind_tcp(address: SocketAddr) -> io::Result<Listener> {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let socket = new_socket(family)?;
        socket::setsockopt(&socket, sockopt::ReuseAddr, &true)?;
        if address.is_ipv6() {
            // Else [::]:80 would take 0.0.0.0:80 along, or not, as the system is set.
            socket::setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
        }
        socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
        let bound: SockaddrStorage = socket::getsockname(socket.as_raw_fd())?;
        let port = bound
            .as_sockaddr_in()
            .map(SockaddrIn::port)
            .or_else(|| bound.as_sockaddr_in6().map(SockaddrIn6::port));
        let mut address = address;
        address.set_port(port.unwrap_or(address.port()));
        Ok(Listener { socket, place: Place::Tcp(address) })
    }

    fn bind_unix(path: &Path) -> io::Result<Listener> {
        SocketFile::clear_the_way(path)?;
        let socket = new_socket(AddressFamily::Unix)?;
        socket::bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
        Ok(Listener { socket, place: Place::Unix(SocketFile::made(path)) })
    }

    /// From now on clients can connect; who accepts them may come later.
    ///
    /// # Errors
    /// When another process has opened the address meanwhile.
    pub(super) fn open(&self) -> io::Result<()> {
        match &self.place {
            Place::Handed(_) => return Ok(()),
            // What is bound and not open yet looks to others as if it had been left behind.
            Place::Unix(file) if !file.is_there() => return Err(io::ErrorKind::AddrInUse.into()),
            Place::Unix(_) | Place::Tcp(_) => {}
        }
        socket::listen(&self.socket, Backlog::new(BACKLOG)?)?;
        Ok(())
    }

    /// A copy for a front end.
    pub(super) fn copy(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }
}

/// As a URL, where there is one.
impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp(address) => write!(f, "http://{address}"),
            Place::Unix(file) => write!(f, "unix:{}", file.path().display()),
            Place::Handed(shown) => f.write_str(shown),
        }
    }
}

fn new_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(socket::socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    fn bind(text: &str) -> io::Result<Listener> {
        let mut bound = Listener::bind(&match text.strip_prefix("unix:") {
            Some(path) => Bind::Unix(path.into()),
            None => Bind::Tcp(text.parse().unwrap()),
        })?;
        Ok(bound.remove(0))
    }

    #[test]
    fn nobody_gets_in_before_it_is_open() {
        let bound = bind("127.0.0.1:0").unwrap();
        let Place::Tcp(address) = bound.place else { panic!("tcp") };
        assert_eq!(bound.to_string(), format!("http://127.0.0.1:{}", address.port()));
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        bound.open().unwrap();
        TcpStream::connect(address).unwrap();
        let taken = bind(&address.to_string()).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn of_two_that_have_bound_a_path_one_opens_it() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("unix:{}", directory.path().join("http").display());
        let (early, late) = (bind(&text).unwrap(), bind(&text).unwrap());
        assert_eq!(early.open().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        late.open().unwrap();
        drop(early);
        UnixStream::connect(directory.path().join("http")).unwrap();
    }

    #[test]
    fn a_socket_that_was_left_behind_is_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("http");
        let text = format!("unix:{}", path.display());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let bound = bind(&text).unwrap();
        bound.open().unwrap();
        UnixStream::connect(&path).unwrap();
        assert_eq!(bind(&text).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(bound);
        assert!(!path.exists());
        std::fs::write(&path, "not ours").unwrap();
        assert_eq!(bind(&text).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(path.exists());
    }
}
