//! Frames on the bridge: a 16-byte head and a payload, many per system call.
//!
//! Layout, all numbers little-endian: payload length `u32`, kind `u8`, flags `u8`, zero `u16`, ticket `u64`.
//! This file turns bytes into frames and back. It opens no socket and knows no meaning beyond the layout.
//!
//! From instance to worker: [`Kind::Setup`] once and first, then [`Kind::Request`], [`Kind::Gone`], [`Kind::Ack`], [`Kind::BodyPart`],
//! [`Kind::Recall`], [`Kind::Reopen`], [`Kind::Level`], and [`Kind::Drain`] once and last. From worker to instance: [`Kind::Ready`] or
//! [`Kind::LoadFailed`], then [`Kind::Data`], [`Kind::BodyWant`], [`Kind::End`], [`Kind::Recalled`], [`Kind::Leaving`]. At any time after the
//! setup: [`Kind::TimedOut`], [`Kind::AskStacks`] with [`Kind::Stacks`], [`Kind::Ping`] with [`Kind::Pong`].

use std::fmt;

/// Bytes of a frame's head.
pub const HEAD: usize = 16;

/// Most payload bytes of one [`Kind::Data`] frame: small enough that slots of one worker take turns on the bridge.
pub const MAX_DATA: usize = 64 * 1024;

/// Response bytes a worker may have sent for one ticket beyond what [`Kind::Ack`] frames have freed.
pub const WINDOW: u64 = 256 * 1024;

/// Most payload bytes the instance accepts in one frame of a worker ([`MAX_DATA`], or a traceback or access line).
pub const MAX_FROM_WORKER: usize = 256 * 1024;

/// Most payload bytes a worker accepts in one frame of the instance: one whole Mongrel2 message. Mongrel2 counts
/// bodies in a C `int`, so none is larger than this (protocol section 6.1).
pub const MAX_FROM_INSTANCE: usize = i32::MAX as usize;

/// Flag of a [`Kind::Data`] frame: more bytes of the same application block follow at once.
pub const FLAG_MORE: u8 = 1;

/// Flag of a [`Kind::BodyPart`] frame: the body ends with it.
pub const FLAG_LAST: u8 = 1;

/// Flag of a [`Kind::Pong`] frame: the interpreter has answered, not only the reader.
pub const FLAG_PYTHON: u8 = 1;

/// Names one handing of one exchange to one worker. Tickets of one worker rise in the order in which they are sent, so
/// that "begun up to" (see [`super::Board`]) is one number. Zero is no ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Ticket(pub u64);

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Instance to worker, first: the worker's settings as JSON.
    Setup = 1,
    /// Instance to worker: one whole Mongrel2 request message, untouched.
    Request = 2,
    /// Instance to worker: the client of this ticket is gone; its next write fails.
    Gone = 3,
    /// Instance to worker: `u64` more response bytes of this ticket may come.
    Ack = 4,
    /// Instance to worker: give this ticket back if no slot has begun it.
    Recall = 5,
    /// Instance to worker, last: no more requests come; finish what is there and end.
    Drain = 6,
    /// Instance to worker: more of a streamed body ([`FLAG_LAST`]: and no more).
    BodyPart = 25,
    /// Worker to instance: the application has taken `u64` more bytes of its streamed body, and wants more.
    BodyWant = 26,
    /// Instance to worker: the log file at this path (bytes) is to be opened anew.
    Reopen = 35,
    /// Instance to worker: records of this level (its word) and graver are written from now on.
    Level = 36,
    /// Worker to instance: the application is loaded, slots wait.
    Ready = 16,
    /// Worker to instance: the application did not load; the payload is the traceback (UTF-8). The worker then ends.
    LoadFailed = 17,
    /// Worker to instance: response bytes exactly as they must reach the client.
    Data = 18,
    /// Worker to instance: the exchange is over ([`EndInfo`], then the access line).
    End = 19,
    /// Worker to instance: the recalled ticket was not begun and never will be here.
    Recalled = 20,
    /// Worker to instance: the worker was told to end (SIGTERM) and asks for [`Kind::Drain`].
    Leaving = 21,
    /// Instance to worker: this ticket has been at work for `u64` nanoseconds, which is too long; its client has been
    /// answered. What it still writes goes nowhere.
    TimedOut = 40,
    /// Instance to worker: what are your slots doing? The ticket is the number of the question.
    AskStacks = 41,
    /// Instance to worker: are you there? The ticket is the number of the question.
    Ping = 42,
    /// Worker to instance: the answer to [`Kind::AskStacks`], as JSON.
    Stacks = 45,
    /// Worker to instance: an answer to [`Kind::Ping`], by the reader, and another one with [`FLAG_PYTHON`].
    Pong = 46,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Setup,
            2 => Kind::Request,
            3 => Kind::Gone,
            4 => Kind::Ack,
            5 => Kind::Recall,
            6 => Kind::Drain,
            25 => Kind::BodyPart,
            26 => Kind::BodyWant,
            35 => Kind::Reopen,
            36 => Kind::Level,
            16 => Kind::Ready,
            17 => Kind::LoadFailed,
            18 => Kind::Data,
            19 => Kind::End,
            20 => Kind::Recalled,
            21 => Kind::Leaving,
            40 => Kind::TimedOut,
            41 => Kind::AskStacks,
            42 => Kind::Ping,
            45 => Kind::Stacks,
            46 => Kind::Pong,
            _ => return None,
        })
    }
}

