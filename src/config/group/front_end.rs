//! The front ends, and what has to be known of them.

use std::path::PathBuf;

use crate::config::LinkSpec;
use crate::config::Surroundings;
use crate::config::reader::PlacedLink;
use crate::config::reader::Reader;
use crate::config::reader::quoted_path;
use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;

/// Where requests come from and responses go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontEnd {
    /// At least one, no endpoint twice.
    pub links: Vec<LinkSpec>,
    /// What the paths of upload files start at, as the front end was told to `chroot`; absolute.
    pub mongrel2_chroot: Option<PathBuf>,
    /// `serve` starts and ends it, and tells of its end. No setting: whoever is started so knows it.
    pub of_serve: bool,
}

impl FrontEnd {
    pub(in crate::config) fn read<W: Surroundings>(
        reader: &mut Reader<'_, W>,
        links: &[PlacedLink],
    ) -> Self {
        let mongrel2_chroot = reader.get(Key::Mongrel2Chroot, Reader::path, quoted_path);
        if let Some(dir) = mongrel2_chroot.as_deref().filter(|dir| !reader.world.is_dir(dir)) {
            let warning = format!("mongrel2-chroot: {} is not a directory (yet?)", dir.display());
            reader.warn(warning);
        }
        let links = links.iter().map(|(link, _)| link.clone()).collect();
        Self { links, mongrel2_chroot, of_serve: false }
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[
    Setting {
        key: Key::Recv,
        name: "recv",
        metavar: "ENDPOINT",
        kind: Kind::Endpoints,
        fallback: Fallback::Required,
        group: Group::FrontEnd,
        help: "Where requests come from: the send_spec of the front end's handler, as tcp://HOST:PORT or ipc://PATH. \
               Once for each front end",
        reason: "Only the front end's configuration can tell.",
    },
    Setting {
        key: Key::Send,
        name: "send",
        metavar: "ENDPOINT",
        kind: Kind::Endpoints,
        fallback: Fallback::Required,
        group: Group::FrontEnd,
        help: "Where responses go: the recv_spec of the same handler. As often as --recv, in the same order",
        reason: "Only the front end's configuration can tell. Endpoints of different sources are never paired: a response \
                 must not go to a front end that did not ask.",
    },
    Setting {
        key: Key::Mongrel2Chroot,
        name: "mongrel2-chroot",
        metavar: "DIR",
        kind: Kind::Path,
        fallback: Fallback::Unset("none, upload paths are whole"),
        group: Group::FrontEnd,
        help: "The chroot of the front end's server: what the paths of its upload files start at",
        reason: "A Mongrel2 whose server has the chroot `/` names files by their real paths.",
    },
];
