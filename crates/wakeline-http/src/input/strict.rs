//! Refuses what a request has and its route does not know: a misspelt field must not become lost
//! data.
//!
//! # Where it sits
//! The guard checks query strings, [`Body`](super::Body) checks bodies before they are parsed.
//!
//! # Invariants
//! * What a route knows is what the OpenAPI document says of it, so nothing works undocumented.
//! * What published clients send and has no meaning here is in one list, [`WITHOUT_MEANING`].

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

/// Parameters and fields that published clients send and that mean nothing here, by the beginning
/// of a route's path.
const WITHOUT_MEANING: [(&str, &[&str]); 10] = [
    // Queen 2.6 asks the server to choose sizes, which it does when none are given, and says of how
    // many partitions a pop may be even where it names the one.
    ("/api/v1/pop", &["autopilot", "partitions"]),
    // Queen sends what its builder knows of a queue with each pop that names the queue, too.
    ("/api/v1/pop/queue", &["namespace", "task"]),
    // Queen's administration asks for partitions, which are always in the answer.
    ("/api/v1/status/queues", &["includePartitions"]),
    // Queen lets callers say who pushes. The server knows it from the credentials.
    ("/api/v1/push", &["producerSub"]),
    ("/api/v1/transaction", &["producerSub"]),
    // Queen lets callers keep what is known of a group besides its place. Nothing else is.
    ("/api/v1/consumer-groups", &["deleteMetadata"]),
    // Svix: asks for more kinds of states than there are here.
    ("/api/v1/app", &["expanded_statuses"]),
    // Svix: what was read may be changed and sent back as a whole.
    ("/api/v1/app", READ_BACK),
    ("/api/v1/event-type", &["name", "createdAt", "updatedAt"]),
    ("/api/v1/operational-webhook", READ_BACK),
];

/// Fields of applications and endpoints that only the server sets.
const READ_BACK: &[&str] =
    &["id", "createdAt", "updatedAt", "version", "disabledReason", "failingSince", "pausedForMs"];

/// As much of an unknown name as an answer repeats: the caller chooses its length.
pub(crate) fn shortened(name: &str) -> &str {
    const CHARS_MAX: usize = 64;
    name.char_indices().nth(CHARS_MAX).map_or(name, |(end, _)| &name[..end])
}

/// What a route knows.
#[derive(Debug, Default)]
pub(crate) struct Known {
    accepted: Vec<&'static str>,
    query: Vec<String>,
    pub(super) body: Shape,
}

/// What a part of a body may have in it.
#[derive(Debug, Default)]
pub(super) enum Shape {
    /// Anything.
    #[default]
    Any,
    Object(BTreeMap<String, Shape>),
    /// An object whose names are the caller's.
    Map(Box<Shape>),
    List(Box<Shape>),
}

static ROUTES: LazyLock<HashMap<String, Vec<(Method, Known)>>> = LazyLock::new(|| {
    let document: Value = serde_json::from_str(crate::openapi()).expect("the document is JSON");
    let paths = document["paths"].as_object().into_iter().flatten();
    let routes = paths.map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        let methods = methods.map(|(method, operation)| {
            let method = method.to_uppercase().parse().expect("a method");
            (method, known(&document, path, operation))
        });
        (path.clone(), methods.collect())
    });
    routes.collect()
});

/// What a route knows, by its pattern.
pub(crate) fn find(method: &Method, route: &str) -> Option<&'static Known> {
    let methods = match route.contains("{*") {
        true => ROUTES.get(&route.replace("{*", "{"))?,
        false => ROUTES.get(route)?,
    };
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    methods.iter().find(|(own, _)| own == method).map(|(_, known)| known)
}

fn known(document: &Value, path: &str, operation: &Value) -> Known {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let query = parameters.filter(|one| one["in"] == "query");
    let query = query.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect();
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let accepted = WITHOUT_MEANING.iter().filter(|(begin, _)| path.starts_with(begin));
    let accepted = accepted.flat_map(|(_, names)| names.iter().copied()).collect();
    Known { accepted, query, body: shape(document, schema, &mut Vec::new()) }
}

fn shape<'a>(document: &'a Value, schema: &'a Value, above: &mut Vec<&'a str>) -> Shape {
    if let Some(name) = schema["$ref"].as_str() {
        if above.contains(&name) {
            return Shape::Any;
        }
        above.push(name);
        let inner = document.pointer(name.trim_start_matches('#'));
        let inner = inner.map(|inner| shape(document, inner, above)).unwrap_or_default();
        above.pop();
        return inner;
    }
    if schema["items"].is_object() {
        return Shape::List(Box::new(shape(document, &schema["items"], above)));
    }
    if schema["additionalProperties"].is_object() {
        let inner = shape(document, &schema["additionalProperties"], above);
        return Shape::Map(Box::new(inner));
    }
    let mut whole = Shape::Any;
    let kinds = ["oneOf", "anyOf", "allOf"].into_iter();
    for part in kinds.flat_map(|kind| schema[kind].as_array().into_iter().flatten()) {
        whole = both(whole, shape(document, part, above));
    }
    let Some(properties) = schema["properties"].as_object() else { return whole };
    let own = properties.iter();
    let own = own.map(|(name, inner)| (name.clone(), shape(document, inner, above))).collect();
    both(whole, Shape::Object(own))
}

