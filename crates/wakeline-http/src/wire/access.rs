//! Wire types of API keys and the audit log.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_access::{KeyRequest, MintedKey};
use wakeline_core::Scope;
use wakeline_store::{ApiKey, AuditEntry};

use crate::error::ApiError;
use crate::render;

/// The maximum length of a key's name.
const NAME_BYTES_MAX: usize = 255;
/// The maximum number of scopes of a key.
const SCOPES_LEN_MAX: usize = 100;

/// An API key to create.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyIn {
    /// The name of the key. No two active keys have the same name.
    name: String,
    /// The permissions of the key, for example `queue:push:orders.*`.
    scopes: Vec<String>,
    /// How long the key is valid. If omitted, it does not expire.
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

/// Options of a rotation.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyRotateIn {
    /// How long the previous secret stays valid; one day if omitted.
    pub(crate) overlap_seconds: Option<u64>,
}

/// A key that was created or rotated. Only this response contains its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeyMade {
    /// The id of the key.
    id: String,
    /// The key with its secret, to be sent as `Authorization: Bearer KEY`.
    key: String,
}

impl From<MintedKey> for KeyMade {
    fn from(minted: MintedKey) -> Self {
        Self { id: minted.id, key: minted.text }
    }
}

/// An API key and its state.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyOut {
    /// The id of the key.
    id: String,
    /// The name of the key.
    name: String,
    /// The permissions of the key.
    scopes: Vec<String>,
    /// `live`, `expired` or `revoked`.
    state: &'static str,
    /// When the key was created.
    created_at: String,
    /// When the key expires; null if it does not.
    expires_at: Option<String>,
    /// When the key was last used, accurate to about a minute.
    last_used_at: Option<String>,
    /// When the key was revoked, if it was.
    revoked_at: Option<String>,
    /// When the previous secret expires, if it is still valid.
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

/// All API keys.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeysAnswer {
    /// The keys, ordered by name.
    pub(crate) keys: Vec<KeyOut>,
}

/// The result of revoking a key.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeyRevoked {
    /// The id of the key.
    pub(crate) id: String,
    /// Always true.
    pub(crate) revoked: bool,
}

/// An administrative action in the audit log.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditOut {
    /// The number of the entry. Later entries have greater numbers.
    number: i64,
    /// When the action was committed.
    at: String,
    /// The caller: `key:NAME`, `jwt:SUBJECT`, `api_key`, `cli`, or `anonymous` on a server that
    /// requires no credentials.
    actor: String,
    /// The name of the action, for example `queue.delete`.
    act: String,
    /// The name or id of the object that the action changed.
    target: String,
    /// Further details; may be empty.
    detail: String,
}

impl From<AuditEntry> for AuditOut {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry { number, at, actor, action, target, detail } = entry;
        Self { number, at: render::time(at), actor, act: action, target, detail }
    }
}

/// A page of the audit log.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditAnswer {
    /// The entries, newest first.
    pub(crate) entries: Vec<AuditOut>,
}
