//! Applications on the wire.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakeline_core::Uid;
use wakeline_hook::ApplicationIn as New;
use wakeline_store::hook::Application;

use super::{Metadata, given, metadata, rate, stored_metadata, text};
use crate::error::ApiError;
use crate::render;

/// A tenant to make or to replace.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApplicationIn {
    /// Its name, for people.
    name: String,
    /// Your own id of it: letters, digits, `-`, `_`, `.`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    uid: Option<Option<String>>,
    /// Most messages a second; kept as a note.
    throttle_rate: Option<u32>,
    /// The same, as older clients call it.
    rate_limit: Option<u32>,
    /// Your own names and values.
    metadata: Option<Metadata>,
}

/// What to change of a tenant.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApplicationPatch {
    /// Its name, for people.
    name: Option<String>,
    /// Your own id of it; null removes it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    uid: Option<Option<String>>,
    /// Most messages a second; null removes it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    throttle_rate: Option<Option<u32>>,
    /// The same, as older clients call it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    rate_limit: Option<Option<u32>>,
    /// Your own names and values.
    metadata: Option<Metadata>,
}

/// A tenant.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApplicationOut {
    /// Its id.
    id: String,
    /// Your own id of it.
    uid: Option<String>,
    /// Its name, for people.
    name: String,
    /// Most messages a second; a note.
    throttle_rate: Option<u32>,
    /// The same, as older clients call it.
    rate_limit: Option<u32>,
    /// Your own names and values.
    #[schema(value_type = Metadata)]
    metadata: Box<RawValue>,
    /// When it was made.
    created_at: String,
    /// When it was last changed.
    updated_at: String,
}

pub(crate) fn uid(text: Option<String>) -> Result<Option<Uid>, ApiError> {
    let read = |text: String| {
        Uid::parse(&text).map_err(|error| ApiError::invalid_field("uid", error.to_string()))
    };
    text.map(read).transpose()
}

fn name(given: String) -> Result<String, ApiError> {
    if given.trim().is_empty() {
        return Err(ApiError::invalid_field("name", "name must not be empty"));
    }
    text("name", given)
}

impl ApplicationIn {
    /// The tenant to make. If it names no own id, it gets `own`: the one that its path names, or
    /// that it had.
    pub(crate) fn into_new(self, own: Option<Uid>) -> Result<New, ApiError> {
        Ok(New {
            name: name(self.name)?,
            uid: match self.uid {
                Some(given) => uid(given)?,
                None => own,
            },
            rate_limit: rate(self.throttle_rate.or(self.rate_limit))?,
            metadata: metadata(self.metadata.unwrap_or_default())?,
        })
    }
}

impl ApplicationPatch {
    /// A tenant as it shall be.
    pub(crate) fn over(self, now: Application) -> Result<New, ApiError> {
        Ok(New {
            name: self.name.map_or(Ok(now.name), name)?,
            uid: self.uid.map_or(Ok(now.uid), uid)?,
            rate_limit: {
                let named = self.throttle_rate.or(self.rate_limit);
                named.map_or(Ok(now.rate_limit), rate)?
            },
            metadata: match self.metadata {
                Some(given) => metadata(given)?,
                None => stored_metadata(&now.metadata, &now.id)?,
            },
        })
    }
}

impl ApplicationOut {
    pub(crate) fn new(application: Application) -> Result<Self, ApiError> {
        Ok(Self {
            metadata: render::payload(&application.metadata, &application.id)?.to_owned(),
            id: application.id.to_string(),
            uid: application.uid.map(Into::into),
            name: application.name,
            throttle_rate: application.rate_limit,
            rate_limit: application.rate_limit,
            created_at: render::time(application.created_at),
            updated_at: render::time(application.updated_at),
        })
    }
}

#[cfg(test)]
mod tests {
    use wakeline_core::{ApplicationId, Timestamp};

    use super::*;

    fn stored() -> Application {
        Application {
            id: ApplicationId::generate(),
            name: "Shop".into(),
            uid: Some(Uid::parse("shop").expect("valid")),
            rate_limit: Some(5),
            metadata: r#"{"a":"b"}"#.into(),
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        }
    }

    fn patched(json: &str) -> New {
        let patch: ApplicationPatch = serde_json::from_str(json).expect("a patch");
        patch.over(stored()).expect("valid")
    }

    #[test]
    fn a_patch_changes_what_it_names_and_null_removes() {
        let kept = patched("{}");
        assert_eq!((kept.name.as_str(), kept.rate_limit), ("Shop", Some(5)));
        assert_eq!(kept.uid, stored().uid);
        assert_eq!(kept.metadata["a"], "b");
        let changed = patched(r#"{"uid":null,"rateLimit":null,"name":"Shop 2"}"#);
        assert_eq!((changed.name.as_str(), changed.rate_limit), ("Shop 2", None));
        assert_eq!(changed.uid, None);
    }

    #[test]
    fn what_was_read_can_be_sent_back() {
        let shown = ApplicationOut::new(stored()).expect("shown");
        let text = serde_json::to_string(&shown).expect("JSON");
        assert_eq!(patched(&text).rate_limit, Some(5));
        let whole: ApplicationIn = serde_json::from_str(&text).expect("a body");
        assert_eq!(whole.into_new(None).expect("valid").rate_limit, Some(5));
    }

    #[test]
    fn what_cannot_be_an_application_is_named() {
        for (json, field) in [
            (r#"{"name":" "}"#, "name"),
            (r#"{"name":"a","uid":"a b"}"#, "uid"),
            (r#"{"name":"a","throttleRate":0}"#, "throttleRate"),
        ] {
            let given: ApplicationIn = serde_json::from_str(json).expect("a body");
            let error = given.into_new(None).expect_err(field);
            assert!(format!("{error:?}").contains(field), "{error:?}");
        }
    }
}
