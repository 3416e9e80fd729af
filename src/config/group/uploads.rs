//! Bodies of requests: how large they may be, and which upload files are believed.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::Surroundings;
use crate::config::reader::Reader;
use crate::config::reader::quoted_path;
use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;

/// What is accepted as the body of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploads {
    /// The largest body in bytes; none: as large as the front end passes on.
    pub max_body: Option<u64>,
    /// Bytes of requests that may wait for a worker; further large ones get 503.
    pub queue_memory: u64,
    /// What makes the file that a message names believable.
    pub upload_trust: UploadTrust,
    /// The only directory that upload files may lie in; absolute. Always there with [`UploadTrust::Directory`].
    pub upload_dir: Option<PathBuf>,
    /// How many bytes of one streamed body may be on their way or wait in a worker.
    pub upload_window: u64,
    /// How long the client of a streamed body may send nothing; none: for ever.
    pub upload_timeout: Option<Duration>,
}

/// What makes the file that a message names believable, beside what only the front end can have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadTrust {
    /// This instance has seen the upload begin, on the same connection and with the same file.
    Instance,
    /// The file lies in the upload directory, and is as Mongrel2 makes them.
    Directory,
}

impl UploadTrust {
    /// The word for it in every source of settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Instance => "instance",
            Self::Directory => "directory",
        }
    }
}

impl Uploads {
    pub(in crate::config) fn read<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<Self> {
        let max_body = reader.size(Key::MaxBody).map(|bytes| Some(bytes).filter(|b| *b > 0));
        let queue_memory = reader.size(Key::QueueMemory);
        let upload_trust = reader.word(Key::UploadTrust, |word| {
            let all = [UploadTrust::Instance, UploadTrust::Directory];
            all.into_iter().find(|trust| trust.as_str() == word).unwrap_or(UploadTrust::Instance)
        });
        let upload_dir = reader.get(Key::UploadDir, Reader::path, quoted_path);
        if upload_trust == Some(UploadTrust::Directory) && upload_dir.is_none() {
            reader.needs(Key::UploadTrust, "directory", Key::UploadDir);
        }
        if let Some(dir) = upload_dir.as_deref().filter(|dir| !reader.world.is_dir(dir)) {
            let warning = format!("upload-dir: {} is not a directory (yet?)", dir.display());
            reader.warn(warning);
        }
        let upload_window = reader.size(Key::UploadWindow);
        let upload_timeout = reader.duration(Key::UploadTimeout);
        Some(Self {
            max_body: max_body?,
            queue_memory: queue_memory?,
            upload_trust: upload_trust?,
            upload_dir,
            upload_window: upload_window?,
            upload_timeout: Some(upload_timeout?).filter(|limit| !limit.is_zero()),
        })
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[
    Setting {
        key: Key::MaxBody,
        name: "max-body",
        metavar: "SIZE",
        kind: Kind::Size { min: 0, max: 1 << 50 },
        fallback: Fallback::Value("1G"),
        group: Group::Uploads,
        help: "The largest request body, in bytes or as 64K, 10M, 1G (powers of 1024); a larger one gets 413 as soon as it is \
           known to be so, and its connection is closed. 0 is no limit",
        reason: "waitress's default; few forms upload more, and what is larger would fill the disk of the upload files for \
             nothing.",
    },
    Setting {
        key: Key::QueueMemory,
        name: "queue-memory",
        metavar: "SIZE",
        kind: Kind::Size { min: 1 << 20, max: 1 << 40 },
        fallback: Fallback::Value("256M"),
        group: Group::Uploads,
        help: "How much memory requests that wait for a worker may take with their bodies (1M to 1024G); a further one of 64K \
               or more gets 503 with Retry-After",
        reason: "Beside --queue-limit: a thousand bodies of some megabytes, as a raised limits.content_length lets in, would \
                 fill a small machine.",
    },
    Setting {
        key: Key::UploadTrust,
        name: "upload-trust",
        metavar: "WHAT",
        kind: Kind::Choice(&["instance", "directory"]),
        fallback: Fallback::Value("instance"),
        group: Group::Uploads,
        help: "Which upload files are believed in: those whose beginning this instance has seen (instance), or any in \
               --upload-dir that is as Mongrel2 makes them (directory), where several instances share a handler",
        reason: "Mongrel2 lets its clients write the headers that name such files. What we have seen begin, no client can \
                 make up.",
    },
    Setting {
        key: Key::UploadDir,
        name: "upload-dir",
        metavar: "DIR",
        kind: Kind::Path,
        fallback: Fallback::Unset("wherever Mongrel2 says"),
        group: Group::Uploads,
        help: "The only directory that upload files may lie in, by its whole path: that of Mongrel2's upload.temp_store. Its \
               files must belong to its owner or to us, and not everybody may write to it",
        reason: "Only Mongrel2's configuration can tell. It is a second lock: set it where you can.",
    },
    Setting {
        key: Key::UploadWindow,
        name: "upload-window",
        metavar: "SIZE",
        kind: Kind::Size { min: 64 << 10, max: 1 << 30 },
        fallback: Fallback::Value("1M"),
        group: Group::Uploads,
        help: "With Mongrel2's upload.stream: how much of one body may have come that the application has not read (64K to 1G)",
        reason: "Enough that a quick client never waits for the way back, and 64 slots cost 64 MiB at most.",
    },
    Setting {
        key: Key::UploadTimeout,
        name: "upload-timeout",
        metavar: "TIME",
        kind: Kind::Duration,
        fallback: Fallback::Value("60s"),
        group: Group::Uploads,
        help: "With Mongrel2's upload.stream: how long a client may send nothing while its body is waited for (0: for ever); \
               then the request is given up with 408",
        reason: "As --send-timeout: a phone in a tunnel passes, one that is gone does not hold a slot for long.",
    },
];
