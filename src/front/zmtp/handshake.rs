//! The beginning of a connection: both greetings, both READY commands.

use super::Command;
use super::Frame;
use super::ZmtpError;
use super::command::property;
use super::command::put_ready;

/// Bytes of a greeting.
pub const GREETING_LEN: usize = 64;

/// Most bytes of a READY: socket type, identity (255 at most), and what others may add.
const READY_MAX: u64 = 8192;

/// What we are on an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// We send requests; PULL sockets connect.
    Push,
    /// We receive replies; PUB and XPUB sockets connect.
    Sub,
}

impl Role {
    const fn socket_type(self) -> &'static str {
        match self {
            Role::Push => "PUSH",
            Role::Sub => "SUB",
        }
    }

    fn accepts(self, socket_type: &[u8]) -> bool {
        match self {
            Role::Push => socket_type == b"PULL",
            Role::Sub => matches!(socket_type, b"PUB" | b"XPUB"),
        }
    }
}

/// What a peer has said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its version is 3.`minor`.
    pub minor: u8,
    /// Its identity, mostly empty.
    pub identity: Vec<u8>,
}

/// Our greeting: version 3.1, mechanism NULL. It can be sent before anything has come.
pub fn greeting() -> [u8; GREETING_LEN] {
    let mut out = [0; GREETING_LEN];
    // The padding is what libzmq sends, so that peers of the first versions see a frame and not rubbish.
    (out[0], out[8], out[9]) = (0xFF, 1, 0x7F);
    (out[10], out[11]) = (3, 1);
    out[12..16].copy_from_slice(b"NULL");
    out
}

/// A handshake under way.
#[derive(Debug)]
pub struct Handshake {
    role: Role,
    minor: Option<u8>,
}

impl Handshake {
    /// One that has not received anything yet. What it sends begins with [`greeting`].
    pub fn new(role: Role) -> Handshake {
        Handshake { role, minor: None }
    }

    /// Takes what it can of `input`, and appends to `out` what must be sent. Gives the number of bytes taken, and the
    /// peer once it is known; the rest of the input is then its frames.
    ///
    /// # Errors
    /// When the peer is none that this endpoint serves.
    pub fn advance(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Remote>), ZmtpError> {
        let mut taken = 0;
        let minor = match self.minor {
            Some(minor) => minor,
            None => match minor_of(input)? {
                None => return Ok((0, None)),
                Some(minor) => {
                    self.minor = Some(minor);
                    taken = GREETING_LEN;
                    put_ready(out, self.role.socket_type());
                    minor
                }
            },
        };
        let rest = input.get(taken..).unwrap_or_default();
        let Some((frame, length)) = Frame::split(rest, READY_MAX)? else {
            return Ok((taken, None));
        };
        if !frame.command {
            return Err(ZmtpError::NotReady);
        }
        let properties = match Command::parse(frame.body)? {
            Command::Ready(properties) => properties,
            Command::Error(_) => return Err(ZmtpError::Refused),
            _ => return Err(ZmtpError::NotReady),
        };
        let socket_type = property(properties, "Socket-Type")?.unwrap_or_default();
        if !self.role.accepts(socket_type) {
            return Err(ZmtpError::SocketType);
        }
        let identity = property(properties, "Identity")?.unwrap_or_default().to_vec();
        Ok((taken + length, Some(Remote { minor, identity })))
    }
}

/// The minor version in a peer's greeting; nothing while it may still become a good one.
fn minor_of(input: &[u8]) -> Result<Option<u8>, ZmtpError> {
    let at = |index: usize| input.get(index).copied();
    if at(0).is_some_and(|byte| byte != 0xFF) || at(9).is_some_and(|byte| byte & 1 == 0) {
        return Err(ZmtpError::Signature);
    }
    if at(10).is_some_and(|major| major < 3) {
        return Err(ZmtpError::Version);
    }
    let Some(whole) = input.first_chunk::<GREETING_LEN>() else { return Ok(None) };
    let mut null = [0; 20];
    null[..4].copy_from_slice(b"NULL");
    if whole[12..32] == null { Ok(Some(whole[11])) } else { Err(ZmtpError::Mechanism) }
}
