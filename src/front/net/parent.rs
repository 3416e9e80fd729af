//! Whoever has started us and holds the other end of our standard input: a byte from there opens the doors, its end closes
//! them. So a supervisor can have everything ready before clients come, and leaves nothing behind when it is killed.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;

use tokio::io::AsyncRead;
use tokio::io::ReadBuf;
use tokio::net::unix::pipe::Receiver;

/// The other end.
#[derive(Debug)]
pub(super) struct Parent(Receiver);

/// What came from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// A byte.
    Go,
    /// Nobody is there any more.
    Gone,
}

impl Parent {
    /// Standard input, which must be a pipe.
    pub(super) fn of_stdin() -> io::Result<Parent> {
        let fd = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Parent(Receiver::from_owned_fd(fd)?))
    }

    pub(super) fn poll_word(&mut self, cx: &mut Context<'_>) -> Poll<Word> {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        match Pin::new(&mut self.0).poll_read(cx, &mut buffer) {
            Poll::Ready(Ok(())) if !buffer.filled().is_empty() => Poll::Ready(Word::Go),
            Poll::Ready(_) => Poll::Ready(Word::Gone),
            Poll::Pending => Poll::Pending,
        }
    }
}
