//! How often a schema may lead to a check of one value of a payload.
//!
//! # Where it sits
//! Called when a schema is read, before it is compiled. The validator follows each reference
//! wherever it stands: thirty definitions that each refer twice to the next are 2^30 checks.
//!
//! # Invariants
//! * What is counted is never less than what the validator does: a keyword that is not known here
//!   counts as one that checks the same value, and a reference that may mean several places counts
//!   as all of them. A reference that leads nowhere is refused.
//! * It takes a bounded time itself: see [`STEPS_MAX`] and [`LEVELS_MAX`].

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::SchemaError;

/// Most checks of one value and of those that contain it.
pub(super) const VISITS_MAX: u64 = 100_000;
/// How deep the payloads may be nested that every schema must be able to check.
const NESTED_MIN: usize = 4;
/// How deep JSON may be nested at all.
const NESTED_MAX: usize = 128;
/// Most schemas inside each other, with those that are referred to: the validator calls itself for
/// each.
const LEVELS_MAX: usize = 512;
/// Most schemas that are looked at for one depth of payloads.
const STEPS_MAX: usize = 250_000;

/// How deep payloads may be nested so that a schema takes no more than [`VISITS_MAX`] checks of
/// each value. A schema that refers to itself in several places takes more on each level.
pub(super) fn nested_max(schema: &Value) -> Result<usize, SchemaError> {
    let mut visits = Visits { resources: vec![(id_of(schema), schema)], ..Visits::default() };
    visits.find_names(schema, true);
    let mut nested = NESTED_MAX;
    loop {
        visits.known.clear();
        visits.level = 0;
        match visits.of(schema, nested) {
            Ok(_) => return Ok(nested),
            Err(SchemaError::TooManyChecks) if nested > NESTED_MIN => nested /= 2,
            Err(error) => return Err(error),
        }
    }
}

/// Counts the visits of schemas.
#[derive(Default)]
struct Visits<'a> {
    /// The schema, and what has an identifier in it: references may be relative to these.
    resources: Vec<(Option<&'a str>, &'a Value)>,
    anchors: Vec<(&'a str, &'a Value)>,
    /// By schema and levels of the payload: how many, or `None` while they are counted.
    known: HashMap<(*const Value, usize), Option<u64>>,
    level: usize,
}

impl<'a> Visits<'a> {
    fn find_names(&mut self, value: &'a Value, is_root: bool) {
        if let Value::Object(fields) = value {
            let anchors = ["$anchor", "$dynamicAnchor"].map(|key| fields.get(key));
            let anchors = anchors.into_iter().flatten().filter_map(Value::as_str);
            self.anchors.extend(anchors.map(|anchor| (anchor, value)));
            match id_of(value).map(|id| (id, id.strip_prefix('#'))) {
                Some((_, Some(anchor))) => self.anchors.push((anchor, value)),
                Some((id, None)) if !is_root => self.resources.push((Some(id), value)),
                _ => {}
            }
        }
        for inner in values(value) {
            self.find_names(inner, false);
        }
    }

    /// Of a value with so many levels below it.
    fn of(&mut self, schema: &'a Value, nested: usize) -> Result<u64, SchemaError> {
        let Value::Object(fields) = schema else { return self.of_all(values(schema), nested) };
        let key = (std::ptr::from_ref(schema), nested);
        match self.known.get(&key) {
            Some(Some(visits)) => return Ok(*visits),
            Some(None) => return Err(SchemaError::Endless),
            None if self.known.len() >= STEPS_MAX || self.level >= LEVELS_MAX => {
                return Err(SchemaError::TooManyChecks);
            }
            None => {}
        }
        self.known.insert(key, None);
        self.level += 1;
        let mut visits = 1 + self.of_same(fields, nested)?;
        if let Some(nested) = nested.checked_sub(1) {
            visits += self.of_inner(fields, nested)?;
        }
        if fields.keys().any(|keyword| keyword.starts_with("unevaluated")) {
            // The validator looks twice at what it stands beside.
            visits *= 2;
        }
        if visits > VISITS_MAX {
            return Err(SchemaError::TooManyChecks);
        }
        self.level -= 1;
        self.known.insert(key, Some(visits));
        Ok(visits)
    }

    fn of_all(
        &mut self,
        schemas: impl IntoIterator<Item = &'a Value>,
        nested: usize,
    ) -> Result<u64, SchemaError> {
        schemas.into_iter().try_fold(0, |visits, schema| Ok(visits + self.of(schema, nested)?))
    }

