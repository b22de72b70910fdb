//! Event types kept in memory, so that checking a message costs no store call.
//!
//! # Invariants
//! * A change of this node or one that is heard of counts at once; one that was not heard of,
//!   after a minute.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use wakeline_core::EventTypeName;
use wakeline_store::hook::{EventSchema, EventType, HookBackend, SchemaError};

use crate::error::HookError;

/// How long an event type is taken to be as it was read.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// Most event types that are kept; beyond, all are read again.
const KEPT_MAX: usize = 10_000;

/// Event types as they were last read.
#[derive(Default)]
pub(crate) struct EventTypes {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Counts forgetting: what was read before one is not kept after it.
    generation: u64,
    types: HashMap<EventTypeName, (Instant, Option<Arc<EventSchema>>)>,
}

impl EventTypes {
    /// Event types have changed.
    pub(crate) fn forget(&self) {
        let mut known = self.known.lock();
        known.generation += 1;
        known.types.clear();
    }

    /// Says where a payload does not fit its type's schema, if that is enforced.
    pub(crate) async fn check(
        &self,
        store: &dyn HookBackend,
        name: &EventTypeName,
        payload: &[u8],
    ) -> Result<(), HookError> {
        let Some(schema) = self.schema(store, name).await? else { return Ok(()) };
        let event_type = name.to_string();
        schema.check(payload).map_err(|reason| HookError::Schema { event_type, reason })
    }

    async fn schema(
        &self,
        store: &dyn HookBackend,
        name: &EventTypeName,
    ) -> Result<Option<Arc<EventSchema>>, HookError> {
        let generation = {
            let known = self.known.lock();
            let young = |(at, _): &&(Instant, _)| at.elapsed() < KEPT_FOR;
            if let Some((_, schema)) = known.types.get(name).filter(young) {
                return Ok(schema.clone());
            }
            known.generation
        };
        let schema = match store.event_type(name).await? {
            Some(found) if found.enforced => newest(&found)?.map(Arc::new),
            _ => None,
        };
        let mut known = self.known.lock();
        if known.types.len() >= KEPT_MAX {
            known.types.clear();
        }
        if known.generation == generation {
            known.types.insert(name.clone(), (Instant::now(), schema.clone()));
        }
        Ok(schema)
    }
}

/// Says what is wrong with the schemas of an event type, if something is.
pub(crate) fn check_schemas(event_type: &EventType) -> Result<(), HookError> {
    newest(event_type).map(drop)
}

/// The newest schema of an event type.
fn newest(event_type: &EventType) -> Result<Option<EventSchema>, HookError> {
    let Some(schemas) = &event_type.schemas else { return Ok(None) };
    Ok(EventSchema::newest(schemas)?)
}

impl From<SchemaError> for HookError {
    fn from(error: SchemaError) -> Self {
        Self::invalid("schemas", error.to_string())
    }
}
