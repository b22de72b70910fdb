//! Wire types of event types.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakeline_core::{EventTypeName, Timestamp};
use wakeline_store::hook::EventType;

use super::{given, text, type_name};
use crate::error::ApiError;
use crate::render;

/// Separates several flags in the one text that is stored.
const FLAGS_SEPARATOR: char = ',';

/// An event type to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventTypeIn {
    /// The name of the event type, for example `invoice.paid`.
    pub(crate) name: String,
    #[serde(flatten)]
    rest: EventTypePatch,
}

/// Changes to an event type.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventTypePatch {
    /// A description of the event type.
    description: Option<String>,
    /// The JSON schemas of the payload by version.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Object>)]
    schemas: Option<Option<serde_json::Map<String, serde_json::Value>>>,
    /// Whether messages that do not match the newest schema are refused. An addition of Wakeline.
    enforced: Option<bool>,
    /// Whether the event type is archived.
    archived: Option<bool>,
    /// Whether the event type is deprecated.
    deprecated: Option<bool>,
    /// The feature flag that is needed to see the event type. It is stored but has no effect.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    feature_flag: Option<Option<String>>,
    /// The same as `featureFlag`, for several flags.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>)]
    feature_flags: Option<Option<Vec<String>>>,
    /// The group of the event type in lists. It is stored but has no effect.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    group_name: Option<Option<String>>,
}

/// An event type.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventTypeOut {
    /// The name of the event type.
    name: String,
    /// A description of the event type.
    description: String,
    /// The JSON schemas of the payload by version.
    #[schema(value_type = Option<Object>)]
    schemas: Option<Box<RawValue>>,
    /// Whether messages that do not match the newest schema are refused.
    enforced: bool,
    /// Whether the event type is archived.
    archived: bool,
    /// Whether the event type is deprecated.
    deprecated: bool,
    /// The first feature flag.
    feature_flag: Option<String>,
    /// All feature flags.
    feature_flags: Option<Vec<String>>,
    /// The group of the event type in lists.
    group_name: Option<String>,
    /// When the event type was created.
    created_at: String,
    /// When the event type was last changed.
    updated_at: String,
}

impl EventTypeIn {
    pub(crate) fn into_new(self) -> Result<EventType, ApiError> {
        let name = type_name("name", &self.name)?;
        self.rest.into_new(name)
    }
}

impl EventTypePatch {
    /// Validates the event type to create. Absent fields are empty.
    pub(crate) fn into_new(self, name: EventTypeName) -> Result<EventType, ApiError> {
        if self.description.is_none() {
            return Err(ApiError::invalid_field("description", "description is required"));
        }
        self.apply_to(EventType {
            name,
            description: String::new(),
            schemas: None,
            enforced: false,
            archived: false,
            deprecated: false,
            feature_flag: None,
            group_name: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        })
    }

    /// Returns the event type with the change applied.
    pub(crate) fn apply_to(self, mut now: EventType) -> Result<EventType, ApiError> {
        if let Some(description) = self.description {
            now.description = text("description", description)?;
        }
        if let Some(schemas) = self.schemas {
            let bytes = |map| serde_json::to_vec(&map).expect("JSON becomes JSON");
            now.schemas = schemas.map(|map| bytes(map).into());
        }
        if let Some(name) = self.group_name {
            now.group_name = name.map(|name| text("groupName", name)).transpose()?;
        }
        let flags = self.feature_flags.map(Option::unwrap_or_default);
        let flag = self.feature_flag.map(|flag| flag.into_iter().collect());
        if let Some(flags) = flags.or(flag) {
            now.feature_flag = stored_flags(flags)?;
        }
        now.enforced = self.enforced.unwrap_or(now.enforced);
        now.archived = self.archived.unwrap_or(now.archived);
        now.deprecated = self.deprecated.unwrap_or(now.deprecated);
        Ok(now)
    }
}

fn stored_flags(flags: Vec<String>) -> Result<Option<String>, ApiError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if flags.iter().any(|flag| flag.is_empty() || !flag.chars().all(plain)) {
        let message = "featureFlags may only contain letters, digits, '-', '_' and '.'";
        return Err(ApiError::invalid_field("featureFlags", message));
    }
    let joined = flags.join(&FLAGS_SEPARATOR.to_string());
    Ok((!flags.is_empty()).then_some(text("featureFlags", joined)?))
}

impl EventTypeOut {
    /// Renders an event type, with or without its schemas.
    pub(crate) fn new(event_type: EventType, with_content: bool) -> Result<Self, ApiError> {
        let schemas = event_type.schemas.filter(|_| with_content);
        let schemas =
            schemas.map(|bytes| render::payload(&bytes, &event_type.name).map(ToOwned::to_owned));
        let flags = event_type
            .feature_flag
            .map(|flags| flags.split(FLAGS_SEPARATOR).map(str::to_owned).collect::<Vec<_>>());
        Ok(Self {
            schemas: schemas.transpose()?,
            name: event_type.name.into(),
            description: event_type.description,
            enforced: event_type.enforced,
            archived: event_type.archived,
            deprecated: event_type.deprecated,
            feature_flag: flags.as_ref().and_then(|flags| flags.first().cloned()),
            feature_flags: flags,
            group_name: event_type.group_name,
            created_at: render::time(event_type.created_at),
            updated_at: render::time(event_type.updated_at),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(json: &str) -> Result<EventType, ApiError> {
        serde_json::from_str::<EventTypeIn>(json).expect("a body").into_new()
    }

    #[test]
    fn several_flags_are_returned_unchanged() {
        let json = r#"{"name":"a.b","description":"","featureFlags":["x","y-1"],"enforced":true,
                       "schemas":{"1":{"type":"object"}}}"#;
        let made = made(json).expect("valid");
        assert!(made.enforced);
        let shown = EventTypeOut::new(made.clone(), true).expect("shown");
        assert_eq!(shown.feature_flags, Some(vec!["x".to_owned(), "y-1".to_owned()]));
        assert_eq!(shown.feature_flag.as_deref(), Some("x"));
        assert_eq!(shown.schemas.expect("there").get(), r#"{"1":{"type":"object"}}"#);
        assert!(EventTypeOut::new(made, false).expect("shown").schemas.is_none());
    }

    #[test]
    fn patch_keeps_absent_fields() {
        let now = made(r#"{"name":"a","description":"d","featureFlag":"x"}"#).expect("valid");
        let patch: EventTypePatch = serde_json::from_str(r#"{"archived":true}"#).expect("a patch");
        let after = patch.apply_to(now.clone()).expect("valid");
        assert_eq!(after, EventType { archived: true, ..now });
        let patch: EventTypePatch =
            serde_json::from_str(r#"{"featureFlag":null}"#).expect("a patch");
        assert_eq!(patch.apply_to(after).expect("valid").feature_flag, None);
    }

    #[test]
    fn error_names_the_invalid_field() {
        for (json, field) in [
            (r#"{"name":"a b","description":""}"#, "name"),
            (r#"{"name":"a"}"#, "description"),
            (r#"{"name":"a","description":"","featureFlags":["a,b"]}"#, "featureFlags"),
        ] {
            let error = made(json).expect_err(field);
            assert!(format!("{error:?}").contains(field), "{error:?}");
        }
    }
}
