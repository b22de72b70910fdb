//! Keys and the audit on the wire.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_access::{KeyRequest, MintedKey};
use wakeline_core::Scope;
use wakeline_store::{ApiKey, AuditEntry};

use crate::error::ApiError;
use crate::render;

/// Longest name of a key.
const NAME_BYTES_MAX: usize = 255;
/// Most scopes of a key.
const SCOPES_LEN_MAX: usize = 100;

/// A key to make.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyIn {
    /// What people call it; no two live keys share a name.
    name: String,
    /// What it allows: `queue:push:orders.*`, say.
    scopes: Vec<String>,
    /// How long it is valid; for ever if omitted.
    expires_in_seconds: Option<u64>,
}

impl KeyIn {
    pub(crate) fn check(self) -> Result<KeyRequest, ApiError> {
        let name = self.name;
        let plain = !name.is_empty() && !name.chars().any(char::is_control);
        if !plain || name.len() > NAME_BYTES_MAX {
            let message =
                format!("name must have 1 to {NAME_BYTES_MAX} bytes and no control characters");
            return Err(ApiError::invalid_field("name", message));
        }
        if self.scopes.is_empty() || self.scopes.len() > SCOPES_LEN_MAX {
            let message = format!("scopes must have 1 to {SCOPES_LEN_MAX} entries");
            return Err(ApiError::invalid_field("scopes", message));
        }
        let wrong = |error: wakeline_core::ScopeError| {
            ApiError::invalid_field("scopes", format!("scopes: {error}"))
        };
        let scopes: Result<_, _> = self.scopes.iter().map(|text| text.parse::<Scope>()).collect();
        let valid_for = self.expires_in_seconds.map(Duration::from_secs);
        Ok(KeyRequest { name, scopes: scopes.map_err(wrong)?, valid_for })
    }
}

/// How a key is rotated.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyRotateIn {
    /// How long the secret that it has stays valid; a day if omitted.
    pub(crate) overlap_seconds: Option<u64>,
}

/// A key that was just made, or has a new secret: the only answer that tells it.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeyMade {
    /// Its id.
    id: String,
    /// The whole key, to be sent as `Authorization: Bearer KEY`.
    key: String,
}

impl From<MintedKey> for KeyMade {
    fn from(minted: MintedKey) -> Self {
        Self { id: minted.id, key: minted.text }
    }
}

/// A key as it stands.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyOut {
    /// Its id.
    id: String,
    /// What people call it.
    name: String,
    /// What it allows.
    scopes: Vec<String>,
    /// `live`, `expired` or `revoked`.
    state: &'static str,
    created_at: String,
    expires_at: Option<String>,
    /// When it was used last, give or take a minute.
    last_used_at: Option<String>,
    revoked_at: Option<String>,
    /// Until when the secret before the present one is valid, if it is.
    former_secret_until: Option<String>,
}

impl From<ApiKey> for KeyOut {
    fn from(key: ApiKey) -> Self {
        let state = match (key.revoked_at, key.expires_at) {
            (Some(_), _) => "revoked",
            (None, Some(end)) if end <= key.read_at => "expired",
            (None, _) => "live",
        };
        let former = key.former.map(|(_, until)| until).filter(|until| *until > key.read_at);
        Self {
            id: key.id,
            name: key.name,
            scopes: key.scopes.iter().map(Scope::to_string).collect(),
            state,
            created_at: render::time(key.created_at),
            expires_at: key.expires_at.map(render::time),
            last_used_at: key.last_used_at.map(render::time),
            revoked_at: key.revoked_at.map(render::time),
            former_secret_until: former.map(render::time),
        }
    }
}

/// All keys.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeysAnswer {
    /// By name.
    pub(crate) keys: Vec<KeyOut>,
}

/// Whether a key was ended.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeyRevoked {
    pub(crate) id: String,
    pub(crate) revoked: bool,
}

/// An administrative act.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditOut {
    /// Its number; later ones are greater.
    number: i64,
    at: String,
    /// Who: `key:NAME`, `jwt:SUBJECT`, `api_key`, `cli`, or `anonymous` on an open server.
    actor: String,
    /// What: `queue.delete`, say.
    act: String,
    /// To what.
    target: String,
    /// More of it.
    detail: String,
}

impl From<AuditEntry> for AuditOut {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry { number, at, actor, act, target, detail } = entry;
        Self { number, at: render::time(at), actor, act, target, detail }
    }
}

/// Administrative acts.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditAnswer {
    /// Newest first.
    pub(crate) entries: Vec<AuditOut>,
}
