//! Temporary files for responses whose clients are slow: made without a name, written as rings, bounded one by one and
//! together.
//!
//! Nothing here waits but for the file system, and a file that cannot be made or written is no failure of a response: the
//! caller keeps the bytes, and its application waits. After a failure no file is tried for a second.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use nix::fcntl::OFlag;

use crate::bridge::frame::WINDOW;
use crate::config::Delivery;
use crate::telemetry;

/// How long no file is tried after one has failed.
const PAUSE: Duration = Duration::from_secs(1);

/// An emptied file of more than this is given up, a smaller one is used again.
const KEEP: u64 = 1 << 20;

/// What all responses of an instance share.
#[derive(Debug)]
pub(crate) struct Spool {
    dir: PathBuf,
    /// Bytes of one response in memory.
    pub(crate) memory: usize,
    each: u64,
    total: u64,
    used: Arc<AtomicU64>,
    /// Bytes ever written to files.
    ever: u64,
    now: Instant,
    retry_at: Option<Instant>,
    faults: telemetry::Limited,
}

impl Spool {
    pub(crate) fn new(settings: &Delivery, now: Instant) -> Spool {
        Spool {
            dir: settings.spool_dir.clone().unwrap_or_else(std::env::temp_dir),
            memory: usize::try_from(settings.response_memory).unwrap_or(usize::MAX),
            each: settings.response_spool,
            total: settings.response_spool_total,
            used: Arc::default(),
            ever: 0,
            now,
            retry_at: None,
            faults: telemetry::Limited::new(),
        }
    }

    /// Tells the time.
    pub(crate) fn at(&mut self, now: Instant) {
        self.now = now;
    }

    /// The time that was told last.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Bytes that the files take now, and bytes ever written to them.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.used.load(Ordering::Relaxed), self.ever)
    }

    /// Whether a file takes what its worker may send before the next acknowledgement.
    pub(crate) fn has_room(&self, ring: Option<&Ring>) -> bool {
        let (waiting, size) = ring.map_or((0, 0), |ring| (ring.len(), ring.size));
        let grows = size < self.each;
        self.each > 0
            && self.retry_at.is_none_or(|at| self.now >= at)
            && waiting <= self.each.saturating_sub(WINDOW).max(self.each / 2)
            && (!grows || self.used.load(Ordering::Relaxed) + WINDOW <= self.total)
    }

    /// Writes `bytes` to the ring, which is made if there is none. False: they are not in it.
    pub(crate) fn push(&mut self, ring: &mut Option<Ring>, bytes: &[u8]) -> bool {
        if self.each == 0 || self.retry_at.is_some_and(|at| self.now < at) {
            return false;
        }
        let pushed = match ring {
            Some(ring) => ring.push(bytes, self.total),
            None => unnamed(&self.dir).and_then(|file| {
                let used = Arc::clone(&self.used);
                let new = Ring { file, limit: self.each, read: 0, written: 0, size: 0, used };
                ring.insert(new).push(bytes, self.total)
            }),
        };
        match pushed {
            Ok(true) => {
                self.ever += bytes.len() as u64;
                true
            }
            Ok(false) => false,
            Err(why) => {
                self.failed("written", &why);
                false
            }
        }
    }

    /// Logs a fault, and has files left alone for a moment.
    pub(crate) fn failed(&mut self, doing: &str, why: &io::Error) {
        self.retry_at = Some(self.now + PAUSE);
        if let Some(held) = self.faults.allow(self.now) {
            let dir = self.dir.display();
            telemetry::error!(
                "a response cannot be {doing} to its temporary file in {dir}: {why}; slow clients make \
                 their applications wait{held}"
            );
        }
    }
}

/// A file of one response. What is written last comes out last; its space is used again and again.
#[derive(Debug)]
pub(crate) struct Ring {
    file: File,
    limit: u64,
    read: u64,
    written: u64,
    /// How far the file has grown.
    size: u64,
    used: Arc<AtomicU64>,
}

impl Ring {
    /// Bytes that wait in it.
    pub(crate) fn len(&self) -> u64 {
        self.written - self.read
    }

    /// False: there is no room.
    fn push(&mut self, bytes: &[u8], total: u64) -> io::Result<bool> {
        let len = bytes.len() as u64;
        if self.len() + len > self.limit {
            return Ok(false);
        }
        let grown = self.size.max((self.written + len).min(self.limit));
        let growth = grown - self.size;
        if growth > 0 && self.used.load(Ordering::Relaxed) + growth > total {
            return Ok(false);
        }
        for (part, at) in self.parts(self.written, len) {
            self.file.write_all_at(&bytes[part], at)?;
        }
        self.used.fetch_add(growth, Ordering::Relaxed);
        self.size = grown;
        self.written += len;
        Ok(true)
    }

