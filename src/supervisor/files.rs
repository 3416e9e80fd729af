//! Watches the application's files, for `--reload-on-change`: a thread that waits for inotify and tells of changes once
//! they have come to rest.
//!
//! It reads no file and decides nothing. Files are those that end in `.py` below `app-path`, and single ones that are
//! named. It does not go into hidden directories, virtual environments, `__pycache__` and `node_modules`, nor through
//! symbolic links.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::sys::inotify::AddWatchFlags;
use nix::sys::inotify::InitFlags;
use nix::sys::inotify::Inotify;
use nix::sys::inotify::InotifyEvent;
use nix::sys::inotify::WatchDescriptor;

use super::rest::Rest;
use crate::config::Config;
use crate::telemetry;
use crate::telemetry::Escaped;

/// Most directories that are watched: each costs about 1 KiB of the kernel's memory.
const MOST_DIRECTORIES: usize = 8192;

/// What counts as a change.
const CHANGES: AddWatchFlags = AddWatchFlags::IN_CLOSE_WRITE
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_CREATE)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_ONLYDIR);

/// The watch, as the supervisor has it. Its thread ends when it is dropped.
#[derive(Debug)]
pub(super) struct Files {
    /// Each time: one file that has changed.
    pub(super) changes: Receiver<PathBuf>,
    what: Option<Watched>,
    _end: Option<UnixStream>,
}

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Watched {
    root: PathBuf,
    /// Files that count although they are not below `root`, or have another name.
    single: Vec<PathBuf>,
}

impl Watched {
    fn of(config: &Config) -> Option<Watched> {
        if !config.loading.reload_on_change {
            return None;
        }
        let root = real(&config.application.app_path);
        let app = &config.application.wsgi_app;
        // As the loader splits it: what follows the last colon may be a name.
        let file = app.rsplit_once(':').filter(|(_, name)| !name.contains('/'));
        let file = root.join(file.map_or(app.as_str(), |(file, _)| file));
        let mut single = vec![file];
        single.extend(config.settings_file.clone());
        // A module's name is no file.
        single.retain(|file| file.is_file());
        let single =
            single.iter().filter_map(|file| Some(real(parent(file)).join(file.file_name()?)));
        Some(Watched { root, single: single.collect() })
    }
}

impl Files {
    /// Nothing is watched.
    fn none() -> Files {
        Files { changes: crossbeam_channel::never(), what: None, _end: None }
    }

    /// Watches what these settings want watched.
    pub(super) fn watch(config: &Config) -> io::Result<Files> {
        let Some(what) = Watched::of(config) else { return Ok(Files::none()) };
        let (sender, changes) = crossbeam_channel::unbounded();
        let (ours, end) = UnixStream::pair()?;
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let mut watch =
            Watch { inotify, what: what.clone(), directories: HashMap::new(), full: false };
        watch.begin();
        telemetry::info!(
            "watching the application's files in {} directories below {}",
            watch.directories.len(),
            Escaped(what.root.as_os_str().as_bytes())
        );
        thread::Builder::new().name("lurcher-files".to_owned()).spawn(move || {
            if let Err(error) = watch.run(&end, &sender) {
                telemetry::error!("the application's files are no longer watched: {error}");
            }
        })?;
        Ok(Files { changes, what: Some(what), _end: Some(ours) })
    }

    /// The thread has ended, and said why.
    pub(super) fn lost(&mut self) {
        *self = Files::none();
    }

    /// Whether changes are waited for.
    pub(super) fn are_watched(&self) -> bool {
        self.what.is_some()
    }

    /// The settings are these from now on.
    pub(super) fn adapt(&mut self, config: &Config) {
        if Watched::of(config) == self.what {
            return;
        }
        match Files::watch(config) {
            Ok(files) => *self = files,
            Err(error) => telemetry::error!("cannot watch the application's files: {error}"),
        }
    }
}

/// A directory that is watched.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// All of it, and not only a single file.
    whole: bool,
}

/// The thread's part.
#[derive(Debug)]
struct Watch {
    inotify: Inotify,
    what: Watched,
    directories: HashMap<WatchDescriptor, Directory>,
    /// It was said that not all can be watched.
    full: bool,
}

impl Watch {
    fn begin(&mut self) {
        let root = self.what.root.clone();
        self.add_tree(root, &mut None);
        for file in self.what.single.clone() {
            self.add(parent(&file).to_owned(), false);
        }
    }

