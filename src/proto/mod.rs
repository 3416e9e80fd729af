//! The Mongrel2 wire: bytes in, values out.
//!
//! A request message is read in two steps, because two processes read it: the envelope ([`request::Envelope`]: sender,
//! connection id, path) and, only where it is needed, the header dictionary ([`headers::Headers`]).
//! [`request::classify`] then says what kind of message it is. Replies are written with [`reply`].
//!
//! This module opens nothing, waits for nothing and asks no clock. Values borrow from the message. Whoever sends the
//! bytes, they cannot make it panic, recurse deeply, or allocate more than a small multiple of their own length; the
//! lints below keep that so.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::panic,
    clippy::expect_used
)]

pub mod control;
pub mod error;
pub mod hash;
pub mod headers;
pub mod ident;
mod json;
pub mod netstring;
mod plain;
pub mod reply;
pub mod request;
pub mod tnetstring;

pub use control::Event;
pub use error::Fault;
pub use error::ParseError;
pub use error::Part;
pub use headers::Headers;
pub use headers::Value;
pub use ident::ConnId;
pub use ident::SenderUuid;
pub use reply::Ctl;
pub use reply::Reply;
pub use reply::ReplyError;
pub use request::Envelope;
pub use request::HeaderBlock;
pub use request::Message;
pub use request::UploadPaths;
pub use request::classify;
pub use request::upload_paths;
