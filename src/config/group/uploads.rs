//! Bodies of requests: how large they may be.

use crate::config::Surroundings;
use crate::config::reader::Reader;
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
}

impl Uploads {
    pub(in crate::config) fn read<W: Surroundings>(reader: &mut Reader<'_, W>) -> Option<Self> {
        let max_body = reader.size(Key::MaxBody);
        Some(Self { max_body: max_body.map(|bytes| Some(bytes).filter(|b| *b > 0))? })
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[Setting {
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
}];
