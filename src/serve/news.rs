//! What wakes `serve`: signals, and what the instance says. Each has a thread that does nothing else.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::Sender;
use std::thread;

use signal_hook::consts::SIGCHLD;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::consts::SIGTTIN;
use signal_hook::consts::SIGTTOU;
use signal_hook::consts::SIGUSR1;
use signal_hook::consts::SIGUSR2;
use signal_hook::iterator::Signals;

/// What wakes the loop.
pub(super) enum News {
    Signal(i32),
    /// The instance's message for its service manager.
    Notice(String),
}

/// Signals and the instance's messages, as news. Both threads end with the process.
pub(super) fn listen(sender: Sender<News>, notices: UnixDatagram) -> io::Result<()> {
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2, SIGCHLD])?;
    let other = sender.clone();
    thread::Builder::new().name("lurcher-signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if sender.send(News::Signal(signal)).is_err() {
                return;
            }
        }
    })?;
    thread::Builder::new().name("lurcher-notices".to_owned()).spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length) = notices.recv(&mut buffer) {
            if other
                .send(News::Notice(String::from_utf8_lossy(&buffer[..length]).into_owned()))
                .is_err()
            {
                return;
            }
        }
    })?;
    Ok(())
}
