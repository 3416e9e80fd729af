//! What systemd asks of a service of `Type=notify`: datagrams to the socket that it names in the environment
//! (`sd_notify(3)`, `systemd.service(5)`).
//!
//! It refuses to fail: a service manager that does not listen is no reason not to serve.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::time::ClockId;
use nix::time::clock_gettime;

/// The variables that name the socket and the watchdog. They are the instance's alone: workers do not get them.
pub const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// How long the service manager may take to have room for a message.
const PATIENCE: Duration = Duration::from_secs(1);

/// The way to the service manager.
#[derive(Debug)]
pub struct Notify {
    socket: UnixDatagram,
    address: SocketAddr,
    watchdog: Option<Duration>,
}

impl Notify {
    /// As the environment has it; nothing when no service manager wants to hear anything.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> io::Result<Option<Self>> {
        let Some(name) = variable("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let address = address(&name)?;
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let number = |name| variable(name).and_then(|text| text.to_str()?.parse::<u64>().ok());
        let for_us = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let period = number("WATCHDOG_USEC").filter(|period| for_us && *period > 0);
        Ok(Some(Self { socket, address, watchdog: period.map(Duration::from_micros) }))
    }

    /// How long the service manager waits for a sign of life before it acts, if it does.
    pub const fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Sends lines of `NAME=value`.
    pub fn send(&self, lines: &str) {
        // There is nobody to complain to, and nothing to be done.
        let _ = self.socket.send_to_addr(lines.as_bytes(), &self.address);
    }

    /// Tells that a reload has begun; systemd wants to know when.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
        let micros = now.map(|now| now.as_micros()).unwrap_or_default();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }
}

fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(io::Error::other("neither a path nor an abstract name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notify(name: &str, watchdog: &[(&str, &str)]) -> io::Result<Option<Notify>> {
        Notify::from_environment(|variable| match variable {
            "NOTIFY_SOCKET" => Some(name.into()),
            _ => watchdog.iter().find(|(name, _)| *name == variable).map(|(_, text)| text.into()),
        })
    }

    #[test]
    fn it_speaks_to_paths_and_to_abstract_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let heard = UnixDatagram::bind(&path).unwrap();
        notify(path.to_str().unwrap(), &[]).unwrap().unwrap().send("READY=1");
        let mut buffer = [0; 64];
        assert_eq!(heard.recv(&mut buffer).unwrap(), 7);
        let name = format!("lurcher-test-{}", std::process::id());
        let heard =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        notify(&format!("@{name}"), &[]).unwrap().unwrap().reloading();
        let length = heard.recv(&mut buffer).unwrap();
        let text = str::from_utf8(&buffer[..length]).unwrap();
        let micros = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(micros.parse::<u64>().unwrap() > 0);
    }

    #[test]
    fn nobody_who_listens_is_no_fault() {
        assert!(notify("", &[]).unwrap().is_none());
        assert!(notify("vsock:2:1234", &[]).is_err());
        notify("/nowhere/notify", &[]).unwrap().unwrap().send("READY=1");
    }

    #[test]
    fn a_watchdog_is_for_the_process_that_it_names() {
        let pid = std::process::id().to_string();
        let period = |pid: &str, micros: &str| {
            notify("@x", &[("WATCHDOG_PID", pid), ("WATCHDOG_USEC", micros)])
                .unwrap()
                .unwrap()
                .watchdog()
        };
        assert_eq!(period(&pid, "3000000"), Some(Duration::from_secs(3)));
        assert_eq!(period("1", "3000000"), None);
        assert_eq!(period(&pid, "0"), None);
        assert_eq!(period(&pid, "often"), None);
        let unnamed = notify("@x", &[("WATCHDOG_USEC", "500")]).unwrap().unwrap();
        assert_eq!(unnamed.watchdog(), Some(Duration::from_micros(500)));
    }
}
