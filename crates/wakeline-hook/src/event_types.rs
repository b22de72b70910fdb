//! A cache of event types, so that validating a message needs no store call.
//!
//! # Invariants
//! * A change made by this node, or reported by a hint, takes effect at once; a change whose hint
//!   was lost takes effect after a minute.
//! * Schemas are compiled and payloads are validated on threads for blocking work, a few at a time,
//!   so that a slow validation delays only requests that need one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use wakeline_core::EventTypeName;
use wakeline_store::hook::{EventSchema, EventType, HookBackend, SchemaError};

use crate::error::HookError;

/// How long an event type is cached.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// The maximum number of cached event types. When it is reached, the cache is cleared.
const KEPT_MAX: usize = 10_000;

/// The maximum number of schemas that are compiled or checked at once.
const CHECKS_MAX: usize = 4;
/// How long a check may take, and how long a request waits for its turn.
const CHECK_TIME_MAX: Duration = Duration::from_secs(5);

/// The event types as they were last read from the store.
pub(crate) struct EventTypes {
    known: Mutex<CachedEventTypes>,
    checks: Arc<Semaphore>,
}

impl Default for EventTypes {
    fn default() -> Self {
        Self { known: Mutex::default(), checks: Arc::new(Semaphore::new(CHECKS_MAX)) }
    }
}

#[derive(Default)]
struct CachedEventTypes {
    /// Incremented whenever the cache is cleared, so that an event type that was read before is not
    /// inserted afterwards.
    generation: u64,
    types: HashMap<EventTypeName, (Instant, Option<Arc<EventSchema>>)>,
}

impl EventTypes {
    /// Clears the cache because event types have changed.
    pub(crate) fn forget(&self) {
        let mut known = self.known.lock();
        known.generation += 1;
        known.types.clear();
    }

    /// Fails if a payload does not match the schema of its event type and the schema is enforced.
    pub(crate) async fn check(
        &self,
        store: &dyn HookBackend,
        name: &EventTypeName,
        payload: &Bytes,
    ) -> Result<(), HookError> {
        let Some(schema) = self.schema(store, name).await? else { return Ok(()) };
        let (event_type, payload) = (name.to_string(), payload.clone());
        let matches = self.on_blocking_thread("payload", move || schema.check(&payload)).await?;
        matches.map_err(|reason| HookError::Schema { event_type, reason })
    }

    /// Fails if the schemas of an event type cannot be used.
    pub(crate) async fn check_schemas(&self, event_type: &EventType) -> Result<(), HookError> {
        self.newest(event_type).await.map(drop)
    }

    /// The newest schema of an event type.
    async fn newest(&self, event_type: &EventType) -> Result<Option<EventSchema>, HookError> {
        let Some(schemas) = event_type.schemas.clone() else { return Ok(None) };
        Ok(self.on_blocking_thread("schemas", move || EventSchema::newest(&schemas)).await??)
    }

    /// Runs work on a thread for blocking work. Work that exceeds the time limit continues there,
    /// and keeps its turn until it has ended.
    async fn on_blocking_thread<T: Send + 'static>(
        &self,
        field: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HookError> {
        let turn = timeout(CHECK_TIME_MAX, Arc::clone(&self.checks).acquire_owned()).await;
        let turn = turn.map_err(|_| HookError::TooManyWaiters { retry_after: CHECK_TIME_MAX })?;
        let work = move || {
            let _turn = turn;
            work()
        };
        match timeout(CHECK_TIME_MAX, tokio::task::spawn_blocking(work)).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(HookError::invalid(field, format!("cannot be checked: {error}"))),
            Err(_) => {
                let limit = CHECK_TIME_MAX.as_secs();
                Err(HookError::invalid(field, format!("could not be checked within {limit} s")))
            }
        }
    }

    async fn schema(
        &self,
        store: &dyn HookBackend,
        name: &EventTypeName,
    ) -> Result<Option<Arc<EventSchema>>, HookError> {
        let generation = {
            let known = self.known.lock();
            let is_valid = |(at, _): &&(Instant, _)| at.elapsed() < KEPT_FOR;
            if let Some((_, schema)) = known.types.get(name).filter(is_valid) {
                return Ok(schema.clone());
            }
            known.generation
        };
        let schema = match store.event_type(name).await? {
            Some(found) if found.enforced => self.newest(&found).await?.map(Arc::new),
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

impl From<SchemaError> for HookError {
    fn from(error: SchemaError) -> Self {
        Self::invalid("schemas", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use wakeline_core::Timestamp;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_check_that_exceeds_the_time_limit_fails_and_keeps_its_turn() {
        let types = EventTypes::default();
        let (release, held) = mpsc::channel::<()>();
        let slow = types.on_blocking_thread("payload", move || held.recv());
        let (slow, ()) = tokio::join!(slow, tokio::time::advance(CHECK_TIME_MAX * 2));
        assert!(matches!(slow, Err(HookError::Invalid { field: "payload", .. })), "{slow:?}");
        assert_eq!(types.checks.available_permits(), CHECKS_MAX - 1);
        drop(release);
    }

    #[tokio::test(start_paused = true)]
    async fn schemas_are_compiled_a_few_at_a_time() {
        let types = EventTypes::default();
        let all = u32::try_from(CHECKS_MAX).expect("fits");
        let others = types.checks.acquire_many(all).await.expect("free");
        let event_type = EventType {
            name: EventTypeName::new("a.b").expect("valid"),
            description: String::new(),
            schemas: Some(Bytes::from_static(br#"{"1": {"type": "object"}}"#)),
            enforced: true,
            archived: false,
            deprecated: false,
            feature_flag: None,
            group_name: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        };
        let refused = types.check_schemas(&event_type).await;
        assert!(matches!(refused, Err(HookError::TooManyWaiters { .. })), "{refused:?}");
        drop(others);
        types.check_schemas(&event_type).await.expect("valid");
    }
}
