//! The errors of webhook operations.

use std::sync::Arc;
use std::time::Duration;

use wakeline_encryption::EncryptionError;
use wakeline_store::StoreError;

/// Why a webhook operation failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HookError {
    /// The request itself is wrong. Do not repeat it.
    #[error("{field} {reason}")]
    Invalid {
        /// The field at fault, by its name on the wire.
        field: &'static str,
        /// What is wrong with the field.
        reason: String,
    },
    /// The payload does not match the schema of its event type, and the schema is enforced.
    #[error("payload does not fit the schema of {event_type}: {reason}")]
    Schema {
        /// The name of the event type.
        event_type: String,
        /// Where and why the payload does not match.
        reason: String,
    },
    /// This node has no keys to encrypt secrets with. Secrets are never stored as plain text.
    #[error(
        "no encryption key is configured, so secrets cannot be stored: set WAKELINE_ENCRYPTION_KEYS"
    )]
    NoEncryptionKeys,
    /// A secret or header cannot be encrypted or decrypted with the configured keys.
    #[error("the {what} of the endpoint cannot be encrypted or decrypted: {source}")]
    Encryption {
        /// The field of the endpoint.
        what: &'static str,
        /// The reason.
        #[source]
        source: EncryptionError,
    },
    /// Concurrent requests changed the same object again and again. Try again.
    #[error(
        "other requests changed the object at the same time, and nothing was written: try again"
    )]
    Contended,
    /// The maximum number of clients are waiting on this node. Try again later.
    #[error("too many clients are waiting on this node: try again later, or on another node")]
    TooManyWaiters {
        /// How long to wait before trying again.
        retry_after: Duration,
    },
    /// The store call failed.
    #[error(transparent)]
    Store(Arc<StoreError>),
}

impl HookError {
    /// The error for an invalid field.
    pub(crate) fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { field, reason: reason.into() }
    }
}

impl From<StoreError> for HookError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::GuardError;
    use wakeline_core::error_chain;

    #[test]
    fn every_error_says_what_is_wrong_and_what_to_do() {
        let retry_after = Duration::from_secs(1);
        let source = EncryptionError::UnknownKey("2024".to_owned());
        let store = StoreError::Fatal { operation: "emit", source: "the driver's words".into() };
        let schema = HookError::Schema {
            event_type: "order.paid".to_owned(),
            reason: "\"total\" is missing".to_owned(),
        };
        let address = GuardError::Address([10, 0, 0, 1].into()).to_string();
        for (error, words) in [
            (HookError::invalid("url", address), &["url", "10.0.0.1", "--hook-allow"][..]),
            (schema, &["order.paid", "\"total\" is missing"]),
            (HookError::NoEncryptionKeys, &["no encryption key", "set WAKELINE_ENCRYPTION_KEYS"]),
            (HookError::Encryption { what: "headers", source }, &["headers", "\"2024\"", "add it"]),
            (HookError::Contended, &["nothing was written", "try again"]),
            (HookError::TooManyWaiters { retry_after }, &["try again later", "another node"]),
            (HookError::from(store), &["\"emit\" failed", "the driver's words"]),
        ] {
            let text = error_chain(&error);
            assert!(words.iter().all(|word| text.contains(word)), "{text:?} lacks {words:?}");
        }
    }
}