    /// Until `end` is closed, or nobody listens.
    fn run(&mut self, end: &UnixStream, sender: &Sender<PathBuf>) -> io::Result<()> {
        let mut rest = Rest::default();
        loop {
            let pause = rest.due().map(|at| at.saturating_duration_since(Instant::now()));
            let timeout = pause.map_or(PollTimeout::NONE, |pause| {
                // Rounded up, so that it does not wake just before.
                let pause = pause + Duration::from_millis(1);
                PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX)
            });
            let mut fds = [
                PollFd::new(self.inotify.as_fd(), PollFlags::POLLIN),
                PollFd::new(end.as_fd(), PollFlags::POLLIN),
            ];
            match nix::poll::poll(&mut fds, timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if fds[1].any() == Some(true) {
                return Ok(());
            }
            match self.inotify.read_events() {
                Ok(events) => {
                    for event in events {
                        if let Some(file) = self.changed(&event) {
                            rest.changed(file, Instant::now());
                        }
                    }
                }
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if let Some(file) = rest.take(Instant::now())
                && sender.send(file).is_err()
            {
                return Ok(());
            }
        }
    }

    /// The file whose change an event tells of, if it counts.
    fn changed(&mut self, event: &InotifyEvent) -> Option<PathBuf> {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            // Some were lost, new directories perhaps among them.
            self.begin();
            return Some(self.what.root.clone());
        }
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            self.directories.remove(&event.wd);
            return None;
        }
        let Directory { path, whole } = self.directories.get(&event.wd)?;
        let (whole, file) = (*whole, path.join(event.name.as_ref()?));
        if !event.mask.contains(AddWatchFlags::IN_ISDIR) {
            if whole && is_marker(&file) && *path != self.what.root {
                let environment = path.clone();
                self.remove_tree(&environment);
                return None;
            }
            return self.counts(&file, whole).then_some(file);
        }
        if !whole {
            return None;
        }
        if event.mask.intersects(AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO) {
            let mut found = None;
            if !is_skipped(&file) {
                // What was written into it before it was watched is a change too.
                self.add_tree(file, &mut found);
            }
            return found;
        }
        // What was moved away with all that is in it tells of nothing more.
        (self.remove_tree(&file) && event.mask.contains(AddWatchFlags::IN_MOVED_FROM))
            .then_some(file)
    }

    fn counts(&self, file: &Path, whole: bool) -> bool {
        whole && is_source(file) || self.what.single.iter().any(|single| single == file)
    }

    /// Watches a directory and those below it; `found` is one of the sources in them.
    fn add_tree(&mut self, root: PathBuf, found: &mut Option<PathBuf>) {
        let mut paths = vec![root];
        while let Some(path) = paths.pop() {
            // Watched first, read then: what comes meanwhile is seen at least once.
            if !self.add(path.clone(), true) {
                continue;
            }
            // One that cannot be read, or is gone again, has nothing that Python could load.
            let Ok(entries) = fs::read_dir(&path) else { continue };
            for entry in entries.flatten() {
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    if !is_skipped(&path) {
                        paths.push(path);
                    }
                } else if found.is_none() && is_source(&path) {
                    *found = Some(path);
                }
            }
        }
    }

    fn add(&mut self, path: PathBuf, whole: bool) -> bool {
        let shown = Escaped(self.what.root.as_os_str().as_bytes());
        let full = if self.directories.len() >= MOST_DIRECTORIES {
            Some(format!("there are more than {MOST_DIRECTORIES} directories below {shown}"))
        } else {
            match self.inotify.add_watch(&path, CHANGES) {
                Ok(wd) => {
                    let known = self.directories.get(&wd).is_some_and(|known| known.whole);
                    self.directories.insert(wd, Directory { path, whole: whole || known });
                    return true;
                }
                Err(Errno::ENOSPC) => {
                    Some("the limit fs.inotify.max_user_watches is reached".to_owned())
                }
                // Gone again, or not for us to read.
                Err(_) => None,
            }
        };
        if let Some(why) = full
            && !std::mem::replace(&mut self.full, true)
        {
            telemetry::warn!("{why}: changes in some of them will not be noticed");
        }
        false
    }

    /// Whether there was any.
    fn remove_tree(&mut self, root: &Path) -> bool {
        let below = |(_, directory): &(_, &Directory)| directory.path.starts_with(root);
        let gone: Vec<_> = self.directories.iter().filter(below).map(|(wd, _)| *wd).collect();
        for wd in &gone {
            self.directories.remove(wd);
            // It fails for a directory that was deleted: its watch is gone by itself.
            let _ = self.inotify.rm_watch(*wd);
        }
        !gone.is_empty()
    }
}

/// A directory by the one name it has, so that names can be compared.
fn real(directory: &Path) -> PathBuf {
    directory.canonicalize().unwrap_or_else(|_| directory.to_owned())
}

fn parent(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."))
}

/// Editors have hidden files of their own that end like sources.
fn is_source(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("py")) && !is_hidden(path)
}

/// The file that makes a directory a virtual environment.
fn is_marker(path: &Path) -> bool {
    path.file_name() == Some(OsStr::new("pyvenv.cfg"))
}

fn is_skipped(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default();
    is_hidden(directory)
        || name == "__pycache__"
        || name == "node_modules"
        || directory.join("pyvenv.cfg").exists()
}
