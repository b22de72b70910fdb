//! An upper bound for the number of checks that a schema causes for one value of a payload.
//!
//! # Where it sits
//! Called when a schema is read, before it is compiled. The validator follows every reference each
//! time it meets one: thirty definitions that each refer twice to the next cause 2^30 checks.
//! References are resolved by [`super::scopes`].
//!
//! # Invariants
//! * The count is never less than what the validator does: an unknown keyword counts as one that
//!   checks the same value, and a reference that may have several targets counts as all of them. A
//!   reference without a target is refused.
//! * Counting takes a limited time itself: see [`STEPS_MAX`] and [`LEVELS_MAX`].

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::SchemaError;
use super::scopes::{Document, SchemaNode, SchemaNodeKey, SchemaScopes, values};

#[cfg(test)]
mod tests;

/// The maximum number of checks of one value together with the values that contain it.
pub(super) const VISITS_MAX: u64 = 100_000;
/// The nesting depth of payloads that every schema must be able to check.
const NESTED_MIN: usize = 4;
/// The maximum nesting depth of JSON in general.
const NESTED_MAX: usize = 128;
/// The maximum nesting depth of schemas, including schemas that are entered by reference: the
/// validator calls itself for each.
const LEVELS_MAX: usize = 512;
/// The maximum number of schemas, keywords and references that are examined for one nesting depth
/// of payloads.
const STEPS_MAX: usize = 500_000;

/// The nesting depth of payloads up to which a schema takes no more than [`VISITS_MAX`] checks of
/// each value. A schema that refers to itself in several places takes more checks on each level.
pub(super) fn nested_max(schema: &Value) -> Result<usize, SchemaError> {
    let document = Document::new(schema)?;
    let (scopes, root) = SchemaScopes::new(&document);
    let mut visits = Visits { scopes, known: HashMap::new(), steps: 0, level: 0 };
    let mut nested = NESTED_MAX;
    loop {
        match visits.of_root(root, nested) {
            Ok(_) => return Ok(nested),
            Err(SchemaError::TooManyChecks) if nested > NESTED_MIN => nested /= 2,
            Err(error) => return Err(error),
        }
    }
}

/// The purpose for which the validator checks a value against a schema.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Purpose {
    /// To find out whether the value matches.
    IsValid,
    /// To find out why the value does not match.
    Reasons,
    /// To find out which of the value's properties and items the schema has evaluated, for
    /// `unevaluatedProperties` and `unevaluatedItems` of this schema or of one that contains it.
    Marks,
}

/// A check of a value against a schema.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Check {
    purpose: Purpose,
    /// How many levels of nesting the value has below it.
    nested: usize,
}

/// Counts the visits of schemas.
struct Visits<'r> {
    scopes: SchemaScopes<'r>,
    /// The counts so far; `None` for a check that is being counted.
    known: HashMap<(SchemaNodeKey, Check), Option<u64>>,
    steps: usize,
    level: usize,
}

impl<'r> Visits<'r> {
    fn of_root(&mut self, root: SchemaNode<'r>, nested: usize) -> Result<u64, SchemaError> {
        self.known.clear();
        (self.steps, self.level) = (0, 0);
        self.of(root, Check { purpose: Purpose::Reasons, nested })
    }

