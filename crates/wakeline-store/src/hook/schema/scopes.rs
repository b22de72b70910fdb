//! Resolution of the references in a schema.
//!
//! # Where it sits
//! Below [`super::visits`], which follows each reference. References are resolved by the library
//! that the validator itself uses: against the base URI of their scope, to a resource, and there
//! to an anchor or a JSON pointer.
//!
//! # Invariants
//! * A reference to a dynamic anchor resolves to all anchors of its name, and a recursive reference
//!   to all resources that take part in recursion, because the actual target depends on the path.
//! * All lookups use indexes that are built once; the schema is never searched again.

use std::collections::HashMap;
use std::rc::Rc;

use referencing::{Draft, Registry, Resolver, Uri, uri};
use serde_json::Value;

use super::SchemaError;

/// The base URI of a schema without an identifier, as the validator assumes it.
const BASE: &str = "json-schema:///";

/// A schema with an index of all its resources and anchors.
pub(super) struct Document<'a> {
    schema: &'a Value,
    registry: Registry<'a>,
    base: Uri<String>,
    draft: Draft,
}

impl<'a> Document<'a> {
    /// Builds the index. A reference to an external document is an error.
    pub(super) fn new(schema: &'a Value) -> Result<Self, SchemaError> {
        let draft = Draft::default().detect(schema);
        let resource = draft.create_resource_ref(schema);
        let base = uri::from_str(resource.id().unwrap_or(BASE)).map_err(|error| wrong(&error))?;
        let registry = Registry::new().draft(draft).add(base.as_str(), resource);
        let registry = registry.and_then(|registry| registry.prepare());
        Ok(Self { schema, registry: registry.map_err(|error| wrong(&error))?, base, draft })
    }
}

/// A schema within its scope.
#[derive(Clone, Copy)]
pub(super) struct SchemaNode<'r> {
    pub(super) schema: &'r Value,
    /// The number of its scope: see [`SchemaScopes`].
    pub(super) scope: usize,
}

impl SchemaNode<'_> {
    /// A key that is equal only for the same schema in the same scope.
    pub(super) fn key(&self) -> SchemaNodeKey {
        (std::ptr::from_ref(self.schema), self.scope)
    }
}

/// Identifies a [`SchemaNode`].
pub(super) type SchemaNodeKey = (*const Value, usize);

/// A resolution scope: a base URI and the draft that applies to it.
struct SchemaScope<'r> {
    resolver: Resolver<'r>,
    draft: Draft,
}

/// The resolution scopes of a document, by number.
pub(super) struct SchemaScopes<'r> {
    registry: &'r Registry<'r>,
    scopes: Vec<SchemaScope<'r>>,
    numbers: HashMap<(String, Draft), usize>,
    /// The scopes of schemas with an identifier or draft of their own, by the schema and its outer
    /// scope.
    inner: HashMap<SchemaNodeKey, usize>,
    targets: HashMap<SchemaNodeKey, Rc<[SchemaNode<'r>]>>,
    dynamic: HashMap<&'r str, Vec<SchemaNode<'r>>>,
    recursive: Vec<SchemaNode<'r>>,
}

impl<'r> SchemaScopes<'r> {
    /// Builds the scopes of a document. Also returns the root schema.
    pub(super) fn new(document: &'r Document<'r>) -> (Self, SchemaNode<'r>) {
        let mut scopes = Self {
            registry: &document.registry,
            scopes: Vec::new(),
            numbers: HashMap::new(),
            inner: HashMap::new(),
            targets: HashMap::new(),
            dynamic: HashMap::new(),
            recursive: Vec::new(),
        };
        let scope = scopes.number(document.base.clone(), document.draft);
        let root = SchemaNode { schema: document.schema, scope };
        scopes.find_dynamic(root);
        (scopes, root)
    }

