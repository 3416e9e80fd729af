//! Control messages of handlers (protocol section 7.1).

use crate::proto::tnetstring::Item;

/// What a control message asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ctl {
    pub(crate) keep_alive: bool,
    pub(crate) cancel: bool,
    pub(crate) credits: u64,
}

impl Ctl {
    /// Reads `["ctl", {…}]` (protocol section 7.1).
    pub(super) fn read(payload: &[u8]) -> Option<Ctl> {
        let Item::List(items) = Item::parse(payload).ok()? else { return None };
        let [Item::Bytes(b"ctl"), Item::Dict(pairs)] = items.as_slice() else { return None };
        let mut ctl = Ctl::default();
        for (key, value) in pairs {
            match (*key, value) {
                (b"keep-alive", _) => ctl.keep_alive = true,
                (b"cancel", _) => ctl.cancel = true,
                (b"credits", Item::Integer(bytes)) => {
                    ctl.credits = u64::try_from(*bytes).unwrap_or(0);
                }
                _ => {}
            }
        }
        Some(ctl)
    }
}