    fn of(&mut self, node: SchemaNode<'r>, check: Check) -> Result<u64, SchemaError> {
        self.step()?;
        let Value::Object(fields) = node.schema else {
            return self.of_all(values(node.schema), node.scope, check);
        };
        let key = (node.key(), check);
        match self.known.get(&key) {
            Some(Some(visits)) => return Ok(*visits),
            Some(None) => return Err(SchemaError::Endless),
            None if self.level >= LEVELS_MAX => return Err(SchemaError::TooManyChecks),
            None => {}
        }
        self.known.insert(key, None);
        self.level += 1;
        let mut visits = 1 + self.of_same(fields, node.scope, check)?;
        if let Some(nested) = check.nested.checked_sub(1) {
            visits += self.of_inner(fields, node.scope, Check { nested, ..check })?;
        }
        let is_unevaluated = |keyword: &String| keyword.starts_with("unevaluated");
        if check.purpose != Purpose::Marks && fields.keys().any(is_unevaluated) {
            visits += self.of(node, Check { purpose: Purpose::Marks, ..check })?;
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

    /// Counts the visits of a subschema of a schema in the given scope.
    fn of_below(
        &mut self,
        schema: &'r Value,
        scope: usize,
        check: Check,
    ) -> Result<u64, SchemaError> {
        let node = self.scopes.enter(schema, scope);
        self.of(node, check)
    }

    fn of_all(
        &mut self,
        schemas: impl IntoIterator<Item = &'r Value>,
        scope: usize,
        check: Check,
    ) -> Result<u64, SchemaError> {
        let mut visits = 0;
        for schema in schemas {
            visits += self.of_below(schema, scope, check)?;
        }
        Ok(visits)
    }

    /// Counts the visits by keywords that check the same value.
    fn of_same(
        &mut self,
        fields: &'r Map<String, Value>,
        scope: usize,
        check: Check,
    ) -> Result<u64, SchemaError> {
        let mut visits = 0;
        for (keyword, value) in fields {
            self.step()?;
            match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                    let targets =
                        self.scopes.targets(keyword, SchemaNode { schema: value, scope })?;
                    for target in targets.iter() {
                        visits += self.of(*target, check)?;
                    }
                }
                ("$defs" | "definitions" | "const" | "default" | "enum" | "examples", _) => {}
                (keyword, _) if is_inner(keyword) => {}
                (keyword, _) => {
                    for purpose in purposes(keyword, check.purpose) {
                        let check = Check { purpose: *purpose, ..check };
                        visits += match keyword {
                            "dependencies" | "dependentSchemas" => {
                                self.of_all(values(value), scope, check)?
                            }
                            _ => self.of_below(value, scope, check)?,
                        };
                    }
                }
            }
        }
        Ok(visits)
    }

    /// Counts the visits by keywords that check the values inside the value.
    fn of_inner(
        &mut self,
        fields: &'r Map<String, Value>,
        scope: usize,
        check: Check,
    ) -> Result<u64, SchemaError> {
        let mut visits = 0;
        let is_mark = check.purpose == Purpose::Marks;
        let check = if is_mark { Check { purpose: Purpose::IsValid, ..check } } else { check };
        for keyword in ["contains", "unevaluatedItems", "unevaluatedProperties"] {
            visits += self.of_all(fields.get(keyword), scope, check)?;
        }
        if is_mark {
            // The other keywords mark properties by name and items by position.
            return Ok(visits);
        }
        let patterns = fields.get("patternProperties").map(values);
        visits += self.of_all(patterns.into_iter().flatten(), scope, check)?;
        // An inner value is checked by only one of these keywords, and by at most one of its
        // schemas.
        let mut most = 0;
        for keyword in ["additionalItems", "additionalProperties", "propertyNames"] {
            if let Some(schema) = fields.get(keyword) {
                most = most.max(self.of_below(schema, scope, check)?);
            }
        }
        for keyword in ["items", "prefixItems", "properties"] {
            match fields.get(keyword) {
                Some(schema @ Value::Object(_)) if keyword == "items" => {
                    most = most.max(self.of_below(schema, scope, check)?);
                }
                Some(schemas) => {
                    for schema in values(schemas) {
                        most = most.max(self.of_below(schema, scope, check)?);
                    }
                }
                None => {}
            }
        }
        Ok(visits + most)
    }
}

/// The purposes, in order, for which the validator checks the schemas of a keyword while it checks
/// the schema that contains the keyword for the given purpose.
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

/// Whether a keyword checks the values inside a value, and not the value itself.
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
