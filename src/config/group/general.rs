//! What is about the settings themselves.

use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[Setting {
    key: Key::Config,
    name: "config",
    metavar: "FILE",
    kind: Kind::Path,
    fallback: Fallback::Unset("lurcher.toml of the current directory, if there is one"),
    group: Group::General,
    help: "Read settings from FILE, a TOML file with the names of the options as keys; /dev/null for none",
    reason: "One file in the project's directory is enough for most; a file that is named must be there.",
}];
