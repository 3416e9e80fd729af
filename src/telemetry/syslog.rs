//! Records as datagrams for the log service of this machine, in the format of RFC 5424.
//!
//! Each line is a datagram of its own to a Unix socket, such as `/dev/log`, so that a service that was restarted is found
//! again. Nothing waits for it: a line that it does not take goes to standard error as if there were no service, and the
//! first of these says why. It refuses the network, which is the log service's business.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::record::stamp;

/// The facility `daemon` (RFC 5424 section 6.2.1).
const DAEMON: u8 = 3 << 3;

static SERVICE: OnceLock<Service> = OnceLock::new();

#[derive(Debug)]
struct Service {
    socket: UnixDatagram,
    path: PathBuf,
    /// The last line was not taken, and that has been told.
    away: AtomicBool,
}

/// From now on the records of this process go to the log service at `path`. Only the first call has an effect.
///
/// # Errors
/// No socket can be made. A service that is not there is no error: it may come.
pub fn to_syslog(path: &Path) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    let service = Service { socket, path: path.to_owned(), away: AtomicBool::new(false) };
    // The one that is there stays.
    drop(SERVICE.set(service));
    Ok(())
}

/// What became of a record.
#[derive(Debug)]
pub(super) enum Sent {
    /// The log service has taken all its lines.
    Taken,
    /// There is no log service, or it still takes nothing.
    No,
    /// It takes nothing any more, for this reason.
    NotAnyMore(&'static Path, io::Error),
}

/// Sends the lines of `text` to the log service, if there is one.
pub(super) fn send(now: SystemTime, level: tracing::Level, role: &str, text: &str) -> Sent {
    let Some(service) = SERVICE.get() else { return Sent::No };
    for line in text.lines() {
        let datagram = datagram(now, level, role, line);
        if let Err(error) = service.socket.send_to(datagram.as_bytes(), &service.path) {
            let known = service.away.swap(true, Ordering::Relaxed);
            return if known { Sent::No } else { Sent::NotAnyMore(&service.path, error) };
        }
    }
    service.away.store(false, Ordering::Relaxed);
    Sent::Taken
}

fn datagram(now: SystemTime, level: tracing::Level, role: &str, line: &str) -> String {
    let severity = match level {
        tracing::Level::ERROR => 3,
        tracing::Level::WARN => 4,
        tracing::Level::INFO => 6,
        _ => 7,
    };
    let mut out = format!("<{}>1 ", DAEMON | severity);
    // Writing to a String cannot fail.
    let _ = stamp(&mut out, now);
    // Host and message id are the service's to add; there is no structured data.
    out + &format!(" - {role} {} - - {line}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_the_rfc_has_it() {
        let now = SystemTime::UNIX_EPOCH;
        let pid = std::process::id();
        assert_eq!(
            datagram(now, tracing::Level::WARN, "worker-2", "a b"),
            format!("<28>1 1970-01-01T00:00:00.000Z - worker-2 {pid} - - a b")
        );
    }
}
