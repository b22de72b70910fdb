//! Failures in duroxide's terms: what may be tried again, and what may not.

use std::error::Error;
use std::fmt::Write as _;

use duroxide::providers::ProviderError;
use wakeline_flow::provider::ProviderError as FlowError;
use wakeline_store::StoreError;

/// What a lock token that is not held any more is answered with.
pub(crate) fn lock_lost(operation: &str) -> ProviderError {
    ProviderError::permanent(operation, "Invalid lock token: it is not held, or not any more")
}

/// Something that trying again does not help.
pub(crate) fn permanent(operation: &str, reason: impl std::fmt::Display) -> ProviderError {
    ProviderError::permanent(operation, reason.to_string())
}

/// There is no such instance.
pub(crate) fn missing(operation: &str, instance: &str) -> ProviderError {
    ProviderError::permanent(operation, format!("instance {instance} not found"))
}

/// A provider's failure.
pub(crate) fn of_flow(operation: &'static str) -> impl Fn(FlowError) -> ProviderError {
    move |error| match &error {
        FlowError::LockLost => lock_lost(operation),
        FlowError::Permanent { .. } => ProviderError::permanent(operation, told(&error)),
        FlowError::Retryable { .. } | FlowError::Closed => {
            ProviderError::retryable(operation, told(&error))
        }
    }
}

/// A store's failure.
pub(crate) fn of_store(operation: &'static str) -> impl Fn(StoreError) -> ProviderError {
    move |error| {
        if error.is_transient() || matches!(error, StoreError::Full { .. }) {
            ProviderError::retryable(operation, told(&error))
        } else {
            ProviderError::permanent(operation, told(&error))
        }
    }
}

/// An error with everything that caused it: duroxide keeps only text.
fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(text, ": {error}").expect("a string takes it");
        cause = error.source();
    }
    text
}
