//! ZMTP 3.0 and 3.1 with the NULL mechanism, the side that binds: bytes in, values out.
//!
//! The rules are those of the ZMTP RFCs ([23](https://rfc.zeromq.org/spec/23/) and [37](https://rfc.zeromq.org/spec/37/)):
//! a greeting of 64 bytes, a READY command, then frames. It opens nothing and waits for nothing; no bytes can make it
//! panic, or allocate more than they are long. It refuses older versions, other mechanisms, and frames above a limit.

mod command;
mod frame;
mod handshake;

pub use command::Command;
pub use command::put_cancel;
pub use command::put_ping;
pub use command::put_pong;
pub use command::put_subscribe;
pub use frame::Frame;
pub use frame::put_message;
pub use handshake::GREETING_LEN;
pub use handshake::Handshake;
pub use handshake::Remote;
pub use handshake::Role;
pub use handshake::greeting;

/// What is wrong with a peer's bytes. The connection ends with each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ZmtpError {
    /// The first bytes are no signature.
    #[error("it does not speak ZMTP")]
    Signature,
    /// Older than 3.0.
    #[error("it speaks a version of ZMTP before 3.0")]
    Version,
    /// PLAIN, CURVE or another.
    #[error("it wants another security mechanism than NULL")]
    Mechanism,
    /// Neither a command nor a message is framed like that.
    #[error("its frame has reserved flags")]
    Flags,
    /// More bytes than are accepted.
    #[error("its frame has {0} bytes, more than are accepted")]
    TooLong(u64),
    /// No name, or properties that do not add up.
    #[error("its command cannot be read")]
    Command,
    /// Something else came where READY had to.
    #[error("it did not say READY")]
    NotReady,
    /// A socket of a kind that does not belong here.
    #[error("its socket is of another type than this endpoint serves")]
    SocketType,
    /// The peer refused us.
    #[error("it refused the connection")]
    Refused,
}

#[cfg(test)]
mod tests;
