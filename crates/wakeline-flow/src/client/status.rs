//! The status of an instance, decoded.

use wakeline_core::{InstanceId, OrchestrationName, Timestamp};
use wakeline_store::flow::{InstanceDetail, InstanceState, Unclaimed, Watched};

use super::ClientError;
use crate::error::FlowError;
use crate::json::Json;

/// The status of an instance.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// There is no instance with this id.
    Missing,
    /// The instance waits for its first turn, or is suspended before it.
    Pending(Box<Instance>),
    /// The instance runs, waits, or is suspended.
    Running(Box<Instance>),
    /// The instance has ended.
    Ended(Box<Instance>),
}

/// An instance and the state of its current execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// The id of the instance.
    pub instance: InstanceId,
    /// The name of the orchestration that it runs.
    pub name: OrchestrationName,
    /// The version of the code that it runs.
    pub version: Option<String>,
    /// The state of the current execution.
    pub state: InstanceState,
    /// The output or the error that it ended with; an error while it has not ended.
    pub result: Result<Json, FlowError>,
    /// The reason why it is suspended, if it is.
    pub suspended: Option<String>,
    /// A turn or activity that no worker has claimed for
    /// [`UNCLAIMED_AFTER`](crate::UNCLAIMED_AFTER), if there is one; most often no worker has
    /// registered its code. Filled in by [`Client::status`](crate::Client::status) and
    /// [`Client::list`](crate::Client::list).
    pub unclaimed: Option<Unclaimed>,
    /// The status text that the code has set.
    pub status: Option<String>,
    /// The version of the status text; each change increases it.
    pub status_version: u64,
    /// The version of the key-value state; each change increases it.
    pub kv_version: u64,
    /// The number of the current execution; 0 while the instance is pending.
    pub execution: u64,
    /// The parent that waits for this instance. While it is pending: the sender of the first start.
    pub parent: Option<InstanceId>,
    /// When its first turn was committed; while it is pending, when it was started.
    pub created_at: Timestamp,
    /// When its last turn was committed; while it is pending, when it was started.
    pub updated_at: Timestamp,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
}

impl Instance {
    /// Decodes an instance as the store returned it.
    pub fn of(detail: InstanceDetail) -> Result<Self, ClientError> {
        let text = detail.output.as_deref();
        let result = match (detail.state, text) {
            (InstanceState::Completed, Some(text)) => Ok(output(text)?),
            (InstanceState::Completed, None) => Ok(Json::null()),
            (state, Some(text)) if state.is_ended() => Err(serde_json::from_slice(text)
                .unwrap_or_else(|_| {
                    FlowError::application(String::from_utf8_lossy(text).into_owned())
                })),
            (state, _) if state.is_ended() => {
                Err(FlowError::application(format!("the instance ended as {}", state.as_str())))
            }
            _ => Err(FlowError::application("the instance has not ended")),
        };
        Ok(Self {
            instance: detail.instance,
            name: detail.name,
            version: detail.version,
            state: detail.state,
            result,
            suspended: detail.suspended,
            unclaimed: None,
            status: detail.status,
            status_version: detail.status_version,
            kv_version: detail.kv_version,
            execution: detail.execution,
            parent: detail.parent,
            created_at: detail.created_at,
            updated_at: detail.updated_at,
            ended_at: detail.ended_at,
        })
    }
}

impl Status {
    pub(super) fn of(watched: Watched) -> Result<Self, ClientError> {
        Ok(match watched {
            Watched::Missing => Self::Missing,
            Watched::Found(detail) => {
                let instance = Box::new(Instance::of(*detail)?);
                match instance.state {
                    InstanceState::Pending => Self::Pending(instance),
                    state if state.is_ended() => Self::Ended(instance),
                    _ => Self::Running(instance),
                }
            }
        })
    }

    /// The state as one word: `missing`, `pending`, `suspended`, `running`, `completed`, ...
    pub fn name(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Pending(instance) | Self::Running(instance) if instance.suspended.is_some() => {
                "suspended"
            }
            Self::Pending(instance) | Self::Running(instance) | Self::Ended(instance) => {
                instance.state.as_str()
            }
        }
    }

    pub(super) fn instance_mut(&mut self) -> Option<&mut Instance> {
        match self {
            Self::Missing => None,
            Self::Pending(instance) | Self::Running(instance) | Self::Ended(instance) => {
                Some(instance)
            }
        }
    }

    /// Returns the instance, if there is one.
    pub fn instance(&self) -> Option<&Instance> {
        match self {
            Self::Missing => None,
            Self::Pending(instance) | Self::Running(instance) | Self::Ended(instance) => {
                Some(instance)
            }
        }
    }
}

/// Decodes an output. Other programs on the same store may write something that is not JSON; it is
/// then returned as a string.
fn output(bytes: &[u8]) -> Result<Json, ClientError> {
    let json = serde_json::from_slice(bytes);
    json.or_else(|_| Json::of(&String::from_utf8_lossy(bytes)))
        .map_err(ClientError::codec("the output"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn output_that_is_not_json_is_shown_as_text() {
        let detail = |state| InstanceDetail {
            instance: InstanceId::new("i").expect("valid"),
            name: OrchestrationName::new("n").expect("valid"),
            version: None,
            capability: None,
            state,
            suspended: None,
            output: Some(Bytes::from_static(b"done \xff")),
            status: None,
            status_version: 0,
            kv_version: 0,
            execution: 1,
            parent: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            ended_at: Some(Timestamp(0)),
        };
        let completed = Instance::of(detail(InstanceState::Completed)).expect("readable");
        assert_eq!(completed.result, Ok(Json::of(&"done \u{FFFD}").expect("a text")));
        let failed = Instance::of(detail(InstanceState::Failed)).expect("readable");
        assert_eq!(failed.result, Err(FlowError::application("done \u{FFFD}")));
    }
}
