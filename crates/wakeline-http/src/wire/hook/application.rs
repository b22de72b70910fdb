//! Wire types of applications.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakeline_core::Uid;
use wakeline_hook::ApplicationIn as New;
use wakeline_store::hook::Application;

use super::{Metadata, given, metadata, rate, stored_metadata, text};
use crate::error::ApiError;
use crate::render;

/// An application to create or to replace.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ApplicationIn)]
pub(crate) struct ApplicationBody {
    /// The name of the application.
    name: String,
    /// Your own id of the application, made of letters, digits, `-`, `_` and `.`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    uid: Option<Option<String>>,
    /// Maximum number of messages per second. The limit is stored but not enforced.
    throttle_rate: Option<u32>,
    /// The same as `throttleRate`, for older clients.
    rate_limit: Option<u32>,
    /// Your own metadata: names and values.
    metadata: Option<Metadata>,
}

/// Changes to an application.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApplicationPatch {
    /// The name of the application.
    name: Option<String>,
    /// Your own id of the application; null removes it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    uid: Option<Option<String>>,
    /// Maximum number of messages per second; null removes the limit.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    throttle_rate: Option<Option<u32>>,
    /// The same as `throttleRate`, for older clients.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    rate_limit: Option<Option<u32>>,
    /// Your own metadata: names and values.
    metadata: Option<Metadata>,
}

/// An application, which represents a tenant.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApplicationOut {
    /// The id of the application.
    id: String,
    /// Your own id of the application.
    uid: Option<String>,
    /// The name of the application.
    name: String,
    /// Maximum number of messages per second. The limit is stored but not enforced.
    throttle_rate: Option<u32>,
    /// The same as `throttleRate`, for older clients.
    rate_limit: Option<u32>,
    /// Your own metadata: names and values.
    #[schema(value_type = Metadata)]
    metadata: Box<RawValue>,
    /// When the application was created.
    created_at: String,
    /// When the application was last changed.
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

impl ApplicationBody {
    /// Validates the application to create. If the body has no uid, the application gets `own`: the
    /// uid in the path, or the one that it already has.
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
    /// Returns the application with the change applied.
    pub(crate) fn apply_to(self, now: Application) -> Result<New, ApiError> {
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
        patch.apply_to(stored()).expect("valid")
    }

    #[test]
    fn patch_changes_given_fields_and_null_removes_them() {
        let kept = patched("{}");
        assert_eq!((kept.name.as_str(), kept.rate_limit), ("Shop", Some(5)));
        assert_eq!(kept.uid, stored().uid);
        assert_eq!(kept.metadata["a"], "b");
        let changed = patched(r#"{"uid":null,"rateLimit":null,"name":"Shop 2"}"#);
        assert_eq!((changed.name.as_str(), changed.rate_limit), ("Shop 2", None));
        assert_eq!(changed.uid, None);
    }

    #[test]
    fn response_is_accepted_as_a_request() {
        let shown = ApplicationOut::new(stored()).expect("shown");
        let text = serde_json::to_string(&shown).expect("JSON");
        assert_eq!(patched(&text).rate_limit, Some(5));
        let body: ApplicationBody = serde_json::from_str(&text).expect("a body");
        assert_eq!(body.into_new(None).expect("valid").rate_limit, Some(5));
    }

    #[test]
    fn error_names_the_invalid_field() {
        for (json, field) in [
            (r#"{"name":" "}"#, "name"),
            (r#"{"name":"a","uid":"a b"}"#, "uid"),
            (r#"{"name":"a","throttleRate":0}"#, "throttleRate"),
        ] {
            let given: ApplicationBody = serde_json::from_str(json).expect("a body");
            let error = given.into_new(None).expect_err(field);
            assert!(format!("{error:?}").contains(field), "{error:?}");
        }
    }
}
