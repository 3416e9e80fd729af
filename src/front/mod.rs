//! Our own front end: it ends HTTP/1.x and speaks the Mongrel2 protocol to handlers, which it knows one by one.
//!
//! One thread does it all; nothing in it waits but for sockets and the clock.
//!
//! * [`zmtp`] the wire under the protocol; `message` what is written on it
//! * `http1`, `forwarded`, `relay` the wire to the clients: requests in, responses out
//! * `core` who gets which request; `fellows` which connections are one handler's; `pulse` which are still there
//! * `host` what is asked of the process around it
//! * [`pure`] a look at the parts without sockets, for tests
//! * `net` the sockets, and the tasks that hold them
//!
//! All but `net` do no I/O and read no clock. It promises that no client hangs because of a handler, that no bytes of a
//! handler's reach another client than the one they are for, and that a slow client costs nobody else anything. It refuses
//! to know anything of applications, and of TLS, HTTP/2 and websockets.

mod core;
mod fellows;
mod forwarded;
mod host;
mod http1;
mod message;
mod net;
mod pulse;
pub mod pure;
mod relay;
pub mod zmtp;

pub use host::Bound;
pub use host::Host;
pub use net::run;