/// One frame, its payload still in the buffer it was read into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it is.
    pub kind: Kind,
    /// Flags of its kind ([`FLAG_MORE`]).
    pub flags: u8,
    /// The exchange it belongs to; zero for frames about the worker itself.
    pub ticket: Ticket,
    /// The payload.
    pub payload: &'a [u8],
}

impl Frame<'_> {
    /// The number that a [`Kind::Ack`] or [`Kind::TimedOut`] carries, if its payload is one.
    pub fn number(&self) -> Option<u64> {
        self.payload.try_into().ok().map(u64::from_le_bytes)
    }
}

/// A stream that is no bridge: one end has lost its mind, and the bridge must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The kind byte names no frame.
    #[error("frame of unknown kind {0}")]
    Kind(u8),
    /// The payload is longer than this end accepts.
    #[error("frame of {len} bytes where at most {limit} are allowed")]
    Length {
        /// The announced payload length.
        len: usize,
        /// This end's limit.
        limit: usize,
    },
    /// An end frame is shorter than its fixed part.
    #[error("end frame of {0} bytes")]
    End(usize),
}

/// Appends one frame to `out`.
///
/// # Panics
/// If the payload is longer than `u32::MAX`; every caller is bound by one of the limits above.
pub fn put(out: &mut Vec<u8>, kind: Kind, flags: u8, ticket: Ticket, payload: &[u8]) {
    let len = u32::try_from(payload.len()).expect("payload within the frame limits");
    out.reserve(HEAD + payload.len());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&[kind as u8, flags, 0, 0]);
    out.extend_from_slice(&ticket.0.to_le_bytes());
    out.extend_from_slice(payload);
}

/// How an exchange ended, as its worker saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// A whole response was written.
    Ok = 0,
    /// The application failed before its head was out; the client got our 500.
    AppError = 1,
    /// The response is incomplete (application failed or wrote too little); the connection must be closed.
    Cut = 2,
    /// The client had gone.
    ClientGone = 3,
    /// Refused by the worker without the application (400, 404).
    Refused = 4,
}

/// The fixed part of an end frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndInfo {
    /// How it ended.
    pub outcome: Outcome,
    /// Whether the client's connection may serve another request.
    pub keep: bool,
    /// HTTP status sent; 0 if no head went out.
    pub status: u16,
    /// Nanoseconds from the slot's beginning to the end of the iteration.
    pub service_ns: u64,
    /// Body bytes written, without head and chunk framing.
    pub body_bytes: u64,
}

impl EndInfo {
    /// Bytes of the fixed part.
    pub const SIZE: usize = 24;

    /// Appends a whole end frame, with the access line (no newline, may be empty).
    pub fn put(&self, out: &mut Vec<u8>, ticket: Ticket, access_line: &[u8]) {
        let line = access_line.get(..MAX_FROM_WORKER - Self::SIZE).unwrap_or(access_line);
        let mut payload = Vec::with_capacity(Self::SIZE + line.len());
        payload.extend_from_slice(&[self.outcome as u8, u8::from(self.keep)]);
        payload.extend_from_slice(&self.status.to_le_bytes());
        payload.extend_from_slice(&[0; 4]);
        payload.extend_from_slice(&self.service_ns.to_le_bytes());
        payload.extend_from_slice(&self.body_bytes.to_le_bytes());
        payload.extend_from_slice(line);
        put(out, Kind::End, 0, ticket, &payload);
    }

    /// Reads an end frame's payload: the fixed part and the access line.
    pub fn parse(payload: &[u8]) -> Result<(EndInfo, &[u8]), FrameError> {
        let Some((fixed, line)) = payload.split_first_chunk::<{ Self::SIZE }>() else {
            return Err(FrameError::End(payload.len()));
        };
        let outcome = match fixed[0] {
            0 => Outcome::Ok,
            1 => Outcome::AppError,
            3 => Outcome::ClientGone,
            4 => Outcome::Refused,
            // An outcome we do not know is treated as the worst one.
            _ => Outcome::Cut,
        };
        let number = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&fixed[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        let info = EndInfo {
            outcome,
            keep: fixed[1] == 1,
            status: u16::from_le_bytes([fixed[2], fixed[3]]),
            service_ns: number(8),
            body_bytes: number(16),
        };
        Ok((info, line))
    }
}

/// Bytes from a bridge, cut into frames. Read into [`Inbox::space`], say how much came with [`Inbox::filled`], then take
/// frames with [`Inbox::next`] until there is none.
#[derive(Debug)]
pub struct Inbox {
    buf: Vec<u8>,
    start: usize,
    end: usize,
    limit: usize,
}

impl Inbox {
    /// What one read may bring.
    const READ: usize = 256 * 1024;