/// What either of two may have in it.
fn both(one: Shape, other: Shape) -> Shape {
    match (one, other) {
        (Shape::Object(mut one), Shape::Object(other)) => {
            one.extend(other);
            Shape::Object(one)
        }
        (Shape::Any, other) => other,
        (one, _) => one,
    }
}

impl Known {
    /// Refuses a query string with a parameter that the route does not have.
    pub(crate) fn check_query(&self, uri: &Uri) -> Result<(), ApiError> {
        if uri.query().is_none_or(str::is_empty) {
            return Ok(());
        }
        // One that cannot be read is refused by the route.
        let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
            return Ok(());
        };
        for (name, _) in &pairs {
            if !self.query.contains(name) && !self.accepted.contains(&name.as_str()) {
                let known = self.query.iter().map(String::as_str);
                let hint = hint(name, known, "parameters");
                let message = format!("there is no parameter {name:?} here{hint}");
                return Err(ApiError::invalid_param(name, message));
            }
        }
        Ok(())
    }

    /// Refuses a body with a field that the route does not have. What is not JSON is left to the
    /// parser.
    pub(super) fn check_body(&self, bytes: &[u8]) -> Result<(), ApiError> {
        if matches!(self.body, Shape::Any) {
            return Ok(());
        }
        let mut found = None;
        let walk = Walk { known: self, shape: &self.body, place: Place::Root, found: &mut found };
        let _ = walk.deserialize(&mut serde_json::Deserializer::from_slice(bytes));
        match found {
            None => Ok(()),
            Some((place, message)) if place.is_empty() => Err(ApiError::invalid(message)),
            Some((place, message)) => Err(ApiError::invalid_field(&place, message)),
        }
    }
}

/// What to say of a name that is not known.
fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone, what: &str) -> String {
    match nearest(name, known.clone()) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => match known.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => format!("; there are no {what}"),
            all => format!("; the {what} are {all}"),
        },
    }
}

/// Where in a body something is.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(above, name) => write!(f, "{above}.{name}"),
            Self::Index(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

/// A walk through a body that ends at the first field that is not known.
struct Walk<'a> {
    known: &'a Known,
    shape: &'a Shape,
    place: Place<'a>,
    /// Its place, and what to say.
    found: &'a mut Option<(String, String)>,
}

impl Walk<'_> {
    fn refuse(&mut self, fields: &BTreeMap<String, Shape>, name: &str) {
        let name = shortened(name);
        let place = Place::Field(&self.place, name).to_string();
        let inside = fields.iter().find(|(_, inner)| match inner {
            Shape::Object(inner) => inner.contains_key(name),
            _ => false,
        });
        let hint = match inside {
            Some((outer, _)) => format!("; it belongs in {outer:?}"),
            None => hint(name, fields.keys().map(String::as_str), "fields"),
        };
        let message = format!("there is no field {name:?} here{hint}");
        let message = match self.place {
            Place::Root => message,
            within => format!("{within}: {message}"),
        };
        *self.found = Some((place, message));
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        match self.shape {
            Shape::Any => IgnoredAny::deserialize(input).map(drop),
            _ => input.deserialize_any(self),
        }
    }
}

/// A name in an object: what may be in it, or the name itself if it is not known.
struct Key<'a>(&'a BTreeMap<String, Shape>);

impl<'de, 'a> DeserializeSeed<'de> for Key<'a> {
    type Value = Result<(&'a str, &'a Shape), String>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Key<'a> {
    type Value = Result<(&'a str, &'a Shape), String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let known = self.0.get_key_value(name);
        Ok(known.map(|(name, shape)| (name.as_str(), shape)).ok_or_else(|| name.to_owned()))
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let (known, place) = (self.known, self.place);
        match self.shape {
            Shape::Object(fields) => {
                while let Some(key) = map.next_key_seed(Key(fields))? {
                    match key {
                        Ok((name, shape)) => {
                            let place = Place::Field(&place, name);
                            let found = &mut *self.found;
                            map.next_value_seed(Walk { known, shape, place, found })?;
                        }
                        Err(name) if known.accepted.contains(&name.as_str()) => {
                            map.next_value::<IgnoredAny>()?;
                        }
                        Err(name) => {
                            self.refuse(fields, &name);
                            return Err(A::Error::custom("found"));
                        }
                    }
                }
            }
            Shape::Map(shape) => {
                while let Some(name) = map.next_key::<String>()? {
                    let (place, found) = (Place::Field(&place, &name), &mut *self.found);
                    map.next_value_seed(Walk { known, shape, place, found })?;
                }
            }
            Shape::Any | Shape::List(_) => {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let shape = match self.shape {
            Shape::List(shape) => shape,
            // The parser would take it for the fields of the object, in their order.
            Shape::Object(_) => {
                let place = self.place.to_string();
                let named = if place.is_empty() { "the body" } else { place.as_str() };
                let message = format!("{named} must be an object, not a list");
                *self.found = Some((place, message));
                return Err(A::Error::custom("found"));
            }
            Shape::Any | Shape::Map(_) => {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(());
            }
        };
        for index in 0.. {
            let (place, found) = (Place::Index(&self.place, index), &mut *self.found);
            let next = Walk { known: self.known, shape, place, found };
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
