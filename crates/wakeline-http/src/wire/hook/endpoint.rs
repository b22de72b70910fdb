//! Endpoints on the wire.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakeline_core::{EndpointOptions, Uid};
use wakeline_hook::{EndpointIn as New, EndpointPatch as Patch};
use wakeline_store::hook::{DisableReason, Endpoint};

use super::application::uid;
use super::delivery::{DeliveryIn, DeliveryOut};
use super::{Metadata, channels, given, metadata, patterns, rate, text};
use crate::error::ApiError;
use crate::render;

/// Most channels of an endpoint.
pub(crate) const CHANNELS_MAX: usize = 10;

/// An endpoint to make or to replace.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointIn {
    /// Where messages go; may be absent if they are pulled.
    #[serde(default)]
    pub(crate) url: String,
    /// What it is for.
    #[serde(default)]
    pub(crate) description: String,
    /// Your own id of it, unique within the application.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    pub(crate) uid: Option<Option<String>>,
    /// Whether it gets nothing for now.
    #[serde(default)]
    pub(crate) disabled: bool,
    /// Which types it gets: whole ones or `invoice.*`; all if absent.
    pub(crate) event_types: Option<Vec<String>>,
    /// The same, as older clients call it.
    pub(crate) filter_types: Option<Vec<String>>,
    /// Which channels it gets: at most 10; messages of all if absent.
    pub(crate) channels: Option<Vec<String>>,
    /// The signing secret, `whsec_` and base64; made by the server if absent.
    pub(crate) secret: Option<String>,
    /// Most attempts a second.
    pub(crate) throttle_rate: Option<u32>,
    /// The same, as older clients call it.
    pub(crate) rate_limit: Option<u32>,
    /// Your own names and values.
    pub(crate) metadata: Option<Metadata>,
    /// Headers to send along.
    pub(crate) headers: Option<Metadata>,
    /// How it is delivered to. Wakeline's own.
    pub(crate) delivery: Option<DeliveryIn>,
}

/// What to change of an endpoint.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointPatch {
    /// Where messages go.
    pub(crate) url: Option<String>,
    /// What it is for.
    pub(crate) description: Option<String>,
    /// Your own id of it; null removes it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    pub(crate) uid: Option<Option<String>>,
    /// Whether it gets nothing. Switching it on again forgets its failures.
    pub(crate) disabled: Option<bool>,
    /// Which types it gets; null is all.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>)]
    pub(crate) event_types: Option<Option<Vec<String>>>,
    /// The same, as older clients call it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>)]
    pub(crate) filter_types: Option<Option<Vec<String>>>,
    /// Which channels it gets; null is messages of all.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>)]
    pub(crate) channels: Option<Option<Vec<String>>>,
    /// Not here: rotate the secret instead.
    pub(crate) secret: Option<String>,
    /// Most attempts a second; null is no limit.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    pub(crate) throttle_rate: Option<Option<u32>>,
    /// The same, as older clients call it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    pub(crate) rate_limit: Option<Option<u32>>,
    /// Your own names and values.
    pub(crate) metadata: Option<Metadata>,
    /// How it is delivered to; what is absent stays as it is. Wakeline's own.
    pub(crate) delivery: Option<DeliveryIn>,
}

/// An endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointOut {
    /// Its id.
    id: String,
    /// Your own id of it.
    uid: Option<String>,
    /// Where messages go.
    url: String,
    /// What it is for.
    description: String,
    /// Whether it gets nothing.
    disabled: bool,
    /// Why it gets nothing: asked, gone (it answered 410) or failing (for too long).
    disabled_reason: Option<&'static str>,
    /// Which types it gets; null is all.
    event_types: Option<Vec<String>>,
    /// The same, as older clients call it.
    filter_types: Option<Vec<String>>,
    /// Which channels it gets; null is messages of all.
    channels: Option<Vec<String>>,
    /// Most attempts a second.
    throttle_rate: Option<u32>,
    /// The same, as older clients call it.
    rate_limit: Option<u32>,
    /// Your own names and values.
    #[schema(value_type = Metadata)]
    metadata: Box<RawValue>,
    /// Counts its changes, from 1.
    version: u64,
    /// How it is delivered to.
    delivery: DeliveryOut,
    /// Since when it does nothing but fail.
    failing_since: Option<String>,
    /// For how much longer its breaker holds it back.
    paused_for_ms: Option<u64>,
    /// When it was made.
    created_at: String,
    /// When it was last changed.
    updated_at: String,
}

