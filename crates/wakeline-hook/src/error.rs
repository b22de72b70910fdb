//! Why something asked of the hook face was not done.

use std::sync::Arc;
use std::time::Duration;

use wakeline_seal::SealError;
use wakeline_store::StoreError;

/// Why something asked of the hook face was not done.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HookError {
    /// The request itself is wrong. Do not repeat it.
    #[error("{field} {reason}")]
    Invalid {
        /// The field at fault, in the words of the wire.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The payload does not fit the schema of its event type, which is enforced.
    #[error("payload does not fit the schema of {event_type}: {reason}")]
    Schema {
        /// The event type.
        event_type: String,
        /// Where and how it does not fit.
        reason: String,
    },
    /// There is no key to seal secrets with. They are never stored in the clear.
    #[error(
        "no encryption key is configured, so secrets cannot be stored: set WAKELINE_ENCRYPTION_KEYS"
    )]
    NoKeyRing,
    /// A sealed secret or header cannot be opened with the configured keys.
    #[error("the {what} of the endpoint cannot be encrypted or decrypted: {source}")]
    Sealed {
        /// What was to be opened.
        what: &'static str,
        /// Why not.
        #[source]
        source: SealError,
    },
    /// Others changed it again and again meanwhile. Try again.
    #[error("other requests changed it at the same time, and nothing was written: try again")]
    Contended,
    /// As many clients are parked as this node allows. Come back after a while.
    #[error("too many clients are waiting on this node: try again later, or on another node")]
    TooManyWaiters {
        /// When to come back.
        retry_after: Duration,
    },
    /// The store could not do it.
    #[error(transparent)]
    Store(Arc<StoreError>),
}

impl HookError {
    /// A field that is wrong.
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
    fn every_error_names_what_is_wrong_and_what_to_do() {
        let retry_after = Duration::from_secs(1);
        let source = SealError::UnknownKey("2024".to_owned());
        let store = StoreError::Fatal { operation: "emit", source: "the driver's words".into() };
        let schema = HookError::Schema {
            event_type: "order.paid".to_owned(),
            reason: "\"total\" is missing".to_owned(),
        };
        let address = GuardError::Address([10, 0, 0, 1].into()).to_string();
        for (error, words) in [
            (HookError::invalid("url", address), &["url", "10.0.0.1", "--hook-allow"][..]),
            (schema, &["order.paid", "\"total\" is missing"]),
            (HookError::NoKeyRing, &["no encryption key", "set WAKELINE_ENCRYPTION_KEYS"]),
            (HookError::Sealed { what: "headers", source }, &["headers", "\"2024\"", "add it"]),
            (HookError::Contended, &["nothing was written", "try again"]),
            (HookError::TooManyWaiters { retry_after }, &["try again later", "another node"]),
            (HookError::from(store), &["emit failed", "the driver's words"]),
        ] {
            let text = error_chain(&error);
            assert!(words.iter().all(|word| text.contains(word)), "{text:?} lacks {words:?}");
        }
    }
}
