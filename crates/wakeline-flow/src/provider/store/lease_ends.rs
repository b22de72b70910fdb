//! Notifies the waiters of this process of the ends of leases that it holds, because a holder may
//! go away without giving its lease back. The store notifies other processes.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use wakeline_core::{FlowChange, FlowChangeKind};

/// If more ends than this are remembered, all are forgotten, which only causes unnecessary hints.
const ENDS_MAX: usize = 1_000;

/// The ends of leases that the waiters were notified of.
#[derive(Default)]
pub(super) struct LeaseEnds {
    reported: Mutex<HashMap<FlowChangeKind, ReportedEnd>>,
}

struct ReportedEnd {
    at: Instant,
    due: Instant,
}

impl LeaseEnds {
    /// Returns a change to publish if the waiters do not know of it yet: an earlier end than the
    /// one reported, or any end once half a lease has passed since the last report. A waiter that
    /// looks at that time and finds nothing learns the ends of later leases from its claim.
    pub(super) fn news(&self, what: FlowChangeKind, lease: Duration) -> Option<FlowChange> {
        let now = Instant::now();
        let due = now.checked_add(lease)?;
        let mut reported = self.reported.lock();
        let known = reported
            .get(&what)
            .is_some_and(|end| end.due > now && end.due <= due && end.at + lease / 2 > now);
        if known {
            return None;
        }
        if reported.len() > ENDS_MAX {
            reported.clear();
        }
        reported.insert(what.clone(), ReportedEnd { at: now, due });
        Some(FlowChange { what, due_in: lease })
    }
}