    /// Fills `out` with the oldest bytes; there must be as many.
    pub(crate) fn pop(&mut self, out: &mut [u8]) -> io::Result<()> {
        let len = out.len() as u64;
        for (part, at) in self.parts(self.read, len) {
            self.file.read_exact_at(&mut out[part], at)?;
        }
        self.read += len;
        if self.read == self.written {
            (self.read, self.written) = (0, 0);
        }
        Ok(())
    }

    /// Whether an empty ring should be given up, so that the disk has its space back.
    pub(crate) fn is_spent(&self) -> bool {
        self.len() == 0 && self.size > KEEP
    }

    /// The one or two places in the file that `len` bytes from `start` on have: their range, and where they are.
    fn parts(&self, start: u64, len: u64) -> impl Iterator<Item = (std::ops::Range<usize>, u64)> {
        let at = start % self.limit;
        // No more than the limit of a buffer that is in memory.
        let first = usize::try_from((self.limit - at).min(len)).unwrap_or(usize::MAX);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        [(0..first, at), (first..len, 0)].into_iter().filter(|(part, _)| !part.is_empty())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.used.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// A file that has no name, and is gone with its descriptor.
fn unnamed(dir: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(OFlag::O_TMPFILE.bits()).open(dir) {
        // File systems that cannot do it (overlays, NFS) say so in one of these ways.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(nix::libc::EOPNOTSUPP | nix::libc::EISDIR | nix::libc::EINVAL)
            ) => {}
        result => return result,
    }
    named_and_unlinked(dir, &options)
}

fn named_and_unlinked(dir: &Path, options: &std::fs::OpenOptions) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!(".lurcher-{}-{number}", std::process::id()));
        // It must not be there, nor be a link (O_EXCL): the directory may be everybody's.
        match options.clone().create_new(true).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(dir: &Path, each: u64, total: u64) -> Delivery {
        Delivery {
            spool_dir: Some(dir.to_owned()),
            response_spool: each,
            response_spool_total: total,
            ..crate::config::example().delivery
        }
    }

    #[test]
    fn a_ring_gives_back_what_it_was_given_round_and_round() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(&settings(dir.path(), 1000, 10_000), Instant::now());
        let mut ring = None;
        let bytes: Vec<u8> = (0..=255).cycle().take(50_000).collect();
        let (mut pushed, mut popped) = (0, Vec::new());
        while popped.len() < bytes.len() {
            let piece = &bytes[pushed..(pushed + 317).min(bytes.len())];
            if spool.push(&mut ring, piece) {
                pushed += piece.len();
            }
            let ring = ring.as_mut().unwrap();
            let want = usize::try_from(ring.len().min(291)).unwrap();
            let mut out = vec![0; want];
            ring.pop(&mut out).unwrap();
            popped.extend(out);
            assert!(ring.size <= 1000 && spool.bytes().0 == ring.size);
        }
        assert_eq!(popped, bytes);
        assert_eq!(spool.bytes().1, 50_000);
        drop(ring);
        assert_eq!(spool.bytes().0, 0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "it has no name");
    }

    #[test]
    fn all_rings_together_have_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(&settings(dir.path(), 1000, 1500), Instant::now());
        let (mut one, mut two) = (None, None);
        assert!(spool.push(&mut one, &[1; 1000]));
        assert!(!spool.push(&mut one, &[1]), "it is full");
        assert!(!spool.push(&mut two, &[2; 501]));
        assert!(spool.push(&mut two, &[2; 500]));
        drop(one);
        assert!(spool.push(&mut two, &[2; 500]));
    }

    #[test]
    fn a_disk_that_fails_is_left_alone_for_a_moment() {
        let now = Instant::now();
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("later");
        let mut spool = Spool::new(&settings(&gone, 1 << 20, 1 << 20), now);
        let mut ring = None;
        assert!(spool.has_room(None));
        assert!(!spool.push(&mut ring, b"x") && !spool.has_room(None));
        std::fs::create_dir(&gone).unwrap();
        assert!(!spool.push(&mut ring, b"x"), "too soon");
        spool.at(now + PAUSE);
        assert!(spool.has_room(None) && spool.push(&mut ring, b"x"));
    }

    #[test]
    fn without_o_tmpfile_the_name_is_taken_away_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = named_and_unlinked(dir.path(), File::options().read(true).write(true)).unwrap();
        file.write_all_at(b"here", 0).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
