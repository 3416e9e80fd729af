//! What libzmq tells of a PULL's connection: made, lost, refused.
//!
//! A link must know the descriptor of its connection to leave a front end without loss, and it must reconnect by hand
//! (`docs/decisions/0003-leaving.md`); both come from the socket monitor. Nothing is decided here.

use std::os::fd::RawFd;

use super::TransportError;

/// News of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// A connection stands, on this descriptor (owned by libzmq).
    Connected(RawFd),
    /// The connection on this descriptor is gone.
    Disconnected(RawFd),
    /// An attempt failed; libzmq would try again in an hour.
    Refused,
}

/// The reading end of a socket monitor.
pub(super) struct Monitor {
    socket: zmq::Socket,
}

impl Monitor {
    /// Starts to watch `watched`. `name` must be unique in the context.
    pub(super) fn start(
        context: &zmq::Context,
        watched: &zmq::Socket,
        name: &str,
    ) -> Result<Monitor, TransportError> {
        let wanted = [
            zmq::SocketEvent::CONNECTED,
            zmq::SocketEvent::DISCONNECTED,
            zmq::SocketEvent::CONNECT_RETRIED,
            zmq::SocketEvent::HANDSHAKE_FAILED_NO_DETAIL,
            zmq::SocketEvent::HANDSHAKE_FAILED_PROTOCOL,
            zmq::SocketEvent::HANDSHAKE_FAILED_AUTH,
        ];
        let mask = wanted.iter().fold(0, |mask, event| mask | i32::from(event.to_raw()));
        let endpoint = format!("inproc://{name}");
        let fault = |doing| move |why| TransportError::Socket { doing, why };
        watched.monitor(&endpoint, mask).map_err(fault("watch a socket"))?;
        let socket = context.socket(zmq::PAIR).map_err(fault("make a monitor"))?;
        socket.set_linger(0).map_err(fault("set up a monitor"))?;
        socket.connect(&endpoint).map_err(fault("connect a monitor"))?;
        Ok(Monitor { socket })
    }

    /// The next piece of news, if there is one.
    pub(super) fn next(&self) -> Option<News> {
        loop {
            // Two frames: event (u16) and value (u32) in native order, then the endpoint (zmq_socket_monitor(3)).
            let frames = self.socket.recv_multipart(zmq::DONTWAIT).ok()?;
            let Some(head) = frames.first().and_then(|f| f.first_chunk::<6>()) else { continue };
            let event = u16::from_ne_bytes([head[0], head[1]]);
            let value = RawFd::from_ne_bytes([head[2], head[3], head[4], head[5]]);
            return Some(match zmq::SocketEvent::from_raw(event) {
                zmq::SocketEvent::CONNECTED => News::Connected(value),
                zmq::SocketEvent::DISCONNECTED => News::Disconnected(value),
                _ => News::Refused,
            });
        }
    }

    pub(super) fn socket(&self) -> &zmq::Socket {
        &self.socket
    }
}
