//! The sockets of the front end, and the tasks that hold them: one for each connection, all on one thread.

mod client;
mod conn;
mod control;
mod head;
mod listen;
mod live;
mod metrics;
mod page;
mod parent;
mod peer;
mod publisher;
mod record;
mod request;
mod respond;
mod run;
mod shared;
mod signals;
mod stream;
mod told;
mod turns;
mod upload;
mod wire;

pub use run::run;
pub(in crate::front) use stream::From;
