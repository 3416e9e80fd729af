//! What PEP 3333 asks of a server, without Python: the values of an environ, and the life of a response.
//!
//! Everything here is bytes in, bytes out, so that each rule is a row in a table of tests. It does not know Python
//! objects, threads, or where a response goes; `python` and `worker` do.

pub mod environ;
mod host;
pub mod length;
pub mod names;
mod peer;
pub mod refusal;
pub mod request;
pub mod response;
mod target;
pub mod user;
