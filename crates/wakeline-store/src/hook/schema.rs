//! JSON schemas of event types, and the validation of payloads against them.
//!
//! # Where it sits
//! The webhook domain checks messages that arrive through its API. Stores check messages that are
//! part of another write which that domain does not see: an orchestration's turn, or a user's own
//! transaction.
//!
//! # Invariants
//! * A schema never fetches anything: a reference to an external document makes it unusable.
//! * An error message never repeats a value of the payload, because it may be confidential.
//! * Patterns are matched in linear time: look-around and back-references are refused.
//! * A value is checked a limited number of times, even if references multiply.
//! * A check can still take long for a large schema and a large payload: callers run it on a
//!   thread for blocking work.

use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};
use wakeline_core::EventTypeName;

mod checked;
mod scopes;
mod visits;

use checked::Checked;
use visits::VISITS_MAX;

/// The maximum size of a schema in bytes, as JSON without whitespace.
const SCHEMA_BYTES_MAX: usize = 256 * 1024;
/// The maximum nesting depth of a schema's objects and arrays.
const SCHEMA_DEPTH_MAX: usize = 64;
/// The maximum number of subschemas with their own identifier: the compile time of the validation
/// library grows with the third power of their number if each refers to the next.
const IDENTIFIED_MAX: usize = 100;
/// The maximum size of a compiled pattern in bytes: the cost of matching one byte grows with it.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// Why the schemas of an event type cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The value is not an object of schemas by version.
    #[error("must be an object with a schema per version, like {{\"1\": {{...}}}}")]
    NoVersions,
    /// The newest schema is too large.
    #[error("has a schema of {bytes} bytes: at most {SCHEMA_BYTES_MAX} are allowed")]
    TooLarge {
        /// The size of the schema in bytes.
        bytes: usize,
    },
    /// The newest schema is nested too deeply.
    #[error("has a schema with more than {SCHEMA_DEPTH_MAX} levels: nest it less deeply")]
    TooDeep,
    /// The newest schema has too many subschemas with their own identifier.
    #[error("has a schema with {count} `$id`: at most {IDENTIFIED_MAX} are allowed")]
    TooManyIdentified {
        /// The number of identifiers.
        count: usize,
    },
    /// Validating one value against the newest schema may take too many steps.
    #[error(
        "has a schema that may take more than {VISITS_MAX} checks of one value: refer to \
         definitions in fewer places"
    )]
    TooManyChecks,
    /// The newest schema refers to itself without descending into the payload.
    #[error(
        "has a schema that refers to itself for the same value: refer to it only below \
         `properties`, `items` and the like"
    )]
    Endless,
    /// The newest schema is invalid, or refers to an external document.
    #[error("has a schema that cannot be used: {0}")]
    Unusable(String),
}

/// The newest schema of an event type, compiled for validation.
#[derive(Debug)]
pub struct EventSchema {
    validator: Validator,
    /// The maximum nesting depth of payloads that it can check within the limit of visits.
    nested_max: usize,
}

impl EventSchema {
    /// Compiles the newest of an event type's schemas; `None` if there is no version.
    pub fn newest(schemas: &[u8]) -> Result<Option<Self>, SchemaError> {
        let Some(schema) = newest_schema(schemas)? else { return Ok(None) };
        let text = schema.to_string();
        let bytes = text.len();
        if bytes > SCHEMA_BYTES_MAX {
            return Err(SchemaError::TooLarge { bytes });
        }
        if is_deeper(&schema, SCHEMA_DEPTH_MAX) {
            return Err(SchemaError::TooDeep);
        }
        let key = if text.contains("draft-04/schema") { "id" } else { "$id" };
        let count = identified(&schema, key);
        if count > IDENTIFIED_MAX {
            return Err(SchemaError::TooManyIdentified { count });
        }
        let nested_max = visits::nested_max(&schema)?;
        let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX);
        let built = jsonschema::options().with_pattern_options(patterns).build(&schema);
        let built = built.map(|validator| Some(Self { validator, nested_max }));
        built.map_err(|error| unusable(&error))
    }

    /// Validates a payload. The error says where and why it does not match.
    pub fn check(&self, payload: &[u8]) -> Result<(), String> {
        let payload: Value =
            serde_json::from_slice(payload).map_err(|error| format!("is not JSON: {error}"))?;
        if is_deeper(&payload, self.nested_max + 1) {
            let levels = self.nested_max + 1;
            return Err(format!("has more than {levels} levels: its schema could not be checked"));
        }
        self.validator.validate(&payload).map_err(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "/" } else { &place };
            format!("{} at {place}", error.masked())
        })
    }

    /// The reason why a message of an event type that enforces these schemas must be refused, if it
    /// must. Compiled schemas are cached across calls.
    pub fn refusal(name: &EventTypeName, schemas: &[u8], payload: &[u8]) -> Option<String> {
        static CHECKED: Checked = Checked::new();
        let read = |schemas: &[u8]| Self::newest(schemas).map(|schema| schema.map(Arc::new));
        let fits = match CHECKED.newest(schemas, read) {
            Ok(schema) => schema.map_or(Ok(()), |schema| schema.check(payload)),
            Err(error) => return Some(format!("the schemas of {name}: {error}")),
        };
        fits.err().map(|reason| format!("payload does not fit the schema of {name}: {reason}"))
    }
}

