//! What can be wrong with bytes from the wire, and where.
//!
//! Errors carry an offset and never the bytes themselves: those are a stranger's and may be large.

use std::fmt;

use crate::proto::ident::ConnId;
use crate::proto::ident::SenderUuid;

/// The part of a message that a fault was found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The sender uuid, first in requests and replies.
    Sender,
    /// The connection id of a request.
    Connection,
    /// The path field of a request's envelope.
    Path,
    /// The header block of a request.
    Headers,
    /// The body of a request.
    Body,
    /// The target list of a reply.
    Targets,
    /// A bare netstring or tnetstring.
    Item,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Sender => "sender",
            Part::Connection => "connection id",
            Part::Path => "path",
            Part::Headers => "headers",
            Part::Body => "body",
            Part::Targets => "targets",
            Part::Item => "item",
        })
    }
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The input ends too early.
    #[error("ends too early")]
    Short,
    /// A field is empty that must not be, or longer than its limit.
    #[error("is empty or too long")]
    Size,
    /// A byte stands where the grammar has another.
    #[error("has an unexpected byte")]
    Syntax,
    /// A length is not a plain decimal number, or is too large.
    #[error("has a bad length")]
    Length,
    /// A number is not decimal, or does not fit its type.
    #[error("has a bad number")]
    Number,
    /// A string has an escape that JSON does not know.
    #[error("has a bad escape")]
    Escape,
    /// A value is of a type that does not belong here.
    #[error("has a value of a wrong type")]
    Type,
    /// More entries than the limit.
    #[error("has too many entries")]
    TooMany,
    /// Deeper nesting than the limit.
    #[error("is nested too deeply")]
    TooDeep,
    /// Bytes are left over after the end.
    #[error("is followed by more bytes")]
    Trailing,
}

/// Bytes from the wire did not parse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part} {what} (at byte {at})")]
pub struct ParseError {
    /// What is wrong.
    pub what: Fault,
    /// The part that it was found in.
    pub part: Part,
    /// Offset of the fault: in the message; in the header block where [`Headers::parse`] found it.
    ///
    /// [`Headers::parse`]: crate::proto::headers::Headers::parse
    pub at: usize,
    /// Who can be told (with a 400 and a close), if that much could be read.
    pub address: Option<(SenderUuid, ConnId)>,
}

impl ParseError {
    /// A fault in `part` at offset `at`, with nobody to tell yet.
    pub(super) fn new(what: Fault, part: Part, at: usize) -> ParseError {
        ParseError { what, part, at, address: None }
    }

    /// The same fault, seen from `base` bytes further out, in the part that the caller was reading.
    pub(super) fn within(mut self, part: Part, base: usize) -> ParseError {
        self.part = part;
        self.at = self.at.saturating_add(base);
        self
    }

    /// The same fault, with the connection that can be told.
    pub(super) fn addressed(mut self, sender: &[u8], conn: ConnId) -> ParseError {
        self.address = SenderUuid::try_from(sender).ok().map(|sender| (sender, conn));
        self
    }
}
