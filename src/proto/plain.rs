//! A cheap look at an undecoded header block: is this certainly an ordinary HTTP request?
//!
//! Keys and values stand in the block byte by byte, unless JSON escapes hide them. So if the block has none of the
//! words that make a message special, and no `\u` escape (the only one that can stand for a letter, digit, `_` or
//! `-`), the message is plain. Words are looked for together with a byte that must come before them, so that
//! `XMLHttpRequest` in some client's header is no obstacle.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::proto::request::HeaderBlock;

static JSON: LazyLock<[Finder<'static>; 6]> = LazyLock::new(|| {
    [
        Finder::new("\"UPLOAD_STREAM\""),
        Finder::new("\"x-mongrel2-upload-start\""),
        Finder::new("\"WEBSOCKET"),
        Finder::new("\"JSON\""),
        Finder::new("\"XML\""),
        Finder::new("\\u"),
    ]
});

static TNET: LazyLock<[Finder<'static>; 5]> = LazyLock::new(|| {
    [
        Finder::new(":UPLOAD_STREAM,"),
        Finder::new(":x-mongrel2-upload-start,"),
        Finder::new(":WEBSOCKET"),
        Finder::new(":JSON,"),
        Finder::new(":XML,"),
    ]
});

/// True only if the block, should it parse at all, has nothing that makes a message other than an HTTP request.
pub(super) fn looks_plain(block: HeaderBlock<'_>) -> bool {
    let (finders, bytes): (&[Finder<'_>], _) = match block {
        HeaderBlock::Json(bytes) => (JSON.as_slice(), bytes),
        HeaderBlock::Tnet(bytes) => (TNET.as_slice(), bytes),
    };
    finders.iter().all(|finder| finder.find(bytes).is_none())
}
