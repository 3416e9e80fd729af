//! What can be wrong with a response, each with one name.

use crate::http::dechunk::ChunkError;
use crate::http::field::FieldError;

/// Why the bytes are not a response that can be passed on. Before anything of it went out, the client gets 502.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// No `HTTP/1.0` or `HTTP/1.1`, no three digits from 100 on, or a control character in the reason.
    #[error("response does not begin with an HTTP/1.1 or HTTP/1.0 status line")]
    StatusLine,
    /// A status of the protocols that a client may ask to change to: none is offered on this way.
    #[error("status 101 without an upgrade that was agreed to")]
    Switching,
    /// The head is longer than the limit, in bytes.
    #[error("response head is longer than {0} bytes")]
    HeadSize(usize),
    /// More header lines than the limit.
    #[error("response head has more than {0} header lines")]
    HeadLines(usize),
    /// A line that ends with LF alone.
    #[error("line of the response head does not end with CR LF")]
    LineEnd,
    /// A line that is not a header.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// Not a decimal number.
    #[error("content length is not a decimal number")]
    Length,
    /// More than one, even where they agree.
    #[error("more than one content length")]
    LengthTwice,
    /// Both ways to find the end.
    #[error("content length beside a transfer coding")]
    LengthAndCoding,
    /// Any other than `chunked`, alone and once, or one in HTTP/1.0, which has none.
    #[error("transfer coding other than chunked")]
    Coding,
    /// A fault in the chunked body.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// Closed before the first byte, or with nothing but interim responses.
    #[error("closed without a response")]
    Nothing,
    /// Closed within the head, or before the end that the head promised.
    #[error("response ended before it was complete")]
    Cut,
}
