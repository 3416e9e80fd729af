//! What the front end is told from outside while it runs: signals, and the word of whoever has started it.
//!
//! Signals that mean something to other servers, and would end or stop us, are heard and mean nothing.

use std::future::poll_fn;
use std::io;
use std::io::IsTerminal;
use std::task::Context;
use std::task::Poll;

use nix::sys::signal::Signal as Name;
use tokio::signal::unix::Signal;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;

use super::parent::Parent;
use super::parent::Word;

/// Their default would end us, or stop us.
const IGNORED: [Name; 3] = [Name::SIGUSR2, Name::SIGTTIN, Name::SIGTTOU];

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// To accept clients.
    Open,
    /// To read the settings again.
    Reload,
    /// To open the logs anew.
    Reopen,
    /// To end.
    End,
}

/// What is heard.
#[derive(Debug)]
pub(super) struct Signals {
    heard: Vec<(Signal, Wish)>,
    parent: Option<Parent>,
}

impl Signals {
    /// Begins to listen. `with_parent`: a byte on standard input asks for clients to be accepted, its end for ours.
    pub(super) fn new(with_parent: bool) -> io::Result<Signals> {
        for name in IGNORED {
            // The handler outlives the value.
            drop(listen(name)?);
        }
        // A terminal that is closed sends it, and nobody could end us afterwards.
        let hangup = if io::stderr().is_terminal() { Wish::End } else { Wish::Reload };
        let heard = [
            (Name::SIGTERM, Wish::End),
            (Name::SIGINT, Wish::End),
            (Name::SIGHUP, hangup),
            (Name::SIGUSR1, Wish::Reopen),
        ];
        let heard = heard.map(|(name, wish)| Ok((listen(name)?, wish)));
        Ok(Signals {
            heard: heard.into_iter().collect::<io::Result<_>>()?,
            parent: with_parent.then(Parent::of_stdin).transpose()?,
        })
    }

    /// Waits for the next wish.
    pub(super) async fn next(&mut self) -> Wish {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Wish> {
        for (signal, wish) in &mut self.heard {
            if signal.poll_recv(cx).is_ready() {
                return Poll::Ready(*wish);
            }
        }
        let word = self.parent.as_mut().map(|parent| parent.poll_word(cx));
        match word {
            Some(Poll::Ready(Word::Go)) => Poll::Ready(Wish::Open),
            Some(Poll::Ready(Word::Gone)) => {
                self.parent = None;
                Poll::Ready(Wish::End)
            }
            Some(Poll::Pending) | None => Poll::Pending,
        }
    }
}

fn listen(name: Name) -> io::Result<Signal> {
    signal(SignalKind::from_raw(name as i32))
}