    /// An empty inbox that refuses payloads over `limit` bytes.
    pub fn new(limit: usize) -> Inbox {
        Inbox { buf: vec![0; Self::READ], start: 0, end: 0, limit }
    }

    /// Room for the next read, never empty.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            // A rare huge frame must not hold its memory for the life of the bridge.
            if self.buf.len() > 2 * Self::READ {
                self.buf = vec![0; Self::READ];
            }
        }
        if self.end == self.buf.len() {
            self.buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            // Grows as bytes arrive, not as a length field promises.
            if self.end > self.buf.len() / 2 {
                self.buf.resize(self.buf.len() * 2, 0);
            }
        }
        &mut self.buf[self.end..]
    }

    /// The last read put `n` bytes into [`Inbox::space`].
    pub fn filled(&mut self, n: usize) {
        self.end = (self.end + n).min(self.buf.len());
    }

    /// The next whole frame, if there is one.
    #[allow(
        clippy::should_implement_trait,
        reason = "a frame borrows the inbox, an iterator cannot"
    )]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        let bytes = &self.buf[self.start..self.end];
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let kind = Kind::from_byte(head[4]).ok_or(FrameError::Kind(head[4]))?;
        if len > self.limit {
            return Err(FrameError::Length { len, limit: self.limit });
        }
        let mut ticket = [0; 8];
        ticket.copy_from_slice(&head[8..]);
        let Some(payload) = rest.get(..len) else { return Ok(None) };
        self.start += HEAD + len;
        Ok(Some(Frame {
            kind,
            flags: head[5],
            ticket: Ticket(u64::from_le_bytes(ticket)),
            payload,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` in pieces of `piece` and collects the frames.
    fn feed(bytes: &[u8], piece: usize) -> Vec<(Kind, u8, u64, Vec<u8>)> {
        let mut inbox = Inbox::new(1 << 20);
        let mut seen = Vec::new();
        for part in bytes.chunks(piece) {
            let mut part = part;
            while !part.is_empty() {
                let space = inbox.space();
                let n = part.len().min(space.len());
                space[..n].copy_from_slice(&part[..n]);
                inbox.filled(n);
                part = &part[n..];
                while let Some(f) = inbox.next().unwrap() {
                    seen.push((f.kind, f.flags, f.ticket.0, f.payload.to_vec()));
                }
            }
        }
        seen
    }

    #[test]
    fn any_split_gives_the_same_frames() {
        let mut bytes = Vec::new();
        put(&mut bytes, Kind::Request, 0, Ticket(7), b"hello");
        put(&mut bytes, Kind::Drain, 0, Ticket(0), b"");
        put(&mut bytes, Kind::Data, FLAG_MORE, Ticket(u64::MAX), &vec![b'x'; 700_000]);
        put(&mut bytes, Kind::Ack, 0, Ticket(8), &5_u64.to_le_bytes());
        let whole = feed(&bytes, bytes.len());
        assert_eq!(whole.len(), 4);
        assert_eq!(whole[0], (Kind::Request, 0, 7, b"hello".to_vec()));
        assert_eq!(whole[2].3.len(), 700_000);
        for piece in [1, 3, 16, 17, 4096] {
            assert_eq!(feed(&bytes, piece), whole, "pieces of {piece}");
        }
    }

    #[test]
    fn a_stranger_is_refused() {
        let mut inbox = Inbox::new(10);
        let mut bytes = Vec::new();
        put(&mut bytes, Kind::Data, 0, Ticket(1), b"12345678901");
        inbox.space()[..bytes.len()].copy_from_slice(&bytes);
        inbox.filled(bytes.len());
        assert_eq!(inbox.next(), Err(FrameError::Length { len: 11, limit: 10 }));
        let mut inbox = Inbox::new(10);
        inbox.space()[..HEAD].copy_from_slice(&[0; HEAD]);
        inbox.filled(HEAD);
        assert_eq!(inbox.next(), Err(FrameError::Kind(0)));
    }

    #[test]
    fn end_info_comes_back() {
        let info = EndInfo {
            outcome: Outcome::Cut,
            keep: true,
            status: 503,
            service_ns: 123_456_789_012,
            body_bytes: 42,
        };
        let mut bytes = Vec::new();
        info.put(&mut bytes, Ticket(3), b"a line");
        let frames = feed(&bytes, 5);
        assert_eq!(EndInfo::parse(&frames[0].3), Ok((info, &b"a line"[..])));
        assert_eq!(EndInfo::parse(b"short"), Err(FrameError::End(5)));
    }
}
