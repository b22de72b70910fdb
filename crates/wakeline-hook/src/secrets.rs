//! Signing keys and headers, sealed for the row that they belong to.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{ApplicationRef, EndpointId, EndpointRef};
use wakeline_seal::KeyRing;
use wakeline_store::EndpointSeal;
use wakeline_store::hook::{EndpointSecret, RotateOutcome, Rotation};

use crate::error::HookError;
use crate::headers::Headers;
use crate::service::HookService;
use crate::sign::{SigningKey, SigningKeyError};

/// Most old keys that may sign beside the current one.
const OLD_KEYS_MAX: u32 = 10;
/// The longest that an old key may go on signing.
const GRACE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A wish for a new signing key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotate {
    /// The new key; `None` makes one.
    pub key: Option<String>,
    /// Whether a key that is made is an ed25519 one.
    pub asymmetric: bool,
    /// How much longer the old key signs too. A day.
    pub grace: Duration,
}

impl Default for Rotate {
    fn default() -> Self {
        Self { key: None, asymmetric: false, grace: Duration::from_secs(24 * 60 * 60) }
    }
}

/// Seals and opens what endpoints keep secret.
#[derive(Clone)]
pub(crate) struct Vault {
    keys: Option<Arc<KeyRing>>,
}

impl Vault {
    pub(crate) fn new(keys: Option<Arc<KeyRing>>) -> Self {
        Self { keys }
    }

    /// Whether there is a key ring.
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    pub(crate) fn seal_secret(
        &self,
        endpoint: EndpointId,
        key: &SigningKey,
    ) -> Result<Bytes, HookError> {
        self.seal(EndpointSeal::Secret, endpoint, key.text().as_bytes())
    }

    pub(crate) fn seal_headers(
        &self,
        endpoint: EndpointId,
        headers: &Headers,
    ) -> Result<Bytes, HookError> {
        let text = serde_json::to_vec(headers).expect("texts are always JSON");
        self.seal(EndpointSeal::Headers, endpoint, &text)
    }

    pub(crate) fn open_headers(
        &self,
        endpoint: EndpointId,
        sealed: &[u8],
    ) -> Result<Headers, HookError> {
        let text = self.open(EndpointSeal::Headers, endpoint, sealed)?;
        let damaged = wakeline_seal::SealError::Tampered;
        serde_json::from_slice(&text)
            .map_err(|_| HookError::Sealed { what: "headers", source: damaged })
    }

    /// The keys that sign, in their order.
    pub(crate) fn open_keys(
        &self,
        endpoint: EndpointId,
        secrets: &[EndpointSecret],
    ) -> Result<Vec<SigningKey>, HookError> {
        let open = |secret: &EndpointSecret| {
            let text = self.open(EndpointSeal::Secret, endpoint, &secret.sealed)?;
            let text = String::from_utf8_lossy(&text);
            SigningKey::parse(&text).map_err(|error| secret_error(&error))
        };
        secrets.iter().map(open).collect()
    }

    fn seal(
        &self,
        what: EndpointSeal,
        endpoint: EndpointId,
        plain: &[u8],
    ) -> Result<Bytes, HookError> {
        let keys = self.keys.as_ref().ok_or(HookError::NoKeyRing)?;
        let sealed = keys.seal(what.place(endpoint).as_bytes(), plain);
        sealed.map(Bytes::from).map_err(|source| HookError::Sealed { what: what.word(), source })
    }

    fn open(
        &self,
        what: EndpointSeal,
        endpoint: EndpointId,
        sealed: &[u8],
    ) -> Result<Vec<u8>, HookError> {
        let keys = self.keys.as_ref().ok_or(HookError::NoKeyRing)?;
        let opened = keys.open(what.place(endpoint).as_bytes(), sealed);
        opened.map_err(|source| HookError::Sealed { what: what.word(), source })
    }
}

pub(crate) fn secret_error(error: &SigningKeyError) -> HookError {
    HookError::invalid("secret", error.to_string())
}

impl HookService {
    /// The current signing key of an endpoint, as a receiver needs it: `whsec_...`, or the public
    /// half `whpk_...` of an ed25519 key. `None` if there is no such endpoint.
    pub async fn secret(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Option<String>, HookError> {
        let Some(found) = self.store().endpoint(application, endpoint).await? else {
            return Ok(None);
        };
        let secrets = self.store().secrets(application, endpoint).await?;
        let keys = self.vault().open_keys(found.id, &secrets)?;
        Ok(keys.first().map(SigningKey::verifying_text))
    }

    /// Replaces the current signing key; the old one signs too for a while.
    pub async fn rotate_secret(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        rotate: Rotate,
    ) -> Result<RotateOutcome, HookError> {
        if rotate.grace > GRACE_MAX {
            return Err(HookError::invalid(
                "gracePeriodSeconds",
                format!("must be at most {}, not {}", GRACE_MAX.as_secs(), rotate.grace.as_secs()),
            ));
        }
        let key = match (&rotate.key, rotate.asymmetric) {
            (Some(text), _) => SigningKey::parse(text),
            (None, true) => SigningKey::generate_asymmetric(),
            (None, false) => SigningKey::generate(),
        };
        let key = key.map_err(|error| HookError::invalid("key", error.to_string()))?;
        let Some(found) = self.store().endpoint(application, endpoint).await? else {
            return Ok(RotateOutcome::Missing);
        };
        let rotation = Rotation {
            sealed: self.vault().seal_secret(found.id, &key)?,
            grace: rotate.grace,
            old_max: OLD_KEYS_MAX,
        };
        Ok(self.store().rotate_secret(application, endpoint, rotation).await?)
    }
}
