//! The instance as a process among others of its machine: its pid file, and the user that it becomes.
//!
//! What is done here is done once, in the first thread, before there is another one. It knows nothing of workers, links or
//! requests.

mod identity;
mod pid_file;

pub use identity::IdentityError;
pub use identity::become_identity;
pub use pid_file::PidFile;
pub use pid_file::PidFileError;
