//! Turns that the provider could not commit at once. If such a turn loses its lease, the store
//! counts an attempt. This process remembers that it was not the fault of the instance, so that an
//! outage does not end instances as poison. It also remembers how often a commit took longer than
//! the store allows: the next turn of the instance does the same, and continues the count.

use std::collections::HashMap;

use parking_lot::Mutex;

/// The maximum number of instances that are remembered. An outage that affects more of them excuses
/// only the later ones.
const LIVES_MAX: usize = 100_000;

/// The failed commits of each instance, by [`life`](crate::provider::OrchestrationItem::life).
#[derive(Default)]
pub(super) struct Uncommitted {
    by_life: Mutex<HashMap<i64, UncommittedTurns>>,
}

#[derive(Default)]
struct UncommittedTurns {
    /// The number of attempts that may have been lost to an outage.
    excused: u32,
    /// The number of commits in a row that took too long.
    too_long: u32,
}

impl Uncommitted {
    /// Records that one more attempt of the instance may be lost to an outage.
    pub(super) fn excuse(&self, life: i64) {
        self.with(life, |life| life.excused += 1);
    }

    /// Returns how many attempts of the instance may have been lost to an outage.
    pub(super) fn excused(&self, life: i64) -> u32 {
        self.by_life.lock().get(&life).map_or(0, |life| life.excused)
    }

    /// Records that one more commit of the instance took too long. Returns the number of such
    /// commits in a row.
    pub(super) fn too_long(&self, life: i64) -> u32 {
        self.with(life, |life| {
            life.too_long += 1;
            life.too_long
        })
    }

    /// Records that a commit failed for another reason, or that other calls took too long as well.
    pub(super) fn not_too_long(&self, life: i64) {
        if let Some(life) = self.by_life.lock().get_mut(&life) {
            life.too_long = 0;
        }
    }

    /// Forgets an instance whose turn was committed.
    pub(super) fn forget(&self, life: i64) {
        self.by_life.lock().remove(&life);
    }

    fn with<T>(&self, life: i64, change: impl FnOnce(&mut UncommittedTurns) -> T) -> T {
        let mut by_life = self.by_life.lock();
        if by_life.len() >= LIVES_MAX && !by_life.contains_key(&life) {
            by_life.clear();
        }
        change(by_life.entry(life).or_default())
    }
}
