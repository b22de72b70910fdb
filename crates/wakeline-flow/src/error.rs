//! Failures that orchestrations and activities can meet, as they stand in a history.

use std::any::Any;
use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Why an activity, a child or an orchestration failed. Part of histories: code may branch on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct FlowError {
    /// What kind of failure.
    pub kind: FailureKind,
    /// What happened, in words.
    pub message: String,
    /// How often it was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The user's code returned an error.
    Application,
    /// The user's code returned an error and asked for no more tries.
    Permanent,
    /// The user's code panicked.
    Panic,
    /// It took too long.
    Timeout,
    /// It was cancelled.
    Cancelled,
    /// It was ended from outside.
    Terminated,
    /// It was tried too often without an answer: a crash, most likely.
    Poison,
    /// A value could not be encoded or decoded.
    Codec,
}

impl FlowError {
    /// A failure of a kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), attempts: None }
    }

    /// An error of the user's code.
    pub fn application(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Application, message)
    }

    /// An error of the user's code after which no further try is made.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Permanent, message)
    }

    /// A value that could not be encoded or decoded.
    pub(crate) fn codec(what: &str, error: &serde_json::Error) -> Self {
        Self::new(FailureKind::Codec, format!("{what}: {error}"))
    }
}

/// What the user's code may fail with: anything that can be shown. A [`FlowError`] stays what it
/// is, also in a `Box<dyn Error + Send + Sync>`; everything else becomes
/// [`FailureKind::Application`] with its text.
pub trait IntoFlowError {
    /// Turns it into what stands in a history.
    fn into_flow_error(self) -> FlowError;
}

impl<E: fmt::Display + Send + Sync + 'static> IntoFlowError for E {
    fn into_flow_error(self) -> FlowError {
        let text = format!("{self:#}");
        let any: Box<dyn Any> = Box::new(self);
        match any.downcast::<FlowError>() {
            Ok(error) => *error,
            Err(any) => match any.downcast::<Box<dyn Error + Send + Sync>>() {
                Ok(boxed) => match boxed.downcast::<FlowError>() {
                    Ok(error) => *error,
                    Err(_) => FlowError::application(text),
                },
                Err(_) => FlowError::application(text),
            },
        }
    }
}

impl From<String> for FlowError {
    fn from(message: String) -> Self {
        Self::application(message)
    }
}

impl From<&str> for FlowError {
    fn from(message: &str) -> Self {
        Self::application(message)
    }
}
