//! Failures that orchestrations and activities can meet, as they stand in a history.

use std::any::Any;
use std::error::Error;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};
use wakeline_core::{InstanceId, OrchestrationName};

/// Why an activity, a child or an orchestration failed. Part of histories: code may branch on it.
///
/// Its text names where it comes from: `child ship (instance ship-7): activity charge (attempt 3):
/// card declined`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}{message}", origins(origin))]
pub struct FlowError {
    /// What kind of failure.
    pub kind: FailureKind,
    /// What happened, in words.
    pub message: String,
    /// How often it was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The child or activity that it comes from, the outermost first. Empty for an error of the
    /// code that returned it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origin: Vec<ErrorOrigin>,
}

/// The child or activity that an error comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorOrigin {
    /// An activity.
    Activity {
        /// Its name.
        name: String,
        /// The instance that scheduled it.
        instance: InstanceId,
        /// The try that failed; the first is 1.
        attempt: u32,
    },
    /// A child.
    Child {
        /// The orchestration; nothing if it never began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<OrchestrationName>,
        /// Its instance.
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
        Self { kind, message: message.into(), attempts: None, origin: Vec::new() }
    }

    /// An error of the user's code.
    pub fn application(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Application, message)
    }

    /// An error of the user's code after which no further try is made.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Permanent, message)
    }

    /// A value that could not be encoded.
    pub(crate) fn encoding(what: impl Display, error: &serde_json::Error) -> Self {
        Self::new(FailureKind::Codec, format!("{what} cannot be encoded as JSON: {error}"))
    }

    /// A value that could not be decoded.
    pub(crate) fn decoding(what: impl Display, error: &serde_json::Error) -> Self {
        let text = format!("{what} cannot be decoded into the type that the code expects: {error}");
        Self::new(FailureKind::Codec, text)
    }

    /// The same error as the one who waits for it sees it.
    pub(crate) fn with_origin(mut self, origin: ErrorOrigin) -> Self {
        self.origin.insert(0, origin);
        self
    }

    /// An input that is not what the code expects.
    pub(crate) fn input<I>(error: &serde_json::Error) -> Self {
        let expected = std::any::type_name::<I>();
        let message = format!("the input cannot be decoded as {expected}: {error}");
        Self::new(FailureKind::Codec, message)
    }
}

/// What the user's code may fail with: errors, boxed errors, `anyhow::Error`, texts. A
/// [`FlowError`] stays what it is. One among the causes of another error gives the failure its
/// kind, so that [`FlowError::permanent`] is not tried again however it is wrapped; everything else
/// becomes [`FailureKind::Application`]. The text is that of the outermost error.
pub trait IntoFlowError {
    /// Turns it into what stands in a history.
    fn into_flow_error(self) -> FlowError;
}

impl<E: Into<Box<dyn Error + Send + Sync>> + 'static> IntoFlowError for E {
    fn into_flow_error(self) -> FlowError {
        // Converted into a box, an `anyhow::Error` cannot be taken for what is in it any more.
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

/// A failure with this text, of the kind that one of its causes has.
fn wrapped<'e>(
    message: String,
    mut causes: impl Iterator<Item = &'e (dyn Error + 'static)>,
) -> FlowError {
    match causes.find_map(|cause| cause.downcast_ref::<FlowError>()) {
        // The text names the origin already.
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
