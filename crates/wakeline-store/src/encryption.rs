//! Encryption of stored payloads, and re-encryption of everything encrypted with a new key.
//!
//! # Where it sits
//! Every store holds a [`PayloadEncryption`] and passes all payloads through it when it writes and
//! reads them, so that no path into an encrypted queue stores plain text: pushes, transactions,
//! turns of orchestrations, and messages that are pushed by SQL.
//!
//! # Invariants
//! * A payload for an encrypted queue is stored encrypted or the push fails: a missing key never
//!   leads to plain text in the database.
//! * An encrypted payload is bound to the id of its message, the data of a trace to the id of the
//!   trace, so that it cannot be decrypted in another row. JSON text never begins with the byte
//!   that encrypted bytes begin with, so a queue may contain both after its option was changed.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{EndpointId, MessageId};
use wakeline_encryption::{EncryptionError, EncryptionKeys, looks_encrypted};

use crate::error::StoreError;

/// A field of an endpoint that is stored encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncryptedEndpointField {
    /// A signing key.
    Secret,
    /// The custom request headers.
    Headers,
}

impl EncryptedEndpointField {
    /// The name of the field, used in the associated data and in error messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Headers => "headers",
        }
    }

    /// The associated data that binds the encrypted bytes to this field of an endpoint.
    pub fn associated_data(self, endpoint: EndpointId) -> String {
        format!("hook/{}/{endpoint}", self.name())
    }
}

/// Encrypts and decrypts payloads. Without keys it can only pass plain payloads through.
#[derive(Debug, Default)]
pub struct PayloadEncryption {
    keys: OnceLock<Arc<EncryptionKeys>>,
}

/// Why a payload cannot be encrypted or decrypted.
#[derive(Debug, thiserror::Error)]
pub enum PayloadEncryptionError {
    /// This node has no encryption keys.
    #[error("this node has no encryption keys: set WAKELINE_ENCRYPTION_KEYS")]
    NoKeys,
    /// The keys could not encrypt or decrypt the payload.
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
}

impl PayloadEncryption {
    /// Sets the keys. Only the first call has an effect.
    pub fn use_keys(&self, keys: Arc<EncryptionKeys>) {
        let _ = self.keys.set(keys);
    }

    /// Whether there are keys.
    pub fn has_keys(&self) -> bool {
        self.keys.get().is_some()
    }

    /// The keys. Fails with [`StoreError::NoKeys`] for `operation` if there are none.
    pub fn keys(&self, operation: &'static str) -> Result<&EncryptionKeys, StoreError> {
        self.keys.get().map(Arc::as_ref).ok_or(StoreError::NoKeys { operation })
    }

    /// Encrypts the payload of a message in an encrypted queue.
    pub fn encrypt(
        &self,
        id: MessageId,
        payload: &[u8],
    ) -> Result<Vec<u8>, PayloadEncryptionError> {
        let keys = self.keys.get().ok_or(PayloadEncryptionError::NoKeys)?;
        Ok(keys.encrypt(&associated_data(id), payload)?)
    }

    /// Decrypts a stored payload. A payload that is not encrypted is returned unchanged.
    pub fn decrypt(&self, id: MessageId, stored: Bytes) -> Result<Bytes, PayloadEncryptionError> {
        if !looks_encrypted(&stored) {
            return Ok(stored);
        }
        let keys = self.keys.get().ok_or(PayloadEncryptionError::NoKeys)?;
        Ok(keys.decrypt(&associated_data(id), &stored)?.into())
    }

    /// Encrypts a stored payload again with the active key. Returns `None` if it is not encrypted,
    /// or is encrypted with the active key already.
    pub fn reencrypt(
        &self,
        id: MessageId,
        stored: &[u8],
    ) -> Result<Option<Vec<u8>>, PayloadEncryptionError> {
        if !looks_encrypted(stored) {
            return Ok(None);
        }
        let keys = self.keys.get().ok_or(PayloadEncryptionError::NoKeys)?;
        Ok(keys.reencrypt(&associated_data(id), stored)?)
    }
}

/// The associated data that binds an encrypted payload to the id of its message or trace.
fn associated_data(id: MessageId) -> Vec<u8> {
    [b"queue/message/".as_slice(), id.0.as_bytes()].concat()
}

/// The kinds of data that a store keeps encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncryptedKind {
    /// The payloads of scheduled messages.
    Scheduled,
    /// The payloads of messages in the logs of queues.
    Messages,
    /// The payloads of dead letters.
    DeadLetters,
    /// The data of traces.
    Traces,
    /// The signing keys and headers of endpoints.
    Endpoints,
}

impl EncryptedKind {
    /// All kinds, in the order in which they are re-encrypted. A payload can only move from an
    /// earlier kind to a later one, so none is missed.
    pub const ALL: [Self; 5] =
        [Self::Endpoints, Self::Scheduled, Self::Messages, Self::DeadLetters, Self::Traces];
}

/// The result of one batch of re-encryption.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rekeyed {
    /// The position to pass to the next call; `None` if this was the last batch.
    pub next: Option<Vec<u8>>,
    /// The number of rows that were re-encrypted.
    pub reencrypted: u64,
    /// Rows that could not be re-encrypted and were left unchanged: which row, and why.
    pub failed: Vec<String>,
}

/// Which parts of a store require encryption keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeysNeeded {
    /// Whether any queue is encrypted.
    pub queues: bool,
    /// Whether there is any webhook endpoint.
    pub endpoints: bool,
}

/// A store that keeps some of its data encrypted.
#[async_trait]
pub trait KeyedStore: Send + Sync {
    /// Sets the keys for payloads. Call it once, before any other method.
    fn use_keys(&self, keys: Arc<EncryptionKeys>);

    /// Which parts of the store require encryption keys.
    async fn keys_needed(&self) -> Result<KeysNeeded, StoreError>;

    /// Re-encrypts with the active key what was encrypted with other keys: one batch of rows of a
    /// kind, after the position of the previous batch. Safe to run concurrently with all other
    /// calls, and to repeat.
    async fn rekey(
        &self,
        kind: EncryptedKind,
        after: Option<Vec<u8>>,
    ) -> Result<Rekeyed, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_can_be_decrypted_only_for_its_own_message() {
        let encryption = PayloadEncryption::default();
        let (id, other) = (MessageId::generate(), MessageId::generate());
        assert!(matches!(encryption.encrypt(id, b"{}"), Err(PayloadEncryptionError::NoKeys)));
        let key = EncryptionKeys::generate("k").expect("random");
        encryption.use_keys(Arc::new(EncryptionKeys::parse(&key).expect("a key")));
        let encrypted = Bytes::from(encryption.encrypt(id, b"{}").expect("encrypted"));
        assert_eq!(encryption.decrypt(id, encrypted.clone()).expect("decrypted"), "{}");
        assert!(encryption.decrypt(other, encrypted.clone()).is_err());
        assert!(PayloadEncryption::default().decrypt(id, encrypted).is_err());
        assert_eq!(PayloadEncryption::default().decrypt(id, "{}".into()).expect("plain"), "{}");
    }
}
