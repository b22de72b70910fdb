//! The contents of envelopes: messages to instances, and activities for workers.
//!
//! Stores keep them as JSON and do not read them. The names of variants and fields are part of the
//! stored format and never change.

use serde::{Deserialize, Serialize};
use wakeline_core::{InstanceId, OrchestrationName, SessionId, Tag};

use crate::error::FlowError;
use crate::event::{Parent, Raised};
use crate::json::Json;
use crate::retry::ActivityPolicy;

/// A message to an instance, or an activity for a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowMessage {
    /// Starts an instance.
    StartOrchestration {
        /// The instance to start.
        instance: InstanceId,
        /// The name of the orchestration.
        name: OrchestrationName,
        /// The version of its code; the newest if none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// The input of the instance.
        input: Json,
        /// The parent that waits for the instance, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Parent>,
    },
    /// Continues an instance as a new execution.
    ContinueAsNew {
        /// The instance that continues.
        instance: InstanceId,
        /// The number of the new execution.
        execution: u64,
        /// The name of the orchestration.
        name: OrchestrationName,
        /// The version of its code; the newest if none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// The input of the new execution.
        input: Json,
        /// The oldest version that may run it if none is given: that of the previous execution.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<String>,
        /// The parent that waits for the instance, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Parent>,
        /// Events that the previous execution had not taken.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        carried: Vec<Raised>,
    },
    /// Runs an activity.
    ActivityExecute(ActivityTask),
    /// Reports the end of an activity to its instance.
    ActivityDone {
        /// The instance that scheduled it.
        instance: InstanceId,
        /// The execution that scheduled it.
        execution: u64,
        /// The event that scheduled it.
        event: u64,
        /// Distinguishes the execution from those of other instances that had the same id; `None`
        /// if an earlier program scheduled the activity.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
        /// The result of the activity.
        result: Result<Json, FlowError>,
    },
    /// Reports that a timer has fired.
    TimerFired {
        /// The instance that created the timer.
        instance: InstanceId,
        /// The execution that created the timer.
        execution: u64,
        /// The event that created the timer.
        event: u64,
        /// The time for which it was set, in microseconds since 1970 by the database's clock.
        fire_at: i64,
    },
    /// Reports the end of a child to its parent.
    ChildDone {
        /// The instance that started the child.
        instance: InstanceId,
        /// The execution that started the child.
        execution: u64,
        /// The event that started the child.
        event: u64,
        /// Distinguishes the execution from those of other instances that had the same id; `None`
        /// if an earlier program started the child.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
        /// The result of the child.
        result: Result<Json, FlowError>,
    },
    /// Delivers an event from outside.
    EventRaised {
        /// The instance that receives the event.
        instance: InstanceId,
        /// The name of the event.
        name: String,
        /// The data of the event.
        data: Json,
    },
    /// Requests cancellation of an instance.
    CancelInstance {
        /// The instance to cancel.
        instance: InstanceId,
        /// The reason for the cancellation.
        reason: String,
        /// The parent that no longer waits for the instance, if it sent the request. An instance
        /// with this id that has another parent ignores the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Parent>,
    },
    /// Makes an instance that has ended close its children according to their policies.
    CloseChildren {
        /// The instance that has ended.
        instance: InstanceId,
    },
}

/// An activity to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActivityTask {
    /// The instance that scheduled the activity.
    pub instance: InstanceId,
    /// The execution that scheduled the activity.
    pub execution: u64,
    /// The event that scheduled the activity.
    pub event: u64,
    /// Distinguishes the execution from those of other instances that had the same id; `None` if an
    /// earlier program scheduled the activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The orchestration that scheduled the activity.
    pub orchestration: OrchestrationName,
    /// The name of the activity.
    pub name: String,
    /// The input of the activity.
    pub input: Json,
    /// Only workers that accept this tag take the activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<Tag>,
    /// The session that the activity belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The retry policy.
    #[serde(default)]
    pub policy: ActivityPolicy,
}

impl FlowMessage {
    /// Creates the message that reports the end of a child to its parent.
    pub(crate) fn child_done(parent: Parent, result: Result<Json, FlowError>) -> Self {
        let Parent { instance, execution, event, identity } = parent;
        Self::ChildDone { instance, execution, event, identity, result }
    }

    /// Creates the message that reports the end of an activity to its instance.
    pub(crate) fn activity_done(task: &ActivityTask, result: Result<Json, FlowError>) -> Self {
        Self::ActivityDone {
            instance: task.instance.clone(),
            execution: task.execution,
            event: task.event,
            identity: task.identity.clone(),
            result,
        }
    }

    /// The instance that receives the message, or that scheduled the activity.
    pub fn instance(&self) -> &InstanceId {
        match self {
            Self::StartOrchestration { instance, .. }
            | Self::ContinueAsNew { instance, .. }
            | Self::ActivityDone { instance, .. }
            | Self::TimerFired { instance, .. }
            | Self::ChildDone { instance, .. }
            | Self::EventRaised { instance, .. }
            | Self::CancelInstance { instance, .. }
            | Self::CloseChildren { instance } => instance,
            Self::ActivityExecute(task) => &task.instance,
        }
    }
}
