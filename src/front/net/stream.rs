//! A stream socket of either family, read and written without waiting, and a listener of either.
//!
//! It is the seam for TLS: whatever can be asked when it is ready to be read, and read, can stand here.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::RawFd;
use std::task::Context;
use std::task::Poll;

use nix::sys::socket::MsgFlags;
use nix::sys::socket::Shutdown;
use nix::sys::socket::recv;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt;
use tokio::io::Interest;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::net::UnixListener;
use tokio::net::UnixStream;

use crate::config::Bind;
use crate::front::fellows::Source;

/// Seconds of silence before a handler's host is asked whether it is there, seconds between questions, and how many.
const KEEPALIVE_IDLE: u32 = 30;
const KEEPALIVE_INTERVAL: u32 = 10;
const KEEPALIVE_COUNT: u32 = 3;

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Where a connection comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From {
    /// None with Unix sockets.
    pub(crate) ip: Option<IpAddr>,
    /// The port it came to; 0 with Unix sockets.
    pub(crate) local_port: u16,
}

impl Stream {
    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => stream.poll_read_ready(cx),
            Stream::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => stream.poll_write_ready(cx),
            Stream::Unix(stream) => stream.poll_write_ready(cx),
        }
    }

    /// Reads what is there; 0 is the end. A read that does not fill the buffer has emptied the socket: the next one fails
    /// without asking the kernel, until it says that there is more.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut got = 0;
        let mut read = |fd: RawFd| {
            got = recv(fd, buffer, MsgFlags::empty())?;
            if got == 0 || got == buffer.len() {
                Ok(())
            } else {
                Err(io::ErrorKind::WouldBlock.into())
            }
        };
        let tried = match self {
            Stream::Tcp(stream) => stream.try_io(Interest::READABLE, || read(stream.as_raw_fd())),
            Stream::Unix(stream) => stream.try_io(Interest::READABLE, || read(stream.as_raw_fd())),
        };
        match tried {
            Err(error) if got == 0 => Err(error),
            _ => Ok(got),
        }
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.try_write(bytes),
            Stream::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Ends our half.
    pub(crate) fn shutdown(&self) {
        let fd = match self {
            Stream::Tcp(stream) => stream.as_fd().as_raw_fd(),
            Stream::Unix(stream) => stream.as_fd().as_raw_fd(),
        };
        // One that is not connected any more has ended both.
        let _ = nix::sys::socket::shutdown(fd, Shutdown::Write);
    }

    pub(crate) fn from(&self) -> From {
        match self {
            Stream::Tcp(stream) => From {
                ip: stream.peer_addr().ok().map(|at| at.ip().to_canonical()),
                local_port: stream.local_addr().map_or(0, |at| at.port()),
            },
            Stream::Unix(_) => From { ip: None, local_port: 0 },
        }
    }

    pub(crate) fn source(&self) -> Source {
        match self {
            Stream::Tcp(_) => self.from().ip.map_or(Source::Process(0), Source::Host),
            Stream::Unix(stream) => {
                let pid = stream.peer_cred().ok().and_then(|cred| cred.pid());
                Source::Process(pid.unwrap_or(0))
            }
        }
    }
}

/// A socket that is listened on.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// The next connection of a handler: one whose host has gone without a word is noticed in the end.
    pub(crate) async fn accept_handler(&self) -> io::Result<Stream> {
        let stream = self.accept().await?;
        if let Stream::Tcp(stream) = &stream {
            // Without them all works, but such a host stays a peer until something is written to it.
            let _ = setsockopt(stream, sockopt::KeepAlive, &true);
            let _ = setsockopt(stream, sockopt::TcpKeepIdle, &KEEPALIVE_IDLE);
            let _ = setsockopt(stream, sockopt::TcpKeepInterval, &KEEPALIVE_INTERVAL);
            let _ = setsockopt(stream, sockopt::TcpKeepCount, &KEEPALIVE_COUNT);
        }
        Ok(stream)
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Small writes must not wait for each other's acknowledgements; without it all works, but slower.
                let _ = stream.set_nodelay(true);
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(listener) => {
                listener.accept().await.map(|(stream, _)| Stream::Unix(stream))
            }
        }
    }

    /// Its address as `--bind` has it, with the port that the kernel has chosen. None if the kernel does not tell, or if it
    /// is no path.
    pub(crate) fn address(&self) -> Option<Bind> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok().map(Bind::Tcp),
            Listener::Unix(listener) => {
                let address = listener.local_addr().ok()?;
                Some(Bind::Unix(address.as_pathname()?.to_owned()))
            }
        }
    }
}
