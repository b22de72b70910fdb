//! Turns that the provider could not commit at once. If such a turn loses its lease, the store
//! counts an attempt; here it is remembered that this was not the instance's fault, so that an
//! outage does not end instances as poison. It is also remembered how often a commit took longer
//! than the store allows: the next turn of the instance, which does the same, counts on.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Most lives that are remembered. An outage that hits more instances than that excuses only the
/// later ones.
const LIVES_MAX: usize = 100_000;

/// What is remembered, by the life of the instance.
#[derive(Default)]
pub(super) struct Uncommitted {
    by_life: Mutex<HashMap<i64, Life>>,
}

#[derive(Default)]
struct Life {
    /// Attempts that may have been lost to the provider.
    excused: u32,
    /// Commits in a row that took too long.
    too_long: u32,
}

impl Uncommitted {
    /// One more attempt of this life may be lost to the provider.
    pub(super) fn excuse(&self, life: i64) {
        self.with(life, |life| life.excused += 1);
    }

    /// How many attempts of this life may have been lost to the provider.
    pub(super) fn excused(&self, life: i64) -> u32 {
        self.by_life.lock().get(&life).map_or(0, |life| life.excused)
    }

    /// One more commit of this life took too long. Returns how many did, in a row.
    pub(super) fn too_long(&self, life: i64) -> u32 {
        self.with(life, |life| {
            life.too_long += 1;
            life.too_long
        })
    }

    /// A commit failed for another reason, or others took too long as well.
    pub(super) fn not_too_long(&self, life: i64) {
        if let Some(life) = self.by_life.lock().get_mut(&life) {
            life.too_long = 0;
        }
    }

    /// A turn of this life was committed: the next one counts from its beginning.
    pub(super) fn forget(&self, life: i64) {
        self.by_life.lock().remove(&life);
    }

    fn with<T>(&self, life: i64, change: impl FnOnce(&mut Life) -> T) -> T {
        let mut by_life = self.by_life.lock();
        if by_life.len() >= LIVES_MAX && !by_life.contains_key(&life) {
            by_life.clear();
        }
        change(by_life.entry(life).or_default())
    }
}
