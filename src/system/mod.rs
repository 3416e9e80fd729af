//! An instance, or a front end, as a process among others of its machine: its pid file, the user that it becomes, its place in the
//! background, its title, and those who want to know how it is.
//!
//! What changes the process as a whole is done once, in the first thread, before there is another one. It knows nothing of
//! workers, links or requests.

mod daemon;
mod herald;
mod identity;
mod log_file;
mod notify;
mod parent;
mod pid_file;
mod socket_file;
mod title;

pub use daemon::Came;
pub use daemon::Fork;
pub use daemon::Report;
pub use daemon::Side;
pub use daemon::Starter;
pub use daemon::detach;
pub use herald::Herald;
pub use identity::IdentityError;
pub use identity::become_identity;
pub use identity::give;
pub use identity::give_socket;
pub use log_file::LogFile;
pub use notify::Notify;
pub use notify::VARIABLES;
pub use parent::SERVED_BY;
pub use parent::end_with_parent;
pub use parent::is_served;
pub use pid_file::PidFile;
pub use pid_file::PidFileError;
pub use socket_file::SocketFile;
pub use title::set_title;
