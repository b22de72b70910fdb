//! Ends of leases that this process holds, told to its own waiters: a holder may go away without
//! giving its lease back. Other processes are told by the store.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use wakeline_core::{FlowChange, FlowWhat};

/// More remembered ends than this are forgotten, which only costs hints.
const ENDS_MAX: usize = 1_000;

/// Which ends the waiters were told of.
#[derive(Default)]
pub(super) struct LeaseEnds {
    told: Mutex<HashMap<FlowWhat, Told>>,
}

struct Told {
    at: Instant,
    due: Instant,
}

impl LeaseEnds {
    /// What the waiters do not know yet: an earlier end, or any end once half a lease has passed.
    /// Who looks then and finds nothing learns of later leases by that.
    pub(super) fn news(&self, what: FlowWhat, lease: Duration) -> Option<FlowChange> {
        let now = Instant::now();
        let due = now.checked_add(lease)?;
        let mut told = self.told.lock();
        let known = told
            .get(&what)
            .is_some_and(|told| told.due > now && told.due <= due && told.at + lease / 2 > now);
        if known {
            return None;
        }
        if told.len() > ENDS_MAX {
            told.clear();
        }
        told.insert(what.clone(), Told { at: now, due });
        Some(FlowChange { what, due_in: lease })
    }
}
