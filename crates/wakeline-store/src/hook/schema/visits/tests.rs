//! Tests of counting visits: references are followed exactly, the validator never does more than
//! was counted, and the number of steps grows with the size of the schema.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jsonschema::{Keyword, ValidationError};
use serde_json::json;

use super::*;

/// The number of visits for payloads of a nesting depth, and of the steps that counting them took.
fn count(schema: &Value, nested: usize) -> (Result<u64, SchemaError>, usize) {
    let document = Document::new(schema).expect("all references have a target");
    let (scopes, root) = SchemaScopes::new(&document);
    let mut visits = Visits { scopes, known: HashMap::new(), steps: 0, level: 0 };
    (visits.of_root(root, nested), visits.steps)
}

#[test]
fn a_reference_resolves_to_the_resource_with_the_complete_identifier() {
    for schema in [
        json!({"$id": "https://acme.com/order/v1", "allOf": [{"$ref": "https://acme.com/base/v1"}],
            "$defs": {"b": {"$id": "https://acme.com/base/v1", "type": "object"}}}),
        json!({"$id": "https://acme.com/order/v1", "allOf": [{"$ref": "/base/v1"}],
            "$defs": {"b": {"$id": "../base/v1", "type": "object"}}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#",
            "$id": "https://acme.com/order/v1", "allOf": [{"$ref": "https://acme.com/base/v1#"}],
            "definitions": {"b": {"$id": "https://acme.com/base/v1", "type": "object"}}}),
        json!({"$schema": "http://json-schema.org/draft-04/schema#",
            "id": "https://acme.com/order/v1", "allOf": [{"$ref": "https://acme.com/base/v1"}],
            "definitions": {"b": {"id": "https://acme.com/base/v1", "type": "object"}}}),
    ] {
        assert_eq!(nested_max(&schema), Ok(NESTED_MAX), "{schema}");
    }
}

#[test]
fn an_anchor_belongs_to_its_resource() {
    let schema = json!({"$id": "https://acme.com/a", "$ref": "#same", "$defs": {
        "x": {"$anchor": "same", "allOf": [{"$ref": "b#same"}]},
        "b": {"$id": "b", "$defs": {"y": {"$anchor": "same", "type": "object"}}}}});
    // The document, the anchor of each resource, and the schema between them.
    assert_eq!(count(&schema, 1).0, Ok(4));
}

#[test]
fn a_pointer_belongs_to_its_resource() {
    let schema = json!({"$id": "https://acme.com/a", "$ref": "#/$defs/base", "$defs": {
        "base": {"allOf": [{"$ref": "b"}]},
        "b": {"$id": "b", "$ref": "#/$defs/base", "$defs": {"base": {"type": "object"}}}}});
    assert_eq!(count(&schema, 1).0, Ok(5));
}

#[test]
fn recursion_is_found_by_complete_identifiers() {
    for schema in [
        json!({"$id": "https://acme.com/order/v1", "allOf": [{"$ref": "https://acme.com/base/v1"}],
            "$defs": {"b": {"$id": "https://acme.com/base/v1",
                "allOf": [{"$ref": "../order/v1"}]}}}),
        json!({"$id": "https://acme.com/a", "$ref": "#same", "$defs": {
            "x": {"$anchor": "same", "allOf": [{"$ref": "b#same"}]},
            "b": {"$id": "b", "$defs": {"y": {"$anchor": "same", "$ref": "a#same"}}}}}),
        json!({"$id": "https://acme.com/a", "$dynamicAnchor": "n", "$ref": "b", "$defs": {
            "b": {"$id": "b", "$dynamicAnchor": "n", "anyOf": [{"$dynamicRef": "#n"}]}}}),
        json!({"$schema": "https://json-schema.org/draft/2019-09/schema",
            "$id": "https://acme.com/a", "$recursiveAnchor": true, "$ref": "b", "$defs": {
            "b": {"$id": "b", "$recursiveAnchor": true, "anyOf": [{"$recursiveRef": "#"}]}}}),
    ] {
        assert_eq!(nested_max(&schema), Err(SchemaError::Endless), "{schema}");
    }
}

