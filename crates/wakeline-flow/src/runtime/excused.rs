//! Turns that the provider could not commit at once. If such a turn loses its lease, the store
//! counts an attempt; here it is remembered that this was not the instance's fault, so that an
//! outage does not end instances as poison.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Most lives that are remembered. An outage that hits more instances than that excuses only the
/// later ones.
const LIVES_MAX: usize = 100_000;

/// Excused attempts, by the life of the instance.
#[derive(Default)]
pub(super) struct Excused {
    by_life: Mutex<HashMap<i64, u32>>,
}

impl Excused {
    /// One more attempt of this life may be lost to the provider.
    pub(super) fn add(&self, life: i64) {
        let mut by_life = self.by_life.lock();
        if by_life.len() >= LIVES_MAX {
            by_life.clear();
        }
        *by_life.entry(life).or_default() += 1;
    }

    /// How many attempts of this life may have been lost to the provider.
    pub(super) fn of(&self, life: i64) -> u32 {
        self.by_life.lock().get(&life).copied().unwrap_or(0)
    }

    /// A turn of this life was committed: the next one counts from its beginning.
    pub(super) fn forget(&self, life: i64) {
        self.by_life.lock().remove(&life);
    }
}
