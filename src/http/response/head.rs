//! The head of a response, read line by line from bytes that come in any split.
//!
//! Each line is judged when its LF comes, and the first bytes at once: what is no response at all is known before
//! anybody waits for its end.

use super::error::ResponseError;
use crate::http::field;
use crate::http::framing::Framing;
use crate::http::framing::Version;
use crate::http::framing::Wish;
use crate::http::head::decimal;
use crate::http::head::has_control;

/// What a head may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes from the status line to the empty line, both included.
    pub bytes: usize,
    /// Most header lines.
    pub lines: usize,
}

impl Default for Limits {
    /// 64 KiB and 256 lines: what browsers and proxies still take, and many times what applications send.
    fn default() -> Limits {
        Limits { bytes: 65_536, lines: 256 }
    }
}

/// Where a header stands in the text.
#[derive(Debug, Clone, Copy)]
struct Place {
    name: (usize, usize),
    value: (usize, usize),
}

/// A response head: complete when a parser gives it out.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    text: Vec<u8>,
    /// Where the line that has not ended begins.
    line: usize,
    version: Version,
    status: u16,
    reason: (usize, usize),
    places: Vec<Place>,
    length: Option<u64>,
    coding: bool,
    wish: Wish,
}

/// How far every status line is the same, but for the version's last digit.
const BEGIN: &[u8] = b"HTTP/1.";

impl Default for ResponseHead {
    fn default() -> ResponseHead {
        ResponseHead {
            text: Vec::new(),
            line: 0,
            version: Version::Http11,
            status: 0,
            reason: (0, 0),
            places: Vec::new(),
            length: None,
            coding: false,
            wish: Wish::None,
        }
    }
}

impl ResponseHead {
    /// Forgets what it read and keeps its memory.
    pub(super) fn clear(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        let mut places = std::mem::take(&mut self.places);
        text.clear();
        places.clear();
        *self = ResponseHead { text, places, ..ResponseHead::default() };
    }

    /// Whether not a byte has come.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes from `input` up to the end of the head; true when it is complete.
    pub(super) fn read(
        &mut self,
        input: &mut &[u8],
        limits: Limits,
    ) -> Result<bool, ResponseError> {
        loop {
            // No more is taken than one line: the next one may be the body's.
            let end = memchr::memchr(b'\n', input);
            let (part, rest) = input.split_at(end.map_or(input.len(), |at| at + 1));
            let room = limits.bytes - self.text.len();
            self.text.extend_from_slice(&part[..part.len().min(room)]);
            let begin = self.text.len().min(BEGIN.len());
            if self.text[..begin] != BEGIN[..begin] {
                return Err(ResponseError::StatusLine);
            }
            if part.len() > room {
                return Err(ResponseError::HeadSize(limits.bytes));
            }
            *input = rest;
            if end.is_none() {
                return Ok(false);
            }
            if self.end_line(limits)? {
                return Ok(true);
            }
        }
    }

    /// Judges the line that has just ended; true when it is the empty one.
    fn end_line(&mut self, limits: Limits) -> Result<bool, ResponseError> {
        let start = std::mem::replace(&mut self.line, self.text.len());
        let line = self.text[start..].strip_suffix(b"\r\n").ok_or(ResponseError::LineEnd)?;
        if start == 0 {
            let (version, status, reason) = status_line(line).ok_or(ResponseError::StatusLine)?;
            (self.version, self.status, self.reason) = (version, status, (reason, line.len()));
            return Ok(false);
        }
        if line.is_empty() {
            return Ok(true);
        }
        if self.places.len() == limits.lines {
            return Err(ResponseError::HeadLines(limits.lines));
        }
        let (name, value) = field::split(line)?;
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = decimal(value).ok_or(ResponseError::Length)?;
            if self.length.replace(length).is_some() {
                return Err(ResponseError::LengthTwice);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let alone = value.eq_ignore_ascii_case(b"chunked") && self.version == Version::Http11;
            if !alone || std::mem::replace(&mut self.coding, true) {
                return Err(ResponseError::Coding);
            }
        } else if name.eq_ignore_ascii_case(b"connection") {
            self.wish = self.wish.and(value);
        }
        let at = |part: &[u8]| {
            let from = start + (part.as_ptr().addr() - line.as_ptr().addr());
            (from, from + part.len())
        };
        let place = Place { name: at(name), value: at(value) };
        self.places.push(place);
        Ok(false)
    }

    /// How the body ends (RFC 9112 section 6.3).
    pub(super) fn framing(&self, head_request: bool) -> Result<Framing, ResponseError> {
        match (self.length, self.coding) {
            _ if self.status == 101 => Err(ResponseError::Switching),
            (Some(_), true) => Err(ResponseError::LengthAndCoding),
            _ if head_request || self.is_interim() => Ok(Framing::NoBody),
            _ if matches!(self.status, 204 | 304) => Ok(Framing::NoBody),
            (_, true) => Ok(Framing::Chunked),
            (Some(length), _) => Ok(Framing::Length(length)),
            (None, false) => Ok(Framing::UntilClose),
        }
    }

    /// The version that the handler names, which is about its connection to us and not about the client's.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The status code, 100 to 999.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The reason, which may be empty.
    pub fn reason(&self) -> &[u8] {
        &self.text[self.reason.0..self.reason.1]
    }

    /// Whether another head follows for the same request (1xx).
    pub fn is_interim(&self) -> bool {
        self.status < 200
    }

    /// The `Content-Length`, also where there is no body: of a HEAD request it tells what GET would bring.
    pub fn content_length(&self) -> Option<u64> {
        self.length
    }

    /// What the `Connection` header wishes.
    pub fn wish(&self) -> Wish {
        self.wish
    }

    /// All headers as they came and in their order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let text = |(from, to): (usize, usize)| &self.text[from..to];
        self.places.iter().map(move |place| (text(place.name), text(place.value)))
    }

    /// The headers that are the client's: without those of this hop, whether known or listed by `Connection`, and
    /// without a `Content-Length` that this status must not have (RFC 9110 section 8.6). A `Content-Length` cannot be
    /// taken away by listing it.
    pub fn end_to_end(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let no_length = self.is_interim() || self.status == 204;
        self.fields().filter(move |(name, _)| {
            if name.eq_ignore_ascii_case(b"content-length") {
                return !no_length;
            }
            !field::is_hop_by_hop(name) && !self.is_listed(name)
        })
    }

    /// Whether a `Connection` header names this one.
    fn is_listed(&self, name: &[u8]) -> bool {
        self.fields().filter(|(other, _)| other.eq_ignore_ascii_case(b"connection")).any(
            |(_, list)| {
                list.split(|&b| b == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(name))
            },
        )
    }
}

/// Version, status, and where the reason begins. A missing blank before an empty reason is forgiven.
fn status_line(line: &[u8]) -> Option<(Version, u16, usize)> {
    let rest = line.strip_prefix(BEGIN)?;
    let (version, rest) = match rest.split_at_checked(2)? {
        (b"1 ", rest) => (Version::Http11, rest),
        (b"0 ", rest) => (Version::Http10, rest),
        _ => return None,
    };
    let (digits, rest) = rest.split_first_chunk::<3>()?;
    if !digits.iter().all(u8::is_ascii_digit) || digits[0] == b'0' {
        return None;
    }
    let status = digits.iter().fold(0, |code, &digit| code * 10 + u16::from(digit - b'0'));
    let reason = match rest.split_first() {
        None => line.len(),
        Some((b' ', reason)) if !has_control(reason) => line.len() - reason.len(),
        Some(_) => return None,
    };
    Some((version, status, reason))
}
