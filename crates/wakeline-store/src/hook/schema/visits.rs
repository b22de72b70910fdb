//! How often a schema may lead to a check of one value of a payload.
//!
//! # Where it sits
//! Called when a schema is read, before it is compiled. The validator follows each reference
//! wherever it stands: thirty definitions that each refer twice to the next are 2^30 checks. What
//! a reference leads to is found by [`super::places`].
//!
//! # Invariants
//! * What is counted is never less than what the validator does: a keyword that is not known here
//!   counts as one that checks the same value, and a reference that may mean several places counts
//!   as all of them. A reference that leads nowhere is refused.
//! * It takes a bounded time itself: see [`STEPS_MAX`] and [`LEVELS_MAX`].

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::SchemaError;
use super::places::{Document, Node, NodeKey, Places, values};

#[cfg(test)]
mod tests;

/// Most checks of one value and of those that contain it.
pub(super) const VISITS_MAX: u64 = 100_000;
/// How deep the payloads may be nested that every schema must be able to check.
const NESTED_MIN: usize = 4;
/// How deep JSON may be nested at all.
const NESTED_MAX: usize = 128;
/// Most schemas inside each other, with those that are referred to: the validator calls itself for
/// each.
const LEVELS_MAX: usize = 512;
/// Most schemas, keywords and references that are looked at for one depth of payloads.
const STEPS_MAX: usize = 500_000;

/// How deep payloads may be nested so that a schema takes no more than [`VISITS_MAX`] checks of
/// each value. A schema that refers to itself in several places takes more on each level.
pub(super) fn nested_max(schema: &Value) -> Result<usize, SchemaError> {
    let document = Document::new(schema)?;
    let (places, root) = Places::new(&document);
    let mut visits = Visits { places, known: HashMap::new(), steps: 0, level: 0 };
    let mut nested = NESTED_MAX;
    loop {
        match visits.of_root(root, nested) {
            Ok(_) => return Ok(nested),
            Err(SchemaError::TooManyChecks) if nested > NESTED_MIN => nested /= 2,
            Err(error) => return Err(error),
        }
    }
}

/// What the validator looks at a schema for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Purpose {
    /// Whether a value fits.
    IsValid,
    /// Why it does not.
    Reasons,
    /// Which properties and items of it the schema has evaluated: for `unevaluatedProperties` and
    /// `unevaluatedItems` of a schema that contains this one, and of this one.
    Marks,
}

/// A look at a schema, for a value with so many levels below it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Look {
    purpose: Purpose,
    nested: usize,
}

/// Counts the visits of schemas.
struct Visits<'r> {
    places: Places<'r>,
    /// How many, or `None` while they are counted.
    known: HashMap<(NodeKey, Look), Option<u64>>,
    steps: usize,
    level: usize,
}

impl<'r> Visits<'r> {
    fn of_root(&mut self, root: Node<'r>, nested: usize) -> Result<u64, SchemaError> {
        self.known.clear();
        (self.steps, self.level) = (0, 0);
        self.of(root, Look { purpose: Purpose::Reasons, nested })
    }

    fn of(&mut self, node: Node<'r>, look: Look) -> Result<u64, SchemaError> {
        self.step()?;
        let Value::Object(fields) = node.schema else {
            return self.of_all(values(node.schema), node.place, look);
        };
        let key = (node.key(), look);
        match self.known.get(&key) {
            Some(Some(visits)) => return Ok(*visits),
            Some(None) => return Err(SchemaError::Endless),
            None if self.level >= LEVELS_MAX => return Err(SchemaError::TooManyChecks),
            None => {}
        }
        self.known.insert(key, None);
        self.level += 1;
        let mut visits = 1 + self.of_same(fields, node.place, look)?;
        if let Some(nested) = look.nested.checked_sub(1) {
            visits += self.of_inner(fields, node.place, Look { nested, ..look })?;
        }
        let is_unevaluated = |keyword: &String| keyword.starts_with("unevaluated");
        if look.purpose != Purpose::Marks && fields.keys().any(is_unevaluated) {
            visits += self.of(node, Look { purpose: Purpose::Marks, ..look })?;
        }
        if visits > VISITS_MAX {
            return Err(SchemaError::TooManyChecks);
        }
        self.level -= 1;
        self.known.insert(key, Some(visits));
        Ok(visits)
    }

