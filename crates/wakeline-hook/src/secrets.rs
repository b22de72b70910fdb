//! Encryption of the signing keys and headers of endpoints, bound to their endpoint.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{ApplicationRef, EndpointId, EndpointRef};
use wakeline_encryption::EncryptionKeys;
use wakeline_store::EncryptedEndpointField;
use wakeline_store::hook::{EndpointSecret, RotateOutcome, Rotation};

use crate::error::HookError;
use crate::headers::Headers;
use crate::service::HookService;
use crate::sign::{SigningKey, SigningKeyError};

/// The maximum number of old keys that may sign in addition to the current one.
const OLD_KEYS_MAX: u32 = 10;
/// The maximum time for which an old key may continue to sign.
const GRACE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A request to replace a signing key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotate {
    /// The new key; `None` generates one.
    pub key: Option<String>,
    /// Whether to generate an ed25519 key.
    pub asymmetric: bool,
    /// How long the old key continues to sign as well. The default is one day.
    pub grace: Duration,
}

impl Default for Rotate {
    fn default() -> Self {
        Self { key: None, asymmetric: false, grace: Duration::from_secs(24 * 60 * 60) }
    }
}

/// Encrypts and decrypts the signing keys and headers of endpoints.
#[derive(Clone)]
pub(crate) struct EndpointEncryption {
    keys: Option<Arc<EncryptionKeys>>,
}

impl EndpointEncryption {
    pub(crate) fn new(keys: Option<Arc<EncryptionKeys>>) -> Self {
        Self { keys }
    }

    /// Whether this node has encryption keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    pub(crate) fn encrypt_secret(
        &self,
        endpoint: EndpointId,
        key: &SigningKey,
    ) -> Result<Bytes, HookError> {
        self.encrypt(EncryptedEndpointField::Secret, endpoint, key.text().as_bytes())
    }

    pub(crate) fn encrypt_headers(
        &self,
        endpoint: EndpointId,
        headers: &Headers,
    ) -> Result<Bytes, HookError> {
        let text = serde_json::to_vec(headers).expect("texts are always JSON");
        self.encrypt(EncryptedEndpointField::Headers, endpoint, &text)
    }

    pub(crate) fn decrypt_headers(
        &self,
        endpoint: EndpointId,
        encrypted: &[u8],
    ) -> Result<Headers, HookError> {
        let text = self.decrypt(EncryptedEndpointField::Headers, endpoint, encrypted)?;
        let damaged = wakeline_encryption::EncryptionError::Tampered;
        serde_json::from_slice(&text)
            .map_err(|_| HookError::Encryption { what: "headers", source: damaged })
    }

    /// The signing keys, in the given order.
    pub(crate) fn decrypt_keys(
        &self,
        endpoint: EndpointId,
        secrets: &[EndpointSecret],
    ) -> Result<Vec<SigningKey>, HookError> {
        let decrypt = |secret: &EndpointSecret| {
            let text = self.decrypt(EncryptedEndpointField::Secret, endpoint, &secret.encrypted)?;
            let text = String::from_utf8_lossy(&text);
            SigningKey::parse(&text).map_err(|error| secret_error(&error))
        };
        secrets.iter().map(decrypt).collect()
    }

    fn encrypt(
        &self,
        field: EncryptedEndpointField,
        endpoint: EndpointId,
        plain: &[u8],
    ) -> Result<Bytes, HookError> {
        let keys = self.keys.as_ref().ok_or(HookError::NoEncryptionKeys)?;
        let encrypted = keys.encrypt(field.associated_data(endpoint).as_bytes(), plain);
        encrypted
            .map(Bytes::from)
            .map_err(|source| HookError::Encryption { what: field.name(), source })
    }

    fn decrypt(
        &self,
        field: EncryptedEndpointField,
        endpoint: EndpointId,
        encrypted: &[u8],
    ) -> Result<Vec<u8>, HookError> {
        let keys = self.keys.as_ref().ok_or(HookError::NoEncryptionKeys)?;
        let decrypted = keys.decrypt(field.associated_data(endpoint).as_bytes(), encrypted);
        decrypted.map_err(|source| HookError::Encryption { what: field.name(), source })
    }
}

pub(crate) fn secret_error(error: &SigningKeyError) -> HookError {
    HookError::invalid("secret", error.to_string())
}

impl HookService {
    /// The current signing key of an endpoint, as a receiver needs it: `whsec_...`, or the public
    /// half `whpk_...` of an ed25519 key. `None` if the endpoint does not exist.
    pub async fn secret(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Option<String>, HookError> {
        let Some(found) = self.store().endpoint(application, endpoint).await? else {
            return Ok(None);
        };
        let secrets = self.store().secrets(application, endpoint).await?;
        let keys = self.encryption().decrypt_keys(found.id, &secrets)?;
        Ok(keys.first().map(SigningKey::verifying_text))
    }

    /// Replaces the current signing key. The old key continues to sign for the grace period.
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
            encrypted: self.encryption().encrypt_secret(found.id, &key)?,
            grace: rotate.grace,
            old_max: OLD_KEYS_MAX,
        };
        Ok(self.store().rotate_secret(application, endpoint, rotation).await?)
    }
}