/// Options as they shall be, by the clients' own field and Wakeline's object.
fn options(
    now: EndpointOptions,
    delivery: Option<&DeliveryIn>,
    throttle: Option<Option<u32>>,
) -> Result<EndpointOptions, ApiError> {
    let mut options = match delivery {
        Some(delivery) => delivery.over(now)?,
        None => now,
    };
    if let Some(throttle) = throttle {
        options.rate_per_second = rate(throttle)?;
    }
    Ok(options)
}

impl EndpointIn {
    /// The endpoint to make. If it names no own id, it gets `own`: the one that its path names.
    pub(crate) fn into_new(self, own: Option<Uid>) -> Result<New, ApiError> {
        let throttle = self.throttle_rate.or(self.rate_limit).map(Some);
        let types = self.event_types.or(self.filter_types).unwrap_or_default();
        Ok(New {
            uid: self.uid.map_or(Ok(own), uid)?,
            url: self.url,
            description: text("description", self.description)?,
            event_types: patterns(types)?,
            channels: channels(self.channels.unwrap_or_default(), CHANNELS_MAX)?,
            disabled: self.disabled,
            metadata: metadata(self.metadata.unwrap_or_default())?,
            headers: self.headers.unwrap_or_default(),
            secret: self.secret,
            options: options(EndpointOptions::default(), self.delivery.as_ref(), throttle)?,
        })
    }

    /// What replaces the endpoint that is there. Its secret stays, and so do its own id, its
    /// headers and its `delivery` where they are not named: clients that replace an endpoint do
    /// not know of them.
    pub(crate) fn into_patch(self, now: EndpointOptions) -> Result<Patch, ApiError> {
        let (own, headers) = (self.uid.is_some(), self.headers.clone());
        let throttle = self.throttle_rate.or(self.rate_limit);
        let options = options(now, self.delivery.as_ref(), Some(throttle))?;
        let new = self.into_new(None)?;
        Ok(Patch {
            uid: own.then_some(new.uid),
            url: Some(new.url),
            description: Some(new.description),
            event_types: Some(new.event_types),
            channels: Some(new.channels),
            disabled: Some(new.disabled),
            metadata: Some(new.metadata),
            headers,
            options: Some(options),
        })
    }
}

impl EndpointPatch {
    /// What to change. `now` are today's options: what is not named of them stays.
    pub(crate) fn into_patch(self, now: &EndpointOptions) -> Result<Patch, ApiError> {
        if self.secret.is_some() {
            let message = "secret cannot be patched: POST to .../secret/rotate instead";
            return Err(ApiError::invalid_field("secret", message));
        }
        let throttle = self.throttle_rate.or(self.rate_limit);
        let changed = self.delivery.is_some() || throttle.is_some();
        let options = changed.then(|| options(now.clone(), self.delivery.as_ref(), throttle));
        let types = self.event_types.or(self.filter_types);
        let types = types.map(|types| patterns(types.unwrap_or_default()));
        let listed = |names: Option<Vec<String>>| channels(names.unwrap_or_default(), CHANNELS_MAX);
        Ok(Patch {
            uid: self.uid.map(uid).transpose()?,
            url: self.url,
            description: self.description.map(|d| text("description", d)).transpose()?,
            event_types: types.transpose()?,
            channels: self.channels.map(listed).transpose()?,
            disabled: self.disabled,
            metadata: self.metadata.map(metadata).transpose()?,
            headers: None,
            options: options.transpose()?,
        })
    }
}