/// A chain of nested schemas, each built by `level` from the next inner one.
fn chain(depth: usize, level: &dyn Fn(Option<Value>) -> Value) -> Value {
    (1..depth).fold(level(None), |inner, _| level(Some(inner)))
}

struct Counter(Arc<AtomicU64>);

impl<'i> Keyword<'i> for Counter {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        self.is_valid(value);
        Ok(())
    }

    fn is_valid(&self, _: &'i Value) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// How often the validator visits schemas that have the keyword `counted`.
fn visits(schema: &Value, payload: &Value) -> u64 {
    let visits = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&visits);
    let options = jsonschema::options()
        .with_keyword("counted", move |_, _, _| Ok(Box::new(Counter(Arc::clone(&counter)))));
    let _valid = options.build(schema).expect("valid").validate(payload);
    visits.load(Ordering::Relaxed)
}

#[test]
fn the_validator_never_visits_a_schema_more_often_than_counted() {
    // Only the outermost schema has the keyword: it visits each level again.
    let outer = |keyword: &'static str, depth| {
        let level = |inner: Option<Value>| match inner {
            Some(inner) => json!({"counted": true, keyword: [inner]}),
            None => json!({"counted": true}),
        };
        let mut schema = chain(depth, &level);
        schema["unevaluatedProperties"] = json!(false);
        schema
    };
    // Every schema has the keyword.
    let each = |keyword: &'static str, depth| {
        let level = |inner: Option<Value>| {
            let mut schema = json!({"counted": true, "unevaluatedProperties": {"type": "null"}});
            if let Some(inner) = inner {
                schema[keyword] = json!([inner]);
            }
            schema
        };
        chain(depth, &level)
    };
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for depth in 1..=9 {
            for schema in [outer(keyword, depth), each(keyword, depth)] {
                let counted = count(&schema, 1).0.expect("few");
                for payload in [json!({}), json!({"a": null}), json!({"a": 7, "b": null})] {
                    let visits = visits(&schema, &payload);
                    assert!(visits <= counted, "{visits} of {counted}: {keyword}, {depth} levels");
                }
            }
        }
    }
    assert!(visits(&outer("anyOf", 20), &json!({"a": 7})) > 2 * 20, "more than twice each");
    let error = count(&each("allOf", 20), 1).0;
    assert_eq!(error, Err(SchemaError::TooManyChecks), "they multiply");
}

/// A schema of `len` resources, each of which refers to the next by its identifier.
fn resources(len: usize) -> Value {
    let definitions = (0..len).map(|n| {
        let refer = json!({"$ref": format!("/r{}", n + 1)});
        let id = format!("https://acme.com/r{n}");
        (format!("d{n}"), json!({"$id": id, "properties": {"x": refer, "y": {"type": "null"}}}))
    });
    let mut definitions: Map<String, Value> = definitions.collect();
    definitions.insert("last".to_owned(), json!({"$id": format!("https://acme.com/r{len}")}));
    let all: Vec<_> = (0..len).map(|n| json!({"$ref": format!("/r{n}")})).collect();
    json!({"$id": "https://acme.com/all", "allOf": all, "$defs": definitions})
}

#[test]
fn steps_grow_with_the_schema_and_are_limited() {
    let steps = |len| {
        let (visits, steps) = count(&resources(len), 2);
        visits.expect("few");
        steps
    };
    assert!(steps(500) <= 4 * steps(125) + 100, "{} and {}", steps(125), steps(500));
    let (visits, steps) = count(&resources(500), NESTED_MAX);
    assert!(steps <= STEPS_MAX + 1, "{steps}: {visits:?}");
    // There are too many for payloads of any depth, but less nested payloads can be checked.
    assert!(nested_max(&resources(500)).is_ok_and(|nested| nested < NESTED_MAX));
}
