//! Refuses fields and parameters that a route does not know, so that a misspelt field does not
//! silently lose data.
//!
//! # Where it sits
//! `guard` checks query strings; [`JsonBody`](super::JsonBody) checks bodies before they are
//! parsed.
//!
//! # Invariants
//! * A route accepts exactly the fields and parameters in the OpenAPI document, so that there are
//!   no undocumented ones.
//! * Fields that published clients send but this server ignores are in one list,
//!   [`IGNORED_NAMES`].

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::LazyLock;

use axum::extract::Query;
use axum::http::{Method, Uri};
use serde::de::{Deserialize as _, Visitor};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess};
use serde_json::Value;
use wakeline_core::nearest;

use crate::error::ApiError;

/// Parameters and fields that published clients send but this server ignores, by path prefix.
const IGNORED_NAMES: [(&str, &[&str]); 10] = [
    // Queen 2.6 lets the server choose batch sizes, which it does anyway if none are given, and
    // sends `partitions` even with a pop that names its partition.
    ("/api/v1/pop", &["autopilot", "partitions"]),
    // Queen also sends the namespace and task of a queue with each pop that names the queue.
    ("/api/v1/pop/queue", &["namespace", "task"]),
    // Queen's admin client requests partitions, which are always in the response.
    ("/api/v1/status/queues", &["includePartitions"]),
    // Queen lets callers name the producer. This server takes it from the credentials.
    ("/api/v1/push", &["producerSub"]),
    ("/api/v1/transaction", &["producerSub"]),
    // Queen lets callers keep the metadata of a deleted group. This server stores none.
    ("/api/v1/consumer-groups", &["deleteMetadata"]),
    // Svix clients request message states that do not exist here.
    ("/api/v1/app", &["expanded_statuses"]),
    // Svix clients may change an object that they read and send it back as a whole.
    ("/api/v1/app", READ_BACK),
    ("/api/v1/event-type", &["name", "createdAt", "updatedAt"]),
    ("/api/v1/operational-webhook", READ_BACK),
];

/// Fields of applications and endpoints that only the server can set.
const READ_BACK: &[&str] =
    &["id", "createdAt", "updatedAt", "version", "disabledReason", "failingSince", "pausedForMs"];

/// Cuts an unknown name for use in an error message, because the caller chooses its length.
pub(crate) fn shortened(name: &str) -> &str {
    const CHARS_MAX: usize = 64;
    name.char_indices().nth(CHARS_MAX).map_or(name, |(end, _)| &name[..end])
}

/// The parameters and fields that a route accepts.
#[derive(Debug, Default)]
pub(crate) struct RouteSchema {
    /// Names that are accepted without effect; see [`IGNORED_NAMES`].
    ignored: Vec<&'static str>,
    query: Vec<String>,
    pub(super) body: BodyShape,
}

/// The fields that a part of a body may have.
#[derive(Debug, Default)]
pub(super) enum BodyShape {
    /// Any JSON value is accepted.
    #[default]
    Any,
    Object(BTreeMap<String, BodyShape>),
    /// An object whose field names the caller chooses.
    Map(Box<BodyShape>),
    List(Box<BodyShape>),
}

static ROUTES: LazyLock<HashMap<String, Vec<(Method, RouteSchema)>>> = LazyLock::new(|| {
    let document: Value = serde_json::from_str(crate::openapi()).expect("the document is JSON");
    let paths = document["paths"].as_object().into_iter().flatten();
    let routes = paths.map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        let methods = methods.map(|(method, operation)| {
            let method = method.to_uppercase().parse().expect("a method");
            (method, route_schema(&document, path, operation))
        });
        (path.clone(), methods.collect())
    });
    routes.collect()
});

/// Finds the schema of a route by its pattern.
pub(crate) fn find(method: &Method, route: &str) -> Option<&'static RouteSchema> {
    let methods = if route.contains("{*") {
        ROUTES.get(&route.replace("{*", "{"))?
    } else {
        ROUTES.get(route)?
    };
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    methods.iter().find(|(own, _)| own == method).map(|(_, schema)| schema)
}

