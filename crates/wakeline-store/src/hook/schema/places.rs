//! What the references of a schema lead to.
//!
//! # Where it sits
//! Below [`super::visits`], which follows each reference. References are resolved by the library
//! that the validator uses itself: against the base URI of the place where they stand, to a
//! resource, and there to an anchor or a JSON pointer.
//!
//! # Invariants
//! * A reference to a dynamic anchor leads to all that have its name, and a recursive reference to
//!   all resources that take part in recursion: which one it is depends on the way to it.
//! * All is read from indexes that are built once: nothing here searches the schema.

use std::collections::HashMap;
use std::rc::Rc;

use referencing::{Draft, Registry, Resolver, Uri, uri};
use serde_json::Value;

use super::SchemaError;

/// The base URI of a schema that names none: the validator's.
const BASE: &str = "json-schema:///";

/// A schema with all resources and anchors in it.
pub(super) struct Document<'a> {
    schema: &'a Value,
    registry: Registry<'a>,
    base: Uri<String>,
    draft: Draft,
}

impl<'a> Document<'a> {
    /// Finds them. A reference to elsewhere is an error.
    pub(super) fn new(schema: &'a Value) -> Result<Self, SchemaError> {
        let draft = Draft::default().detect(schema);
        let resource = draft.create_resource_ref(schema);
        let base = uri::from_str(resource.id().unwrap_or(BASE)).map_err(|error| wrong(&error))?;
        let registry = Registry::new().draft(draft).add(base.as_str(), resource);
        let registry = registry.and_then(|registry| registry.prepare());
        Ok(Self { schema, registry: registry.map_err(|error| wrong(&error))?, base, draft })
    }
}

/// A schema, and where it stands.
#[derive(Clone, Copy)]
pub(super) struct Node<'r> {
    pub(super) schema: &'r Value,
    /// The number of its place: see [`Places`].
    pub(super) place: usize,
}

impl Node<'_> {
    /// The same for the same schema in the same place only.
    pub(super) fn key(&self) -> NodeKey {
        (std::ptr::from_ref(self.schema), self.place)
    }
}

/// Identifies a [`Node`].
pub(super) type NodeKey = (*const Value, usize);

/// A base URI, and the draft of what stands there.
struct Place<'r> {
    resolver: Resolver<'r>,
    draft: Draft,
}

/// The places of a document, by number.
pub(super) struct Places<'r> {
    registry: &'r Registry<'r>,
    places: Vec<Place<'r>>,
    numbers: HashMap<(String, Draft), usize>,
    /// Of schemas with an identifier or draft of their own, by where they stand.
    inner: HashMap<NodeKey, usize>,
    targets: HashMap<NodeKey, Rc<[Node<'r>]>>,
    dynamic: HashMap<&'r str, Vec<Node<'r>>>,
    recursive: Vec<Node<'r>>,
}

impl<'r> Places<'r> {
    /// Of a document. Returns its whole schema as well.
    pub(super) fn new(document: &'r Document<'r>) -> (Self, Node<'r>) {
        let mut places = Self {
            registry: &document.registry,
            places: Vec::new(),
            numbers: HashMap::new(),
            inner: HashMap::new(),
            targets: HashMap::new(),
            dynamic: HashMap::new(),
            recursive: Vec::new(),
        };
        let place = places.number(document.base.clone(), document.draft);
        let root = Node { schema: document.schema, place };
        places.find_dynamic(root);
        (places, root)
    }

    /// A schema below another one, which stands at a place.
    pub(super) fn enter(&mut self, schema: &'r Value, place: usize) -> Node<'r> {
        let outer = Node { schema, place };
        if !["$id", "id", "$schema"].iter().any(|key| schema.get(key).is_some()) {
            return outer;
        }
        if let Some(place) = self.inner.get(&outer.key()) {
            return Node { schema, place: *place };
        }
        let Place { resolver, draft } = &self.places[place];
        let draft = draft.detect(schema);
        // The validator refuses identifiers that are no URIs, wherever it reads them.
        let place = match resolver.in_subresource(draft.create_resource_ref(schema)) {
            Ok(inner) => self.number(Uri::clone(&inner.base_uri()), draft),
            Err(_) => place,
        };
        self.inner.insert(outer.key(), place);
        Node { schema, place }
    }

    /// All that a reference at a place may mean.
    pub(super) fn targets(
        &mut self,
        keyword: &str,
        reference: Node<'r>,
    ) -> Result<Rc<[Node<'r>]>, SchemaError> {
        if let Some(known) = self.targets.get(&reference.key()) {
            return Ok(Rc::clone(known));
        }
        let name = reference.schema.as_str().unwrap_or_default();
        let name = if keyword == "$recursiveRef" { "#" } else { name };
        let found = self.look_up(reference.place, name).ok_or_else(|| {
            let reason = format!("the reference `{name}` leads to no place in the schema");
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
        targets.sort_unstable_by_key(Node::key);
        targets.dedup_by_key(|target| target.key());
        let targets: Rc<[Node<'r>]> = targets.into();
        self.targets.insert(reference.key(), Rc::clone(&targets));
        Ok(targets)
    }

    fn look_up(&mut self, place: usize, reference: &str) -> Option<Node<'r>> {
        let (schema, resolver, draft) =
            self.places[place].resolver.lookup(reference).ok()?.into_inner();
        let place = self.number(Uri::clone(&resolver.base_uri()), draft);
        Some(Node { schema, place })
    }

    /// The number of a place.
    fn number(&mut self, base: Uri<String>, draft: Draft) -> usize {
        let (registry, next) = (self.registry, self.places.len());
        let number = *self.numbers.entry((base.as_str().to_owned(), draft)).or_insert(next);
        if number == next {
            self.places.push(Place { resolver: registry.resolver(base), draft });
        }
        number
    }

    /// Finds the anchors and resources that references lead to by the way on which they are met.
    fn find_dynamic(&mut self, node: Node<'r>) {
        if let Value::Object(fields) = node.schema {
            if let Some(Value::String(name)) = fields.get("$dynamicAnchor") {
                let found = self.look_up(node.place, &format!("#{name}"));
                self.dynamic.entry(name).or_default().extend(found);
            }
            if fields.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
                let found = self.look_up(node.place, "#");
                self.recursive.extend(found);
            }
        }
        for inner in values(node.schema) {
            let inner = self.enter(inner, node.place);
            self.find_dynamic(inner);
        }
    }
}

/// What is in an object or array.
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
