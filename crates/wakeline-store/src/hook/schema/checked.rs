//! The schemas that were read last, ready for use.
//!
//! # Where it sits
//! Behind [`EventSchema::refusal`], which stores call for each message that comes along with
//! another write, inside its transaction: reading a schema takes much longer than checking a
//! message against it.
//!
//! # Invariants
//! * Found by all bytes of the schemas: what is changed is read again.
//! * At most [`CHECKED_MAX`] are kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::{EventSchema, SchemaError};

/// Most event types whose newest schema is kept.
const CHECKED_MAX: usize = 16;

/// The newest schema of an event type, or why it is of no use.
pub(super) type Newest = Result<Option<Arc<EventSchema>>, SchemaError>;

/// Those that were asked for last, in front.
pub(super) struct Checked(Mutex<VecDeque<(Vec<u8>, Newest)>>);

impl Checked {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    /// Of an event type's schemas, which are read if they are not here.
    pub(super) fn newest(&self, schemas: &[u8], read: impl FnOnce(&[u8]) -> Newest) -> Newest {
        if let Some(newest) = self.find(schemas) {
            return newest;
        }
        // Others go on meanwhile: two may read the same.
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
    fn schemas_are_read_once_until_many_others_were_asked_for() {
        let (checked, mut reads) = (Checked::new(), 0);
        let mut ask = |n: usize| {
            let schemas = format!(r#"{{"1": {{"title": "{n}"}}}}"#);
            let newest = checked.newest(schemas.as_bytes(), |schemas| {
                reads += 1;
                EventSchema::newest(schemas).map(|schema| schema.map(Arc::new))
            });
            assert!(newest.is_ok_and(|schema| schema.is_some()));
            reads
        };
        assert_eq!([ask(0), ask(0), ask(0)], [1; 3], "it was read before");
        for n in 1..CHECKED_MAX {
            assert_eq!([ask(n), ask(0)], [n + 1; 2], "those asked for last are kept");
        }
        assert_eq!(ask(CHECKED_MAX), CHECKED_MAX + 1);
        assert_eq!(ask(0), CHECKED_MAX + 1, "there is capacity for it");
        assert_eq!(ask(1), CHECKED_MAX + 2, "nobody asked for it for the longest time");
    }

    #[test]
    fn schemas_that_are_of_no_use_are_read_once() {
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
