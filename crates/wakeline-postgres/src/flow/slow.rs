//! Turns whose last commit exceeded the statement timeout. They are committed separately.
//!
//! # Where it sits
//! [`super::commit`] records the lanes of a call that was cancelled at its time limit. The call may
//! have been fused, so not all of them are slow.
//!
//! # Invariants
//! * The commit of such a turn delays no other commit: it is executed alone, on a connection for
//!   general use.
//! * Its lock timeout is shorter than its statement timeout. A commit that still takes too long is
//!   slow by itself, and its error says so ([`wakeline_store::TimeLimit`]). Many short waits for
//!   locks in one commit have the same effect and cannot be distinguished from that.

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;

/// The maximum number of lanes that are remembered. All are forgotten when it is reached; then the
/// next commit of such a turn delays others once more.
const LANES_MAX: usize = 10_000;

/// The lanes whose last commit took too long.
#[derive(Default)]
pub(super) struct SlowLanes {
    lanes: Mutex<HashSet<i64>>,
}

impl SlowLanes {
    /// Records that the commit of this lane, or another one in the same call, took too long.
    pub(super) fn note(&self, lane: i64) {
        let mut lanes = self.lanes.lock();
        if lanes.len() >= LANES_MAX {
            lanes.clear();
        }
        lanes.insert(lane);
    }

    pub(super) fn contains(&self, lane: i64) -> bool {
        self.lanes.lock().contains(&lane)
    }

    /// Forgets a lane that was committed in time.
    pub(super) fn forget(&self, lane: i64) {
        self.lanes.lock().remove(&lane);
    }
}

/// Returns the lock timeout of a separate commit in the form of the PostgreSQL setting.
pub(super) fn lock_wait(statement_timeout: Duration) -> String {
    format!("{}ms", (statement_timeout / 2).as_millis().max(1))
}
