//! What travels in envelopes: messages to an instance, and activities to workers.
//!
//! Stores and other languages see them as JSON; only this crate looks inside.

use serde::{Deserialize, Serialize};
use wakeline_core::{InstanceId, OrchestrationName, SessionId, Tag};

use crate::error::FlowError;
use crate::event::{Parent, Raised};
use crate::json::Json;
use crate::retry::ActivityPolicy;

/// A message to an instance, or an activity to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkItem {
    /// Begin.
    StartOrchestration {
        /// The instance.
        instance: InstanceId,
        /// The orchestration.
        name: OrchestrationName,
        /// The version of its code; the newest if none is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// Its input.
        input: Json,
        /// Who waits for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Parent>,
    },
    /// Go on as a new execution.
    ContinueAsNew {
        /// The instance.
        instance: InstanceId,
        /// The execution that begins.
        execution: u64,
        /// The orchestration.
        name: OrchestrationName,
        /// The version of its code; the newest if none is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// Its input.
        input: Json,
        /// The oldest version that may go on, if none is named: that of the execution before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<String>,
        /// Who waits for the instance.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Parent>,
        /// Events that were not taken.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        carried: Vec<Raised>,
    },
    /// Run an activity.
    ActivityExecute(ActivityTask),
    /// An activity has ended.
    ActivityDone {
        /// The instance that scheduled it.
        instance: InstanceId,
        /// The execution that scheduled it.
        execution: u64,
        /// The event that scheduled it.
        event: u64,
        /// Tells the execution from those of other lives of the instance; nothing if an earlier
        /// program scheduled it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
        /// What it returned.
        result: Result<Json, FlowError>,
    },
    /// A timer's time has come.
    TimerFired {
        /// The instance that made it.
        instance: InstanceId,
        /// The execution that made it.
        execution: u64,
        /// The event that made it.
        event: u64,
        /// When, in microseconds since 1970 by the database's clock.
        fire_at: i64,
    },
    /// A child has ended.
    ChildDone {
        /// The instance that started it.
        instance: InstanceId,
        /// The execution that started it.
        execution: u64,
        /// The event that started it.
        event: u64,
        /// Tells the execution from those of other lives of the instance; nothing if an earlier
        /// program started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
        /// What it returned.
        result: Result<Json, FlowError>,
    },
    /// An event from outside.
    EventRaised {
        /// The instance.
        instance: InstanceId,
        /// The event's name.
        name: String,
        /// What it carries.
        data: Json,
    },
    /// The instance should end.
    CancelInstance {
        /// The instance.
        instance: InstanceId,
        /// Why.
        reason: String,
        /// The parent that no longer waits for it. The instance of this id may be another one than
        /// the parent meant: then the request is not for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Parent>,
    },
    /// To an instance that has ended: its children are closed by their policies.
    CloseChildren {
        /// The instance.
        instance: InstanceId,
    },
}

/// An activity to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActivityTask {
    /// The instance that scheduled it.
    pub instance: InstanceId,
    /// The execution that scheduled it.
    pub execution: u64,
    /// The event that scheduled it.
    pub event: u64,
    /// Tells the execution from those of other lives of the instance; nothing if an earlier
    /// program scheduled the activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The orchestration that scheduled it.
    pub orchestration: OrchestrationName,
    /// The activity.
    pub name: String,
    /// Its input.
    pub input: Json,
    /// Which workers take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<Tag>,
    /// The session that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// How it is retried.
    #[serde(default)]
    pub policy: ActivityPolicy,
}

impl WorkItem {
    /// What a parent is told of the end of its child.
    pub(crate) fn child_done(parent: Parent, result: Result<Json, FlowError>) -> Self {
        let Parent { instance, execution, event, identity } = parent;
        Self::ChildDone { instance, execution, event, identity, result }
    }

    /// What an instance is told of the end of an activity.
    pub(crate) fn activity_done(task: &ActivityTask, result: Result<Json, FlowError>) -> Self {
        Self::ActivityDone {
            instance: task.instance.clone(),
            execution: task.execution,
            event: task.event,
            identity: task.identity.clone(),
            result,
        }
    }

    /// The instance that it is for, or whose it is.
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
