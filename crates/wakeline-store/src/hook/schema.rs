//! Schemas of event types, and whether payloads fit them.
//!
//! # Where it sits
//! The hook face checks what it is given by the API; stores check what comes along with another
//! write, of which that face never hears: an orchestration's turn, a user's own transaction.
//!
//! # Invariants
//! * A schema never fetches anything: a reference to elsewhere makes it unusable.
//! * A reason repeats no value of a payload: it may be confidential.

use jsonschema::Validator;
use serde_json::{Map, Value};
use wakeline_core::EventTypeName;

/// Why the schemas of an event type are of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// They are not what they should be.
    #[error("is not an object of schemas by version")]
    NoVersions,
    /// The newest one is not a schema, or refers to elsewhere.
    #[error("has one that cannot be used: {0}")]
    Unusable(String),
}

/// The newest schema of an event type.
#[derive(Debug)]
pub struct EventSchema(Validator);

impl EventSchema {
    /// Reads it from an event type's schemas; `None` if there is no version.
    pub fn newest(schemas: &[u8]) -> Result<Option<Self>, SchemaError> {
        let Some(schema) = newest_schema(schemas)? else { return Ok(None) };
        let unusable =
            |error: jsonschema::ValidationError<'_>| SchemaError::Unusable(error.to_string());
        jsonschema::validator_for(&schema).map(|found| Some(Self(found))).map_err(unusable)
    }

    /// Says where and how a payload does not fit.
    pub fn check(&self, payload: &[u8]) -> Result<(), String> {
        let payload: Value =
            serde_json::from_slice(payload).map_err(|error| format!("is not JSON: {error}"))?;
        self.0.validate(&payload).map_err(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "/" } else { &place };
            format!("{} at {place}", error.masked())
        })
    }

    /// Why a message of a type that enforces these schemas must not be stored.
    pub fn refusal(name: &EventTypeName, schemas: &[u8], payload: &[u8]) -> Option<String> {
        let fits = match Self::newest(schemas) {
            Ok(schema) => schema.map_or(Ok(()), |schema| schema.check(payload)),
            Err(error) => return Some(format!("the schemas of {name}: {error}")),
        };
        fits.err().map(|reason| format!("payload does not fit the schema of {name}: {reason}"))
    }
}

/// The schema with the highest version.
pub fn newest_schema(schemas: &[u8]) -> Result<Option<Value>, SchemaError> {
    let versions: Map<String, Value> =
        serde_json::from_slice(schemas).map_err(|_| SchemaError::NoVersions)?;
    let number = |version: &str| version.parse::<u64>().unwrap_or(0);
    Ok(versions.into_iter().max_by_key(|(version, _)| number(version)).map(|(_, schema)| schema))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_is_the_newest() {
        let schemas = br#"{"2": {"title": "two"}, "10": {"title": "ten"}, "9": {}}"#;
        let schema = newest_schema(schemas).expect("schemas").expect("one");
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
            assert!(EventSchema::newest(wrong.as_bytes()).is_err(), "{wrong}");
            let name = EventTypeName::new("a.b").expect("valid");
            let reason = EventSchema::refusal(&name, wrong.as_bytes(), b"{}");
            assert!(reason.is_some_and(|reason| reason.contains("a.b")), "{wrong}");
        }
        assert!(EventSchema::newest(b"{}").is_ok());
    }

    #[test]
    fn a_payload_that_does_not_fit_is_not_repeated_in_the_reason() {
        let schema = br#"{"1": {"properties": {"age": {"type": "integer"}}}}"#;
        let schema = EventSchema::newest(schema).expect("valid").expect("one");
        let reason = schema.check(br#"{"age": "confidential"}"#).expect_err("not an integer");
        assert!(reason.contains("/age") && !reason.contains("confidential"), "{reason}");
        assert_eq!(schema.check(br#"{"age": 7}"#), Ok(()));
    }
}
