//! How an instance stands, decoded.

use wakeline_core::{InstanceId, OrchestrationName, Timestamp};
use wakeline_store::flow::{InstanceDetail, InstanceState, Unclaimed, Watched};

use super::ClientError;
use crate::error::FlowError;
use crate::json::Json;

/// How an instance stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// There is none of this id.
    Missing,
    /// It waits for its first turn, or is held back from it.
    Pending(Box<Instance>),
    /// It runs, sleeps, or is held back.
    Running(Box<Instance>),
    /// It has ended.
    Ended(Box<Instance>),
}

/// An instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// Its id.
    pub instance: InstanceId,
    /// The orchestration.
    pub name: OrchestrationName,
    /// The version of the code that it runs.
    pub version: Option<String>,
    /// How its current execution stands.
    pub state: InstanceState,
    /// What it returned; an error while it has not ended.
    pub result: Result<Json, FlowError>,
    /// Why it is held back, if it is.
    pub suspended: Option<String>,
    /// What of it no worker has claimed for [`UNCLAIMED_AFTER`](crate::UNCLAIMED_AFTER), if there
    /// is such a thing: most often because no worker has registered its code. Told by
    /// [`Client::status`](crate::Client::status) and [`Client::list`](crate::Client::list).
    pub unclaimed: Option<Unclaimed>,
    /// The status text.
    pub status: Option<String>,
    /// The version of the status text.
    pub status_version: u64,
    /// The version of the key-value state.
    pub kv_version: u64,
    /// The current execution; 0 while it is pending.
    pub execution: u64,
    /// Who waits for it. Of a pending one: who sent the first start.
    pub parent: Option<InstanceId>,
    /// When its first turn was committed. Of a pending one: when it was started.
    pub created_at: Timestamp,
    /// When its last turn was committed. Of a pending one: when it was started.
    pub updated_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl Instance {
    /// Decodes what a store says of an instance.
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
            Watched::There(detail) => {
                let instance = Box::new(Instance::of(*detail)?);
                match instance.state {
                    InstanceState::Pending => Self::Pending(instance),
                    state if state.is_ended() => Self::Ended(instance),
                    _ => Self::Running(instance),
                }
            }
        })
    }

    /// The state in a word: `missing`, `pending`, `suspended`, `running`, `completed`, ...
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

    /// The instance, if there is one.
    pub fn instance(&self) -> Option<&Instance> {
        match self {
            Self::Missing => None,
            Self::Pending(instance) | Self::Running(instance) | Self::Ended(instance) => {
                Some(instance)
            }
        }
    }
}

/// An output. Other programs on the same store may write what is not JSON: that becomes a text.
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
