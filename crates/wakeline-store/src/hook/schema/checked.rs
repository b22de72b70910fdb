//! A cache of the schemas that were used last.
//!
//! # Where it sits
//! Behind [`EventSchema::refusal`], which stores call inside their transactions for each message
//! that is part of another write: compiling a schema takes much longer than checking a message.
//!
//! # Invariants
//! * The key is the complete text of the schemas, so a changed schema is compiled again.
//! * At most [`CHECKED_MAX`] entries are kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::{EventSchema, SchemaError};

/// The maximum number of event types whose newest schema is cached.
const CHECKED_MAX: usize = 16;

/// The newest schema of an event type, or why it cannot be used.
pub(super) type Newest = Result<Option<Arc<EventSchema>>, SchemaError>;

/// The cached schemas, most recently used first.
pub(super) struct Checked(Mutex<VecDeque<(Vec<u8>, Newest)>>);

impl Checked {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    /// The newest schema of an event type, which is compiled by `read` if it is not cached.
    pub(super) fn newest(&self, schemas: &[u8], read: impl FnOnce(&[u8]) -> Newest) -> Newest {
        if let Some(newest) = self.find(schemas) {
            return newest;
        }
        // The lock is not held meanwhile: two callers may compile the same schema.
        let newest = read(schemas);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front((schemas.to_vec(), newest.clone()));
        kept.truncate(CHECKED_MAX);
        newest
    }

    fn find(&self, schemas: &[u8]) -> Option<Newest> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|(known, _)| known == schemas)?;
        let found = kept.remove(place)?;
        let newest = found.1.clone();
        kept.push_front(found);
        Some(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_compiled_once_while_they_are_cached() {
        let (checked, mut reads) = (Checked::new(), 0);
        let mut request = |n: usize| {
            let schemas = format!(r#"{{"1": {{"title": "{n}"}}}}"#);
            let newest = checked.newest(schemas.as_bytes(), |schemas| {
                reads += 1;
                EventSchema::newest(schemas).map(|schema| schema.map(Arc::new))
            });
            assert!(newest.is_ok_and(|schema| schema.is_some()));
            reads
        };
        assert_eq!([request(0), request(0), request(0)], [1; 3], "it is cached");
        for n in 1..CHECKED_MAX {
            assert_eq!([request(n), request(0)], [n + 1; 2], "recently used schemas are kept");
        }
        assert_eq!(request(CHECKED_MAX), CHECKED_MAX + 1);
        assert_eq!(request(0), CHECKED_MAX + 1, "it was used recently");
        assert_eq!(request(1), CHECKED_MAX + 2, "the least recently used one was evicted");
    }

    #[test]
    fn invalid_schemas_are_compiled_once() {
        let (checked, mut reads) = (Checked::new(), 0);
        for _ in 0..3 {
            let newest = checked.newest(b"7", |schemas| {
                reads += 1;
                EventSchema::newest(schemas).map(|schema| schema.map(Arc::new))
            });
            assert_eq!(newest.err(), Some(SchemaError::NoVersions));
        }
        assert_eq!(reads, 1);
    }
}