fn route_schema(document: &Value, path: &str, operation: &Value) -> RouteSchema {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let query = parameters.filter(|one| one["in"] == "query");
    let query = query.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect();
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let ignored = IGNORED_NAMES.iter().filter(|(prefix, _)| path.starts_with(prefix));
    let ignored = ignored.flat_map(|(_, names)| names.iter().copied()).collect();
    RouteSchema { ignored, query, body: shape(document, schema, &mut Vec::new()) }
}

fn shape<'a>(document: &'a Value, schema: &'a Value, parents: &mut Vec<&'a str>) -> BodyShape {
    if let Some(name) = schema["$ref"].as_str() {
        if parents.contains(&name) {
            return BodyShape::Any;
        }
        parents.push(name);
        let inner = document.pointer(name.trim_start_matches('#'));
        let inner = inner.map(|inner| shape(document, inner, parents)).unwrap_or_default();
        parents.pop();
        return inner;
    }
    if schema["items"].is_object() {
        return BodyShape::List(Box::new(shape(document, &schema["items"], parents)));
    }
    if schema["additionalProperties"].is_object() {
        let inner = shape(document, &schema["additionalProperties"], parents);
        return BodyShape::Map(Box::new(inner));
    }
    let mut combined = BodyShape::Any;
    let kinds = ["oneOf", "anyOf", "allOf"].into_iter();
    for part in kinds.flat_map(|kind| schema[kind].as_array().into_iter().flatten()) {
        combined = merge(combined, shape(document, part, parents));
    }
    let Some(properties) = schema["properties"].as_object() else { return combined };
    let own = properties.iter();
    let own = own.map(|(name, inner)| (name.clone(), shape(document, inner, parents))).collect();
    merge(combined, BodyShape::Object(own))
}

/// Merges two shapes: the result has the fields of both.
fn merge(one: BodyShape, other: BodyShape) -> BodyShape {
    match (one, other) {
        (BodyShape::Object(mut one), BodyShape::Object(other)) => {
            one.extend(other);
            BodyShape::Object(one)
        }
        (BodyShape::Any, other) => other,
        (one, _) => one,
    }
}

impl RouteSchema {
    /// Refuses a query string with a parameter that the route does not know.
    pub(crate) fn check_query(&self, uri: &Uri) -> Result<(), ApiError> {
        if uri.query().is_none_or(str::is_empty) {
            return Ok(());
        }
        // The route itself refuses a malformed query string.
        let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
            return Ok(());
        };
        for (name, _) in &pairs {
            if !self.query.contains(name) && !self.ignored.contains(&name.as_str()) {
                let known = self.query.iter().map(String::as_str);
                let hint = hint(name, known, "parameters");
                let message = format!("there is no parameter {name:?} here{hint}");
                return Err(ApiError::invalid_param(name, message));
            }
        }
        Ok(())
    }

    /// Refuses a body with a field that the route does not know. Malformed JSON is left to the
    /// parser.
    pub(super) fn check_body(&self, bytes: &[u8]) -> Result<(), ApiError> {
        if matches!(self.body, BodyShape::Any) {
            return Ok(());
        }
        let mut found = None;
        let location = BodyLocation::Root;
        let walk = UnknownFieldWalk { route: self, shape: &self.body, location, found: &mut found };
        let _ = walk.deserialize(&mut serde_json::Deserializer::from_slice(bytes));
        match found {
            None => Ok(()),
            Some((path, message)) if path.is_empty() => Err(ApiError::invalid(message)),
            Some((path, message)) => Err(ApiError::invalid_field(&path, message)),
        }
    }
}

/// The end of an error message about an unknown name: the nearest known name, or all of them.
fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone, what: &str) -> String {
    match nearest(name, known.clone()) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => match known.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => format!("; there are no {what}"),
            all => format!("; the {what} are {all}"),
        },
    }
}