impl EndpointOut {
    pub(crate) fn new(endpoint: Endpoint) -> Result<Self, ApiError> {
        let millis = |span: std::time::Duration| u64::try_from(span.as_millis());
        let types: Vec<String> = endpoint.event_types.into_iter().map(Into::into).collect();
        let types = (!types.is_empty()).then_some(types);
        let channels: Vec<String> = endpoint.channels.into_iter().map(Into::into).collect();
        Ok(Self {
            metadata: render::payload(&endpoint.metadata, &endpoint.id)?.to_owned(),
            id: endpoint.id.to_string(),
            uid: endpoint.uid.map(Into::into),
            url: endpoint.url,
            description: endpoint.description,
            disabled: endpoint.disabled.is_some(),
            disabled_reason: endpoint.disabled.map(|reason| match reason {
                DisableReason::Asked => "asked",
                DisableReason::Gone => "gone",
                DisableReason::Failing => "failing",
            }),
            event_types: types.clone(),
            filter_types: types,
            channels: (!channels.is_empty()).then_some(channels),
            throttle_rate: endpoint.options.rate_per_second,
            rate_limit: endpoint.options.rate_per_second,
            version: endpoint.version,
            delivery: DeliveryOut::from(&endpoint.options),
            failing_since: endpoint.failing_since.map(render::time),
            paused_for_ms: endpoint.paused_for.map(|span| millis(span).unwrap_or(u64::MAX)),
            created_at: render::time(endpoint.created_at),
            updated_at: render::time(endpoint.updated_at),
        })
    }
}

/// What receivers check signatures with.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SecretOut {
    /// The secret, `whsec_` and base64; of an ed25519 one the public half, `whpk_` and base64.
    pub(crate) key: String,
}

/// A new signing secret.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RotateIn {
    /// The new secret; made by the server if absent.
    pub(crate) key: Option<String>,
    /// How much longer the old one signs too: 0 to 604800 seconds (86400).
    pub(crate) grace_period_seconds: Option<u64>,
    /// Whether a secret that the server makes is for ed25519 signatures. Wakeline's own.
    #[serde(default)]
    pub(crate) asymmetric: bool,
}

/// Headers that are sent along.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct HeadersIn {
    /// All of them.
    pub(crate) headers: Metadata,
}

/// Headers to add, change and remove.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HeadersPatch {
    /// To add or change; a null value removes one.
    #[serde(default)]
    pub(crate) headers: std::collections::BTreeMap<String, Option<String>>,
    /// To remove.
    pub(crate) delete_headers: Option<Vec<String>>,
}

/// Headers that are sent along.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HeadersOut {
    /// Those that may be shown.
    pub(crate) headers: Metadata,
    /// Names of those that carry a credential and are not shown.
    pub(crate) sensitive: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(json: &str) -> Result<New, ApiError> {
        serde_json::from_str::<EndpointIn>(json).expect("a body").into_new(None)
    }

    #[test]
    fn both_generations_of_clients_are_understood() {
        let old = made(r#"{"url":"https://x","filterTypes":["a.*"],"rateLimit":7,"version":1}"#);
        let new = made(r#"{"url":"https://x","eventTypes":["a.*"],"throttleRate":7}"#);
        let (old, new) = (old.expect("valid"), new.expect("valid"));
        assert_eq!(old, new);
        assert_eq!(new.options.rate_per_second, Some(7));
        assert_eq!(new.event_types[0].as_str(), "a.*");
    }

    #[test]
    fn a_patch_changes_what_it_names_and_null_is_all() {
        let read = |json: &str| serde_json::from_str::<EndpointPatch>(json).expect("a patch");
        let now = EndpointOptions { rate_per_second: Some(5), ..EndpointOptions::default() };
        assert_eq!(read("{}").into_patch(&now).expect("valid"), Patch::default());
        let patch = read(r#"{"filterTypes":null,"channels":null,"uid":null}"#);
        let patch = patch.into_patch(&now).expect("valid");
        assert_eq!((patch.event_types, patch.channels), (Some(vec![]), Some(vec![])));
        assert_eq!(patch.uid, Some(None));
        let patch = read(r#"{"delivery":{"inFlightMax":3},"throttleRate":null}"#);
        let options = patch.into_patch(&now).expect("valid").options.expect("changed");
        assert_eq!((options.in_flight_max, options.rate_per_second), (3, None));
        assert!(read(r#"{"secret":"whsec_x"}"#).into_patch(&now).is_err());
    }

    #[test]
    fn what_cannot_be_an_endpoint_is_named() {
        for (json, field) in [
            (r#"{"eventTypes":["a b"]}"#, "eventTypes"),
            (r#"{"channels":["a","b","c","d","e","f","g","h","i","j","k"]}"#, "channels"),
            (r#"{"throttleRate":0}"#, "throttleRate"),
            (r#"{"uid":"a/b"}"#, "uid"),
            (r#"{"delivery":{"timeoutSeconds":0}}"#, "timeoutSeconds"),
        ] {
            let error = format!("{:?}", made(json).expect_err(field));
            assert!(error.contains(field), "{error}");
        }
    }
}
