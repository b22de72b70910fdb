//! Attempts of activities whose leases could not be renewed because the store was unavailable. The
//! store counts such an attempt if its lease ended meanwhile. This process remembers that it was
//! not the fault of the activity, so that an outage uses up none of its attempts.
//!
//! # Invariants
//! * Only attempts of this process are excused: another process that takes the activity counts all.
//! * An attempt whose lease was renewed afterwards counts.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;
use wakeline_core::InstanceId;

use crate::message::ActivityTask;

/// The maximum number of activities that are remembered. An outage that affects more of them
/// excuses only the later ones.
const ACTIVITIES_MAX: usize = 100_000;

/// Identifies an activity by its instance, execution, event and execution identity.
type ActivityKey = (InstanceId, u64, u64, Option<String>);

/// The lock tokens of attempts that may have been lost to an outage, by activity.
#[derive(Default)]
pub(crate) struct LostAttempts {
    by_activity: Mutex<HashMap<ActivityKey, HashSet<String>>>,
}

impl LostAttempts {
    /// Records that this attempt may be lost to an outage.
    pub(super) fn excuse(&self, task: &ActivityTask, lock_token: &str) {
        let (mut by_activity, key) = (self.by_activity.lock(), key(task));
        if by_activity.len() >= ACTIVITIES_MAX && !by_activity.contains_key(&key) {
            by_activity.clear();
        }
        by_activity.entry(key).or_default().insert(lock_token.to_owned());
    }

    /// Records that this attempt was not lost after all.
    pub(super) fn recover(&self, task: &ActivityTask, lock_token: &str) {
        let mut by_activity = self.by_activity.lock();
        if !by_activity.is_empty()
            && let Some(tokens) = by_activity.get_mut(&key(task))
        {
            tokens.remove(lock_token);
        }
    }

    /// Returns how many other attempts of the activity may have been lost to an outage.
    pub(super) fn others(&self, task: &ActivityTask, lock_token: &str) -> u32 {
        let by_activity = self.by_activity.lock();
        if by_activity.is_empty() {
            return 0;
        }
        let tokens = by_activity.get(&key(task)).into_iter().flatten();
        let others = tokens.filter(|token| token.as_str() != lock_token).count();
        u32::try_from(others).unwrap_or(u32::MAX)
    }

    /// Forgets an activity that has ended.
    pub(super) fn forget(&self, task: &ActivityTask) {
        let mut by_activity = self.by_activity.lock();
        if !by_activity.is_empty() {
            by_activity.remove(&key(task));
        }
    }
}

fn key(task: &ActivityTask) -> ActivityKey {
    (task.instance.clone(), task.execution, task.event, task.identity.clone())
}
