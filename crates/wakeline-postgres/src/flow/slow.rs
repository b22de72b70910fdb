//! Turns whose last commit took longer than the database allows: they are committed apart.
//!
//! # Where it sits
//! [`super::commit`] notes the lanes of a call that was ended at its time limit. The call may have
//! been fused, so not all of them are at fault.
//!
//! # Invariants
//! * Nobody waits for the commit of such a turn: it goes alone, on a connection for general use.
//! * Its waits for locks end before its statement does. What still takes too long is slow by
//!   itself, and is marked so ([`wakeline_store::TimeLimit`]). Many short waits for locks in one
//!   commit look the same: they cannot be told apart without looking at the locks.

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;

/// Most lanes that are remembered. More are forgotten, which costs others a wait.
const LANES_MAX: usize = 10_000;

/// Lanes whose last commit took too long.
#[derive(Default)]
pub(super) struct SlowLanes {
    lanes: Mutex<HashSet<i64>>,
}

impl SlowLanes {
    /// The commit of this lane, or one in the same call, took too long.
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

    /// The lane was committed in time.
    pub(super) fn forget(&self, lane: i64) {
        self.lanes.lock().remove(&lane);
    }
}

/// How long a commit that goes apart waits for a lock, as the setting is written.
pub(super) fn lock_wait(statement_timeout: Duration) -> String {
    format!("{}ms", (statement_timeout / 2).as_millis().max(1))
}
