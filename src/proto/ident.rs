//! The two names in every envelope: who sent it, and which client connection it is about.
//!
//! Neither is ever handled as a bare string or number outside this module. They say nothing about links: connection
//! ids of two front ends collide.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::hash::Hasher;
use std::sync::Arc;

use crate::proto::error::Fault;
use crate::proto::error::ParseError;
use crate::proto::error::Part;

/// Most bytes of a sender uuid (Mongrel2 refuses a longer `send_ident`).
pub const MAX_SENDER: usize = 255;

/// The sender of a request: the `send_ident` of the front end's handler, verbatim. 1 to 255 bytes without a blank.
///
/// Cloning is cheap. As a map's key it can be looked up by its bytes.
#[derive(Clone)]
pub struct SenderUuid {
    bytes: Arc<[u8]>,
    reply_safe: bool,
}

impl SenderUuid {
    /// The bytes as they stood in the message.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether Mongrel2 would parse a reply with this uuid: it takes `A-Z a-z 0-9 -` only there (protocol section
    /// 4.1), though it sends any text in requests.
    pub fn is_reply_safe(&self) -> bool {
        self.reply_safe
    }
}

impl TryFrom<&[u8]> for SenderUuid {
    type Error = ParseError;

    /// Fails on an empty or overlong text, and on one with a blank.
    fn try_from(bytes: &[u8]) -> Result<SenderUuid, ParseError> {
        if bytes.is_empty() || bytes.len() > MAX_SENDER {
            return Err(ParseError::new(Fault::Size, Part::Sender, 0));
        }
        if let Some(at) = memchr::memchr(b' ', bytes) {
            return Err(ParseError::new(Fault::Syntax, Part::Sender, at));
        }
        let reply_safe = bytes.iter().all(|&byte| is_reply_byte(byte));
        Ok(SenderUuid { bytes: Arc::from(bytes), reply_safe })
    }
}

/// Whether `byte` may stand in the uuid of a reply.
pub(super) fn is_reply_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

impl PartialEq for SenderUuid {
    fn eq(&self, other: &SenderUuid) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for SenderUuid {}

// By the bytes alone, as `Borrow` demands.
impl Hash for SenderUuid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

impl Borrow<[u8]> for SenderUuid {
    fn borrow(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for SenderUuid {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Escaped, so that it can stand in a log line.
impl fmt::Display for SenderUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes.escape_ascii())
    }
}

impl fmt::Debug for SenderUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SenderUuid({self})")
    }
}

/// A client connection of one front end. It names the connection, not a request; a restarted front end counts from 1
/// again (protocol section 1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u32);

impl ConnId {
    /// Reads the id of a request.
    ///
    /// Ids of 2^31 and more come as a negative number or as one extended to 64 bits (protocol section 1.2); both
    /// give the unsigned 32-bit value, the only form that a reply may name.
    pub fn parse(text: &[u8]) -> Result<ConnId, ParseError> {
        let error = || ParseError::new(Fault::Number, Part::Connection, 0);
        let (negative, digits) = match text {
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        let number = decimal(digits).ok_or_else(error)?;
        let id = if negative { from_negative(number) } else { from_positive(number) };
        id.map(ConnId).ok_or_else(error)
    }
}

/// The 32 bits of a signed 32-bit number printed as `-magnitude`.
fn from_negative(magnitude: u64) -> Option<u32> {
    let magnitude = u32::try_from(magnitude).ok()?;
    (1..=1 << 31).contains(&magnitude).then(|| magnitude.wrapping_neg())
}

/// The id itself, or the low half of a negative one extended to 64 bits and printed without a sign.
fn from_positive(number: u64) -> Option<u32> {
    let extended = || u32::try_from(number ^ 0xFFFF_FFFF_0000_0000).ok();
    let negative = || extended().filter(|id| *id >= 1 << 31);
    u32::try_from(number).ok().or_else(negative)
}

/// Reads a decimal number of at least one digit that fits 64 bits; leading zeros do no harm.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| digit.wrapping_sub(b'0'))?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
