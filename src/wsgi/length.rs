//! Whether the body that came is the body that was announced.
//!
//! The front end has read the body; this only compares. A doubt is answered with a refusal: running an application on
//! half a body, or on a body that another reader of the same bytes would cut elsewhere, is worse than a 400.

use crate::http::head::decimal;
use crate::proto::Value;

/// A request whose body cannot be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LengthError {
    /// Several Content-Length headers. Mongrel2 uses the first (protocol section 6.1); others may not.
    #[error("more than one content length")]
    Twice,
    /// Not a decimal number. Mongrel2 takes `3x` and `+3` for 3.
    #[error("content length is not a decimal number")]
    Syntax,
    /// The body has another length than announced.
    #[error("a body of {came} bytes where {said} were announced")]
    Differs {
        /// What Content-Length said.
        said: u64,
        /// What came.
        came: u64,
    },
    /// Content-Length and Transfer-Encoding together (RFC 9112 section 6.3: likely an attempt at smuggling).
    #[error("content length and transfer encoding together")]
    Both,
    /// A transfer coding other than `chunked`, which the front end has not decoded. 501 (RFC 9112 section 6.1).
    #[error("transfer coding that is not understood")]
    Coding,
}

/// What `CONTENT_LENGTH` is, or that there is none. `came` is the length of the body, which the front end has decoded
/// if it was chunked.
pub fn check(
    content_length: Option<&Value<'_>>,
    transfer_encoding: Option<&Value<'_>>,
    came: u64,
) -> Result<Option<u64>, LengthError> {
    match (content_length, transfer_encoding) {
        (Some(_), Some(_)) => Err(LengthError::Both),
        (Some(length), None) => {
            let length = length.single().ok_or(LengthError::Twice)?;
            let said = decimal(length.trim_ascii()).ok_or(LengthError::Syntax)?;
            if said == came { Ok(Some(said)) } else { Err(LengthError::Differs { said, came }) }
        }
        // Only this spelling is decoded by Mongrel2. For any other it forwards an empty body.
        (None, Some(coding)) => match coding.single().map(<[u8]>::trim_ascii) {
            Some(b"chunked") => Ok(Some(came)),
            _ => Err(LengthError::Coding),
        },
        (None, None) => Ok((came > 0).then_some(came)),
    }
}

/// What a single well-formed Content-Length says.
pub fn announced(content_length: Option<&Value<'_>>) -> Option<u64> {
    decimal(content_length?.single()?.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn one(text: &str) -> Value<'_> {
        Value::One(Cow::Borrowed(text.as_bytes()))
    }

    #[test]
    fn the_table() {
        for (length, coding, came, expected) in [
            (None, None, 0, Ok(None)),
            (None, None, 3, Ok(Some(3))),
            (Some("0"), None, 0, Ok(Some(0))),
            (Some("3"), None, 3, Ok(Some(3))),
            (Some("003 "), None, 3, Ok(Some(3))),
            (Some("10"), None, 1, Err(LengthError::Differs { said: 10, came: 1 })),
            (Some("-1"), None, 0, Err(LengthError::Syntax)),
            (Some("+5"), None, 5, Err(LengthError::Syntax)),
            (Some("3x"), None, 3, Err(LengthError::Syntax)),
            (Some("5,5"), None, 5, Err(LengthError::Syntax)),
            (Some("5 5"), None, 5, Err(LengthError::Syntax)),
            (Some("0x5"), None, 0, Err(LengthError::Syntax)),
            (Some(""), None, 0, Err(LengthError::Syntax)),
            (Some("99999999999999999999"), None, 0, Err(LengthError::Syntax)),
            (None, Some("chunked"), 10, Ok(Some(10))),
            (None, Some("chunked"), 0, Ok(Some(0))),
            (None, Some("Chunked"), 0, Err(LengthError::Coding)),
            (None, Some("gzip, chunked"), 0, Err(LengthError::Coding)),
            (Some("5"), Some("chunked"), 5, Err(LengthError::Both)),
        ] {
            let got = check(length.map(one).as_ref(), coding.map(one).as_ref(), came);
            assert_eq!(got, expected, "{length:?} {coding:?} {came}");
        }
    }

    #[test]
    fn lists_are_refused() {
        let list = |a: &'static str, b: &'static str| {
            Value::Many(vec![Cow::Borrowed(a.as_bytes()), Cow::Borrowed(b.as_bytes())])
        };
        assert_eq!(check(Some(&list("5", "5")), None, 5), Err(LengthError::Twice));
        assert_eq!(check(None, Some(&list("chunked", "chunked")), 0), Err(LengthError::Coding));
    }
}
