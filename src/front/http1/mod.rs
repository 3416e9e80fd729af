//! HTTP/1.0 and 1.1 requests as bytes: head, target, how long the body is (RFC 9112); pure.
//!
//! It is strict where two readers could disagree about where a request ends: bare CR or LF, folded lines, blanks before a
//! colon, several lengths, a length together with chunks, bad chunk sizes are all refused. Every refusal has its status.

pub(crate) mod framing;
pub(crate) mod head;
pub(crate) mod target;

/// A request that is not served, and what its client is told. The connection ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Not HTTP, or ambiguous.
    Bad,
    /// A body without a length that can be known.
    TooLarge,
    /// A target longer than the head may be.
    TargetTooLong,
    /// A head that is larger, or has more fields, than is accepted.
    HeadTooLarge,
    /// Something else than `100-continue` is expected.
    Expectation,
    /// A transfer coding or a method that is not known here.
    NotImplemented,
    /// Another major version of HTTP.
    Version,
}

impl Refusal {
    /// The status that says so.
    pub(crate) const fn status(self) -> u16 {
        match self {
            Refusal::Bad => 400,
            Refusal::TooLarge => 413,
            Refusal::TargetTooLong => 414,
            Refusal::Expectation => 417,
            Refusal::HeadTooLarge => 431,
            Refusal::NotImplemented => 501,
            Refusal::Version => 505,
        }
    }
}
