//! What a node remembers of keys, and looks at them under way.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Inner, Known, REMEMBERED_MAX};

/// What was read of keys.
#[derive(Default)]
pub(super) struct Remembered {
    pub(super) keys: HashMap<String, Known>,
    /// Of those that do not exist, or no more.
    pub(super) absent: HashMap<String, Known>,
}

impl Remembered {
    pub(super) fn get(&self, id: &str) -> Option<&Known> {
        self.keys.get(id).or_else(|| self.absent.get(id))
    }

    pub(super) fn insert(&mut self, id: &str, known: Known) {
        self.forget(id);
        let all = if known.key.is_some() { &mut self.keys } else { &mut self.absent };
        if all.len() >= REMEMBERED_MAX {
            all.clear();
        }
        all.insert(id.to_owned(), known);
    }

    pub(super) fn forget(&mut self, id: &str) {
        self.keys.remove(id);
        self.absent.remove(id);
    }
}

/// A look at one key, or the wait for another's.
pub(super) struct Look<'a> {
    inner: &'a Inner,
    id: &'a str,
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
}

impl<'a> Look<'a> {
    pub(super) fn begin(inner: &'a Inner, id: &'a str) -> Self {
        let turn = Arc::clone(inner.looking.lock().entry(id.to_owned()).or_default());
        Self { inner, id, turn }
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let mut looking = self.inner.looking.lock();
        // The map's and this one: nobody else waits.
        if Arc::strong_count(&self.turn) <= 2 {
            looking.remove(self.id);
        }
    }
}
