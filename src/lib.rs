//! Lurcher runs Python WSGI applications behind a front end that speaks the Mongrel2 protocol over `ZeroMQ`.
//!
//! The map, in reading order (who may name whom is the table in `docs/architecture.md`, held by a test):
//!
//! * [`proto`] the Mongrel2 wire: bytes in, values out
//! * [`bridge`] the frames between the instance and a worker, and the board they share
//! * [`http`] HTTP/1.x responses as bytes
//! * [`cli`] what can be typed on the command line
//! * [`config`] every setting: type, default, reason, and where it came from
//! * [`telemetry`] log records, access lines
//! * [`wsgi`] what PEP 3333 asks, without Python

pub mod bridge;
pub mod cli;
pub mod config;
pub mod dispatch;
pub mod http;
pub mod proto;
pub mod supervisor;
pub mod telemetry;
pub mod transport;
pub mod wsgi;
