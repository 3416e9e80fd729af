//! Lurcher runs Python WSGI applications behind a front end that speaks the Mongrel2 protocol over `ZeroMQ`.
//!
//! The map, in reading order (who may name whom is the table in `docs/architecture.md`, held by a test):
//!
//! * [`proto`] the Mongrel2 wire: bytes in, values out
//! * [`http`] HTTP/1.x responses as bytes
//! * [`bridge`] the frames between the instance and a worker, and the board they share
//! * [`config`] every setting: type, default, reason, and where it came from; [`cli`] what can be typed
//! * [`telemetry`] log records, access lines
//! * [`wsgi`] what PEP 3333 asks, without Python
//! * [`transport`] a link's two `ZeroMQ` sockets
//! * [`dispatch`] the event loop between links and workers
//! * [`system`] a process among others: pid file, user and group
//! * [`admin`] the control socket, and the commands that talk to it
//! * [`supervisor`] worker processes, signals, the end
//! * `serve` a front end and an instance, started and ended together
//! * [`worker`] the worker process, but for Python
//! * `front` our own front end, `front_process` its entry point
//! * `python` what Python sees
//! * [`instance`] the entry point

#[cfg(feature = "instance")]
pub mod admin;
#[cfg(feature = "instance")]
pub mod bridge;
pub mod cli;
pub mod config;
#[cfg(feature = "instance")]
pub mod dispatch;
#[cfg(feature = "front")]
pub mod front;
#[cfg(feature = "front")]
pub mod front_process;
pub mod http;
#[cfg(feature = "instance")]
pub mod instance;
pub mod proto;
#[cfg(feature = "python")]
pub mod python;
#[cfg(all(feature = "front", feature = "instance"))]
pub mod serve;
#[cfg(feature = "instance")]
pub mod supervisor;
pub mod system;
pub mod telemetry;
#[cfg(feature = "instance")]
pub mod transport;
#[cfg(feature = "instance")]
pub mod worker;
#[cfg(feature = "instance")]
pub mod wsgi;
