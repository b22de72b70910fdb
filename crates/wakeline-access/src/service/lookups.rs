//! The cache of keys, and the lookups in flight.

use std::collections::HashMap;
use std::sync::Arc;

use super::{AccessInner, CACHE_LEN_MAX, CachedLookup};

/// The cached state of key ids.
#[derive(Default)]
pub(super) struct KeyCache {
    pub(super) keys: HashMap<String, CachedLookup>,
    /// The ids that do not exist, or no longer exist.
    pub(super) absent: HashMap<String, CachedLookup>,
}

impl KeyCache {
    pub(super) fn get(&self, id: &str) -> Option<&CachedLookup> {
        self.keys.get(id).or_else(|| self.absent.get(id))
    }

    pub(super) fn insert(&mut self, id: &str, lookup: CachedLookup) {
        self.forget(id);
        let all = if lookup.key.is_some() { &mut self.keys } else { &mut self.absent };
        if all.len() >= CACHE_LEN_MAX {
            all.clear();
        }
        all.insert(id.to_owned(), lookup);
    }

    pub(super) fn forget(&mut self, id: &str) {
        self.keys.remove(id);
        self.absent.remove(id);
    }
}

/// A lookup of one key, or the wait for a lookup by another request.
pub(super) struct KeyLookup<'a> {
    inner: &'a AccessInner,
    id: &'a str,
    pub(super) lock: Arc<tokio::sync::Mutex<()>>,
}

impl<'a> KeyLookup<'a> {
    pub(super) fn begin(inner: &'a AccessInner, id: &'a str) -> Self {
        let lock = Arc::clone(inner.lookups_in_flight.lock().entry(id.to_owned()).or_default());
        Self { inner, id, lock }
    }
}

impl Drop for KeyLookup<'_> {
    fn drop(&mut self) {
        let mut lookups_in_flight = self.inner.lookups_in_flight.lock();
        // The map's reference and this one are the only ones: no other request waits.
        if Arc::strong_count(&self.lock) <= 2 {
            lookups_in_flight.remove(self.id);
        }
    }
}
