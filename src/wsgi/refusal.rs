//! Requests that do not reach the application: why, and with what status they are answered.

use crate::proto::ParseError;

use super::length::LengthError;
use super::request::Request;

/// Why a request does not reach the application.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// The message is no request that can be read.
    #[error("malformed message: {0}")]
    Message(#[from] ParseError),
    /// The front end left out one of its own keys.
    #[error("no {0} in the message")]
    Missing(&'static str),
    /// The protocol is no version of HTTP.
    #[error("protocol that is no version of http")]
    Version,
    /// A header name that is no HTTP token, such as Mongrel2 lets through (protocol section 2.2).
    #[error("header name that is no token")]
    HeaderName,
    /// CR, LF or NUL in a value.
    #[error("control character in a header value")]
    HeaderValue,
    /// A header name with `_`, where the settings refuse it.
    #[error("header name with an underscore")]
    Underscore,
    /// A second value of a header that has one.
    #[error("more than one {0} header")]
    Twice(&'static str),
    /// The Host header is no host.
    #[error("host header that is no host")]
    Host,
    /// The target is neither a path nor `*`.
    #[error("target that is no path")]
    Path,
    /// See [`LengthError`].
    #[error(transparent)]
    Length(#[from] LengthError),
    /// The file that should be the body cannot be read.
    #[error("the body's file cannot be read")]
    File,
    /// The path lies outside the mount point.
    #[error("path outside of the mount point")]
    Outside,
}

impl Why {
    /// The status that such a request gets.
    pub fn status(&self) -> u16 {
        match self {
            Why::Outside => 404,
            Why::File => 500,
            Why::Length(LengthError::Coding) => 501,
            _ => 400,
        }
    }

    /// Whether the connection may go on: only if there is no doubt where the next request begins.
    pub fn may_keep(&self) -> bool {
        *self == Why::Outside
    }
}

/// A request that is not for the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub why: Why,
    /// As much of it as was understood.
    pub request: Request,
}

impl Refused {
    /// A message of which nothing could be read.
    pub fn unread(why: Why) -> Refused {
        Refused { why, request: Request::new(0) }
    }
}