    /// Enters a subschema of a schema in the given scope.
    pub(super) fn enter(&mut self, schema: &'r Value, scope: usize) -> SchemaNode<'r> {
        let outer = SchemaNode { schema, scope };
        if !["$id", "id", "$schema"].iter().any(|key| schema.get(key).is_some()) {
            return outer;
        }
        if let Some(scope) = self.inner.get(&outer.key()) {
            return SchemaNode { schema, scope: *scope };
        }
        let SchemaScope { resolver, draft } = &self.scopes[scope];
        let draft = draft.detect(schema);
        // Identifiers that are not URIs are refused by the validator itself.
        let scope = match resolver.in_subresource(draft.create_resource_ref(schema)) {
            Ok(inner) => self.number(Uri::clone(&inner.base_uri()), draft),
            Err(_) => scope,
        };
        self.inner.insert(outer.key(), scope);
        SchemaNode { schema, scope }
    }

    /// All schemas that a reference may resolve to.
    pub(super) fn targets(
        &mut self,
        keyword: &str,
        reference: SchemaNode<'r>,
    ) -> Result<Rc<[SchemaNode<'r>]>, SchemaError> {
        if let Some(known) = self.targets.get(&reference.key()) {
            return Ok(Rc::clone(known));
        }
        let name = reference.schema.as_str().unwrap_or_default();
        let name = if keyword == "$recursiveRef" { "#" } else { name };
        let found = self.look_up(reference.scope, name).ok_or_else(|| {
            let reason =
                format!("the reference `{name}` does not resolve to any part of the schema");
            SchemaError::Unusable(reason)
        })?;
        let mut targets = vec![found];
        let is_true = |value: &Value| value.as_bool() == Some(true);
        if keyword == "$recursiveRef" && found.schema.get("$recursiveAnchor").is_some_and(is_true) {
            targets.extend(&self.recursive);
        }
        let anchor = found.schema.get("$dynamicAnchor").and_then(Value::as_str);
        if let Some(anchor) = anchor.filter(|_| is_anchor(name)) {
            targets.extend(self.dynamic.get(anchor).into_iter().flatten());
        }
        targets.sort_unstable_by_key(SchemaNode::key);
        targets.dedup_by_key(|target| target.key());
        let targets: Rc<[SchemaNode<'r>]> = targets.into();
        self.targets.insert(reference.key(), Rc::clone(&targets));
        Ok(targets)
    }

    fn look_up(&mut self, scope: usize, reference: &str) -> Option<SchemaNode<'r>> {
        let (schema, resolver, draft) =
            self.scopes[scope].resolver.lookup(reference).ok()?.into_inner();
        let scope = self.number(Uri::clone(&resolver.base_uri()), draft);
        Some(SchemaNode { schema, scope })
    }

    /// The number of a scope, which is added if it is new.
    fn number(&mut self, base: Uri<String>, draft: Draft) -> usize {
        let (registry, next) = (self.registry, self.scopes.len());
        let number = *self.numbers.entry((base.as_str().to_owned(), draft)).or_insert(next);
        if number == next {
            self.scopes.push(SchemaScope { resolver: registry.resolver(base), draft });
        }
        number
    }

    /// Indexes the anchors and resources whose meaning depends on the path by which they are
    /// reached.
    fn find_dynamic(&mut self, node: SchemaNode<'r>) {
        if let Value::Object(fields) = node.schema {
            if let Some(Value::String(name)) = fields.get("$dynamicAnchor") {
                let found = self.look_up(node.scope, &format!("#{name}"));
                self.dynamic.entry(name).or_default().extend(found);
            }
            if fields.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
                let found = self.look_up(node.scope, "#");
                self.recursive.extend(found);
            }
        }
        for inner in values(node.schema) {
            let inner = self.enter(inner, node.scope);
            self.find_dynamic(inner);
        }
    }
}

/// The values of an object or array.
pub(super) fn values(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Object(fields) => Box::new(fields.values()),
        Value::Array(items) => Box::new(items.iter()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Whether a reference names an anchor.
fn is_anchor(reference: &str) -> bool {
    let fragment = reference.split_once('#').map_or("", |(_, fragment)| fragment);
    !fragment.is_empty() && !fragment.starts_with('/')
}

fn wrong(error: &referencing::Error) -> SchemaError {
    SchemaError::Unusable(error.to_string())
}