/// A location in a body.
#[derive(Clone, Copy)]
enum BodyLocation<'a> {
    Root,
    Field(&'a BodyLocation<'a>, &'a str),
    Index(&'a BodyLocation<'a>, usize),
}

impl fmt::Display for BodyLocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// A traversal of a body that stops at the first unknown field.
struct UnknownFieldWalk<'a> {
    route: &'a RouteSchema,
    shape: &'a BodyShape,
    location: BodyLocation<'a>,
    /// The location of the unknown field, and the error message.
    found: &'a mut Option<(String, String)>,
}

impl UnknownFieldWalk<'_> {
    fn refuse(&mut self, fields: &BTreeMap<String, BodyShape>, name: &str) {
        let name = shortened(name);
        let path = BodyLocation::Field(&self.location, name).to_string();
        let inside = fields.iter().find(|(_, inner)| match inner {
            BodyShape::Object(inner) => inner.contains_key(name),
            _ => false,
        });
        let hint = match inside {
            Some((outer, _)) => format!("; it belongs in {outer:?}"),
            None => hint(name, fields.keys().map(String::as_str), "fields"),
        };
        let message = format!("there is no field {name:?} here{hint}");
        let message = match self.location {
            BodyLocation::Root => message,
            within => format!("{within}: {message}"),
        };
        *self.found = Some((path, message));
    }
}

impl<'de> DeserializeSeed<'de> for UnknownFieldWalk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        match self.shape {
            BodyShape::Any => IgnoredAny::deserialize(input).map(drop),
            _ => input.deserialize_any(self),
        }
    }
}

/// Reads a field name of an object: yields the shape of a known field, or an unknown name itself.
struct FieldNameSeed<'a>(&'a BTreeMap<String, BodyShape>);

impl<'de, 'a> DeserializeSeed<'de> for FieldNameSeed<'a> {
    type Value = Result<(&'a str, &'a BodyShape), String>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for FieldNameSeed<'a> {
    type Value = Result<(&'a str, &'a BodyShape), String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let known = self.0.get_key_value(name);
        Ok(known.map(|(name, shape)| (name.as_str(), shape)).ok_or_else(|| name.to_owned()))
    }
}

impl<'de> Visitor<'de> for UnknownFieldWalk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let (route, location) = (self.route, self.location);
        match self.shape {
            BodyShape::Object(fields) => {
                while let Some(key) = map.next_key_seed(FieldNameSeed(fields))? {
                    match key {
                        Ok((name, shape)) => {
                            let location = BodyLocation::Field(&location, name);
                            let found = &mut *self.found;
                            let walk = UnknownFieldWalk { route, shape, location, found };
                            map.next_value_seed(walk)?;
                        }
                        Err(name) if route.ignored.contains(&name.as_str()) => {
                            map.next_value::<IgnoredAny>()?;
                        }
                        Err(name) => {
                            self.refuse(fields, &name);
                            return Err(A::Error::custom("found"));
                        }
                    }
                }
            }
            BodyShape::Map(shape) => {
                while let Some(name) = map.next_key::<String>()? {
                    let location = BodyLocation::Field(&location, &name);
                    let found = &mut *self.found;
                    map.next_value_seed(UnknownFieldWalk { route, shape, location, found })?;
                }
            }
            BodyShape::Any | BodyShape::List(_) => {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let shape = match self.shape {
            BodyShape::List(shape) => shape,
            // serde would read the list as the fields of the struct in their order.
            BodyShape::Object(_) => {
                let path = self.location.to_string();
                let named = if path.is_empty() { "the body" } else { path.as_str() };
                let message = format!("{named} must be an object, not a list");
                *self.found = Some((path, message));
                return Err(A::Error::custom("found"));
            }
            BodyShape::Any | BodyShape::Map(_) => {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(());
            }
        };
        for index in 0.. {
            let location = BodyLocation::Index(&self.location, index);
            let found = &mut *self.found;
            let next = UnknownFieldWalk { route: self.route, shape, location, found };
            if list.next_element_seed(next)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}
