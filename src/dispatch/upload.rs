//! Bodies that Mongrel2 puts into files: which of its messages about them are believed.
//!
//! Mongrel2 tells of such a body twice, when it begins and when it is complete, by two headers that it does not take out of a
//! client's request (protocol section 6.3). So both messages must look as only Mongrel2's own can, and the end counts only
//! after the beginning of the same body on the same connection. What is believed of the file
//! itself is for [`super::upload_file`].

use crate::http::head::decimal;
use crate::proto::headers::Headers;
use crate::proto::request::Envelope;
use crate::proto::request::UPLOAD_START;
use crate::proto::request::UploadPaths;
use crate::proto::request::upload_paths;

/// The longest body that Mongrel2 takes; a greater announcement counts as none (protocol section 6.1).
const LONGEST: u64 = i32::MAX as u64;

/// What a message says of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// A body begins to be written to this file.
    Begins(Vec<u8>),
    /// The body is complete in this file.
    Complete(Vec<u8>),
    /// Made up by a client, or spoilt by one. If Mongrel2 has a part in it, this is the file that it writes to: nobody will
    /// ever read it.
    Forged(Option<Vec<u8>>),
}

/// Values of one header that Mongrel2 keeps; what comes later is dropped (protocol section 2.3).
const KEPT: usize = 5;

/// Reads the news of an upload message.
pub(crate) fn news(envelope: &Envelope<'_>, headers: &Headers<'_>) -> News {
    if !envelope.body.is_empty() || !is_large(headers) {
        return News::Forged(None);
    }
    match upload_paths(headers) {
        Some(UploadPaths { start, done: None }) => News::Begins(start.to_vec()),
        Some(UploadPaths { start, done: Some(done) }) if done == start => {
            News::Complete(done.to_vec())
        }
        // Mongrel2 adds its own value behind those of the client, unless they are too many.
        _ => News::Forged(headers.get(UPLOAD_START).and_then(|value| {
            let values: Vec<&[u8]> = value.iter().collect();
            values.last().filter(|_| values.len() < KEPT).map(|own| own.to_vec())
        })),
    }
}

/// Whether Mongrel2 would put such a body into a file. A body that it announces and does not carry is in a file, whatever
/// `limits.content_length` says; Mongrel2 goes by the first value and takes it if it is a number.
fn is_large(headers: &Headers<'_>) -> bool {
    if headers.get(b"content-length").is_some() {
        return announced(headers).is_some_and(|n| (1..=LONGEST).contains(&n));
    }
    headers.get(b"transfer-encoding").is_some_and(|coding| coding.first() == b"chunked")
}

/// The length of a body as Mongrel2 reads it from the first Content-Length. None for a chunked body, and for what no
/// sane client sends.
pub(crate) fn announced(headers: &Headers<'_>) -> Option<u64> {
    decimal(headers.get(b"content-length")?.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &str, body: &str) -> News {
        let head = format!(r#"{{"METHOD":"POST","VERSION":"HTTP/1.1",{headers}}}"#);
        let text = format!("me 1 /p {}:{head},{}:{body},", head.len(), body.len());
        let envelope = Envelope::parse(text.as_bytes()).unwrap();
        news(&envelope, &envelope.headers().unwrap())
    }

    #[test]
    fn only_what_mongrel2_alone_can_write_is_believed() {
        let start = r#""x-mongrel2-upload-start":"/f""#;
        let both = r#""x-mongrel2-upload-start":"/f","x-mongrel2-upload-done":"/f""#;
        let large = r#""content-length":"30000""#;
        let chunked = r#""transfer-encoding":"chunked""#;
        assert_eq!(of(&format!("{start},{large}"), ""), News::Begins(b"/f".to_vec()));
        assert_eq!(of(&format!("{start},{chunked}"), ""), News::Begins(b"/f".to_vec()));
        assert_eq!(of(&format!("{both},{large}"), ""), News::Complete(b"/f".to_vec()));
        let own = Some(b"/g".to_vec());
        let spoilt = |headers: &str| of(&format!("{headers},{large}"), "");
        assert_eq!(spoilt(r#""x-mongrel2-upload-start":["/f","/g"]"#), News::Forged(own.clone()));
        let done = r#""x-mongrel2-upload-start":"/g","x-mongrel2-upload-done":"/etc/passwd""#;
        assert_eq!(spoilt(done), News::Forged(own));
        let many = r#""x-mongrel2-upload-start":["/a","/b","/c","/d","/e"]"#;
        assert_eq!(spoilt(many), News::Forged(None), "the last may be the client's");
        for forged in [
            start.to_owned(),
            both.to_owned(),
            format!(r#"{both},"content-length":"0""#),
            format!(r#"{both},"content-length":"+3""#),
            format!(r#"{both},"content-length":"99999999999""#),
            format!(r#"{both},"content-length":["0","30000"]"#),
            format!(r#"{both},"transfer-encoding":"Chunked""#),
            format!(r#""x-mongrel2-upload-done":"/f",{large}"#),
        ] {
            assert_eq!(of(&forged, ""), News::Forged(None), "{forged}");
        }
        assert_eq!(of(&format!("{both},{large}"), "inline"), News::Forged(None));
    }
}
