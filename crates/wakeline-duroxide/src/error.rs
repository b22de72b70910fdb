//! Converts errors to those of duroxide, which are retryable or permanent.

use std::error::Error;
use std::fmt::Write as _;

use duroxide::providers::ProviderError;
use wakeline_flow::provider::ProviderError as FlowError;
use wakeline_store::StoreError;

/// The error for a lock token that is no longer held.
pub(crate) fn lock_lost(operation: &str) -> ProviderError {
    ProviderError::permanent(
        operation,
        "Invalid lock token: the lease is not held any more, or never was",
    )
}

/// An error that a retry does not fix.
pub(crate) fn permanent(operation: &str, reason: impl std::fmt::Display) -> ProviderError {
    ProviderError::permanent(operation, reason.to_string())
}

/// The error for an unknown instance.
pub(crate) fn missing(operation: &str, instance: &str) -> ProviderError {
    ProviderError::permanent(operation, format!("instance {instance} not found"))
}

/// Converts an error of our provider.
pub(crate) fn of_flow(operation: &'static str) -> impl Fn(FlowError) -> ProviderError {
    move |error| match &error {
        FlowError::LockLost => lock_lost(operation),
        FlowError::Permanent { .. } => ProviderError::permanent(operation, with_causes(&error)),
        FlowError::Retryable { .. } | FlowError::Closed => {
            ProviderError::retryable(operation, with_causes(&error))
        }
    }
}

/// Converts an error of the store.
pub(crate) fn of_store(operation: &'static str) -> impl Fn(StoreError) -> ProviderError {
    move |error| {
        if error.is_transient() || matches!(error, StoreError::Full { .. }) {
            ProviderError::retryable(operation, with_causes(&error))
        } else {
            ProviderError::permanent(operation, with_causes(&error))
        }
    }
}

/// Formats an error with all its causes, because duroxide keeps only text.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(text, ": {error}").expect("writing to a string cannot fail");
        cause = error.source();
    }
    text
}
