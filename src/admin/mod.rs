//! How an instance is asked and told things while it runs: the control socket, and the commands that talk to it.
//!
//! In the instance, one thread ([`Server`]) has the socket. It turns each line of JSON into an [`Ask`] and gives that to
//! the supervisor, who answers through the ask's [`Reply`] when it can; nobody waits for anybody. What can be asked for is
//! [`Wish`], what comes back [`Answer`]; `docs/control.md` is the protocol for others.
//!
//! Everything is bounded: the length of a line, the number of clients, how long one may sit there. Who is neither of the
//! instance's own user nor root is turned away. It refuses to change anything itself.

mod ask;
mod client;
mod command;
mod connection;
mod listen;
mod metrics;
mod place;
mod proc;
mod report;
mod server;
mod show;

pub use ask::Answer;
pub use ask::Ask;
pub use ask::Instance;
pub use ask::Process;
pub use ask::Reply;
pub use ask::Wish;
pub use command::Look;
pub use command::Target;
pub use command::status;
pub use command::tell;
pub use place::PlaceError;
pub use report::Report;
pub use server::Server;
pub use server::StartError;
