//! A request as the application will get it: all keys and values in one piece of memory.

use std::ops::Range;

use crate::http::framing::Asked;
use crate::http::framing::Version;
use crate::http::framing::Wish;
use crate::proto::Value;

use super::names::Name;
use super::names::put_header_key;
use super::refusal::Why;

/// The key of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// A well-known one.
    Name(Name),
    /// Any other header's.
    Header(Span),
}

/// A piece of a request's text.
pub(super) type Span = Range<usize>;

/// A request, ready for the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub(super) text: Vec<u8>,
    pub(super) values: Vec<(Key, Span)>,
    /// What the framing of the response depends on.
    pub asked: Asked,
    /// The body, unless it is a file.
    pub body: Vec<u8>,
    /// How many headers with `_` were left out.
    pub dropped: usize,
}

impl Request {
    pub(super) fn new(capacity: usize) -> Request {
        Request {
            text: Vec::with_capacity(capacity),
            values: Vec::with_capacity(32),
            // Until more is known: what is safe to answer anyone.
            asked: Asked { head: false, version: Version::Http10, wish: Wish::Close },
            body: Vec::new(),
            dropped: 0,
        }
    }

    /// Every key and value. No key comes twice.
    pub fn iter(&self) -> impl Iterator<Item = (Spelled<'_>, &[u8])> {
        self.values.iter().map(|(key, value)| {
            let key = match key {
                Key::Name(name) => Spelled::Name(*name),
                Key::Header(span) => Spelled::Header(&self.text[span.clone()]),
            };
            (key, &self.text[value.clone()])
        })
    }

    /// The value of a well-known key.
    pub fn get(&self, name: Name) -> Option<&[u8]> {
        let found = self.values.iter().find(|(key, _)| *key == Key::Name(name));
        found.map(|(_, value)| &self.text[value.clone()])
    }

    /// Adds a well-known key.
    pub(super) fn put(&mut self, name: Name, value: &[u8]) {
        let span = self.span(value);
        self.values.push((Key::Name(name), span));
    }

    /// Names the request: the key of that, and the header's in place of what the client sent, if there is one.
    pub fn identify(&mut self, id: &[u8], header: Option<&[u8]>) {
        self.put(Name::RequestId, id);
        let Some(header) = header else { return };
        let start = self.text.len();
        put_header_key(&mut self.text, header);
        let key = start..self.text.len();
        let value = self.span(id);
        match self.position(&key) {
            Some(at) => self.values[at].1 = value,
            None => self.values.push((Key::Header(key), value)),
        }
    }

    /// Where the header key that is spelled out at `key` stands already.
    pub(super) fn position(&self, key: &Span) -> Option<usize> {
        let key = &self.text[key.clone()];
        self.iter().position(|(other, _)| match other {
            Spelled::Name(name) => name.as_str().as_bytes() == key,
            Spelled::Header(other) => other == key,
        })
    }

    /// The value number `before`, with `value` joined to it.
    pub(super) fn span_after(&mut self, before: usize, value: &Value<'_>) -> Result<Span, Why> {
        let start = self.text.len();
        let old = self.values[before].1.clone();
        self.text.extend_from_within(old);
        self.text.extend_from_slice(b", ");
        let end = self.span_joined(value, b", ")?.end;
        Ok(start..end)
    }

    fn span(&mut self, text: &[u8]) -> Span {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        start..self.text.len()
    }

    /// Appends the texts of a value, each without blanks at its end, which are no part of it (RFC 9110 section 5.5).
    pub(super) fn span_joined(&mut self, value: &Value<'_>, separator: &[u8]) -> Result<Span, Why> {
        let start = self.text.len();
        for (at, text) in value.iter().enumerate() {
            if at > 0 {
                self.text.extend_from_slice(separator);
            }
            let text = trim(text);
            if text.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
                return Err(Why::HeaderValue);
            }
            self.text.extend_from_slice(text);
        }
        Ok(start..self.text.len())
    }
}

/// A key as bytes or as its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelled<'a> {
    /// A well-known one.
    Name(Name),
    /// Any other, spelled out.
    Header(&'a [u8]),
}

/// Without the blanks at either end.
pub(super) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
