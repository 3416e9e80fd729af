//! What a request frame carries beside its message: where the body is, if the message has not got it.

use super::frame;
use super::frame::Frame;
use super::frame::Kind;
use super::frame::Ticket;

/// Flag of a [`Kind::Request`] frame: the body is a file. Before the message stand device and inode (`u64` each), the
/// length of the path (`u16`) and the path.
const FLAG_FILE: u8 = 1;

/// Flag of a [`Kind::Request`] frame: the message has the first bytes of the body, the rest comes in
/// [`Kind::BodyPart`] frames.
const FLAG_STREAM: u8 = 2;

/// Names one file of this machine, whatever its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// Where the body of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// In the message.
    Message,
    /// Begun in the message, and to be continued.
    Stream,
    /// In the file at this path, if it is this file.
    File(&'a [u8], FileId),
}

/// Appends a [`Kind::Request`] frame.
pub fn put(out: &mut Vec<u8>, ticket: Ticket, body: Body<'_>, message: &[u8]) {
    let Body::File(path, id) = body else {
        let flags = if body == Body::Stream { FLAG_STREAM } else { 0 };
        frame::put(out, Kind::Request, flags, ticket, message);
        return;
    };
    // A path is shorter than 4096 bytes (PATH_MAX); a longer one could not have been looked at.
    let len = u16::try_from(path.len()).unwrap_or(0);
    let path = &path[..usize::from(len)];
    let mut payload = Vec::with_capacity(18 + path.len() + message.len());
    payload.extend_from_slice(&id.device.to_le_bytes());
    payload.extend_from_slice(&id.inode.to_le_bytes());
    payload.extend_from_slice(&len.to_le_bytes());
    payload.extend_from_slice(path);
    payload.extend_from_slice(message);
    frame::put(out, Kind::Request, FLAG_FILE, ticket, &payload);
}

/// What a [`Kind::Request`] frame carries: the place of the body, and the message. None if it is torn.
pub fn read<'a>(frame: &Frame<'a>) -> Option<(Body<'a>, &'a [u8])> {
    if frame.flags & FLAG_FILE == 0 {
        let stream = frame.flags & FLAG_STREAM != 0;
        return Some((if stream { Body::Stream } else { Body::Message }, frame.payload));
    }
    let (device, rest) = frame.payload.split_first_chunk()?;
    let (inode, rest) = rest.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (path, message) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
    let id = FileId { device: u64::from_le_bytes(*device), inode: u64::from_le_bytes(*inode) };
    Some((Body::File(path, id), message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::Inbox;

    #[test]
    fn a_request_may_have_a_file() {
        let id = FileId { device: 7, inode: u64::MAX };
        let bodies = [Body::Message, Body::Stream, Body::File(b"/a file", id)];
        let mut bytes = Vec::new();
        for body in bodies {
            put(&mut bytes, Ticket(1), body, b"message");
        }
        let mut inbox = Inbox::new(100);
        inbox.space()[..bytes.len()].copy_from_slice(&bytes);
        inbox.filled(bytes.len());
        for body in bodies {
            let frame = inbox.next().unwrap().unwrap();
            assert_eq!(read(&frame), Some((body, &b"message"[..])));
        }
        for payload in [&b"short"[..], &[0; 17], b"12345678\x01234567\x09\0x"] {
            let (kind, flags, ticket) = (Kind::Request, FLAG_FILE, Ticket(3));
            assert_eq!(read(&Frame { kind, flags, ticket, payload }), None);
        }
    }
}
