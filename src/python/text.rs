//! Between bytes and the strings of WSGI: "native" strings whose code points are bytes (PEP 3333, "Unicode Issues").

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::PyString;

/// Bytes as a string, each byte one code point.
pub(super) fn latin1<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => PyString::new(py, text),
        _ => PyString::new(py, &bytes.iter().map(|&b| char::from(b)).collect::<String>()),
    }
}

/// A string as bytes, each code point one byte. `None` if one is beyond U+00FF.
pub(super) fn bytes<'a>(text: &'a Bound<'_, PyString>) -> Option<Cow<'a, [u8]>> {
    // Fails on lone surrogates, which are no bytes either.
    let text = text.to_str().ok()?;
    if text.is_ascii() {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    text.chars().map(|c| u8::try_from(c).ok()).collect::<Option<Vec<u8>>>().map(Cow::Owned)
}

/// A string for the log; what UTF-8 cannot say is shown as an escape.
pub(super) fn lossy(text: &Bound<'_, PyString>) -> String {
    if let Ok(text) = text.to_str() {
        return text.to_owned();
    }
    let escaped = text
        .call_method1("encode", ("utf-8", "backslashreplace"))
        .and_then(|bytes| bytes.extract::<Vec<u8>>());
    match escaped {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => text.to_string_lossy().into_owned(),
    }
}
