//! Event types kept in memory, so that checking a message costs no store call.
//!
//! # Invariants
//! * A change of this node or one that is heard of counts at once; one that was not heard of,
//!   after a minute.
//! * Schemas never fetch anything: a reference to elsewhere is an error.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jsonschema::Validator;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::Instant;
use wakeline_core::EventTypeName;
use wakeline_store::hook::{EventType, HookBackend};

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
    types: HashMap<EventTypeName, (Instant, Option<Arc<Validator>>)>,
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
        let Some(validator) = self.validator(store, name).await? else { return Ok(()) };
        let payload: Value = serde_json::from_slice(payload)
            .map_err(|error| HookError::invalid("payload", format!("is not JSON: {error}")))?;
        validator.validate(&payload).map_err(|error| HookError::Schema {
            event_type: name.to_string(),
            reason: place_of(&error),
        })
    }

    async fn validator(
        &self,
        store: &dyn HookBackend,
        name: &EventTypeName,
    ) -> Result<Option<Arc<Validator>>, HookError> {
        let generation = {
            let known = self.known.lock();
            let young = |(at, _): &&(Instant, _)| at.elapsed() < KEPT_FOR;
            if let Some((_, validator)) = known.types.get(name).filter(young) {
                return Ok(validator.clone());
            }
            known.generation
        };
        let validator = match store.event_type(name).await? {
            Some(found) if found.enforced => newest(&found)?.map(Arc::new),
            _ => None,
        };
        let mut known = self.known.lock();
        if known.types.len() >= KEPT_MAX {
            known.types.clear();
        }
        if known.generation == generation {
            known.types.insert(name.clone(), (Instant::now(), validator.clone()));
        }
        Ok(validator)
    }
}

/// Where and how a payload does not fit. Its values are not repeated: they may be confidential.
fn place_of(error: &jsonschema::ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    let place = if place.is_empty() { "/" } else { &place };
    format!("{} at {place}", error.masked())
}

/// Says what is wrong with the schemas of an event type, if something is.
pub(crate) fn check_schemas(event_type: &EventType) -> Result<(), HookError> {
    newest(event_type).map(|_| ())
}

/// The newest schema of an event type.
fn newest(event_type: &EventType) -> Result<Option<Validator>, HookError> {
    let Some(schema) = newest_schema(event_type)? else { return Ok(None) };
    let invalid = |error: jsonschema::ValidationError<'_>| {
        HookError::invalid("schemas", format!("has one that cannot be used: {error}"))
    };
    jsonschema::validator_for(&schema).map(Some).map_err(invalid)
}

/// The schema with the highest version.
pub(crate) fn newest_schema(event_type: &EventType) -> Result<Option<Value>, HookError> {
    let Some(text) = &event_type.schemas else { return Ok(None) };
    let versions: Map<String, Value> = serde_json::from_slice(text)
        .map_err(|_| HookError::invalid("schemas", "is not an object of schemas by version"))?;
    let number = |version: &str| version.parse::<u64>().unwrap_or(0);
    Ok(versions.into_iter().max_by_key(|(version, _)| number(version)).map(|(_, schema)| schema))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakeline_core::Timestamp;

    fn typed(schemas: &str) -> EventType {
        EventType {
            name: EventTypeName::new("user.signup").expect("valid"),
            description: String::new(),
            schemas: Some(schemas.to_owned().into()),
            enforced: true,
            archived: false,
            deprecated: false,
            feature_flag: None,
            group_name: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        }
    }

    #[test]
    fn the_highest_version_is_the_newest() {
        let event_type = typed(r#"{"2": {"title": "two"}, "10": {"title": "ten"}, "9": {}}"#);
        let schema = newest_schema(&event_type).expect("schemas").expect("one");
        assert_eq!(schema["title"], "ten");
    }

    #[test]
    fn schemas_that_cannot_be_used_are_refused() {
        for wrong in [
            "[]",
            "7",
            "{",
            r#"{"1": {"type": "nothing"}}"#,
            r#"{"1": {"$ref": "https://example.com/schema.json"}}"#,
            r#"{"1": {"$ref": "file:///etc/passwd"}}"#,
        ] {
            assert!(check_schemas(&typed(wrong)).is_err(), "{wrong}");
        }
        assert!(check_schemas(&typed("{}")).is_ok());
    }

    #[test]
    fn a_payload_that_does_not_fit_is_not_repeated_in_the_reason() {
        let schema = r#"{"1": {"properties": {"age": {"type": "integer"}}}}"#;
        let validator = newest(&typed(schema)).expect("valid").expect("one");
        let payload = serde_json::json!({"age": "confidential"});
        let error = validator.validate(&payload).expect_err("not an integer");
        let reason = place_of(&error);
        assert!(reason.contains("/age") && !reason.contains("confidential"), "{reason}");
    }
}
