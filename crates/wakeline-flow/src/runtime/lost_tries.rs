//! Tries of activities whose leases could not be renewed because the store was away. The store
//! counts such a try if its lease ended meanwhile; here it is remembered that it was not the
//! activity's fault, so that an outage uses up none of its tries.
//!
//! # Invariants
//! * Only for tries of this process: another one that takes the activity counts them all.
//! * A try that could be renewed afterwards counts.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;
use wakeline_core::InstanceId;

use crate::message::ActivityTask;

/// Most activities that are remembered. An outage that hits more excuses only the later ones.
const ACTIVITIES_MAX: usize = 100_000;

/// Which decision of which execution scheduled an activity.
type Key = (InstanceId, u64, u64, Option<String>);

/// The tokens of tries that may have been lost to the store, by their activity.
#[derive(Default)]
pub(crate) struct LostTries {
    by_activity: Mutex<HashMap<Key, HashSet<String>>>,
}

impl LostTries {
    /// This try may be lost to the store.
    pub(super) fn excuse(&self, task: &ActivityTask, lock_token: &str) {
        let (mut by_activity, key) = (self.by_activity.lock(), key(task));
        if by_activity.len() >= ACTIVITIES_MAX && !by_activity.contains_key(&key) {
            by_activity.clear();
        }
        by_activity.entry(key).or_default().insert(lock_token.to_owned());
    }

    /// This try was not lost after all.
    pub(super) fn recover(&self, task: &ActivityTask, lock_token: &str) {
        let mut by_activity = self.by_activity.lock();
        if !by_activity.is_empty()
            && let Some(tokens) = by_activity.get_mut(&key(task))
        {
            tokens.remove(lock_token);
        }
    }

    /// How many other tries may have been lost to the store.
    pub(super) fn before(&self, task: &ActivityTask, lock_token: &str) -> u32 {
        let by_activity = self.by_activity.lock();
        if by_activity.is_empty() {
            return 0;
        }
        let tokens = by_activity.get(&key(task)).into_iter().flatten();
        let others = tokens.filter(|token| token.as_str() != lock_token).count();
        u32::try_from(others).unwrap_or(u32::MAX)
    }

    /// The activity has ended.
    pub(super) fn forget(&self, task: &ActivityTask) {
        let mut by_activity = self.by_activity.lock();
        if !by_activity.is_empty() {
            by_activity.remove(&key(task));
        }
    }
}

fn key(task: &ActivityTask) -> Key {
    (task.instance.clone(), task.execution, task.event, task.identity.clone())
}