    fn step(&mut self) -> Result<(), SchemaError> {
        self.steps += 1;
        if self.steps > STEPS_MAX { Err(SchemaError::TooManyChecks) } else { Ok(()) }
    }

    /// Of a schema below one that stands at a place.
    fn of_below(
        &mut self,
        schema: &'r Value,
        place: usize,
        look: Look,
    ) -> Result<u64, SchemaError> {
        let node = self.places.enter(schema, place);
        self.of(node, look)
    }

    fn of_all(
        &mut self,
        schemas: impl IntoIterator<Item = &'r Value>,
        place: usize,
        look: Look,
    ) -> Result<u64, SchemaError> {
        let mut visits = 0;
        for schema in schemas {
            visits += self.of_below(schema, place, look)?;
        }
        Ok(visits)
    }

    /// By keywords that look at the same value.
    fn of_same(
        &mut self,
        fields: &'r Map<String, Value>,
        place: usize,
        look: Look,
    ) -> Result<u64, SchemaError> {
        let mut visits = 0;
        for (keyword, value) in fields {
            self.step()?;
            match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                    let targets = self.places.targets(keyword, Node { schema: value, place })?;
                    for target in targets.iter() {
                        visits += self.of(*target, look)?;
                    }
                }
                ("$defs" | "definitions" | "const" | "default" | "enum" | "examples", _) => {}
                (keyword, _) if is_inner(keyword) => {}
                (keyword, _) => {
                    for purpose in purposes(keyword, look.purpose) {
                        let look = Look { purpose: *purpose, ..look };
                        visits += match keyword {
                            "dependencies" | "dependentSchemas" => {
                                self.of_all(values(value), place, look)?
                            }
                            _ => self.of_below(value, place, look)?,
                        };
                    }
                }
            }
        }
        Ok(visits)
    }

    /// By keywords that look at what is in the value, which has so many levels below it.
    fn of_inner(
        &mut self,
        fields: &'r Map<String, Value>,
        place: usize,
        look: Look,
    ) -> Result<u64, SchemaError> {
        let mut visits = 0;
        let is_mark = look.purpose == Purpose::Marks;
        let look = if is_mark { Look { purpose: Purpose::IsValid, ..look } } else { look };
        for keyword in ["contains", "unevaluatedItems", "unevaluatedProperties"] {
            visits += self.of_all(fields.get(keyword), place, look)?;
        }
        if is_mark {
            // The other keywords mark by the names and places of what is in the value.
            return Ok(visits);
        }
        let patterns = fields.get("patternProperties").map(values);
        visits += self.of_all(patterns.into_iter().flatten(), place, look)?;
        // At most one of a keyword, and only one of these keywords, is for the same inner value.
        let mut most = 0;
        for keyword in ["additionalItems", "additionalProperties", "propertyNames"] {
            if let Some(schema) = fields.get(keyword) {
                most = most.max(self.of_below(schema, place, look)?);
            }
        }
        for keyword in ["items", "prefixItems", "properties"] {
            match fields.get(keyword) {
                Some(schema @ Value::Object(_)) if keyword == "items" => {
                    most = most.max(self.of_below(schema, place, look)?);
                }
                Some(schemas) => {
                    for schema in values(schemas) {
                        most = most.max(self.of_below(schema, place, look)?);
                    }
                }
                None => {}
            }
        }
        Ok(visits + most)
    }
}

/// What the validator looks at the schemas of a keyword for, each after the other, while it looks
/// for a purpose at the schema in which the keyword stands.
fn purposes(keyword: &str, purpose: Purpose) -> &'static [Purpose] {
    use Purpose::{IsValid, Marks, Reasons};
    match (purpose, keyword) {
        (IsValid, _) | (Reasons, "if" | "not") => &[IsValid],
        (Reasons, "allOf" | "dependencies" | "dependentSchemas" | "then" | "else") => &[Reasons],
        (Reasons, _) => &[IsValid, Reasons],
        (Marks, "not") => &[],
        (Marks, "dependentSchemas" | "then" | "else") => &[Marks],
        (Marks, _) => &[IsValid, Marks],
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
