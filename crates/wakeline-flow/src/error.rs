//! Errors of orchestrations and activities, as they are recorded in a history.

use std::any::Any;
use std::error::Error;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};
use wakeline_core::{InstanceId, OrchestrationName};

/// The error of an activity, a child or an orchestration. Part of histories, so code may branch on
/// it.
///
/// The text names where the error comes from: `child ship (instance ship-7): activity charge
/// (attempt 3): card declined`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}{message}", origins(origin))]
pub struct FlowError {
    /// The kind of the failure.
    pub kind: FailureKind,
    /// A description of the failure.
    pub message: String,
    /// The number of attempts that were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The children and activities that the error passed through, outermost first. Empty for an
    /// error of the code that returned it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origin: Vec<ErrorOrigin>,
}

/// A child or an activity that an error comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorOrigin {
    /// An activity that failed.
    Activity {
        /// The name of the activity.
        name: String,
        /// The instance that scheduled it.
        instance: InstanceId,
        /// The attempt that failed; the first is 1.
        attempt: u32,
    },
    /// A child orchestration that failed.
    Child {
        /// The name of the orchestration; `None` if the child never began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<OrchestrationName>,
        /// The instance id of the child.
        instance: InstanceId,
    },
}

impl fmt::Display for ErrorOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Activity { name, attempt, .. } => {
                write!(f, "activity {name} (attempt {attempt})")
            }
            Self::Child { name: Some(name), instance } => {
                write!(f, "child {name} (instance {instance})")
            }
            Self::Child { name: None, instance } => write!(f, "child instance {instance}"),
        }
    }
}

fn origins(origin: &[ErrorOrigin]) -> String {
    origin.iter().map(|one| format!("{one}: ")).collect()
}

/// The kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The user's code returned an error.
    Application,
    /// The user's code returned an error that must not be retried.
    Permanent,
    /// The user's code panicked.
    Panic,
    /// A time limit was exceeded.
    Timeout,
    /// The orchestration or activity was cancelled.
    Cancelled,
    /// The instance was terminated from outside.
    Terminated,
    /// The maximum number of attempts was reached without a result, most likely because of crashes.
    Poison,
    /// A value could not be encoded as or decoded from JSON.
    Codec,
}

impl FlowError {
    /// Creates an error of a kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), attempts: None, origin: Vec::new() }
    }

    /// Creates an error of the user's code.
    pub fn application(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Application, message)
    }

    /// Creates an error of the user's code that is not retried.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Permanent, message)
    }

    /// Creates an error for a value that could not be encoded.
    pub(crate) fn encoding(what: impl Display, error: &serde_json::Error) -> Self {
        Self::new(FailureKind::Codec, format!("{what} cannot be encoded as JSON: {error}"))
    }

    /// Creates an error for a value that could not be decoded.
    pub(crate) fn decoding(what: impl Display, error: &serde_json::Error) -> Self {
        let text = format!("{what} cannot be decoded into the type that the code expects: {error}");
        Self::new(FailureKind::Codec, text)
    }

    /// Adds the child or activity that the error comes from, as its caller sees it.
    pub(crate) fn with_origin(mut self, origin: ErrorOrigin) -> Self {
        self.origin.insert(0, origin);
        self
    }

    /// Creates an error for an input that the code could not decode.
    pub(crate) fn input<I>(error: &serde_json::Error) -> Self {
        let expected = std::any::type_name::<I>();
        let message = format!("the input cannot be decoded as {expected}: {error}");
        Self::new(FailureKind::Codec, message)
    }
}

/// The errors that the user's code may return: error types, boxed errors, `anyhow::Error`, strings.
/// A [`FlowError`] is kept as it is. If one is among the causes of another error, the failure gets
/// its kind, so that a [`FlowError::permanent`] is not retried however it is wrapped. Everything
/// else becomes [`FailureKind::Application`]. The message is that of the outermost error.
pub trait IntoFlowError {
    /// Converts the error into the form that is recorded in a history.
    fn into_flow_error(self) -> FlowError;
}

impl<E: Into<Box<dyn Error + Send + Sync>> + 'static> IntoFlowError for E {
    fn into_flow_error(self) -> FlowError {
        // Once converted into a box, an `anyhow::Error` can no longer be downcast to the error
        // inside it.
        if let Some(error) = (&self as &dyn Any).downcast_ref::<anyhow::Error>() {
            return wrapped(format!("{error:#}"), error.chain());
        }
        let error = match self.into().downcast::<FlowError>() {
            Ok(error) => return *error,
            Err(error) => error,
        };
        let causes = std::iter::successors(error.source(), |&cause| cause.source());
        wrapped(format!("{error:#}"), causes)
    }
}

/// Creates an error with this message and the kind of the first [`FlowError`] among its causes.
fn wrapped<'e>(
    message: String,
    mut causes: impl Iterator<Item = &'e (dyn Error + 'static)>,
) -> FlowError {
    match causes.find_map(|cause| cause.downcast_ref::<FlowError>()) {
        // The message already names the origin.
        Some(cause) => FlowError { message, origin: Vec::new(), ..cause.clone() },
        None => FlowError::application(message),
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