    /// By keywords that check the same value.
    fn of_same(
        &mut self,
        fields: &'a Map<String, Value>,
        nested: usize,
    ) -> Result<u64, SchemaError> {
        let mut visits = 0;
        for (keyword, value) in fields {
            visits += match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    self.of_all(self.targets(reference)?, nested)?
                }
                ("dependencies" | "dependentSchemas", _) => self.of_all(values(value), nested)?,
                ("$defs" | "definitions" | "const" | "default" | "enum" | "examples", _) => 0,
                (keyword, _) if is_inner(keyword) => 0,
                _ => self.of(value, nested)?,
            };
        }
        Ok(visits)
    }

    /// By keywords that check what is in the value, which has so many levels below it.
    fn of_inner(
        &mut self,
        fields: &'a Map<String, Value>,
        nested: usize,
    ) -> Result<u64, SchemaError> {
        // At most one of a keyword, and only one of these keywords, is for the same inner value.
        let mut visits = 0;
        for keyword in ["additionalItems", "additionalProperties", "propertyNames"] {
            if let Some(schema) = fields.get(keyword) {
                visits = visits.max(self.of(schema, nested)?);
            }
        }
        for keyword in ["items", "prefixItems", "properties"] {
            let Some(value) = fields.get(keyword) else { continue };
            match value {
                Value::Object(_) if keyword == "items" => {
                    visits = visits.max(self.of(value, nested)?);
                }
                _ => {
                    for schema in values(value) {
                        visits = visits.max(self.of(schema, nested)?);
                    }
                }
            }
        }
        for keyword in ["contains", "unevaluatedItems", "unevaluatedProperties"] {
            visits += self.of_all(fields.get(keyword), nested)?;
        }
        let patterns = fields.get("patternProperties").map(values);
        Ok(visits + self.of_all(patterns.into_iter().flatten(), nested)?)
    }

    /// All that a reference may mean.
    fn targets(&self, reference: &str) -> Result<Vec<&'a Value>, SchemaError> {
        let (resource, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let fragment = decoded(fragment);
        let targets: Vec<_> = if fragment.is_empty() || fragment.starts_with('/') {
            let meant = self.resources.iter().filter(|(id, _)| may_mean(resource, *id));
            meant.filter_map(|(_, schema)| schema.pointer(&fragment)).collect()
        } else {
            let meant = self.anchors.iter().filter(|(anchor, _)| *anchor == fragment);
            meant.map(|(_, schema)| *schema).collect()
        };
        if targets.is_empty() {
            let reason = format!("the reference `{reference}` leads to no place in the schema");
            return Err(SchemaError::Unusable(reason));
        }
        Ok(targets)
    }
}

/// Whether a keyword checks what is in a value, and not the value.
fn is_inner(keyword: &str) -> bool {
    matches!(
        keyword,
        "additionalItems"
            | "additionalProperties"
            | "contains"
            | "items"
            | "patternProperties"
            | "prefixItems"
            | "properties"
            | "propertyNames"
            | "unevaluatedItems"
            | "unevaluatedProperties"
    )
}

/// What is in an object or array.
fn values(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Object(fields) => Box::new(fields.values()),
        Value::Array(items) => Box::new(items.iter()),
        _ => Box::new(std::iter::empty()),
    }
}

fn id_of(schema: &Value) -> Option<&str> {
    ["$id", "id"].into_iter().find_map(|key| schema.get(key)?.as_str())
}

/// Whether a reference, which is often relative, may mean the schema with this identifier: so it is
/// if both end alike, or if one is written so that its end does not say.
fn may_mean(resource: &str, id: Option<&str>) -> bool {
    let end = |uri: &str| {
        let uri = uri.split('#').next().unwrap_or_default();
        let end = uri.rsplit('/').next().unwrap_or_default();
        let says = !uri.contains(['%', '?']) && !matches!(end, "" | "." | "..");
        says.then(|| end.to_ascii_lowercase())
    };
    match (resource, id) {
        ("", _) => true,
        // The validator calls it so.
        (_, None) => resource.starts_with("json-schema:"),
        (_, Some(id)) => {
            let (resource, id) = (end(resource), end(id));
            resource.is_none() || id.is_none() || resource == id
        }
    }
}

/// Without the percent encoding of URIs.
fn decoded(fragment: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), fragment.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%');
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
