//! Payloads that are stored encrypted, and changing the key of all that is.
//!
//! # Where it sits
//! Stores hold a [`Sealing`] and pass every payload through it on its way in and out, so that no
//! way into an encrypted queue leaves plain text behind: pushes, transactions, orchestrations'
//! turns, messages that arrive by SQL.
//!
//! # Invariants
//! * A payload for an encrypted queue is stored sealed or not at all (trap 48).
//! * Sealed bytes are bound to their message's id, those of a trace to the trace's own. JSON text
//!   never begins as sealed bytes do, so a queue may hold both while its option changes.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{EndpointId, MessageId};
use wakeline_seal::{KeyRing, SealError, is_sealed};

use crate::error::StoreError;

/// What can be sealed for an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointSeal {
    /// A signing key.
    Secret,
    /// Custom headers.
    Headers,
}

impl EndpointSeal {
    /// A word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Headers => "headers",
        }
    }

    /// What the sealed bytes are bound to.
    pub fn place(self, endpoint: EndpointId) -> String {
        format!("hook/{}/{endpoint}", self.word())
    }
}

/// Seals payloads and opens them. Without keys it opens and seals nothing.
#[derive(Debug, Default)]
pub struct Sealing {
    keys: OnceLock<Arc<KeyRing>>,
}

/// Why a payload cannot be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum SealingError {
    /// There is no key ring.
    #[error("this node has no encryption keys: set WAKELINE_ENCRYPTION_KEYS")]
    NoKeys,
    /// The key ring refused.
    #[error(transparent)]
    Seal(#[from] SealError),
}

impl Sealing {
    /// Takes the keys, once; later ones are passed over.
    pub fn use_keys(&self, keys: Arc<KeyRing>) {
        let _ = self.keys.set(keys);
    }

    /// Whether there are keys.
    pub fn has_keys(&self) -> bool {
        self.keys.get().is_some()
    }

    /// The keys, for `operation`, which cannot do without.
    pub fn keys(&self, operation: &'static str) -> Result<&KeyRing, StoreError> {
        self.keys.get().map(Arc::as_ref).ok_or(StoreError::NoKeys { operation })
    }

    /// Seals a payload for an encrypted queue.
    pub fn seal(&self, id: MessageId, payload: &[u8]) -> Result<Vec<u8>, SealingError> {
        let keys = self.keys.get().ok_or(SealingError::NoKeys)?;
        Ok(keys.seal(&message_place(id), payload)?)
    }

    /// Opens a payload as it is stored; one that was not sealed stays as it is.
    pub fn open(&self, id: MessageId, stored: Bytes) -> Result<Bytes, SealingError> {
        if !is_sealed(&stored) {
            return Ok(stored);
        }
        let keys = self.keys.get().ok_or(SealingError::NoKeys)?;
        Ok(keys.open(&message_place(id), &stored)?.into())
    }

    /// A stored payload sealed with the active key; `None` if it is, or was not sealed at all.
    pub fn reseal(&self, id: MessageId, stored: &[u8]) -> Result<Option<Vec<u8>>, SealingError> {
        if !is_sealed(stored) {
            return Ok(None);
        }
        let keys = self.keys.get().ok_or(SealingError::NoKeys)?;
        Ok(keys.reseal(&message_place(id), stored)?)
    }
}

fn message_place(id: MessageId) -> Vec<u8> {
    [b"queue/message/".as_slice(), id.0.as_bytes()].concat()
}

/// What in a store is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealedKind {
    /// Payloads of messages that wait for their time.
    Scheduled,
    /// Payloads in the logs of queues.
    Messages,
    /// Payloads of dead letters.
    DeadLetters,
    /// What consumers noted on messages.
    Traces,
    /// Signing keys and headers of endpoints.
    Endpoints,
}

impl SealedKind {
    /// All kinds, in the order in which they are gone through: that in which a payload may move.
    pub const ALL: [Self; 5] =
        [Self::Endpoints, Self::Scheduled, Self::Messages, Self::DeadLetters, Self::Traces];
}

/// One step of sealing anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rekeyed {
    /// Where the next step goes on; `None` when this was the last.
    pub next: Option<Vec<u8>>,
    /// Rows that were sealed anew.
    pub resealed: u64,
    /// Rows that could not be: where they are, and why. They are as they were.
    pub failed: Vec<String>,
}

/// What of a store cannot be used without keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeysNeeded {
    /// Some queue is encrypted.
    pub queues: bool,
    /// There is an endpoint.
    pub endpoints: bool,
}

/// A store that keeps some things encrypted.
#[async_trait]
pub trait KeyedStore: Send + Sync {
    /// Gives the store the keys for payloads. Call it before anything else, once.
    fn use_keys(&self, keys: Arc<KeyRing>);

    /// What of it cannot be used without keys.
    async fn keys_needed(&self) -> Result<KeysNeeded, StoreError>;

    /// Seals with the active key what other keys have sealed: some rows of a kind, after those of
    /// the step before. Safe beside everything else that goes on, and to repeat.
    async fn rekey(&self, kind: SealedKind, after: Option<Vec<u8>>) -> Result<Rekeyed, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_opens_for_its_own_message_only() {
        let sealing = Sealing::default();
        let (id, other) = (MessageId::generate(), MessageId::generate());
        assert!(matches!(sealing.seal(id, b"{}"), Err(SealingError::NoKeys)));
        let key = KeyRing::generate("k").expect("random");
        sealing.use_keys(Arc::new(KeyRing::parse(&key).expect("a key")));
        let sealed = Bytes::from(sealing.seal(id, b"{}").expect("sealed"));
        assert_eq!(sealing.open(id, sealed.clone()).expect("opened"), "{}");
        assert!(sealing.open(other, sealed.clone()).is_err());
        assert!(Sealing::default().open(id, sealed).is_err());
        assert_eq!(Sealing::default().open(id, "{}".into()).expect("plain"), "{}");
    }
}
