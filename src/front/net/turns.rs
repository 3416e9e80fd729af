//! Lets others have their turn: there is one thread, and a task whose socket is always ready would never wait by itself.

/// How many bytes a task handles before others have their turn: about a millisecond of work.
const BYTES: usize = 1024 * 1024;

/// What a task has done since others had their turn.
#[derive(Debug, Default)]
pub(super) struct Turns(usize);

impl Turns {
    /// A request without a body, as bytes.
    pub(super) const REQUEST: usize = 16 * 1024;

    /// The task has done as much as is done for so many bytes. Waits while it is the turn of others.
    pub(super) async fn did(&mut self, bytes: usize) {
        self.0 = self.0.saturating_add(bytes);
        if self.0 >= BYTES {
            self.0 = 0;
            tokio::task::yield_now().await;
        }
    }
}