/// Whether a value is nested more than `levels` deep.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, below)),
        Value::Object(fields) => fields.values().any(|field| is_deeper(field, below)),
        _ => false,
    }
}

/// The number of objects that have an identifier.
fn identified(value: &Value, key: &str) -> usize {
    match value {
        Value::Array(items) => items.iter().map(|item| identified(item, key)).sum(),
        Value::Object(fields) => {
            let own = fields.get(key).is_some_and(Value::is_string);
            let below: usize = fields.values().map(|field| identified(field, key)).sum();
            usize::from(own) + below
        }
        _ => 0,
    }
}

fn unusable(error: &ValidationError<'_>) -> SchemaError {
    let is_pattern =
        matches!(error.kind(), ValidationErrorKind::Format { format } if format == "regex");
    SchemaError::Unusable(if is_pattern {
        format!(
            "the pattern at {} is invalid or too large, or uses look-around or back-references, \
             which are not supported",
            error.schema_path()
        )
    } else {
        error.to_string()
    })
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
    fn patterns_that_may_backtrack_are_refused() {
        for pattern in [r"^(?=(a+))\\1b$", r"(a)\\1", "(?!x)y", "(?<=x)y", "(?:a{1000}){1000}"] {
            for schema in [
                format!(r#"{{"1": {{"pattern": "{pattern}"}}}}"#),
                format!(r#"{{"1": {{"patternProperties": {{"{pattern}": true}}}}}}"#),
            ] {
                let error = EventSchema::newest(schema.as_bytes()).expect_err(pattern).to_string();
                assert!(error.contains("look-around or back-references"), "{error}");
            }
        }
        let schema = br#"{"1": {"pattern": "^([a-z]+)+$"}}"#;
        let schema = EventSchema::newest(schema).expect("valid").expect("one");
        let payload = format!("\"{}!\"", "a".repeat(100_000));
        assert!(schema.check(payload.as_bytes()).is_err());
    }

    #[test]
    fn schemas_that_are_too_large_or_too_deep_are_refused() {
        let large = format!(r#"{{"1": {{"title": "{}"}}}}"#, "x".repeat(SCHEMA_BYTES_MAX));
        let error = EventSchema::newest(large.as_bytes()).expect_err("too large");
        assert!(matches!(error, SchemaError::TooLarge { .. }), "{error}");
        let nested = |levels: usize| {
            let (open, close) = (r#"{"not": "#.repeat(levels), "}".repeat(levels));
            EventSchema::newest(format!(r#"{{"1": {open}true{close}}}"#).as_bytes())
        };
        assert!(nested(SCHEMA_DEPTH_MAX - 1).is_ok());
        assert_eq!(nested(SCHEMA_DEPTH_MAX).err(), Some(SchemaError::TooDeep));
    }

    #[test]
    fn schemas_with_very_many_identifiers_are_refused() {
        for (draft, key) in [
            ("https://json-schema.org/draft/2020-12/schema", "$id"),
            ("http://json-schema.org/draft-04/schema#", "id"),
        ] {
            let of = |count: usize| {
                let own = |n: usize| format!(r#""d{n}": {{"{key}": "d{n}"}}"#);
                let all = (0..count).map(own).collect::<Vec<_>>().join(",");
                let schema = format!(r#"{{"1": {{"$schema": "{draft}", "$defs": {{{all}}}}}}}"#);
                EventSchema::newest(schema.as_bytes()).err()
            };
            assert_eq!(of(IDENTIFIED_MAX), None, "{draft}");
            let count = IDENTIFIED_MAX + 1;
            assert_eq!(of(count), Some(SchemaError::TooManyIdentified { count }), "{draft}");
        }
    }

    /// Thirty definitions, each of which refers twice to the next.
    fn chain(keyword: &str, reference: &str) -> String {
        let refer = |n: usize| reference.replace("NEXT", &format!(r##""$ref": "#/$defs/d{n}""##));
        let definition = |n: usize| format!(r#""d{n}": {{"{keyword}": [{0}, {0}]}}"#, refer(n + 1));
        let definitions: Vec<_> = (0..30).map(definition).collect();
        let definitions = definitions.join(", ");
        format!(r##"{{"1": {{"$ref": "#/$defs/d0", "$defs": {{{definitions}, "d30": true}}}}}}"##)
    }

    #[test]
    fn schemas_whose_references_multiply_are_refused() {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let schema = chain(keyword, "{NEXT}");
            let error = EventSchema::newest(schema.as_bytes()).err();
            assert_eq!(error, Some(SchemaError::TooManyChecks), "{keyword}");
        }
        let name = EventTypeName::new("a.b").expect("valid");
        let reason = EventSchema::refusal(&name, chain("anyOf", "{NEXT}").as_bytes(), b"7");
        assert!(reason.is_some_and(|reason| reason.contains("100000 checks")));
        // The references multiply with each level of the payload, so payloads with few levels can
        // be checked.
        for schema in [
            chain("anyOf", r#"{"properties": {"x": {NEXT}}}"#),
            r##"{"1": {"anyOf": [{"properties": {"x": {"$ref": "#"}}, "required": ["y"]},
                {"properties": {"x": {"$ref": "#"}}, "required": ["z"]}]}}"##
                .to_owned(),
        ] {
            let schema = EventSchema::newest(schema.as_bytes()).expect("valid").expect("one");
            let nested = |levels| format!("{}7{}", r#"{"x": "#.repeat(levels), "}".repeat(levels));
            assert!(schema.check(nested(100).as_bytes()).expect_err("deep").contains("levels"));
            let shallow = schema.check(nested(4).as_bytes());
            assert!(shallow.err().is_none_or(|reason| !reason.contains("levels")));
        }
    }

    #[test]
    fn schemas_that_refer_to_themselves_for_the_same_value_are_refused() {
        for schema in [
            r##"{"$ref": "#"}"##,
            r##"{"allOf": [{"$ref": "#"}]}"##,
            r##"{"$ref": "#/$defs/a%20b", "$defs": {"a b": {"not": {"$ref": "#/$defs/c"}},
                "c": {"if": true, "then": {"$ref": "#/$defs/a%20b"}}}}"##,
            r##"{"$anchor": "a", "dependentSchemas": {"x": {"$ref": "#a"}}}"##,
            r##"{"$dynamicAnchor": "a", "oneOf": [{"$dynamicRef": "#a"}]}"##,
            r##"{"$schema": "https://json-schema.org/draft/2019-09/schema",
                "$recursiveAnchor": true, "anyOf": [{"$recursiveRef": "#"}]}"##,
            r##"{"$id": "https://example.com/a", "anyOf": [{"$ref": "a"}]}"##,
            r##"{"$ref": "https://example.com/b", "$defs": {"b": {"$id": "https://example.com/b",
                "allOf": [{"$ref": "/b"}]}}}"##,
        ] {
            let error = EventSchema::newest(format!(r#"{{"1": {schema}}}"#).as_bytes()).err();
            assert_eq!(error, Some(SchemaError::Endless), "{schema}");
        }
    }

    #[test]
    fn trees_and_long_chains_of_references_are_checked() {
        let tree = |id: &str, reference: &str| {
            format!(
                r##"{{"1": {{{id} "type": "object", "properties": {{
                    "left": {{{reference}}}, "right": {{{reference}}},
                    "more": {{"type": "array", "items": {{{reference}}}}}}}}}}}"##
            )
        };
        for schema in [
            tree("", r##""$ref": "#""##),
            tree(r#""$anchor": "t","#, r##""$ref": "#t""##),
            tree(r#""$dynamicAnchor": "t","#, r##""$dynamicRef": "#t""##),
            tree(r#""$id": "https://example.com/tree.json","#, r#""$ref": "tree.json""#),
        ] {
            let schema = EventSchema::newest(schema.as_bytes()).expect("valid").expect("one");
            let nested = |leaf: &str| {
                let (open, close) = (r#"{"left": {}, "more": ["#.repeat(50), "]}".repeat(50));
                schema.check(format!("{open}{leaf}{close}").as_bytes())
            };
            assert_eq!(nested("{}"), Ok(()));
            assert!(nested("7").is_err());
        }
        let long = |len: usize| {
            let definition =
                |n| format!(r##""d{n}": {{"allOf": [{{"$ref": "#/$defs/d{}"}}]}}"##, n + 1);
            let definitions: Vec<_> = (0..len).map(definition).collect();
            let definitions = definitions.join(", ");
            let schema = format!(
                r##"{{"1": {{"$ref": "#/$defs/d0",
                    "$defs": {{{definitions}, "d{len}": false}}}}}}"##
            );
            EventSchema::newest(schema.as_bytes())
        };
        assert!(long(250).expect("valid").expect("one").check(b"7").is_err());
        assert_eq!(long(3_000).err(), Some(SchemaError::TooManyChecks));
    }

    #[test]
    fn an_error_does_not_repeat_a_value_of_the_payload() {
        let schema = br#"{"1": {"properties": {"age": {"type": "integer"}}}}"#;
        let schema = EventSchema::newest(schema).expect("valid").expect("one");
        let reason = schema.check(br#"{"age": "confidential"}"#).expect_err("not an integer");
        assert!(reason.contains("/age") && !reason.contains("confidential"), "{reason}");
        assert_eq!(schema.check(br#"{"age": 7}"#), Ok(()));
    }
}
