//! How a running instance can be asked and told things.

use std::path::PathBuf;

use crate::config::Bind;
use crate::config::Surroundings;
use crate::config::reader::Reader;
use crate::config::reader::quoted;
use crate::config::table::Fallback;
use crate::config::table::Group;
use crate::config::table::Key;
use crate::config::table::Kind;
use crate::config::table::Setting;
use crate::config::value;

/// The control socket, and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Where it is.
    pub control: ControlPlace,
    /// Where metrics are served.
    pub metrics: Option<Bind>,
}

/// Where a control socket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlPlace {
    /// In the first of some directories that will have it, under the instance's process id.
    Usual,
    /// There; absolute.
    At(PathBuf),
    /// Nowhere.
    Off,
}

impl Admin {
    pub(in crate::config) fn read<W: Surroundings>(reader: &mut Reader<'_, W>) -> Self {
        let control = reader.get(
            Key::Control,
            |reader, text| match text {
                "off" => Ok(ControlPlace::Off),
                text => reader.path(text).map(ControlPlace::At),
            },
            |place| match place {
                ControlPlace::At(path) => quoted(&path.to_string_lossy()),
                ControlPlace::Usual | ControlPlace::Off => quoted("off"),
            },
        );
        let metrics = Self::read_metrics(reader);
        Self { control: control.unwrap_or(ControlPlace::Usual), metrics }
    }

    /// Where metrics are served: by an instance, or by a front end.
    pub(in crate::config) fn read_metrics<W: Surroundings>(
        reader: &mut Reader<'_, W>,
    ) -> Option<Bind> {
        reader.get(
            Key::Metrics,
            |reader, text| match text.strip_prefix("unix:") {
                Some(path) => reader.path(path).map(Bind::Unix),
                None => value::address(text).map(Bind::Tcp),
            },
            |at| quoted(&at.to_string()),
        )
    }
}

/// The rows of this group.
pub(in crate::config) const ROWS: &[Setting] = &[
    Setting {
        key: Key::Control,
        name: "control",
        metavar: "PATH",
        kind: Kind::Path,
        fallback: Fallback::Unset(
            "PID.sock in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/lurcher, /run/lurcher or /tmp/lurcher-UID",
        ),
        group: Group::Admin,
        help: "The unix socket that `lurcher status`, `stop` and the like talk to; only its owner and root may. `off` for none",
        reason: "The commands look in the same places, so that they find an instance without being told; where none of them \
             can be written, the instance runs without.",
    },
    Setting {
        key: Key::Metrics,
        name: "metrics",
        metavar: "ADDRESS",
        kind: Kind::Text,
        fallback: Fallback::Unset("no metrics"),
        group: Group::Admin,
        help: "Serve metrics in Prometheus' text format at http://ADDRESS/metrics, as 127.0.0.1:9464, or at a Unix socket, as \
               unix:/run/shop/metrics; whoever reaches it can read them",
        reason: "A port must be chosen, and protected, by whoever opens it.",
    },
];
