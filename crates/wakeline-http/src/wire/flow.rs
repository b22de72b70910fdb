//! Orchestrations on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_flow::provider::PendingActivity;
use wakeline_flow::{Event, Instance, Json};
use wakeline_store::flow::{DeleteReport, ExecutionDetail, PruneReport};

use crate::render;

/// What to start.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StartBody {
    /// The orchestration.
    pub(crate) name: String,
    /// Names the instance; starting it twice starts it once. Made by the server if absent.
    pub(crate) instance: Option<String>,
    /// The version of the code; the newest if absent.
    pub(crate) version: Option<String>,
    /// The input; null if absent.
    #[schema(value_type = Option<Object>)]
    pub(crate) input: Option<Json>,
}

/// What became of a start.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartAnswer {
    /// The instance.
    pub(crate) instance: String,
    /// False if it existed before.
    pub(crate) started: bool,
}

/// Why somebody intervenes.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReasonBody {
    /// In words.
    pub(crate) reason: Option<String>,
}

/// What an intervention did.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangedAnswer {
    /// The instance.
    pub(crate) instance: String,
    /// False if there was nothing to change.
    pub(crate) changed: bool,
}

/// That an event or a request was taken.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AcceptedAnswer {
    /// The instance.
    pub(crate) instance: String,
    /// Always true.
    pub(crate) accepted: bool,
}

/// Why an orchestration failed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailureAnswer {
    /// What kind of failure: application, timeout, cancelled, ...
    #[schema(value_type = String)]
    kind: wakeline_flow::FailureKind,
    /// In words.
    message: String,
}

/// What waits for a worker.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitingAnswer {
    /// In words.
    reason: String,
    /// Since when.
    since: String,
}

/// An instance.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrchestrationAnswer {
    /// Its id.
    instance: String,
    /// The orchestration.
    name: String,
    /// The version of the code that it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// pending, running, suspended, completed, failed, cancelled or terminated.
    state: &'static str,
    /// What it returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output: Option<Json>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureAnswer>,
    /// Why it is held back.
    #[serde(skip_serializing_if = "Option::is_none")]
    suspended: Option<String>,
    /// What of it waits for a worker, if no worker has claimed it for 30 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<WaitingAnswer>,
    /// The status text that it set.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    /// Goes up with every change of the status text.
    status_version: u64,
    /// Goes up with every change of the key-value state.
    kv_version: u64,
    /// The current execution; 0 while it is pending.
    execution: u64,
    /// Who waits for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// When its first turn was committed; while it is pending, when it was started.
    created_at: String,
    /// When its last turn was committed; while it is pending, when it was started.
    updated_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// Of one instance: activities that have not ended, the oldest 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) activities: Vec<ActivityAnswer>,
}

/// An activity that has not ended.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ActivityAnswer {
    /// The execution that scheduled it.
    execution: u64,
    /// The event that scheduled it.
    event: u64,
    /// Its name.
    name: String,
    /// How often it was tried, a running try included.
    attempts: u32,
    /// Whether a worker runs it now.
    running: bool,
    /// Why its last try failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// When it is tried again, if it waits for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try_at: Option<String>,
}

impl From<PendingActivity> for ActivityAnswer {
    fn from(activity: PendingActivity) -> Self {
        Self {
            execution: activity.execution,
            event: activity.event,
            name: activity.name,
            attempts: activity.attempts,
            running: activity.running,
            last_error: activity.last_error,
            next_try_at: activity.next_try_at.map(render::time),
        }
    }
}

impl From<&Instance> for OrchestrationAnswer {
    fn from(instance: &Instance) -> Self {
        let ended = instance.state.is_ended();
        let (output, error) = match &instance.result {
            Ok(output) => (Some(output.clone()), None),
            Err(error) if ended => {
                let (kind, message) = (error.kind, error.to_string());
                (None, Some(FailureAnswer { kind, message }))
            }
            Err(_) => (None, None),
        };
        let state = match &instance.suspended {
            Some(_) => "suspended",
            None => instance.state.as_str(),
        };
        Self {
            instance: instance.instance.to_string(),
            name: instance.name.to_string(),
            version: instance.version.clone(),
            state,
            output,
            error,
            suspended: instance.suspended.clone(),
            waiting: instance.unclaimed.as_ref().map(|unclaimed| WaitingAnswer {
                reason: unclaimed.what.to_string(),
                since: render::time(unclaimed.since),
            }),
            status: instance.status.clone(),
            status_version: instance.status_version,
            kv_version: instance.kv_version,
            execution: instance.execution,
            parent: instance.parent.as_ref().map(ToString::to_string),
            created_at: render::time(instance.created_at),
            updated_at: render::time(instance.updated_at),
            ended_at: instance.ended_at.map(render::time),
            activities: Vec::new(),
        }
    }
}

/// A page of instances, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrchestrationsAnswer {
    /// The instances.
    pub(crate) orchestrations: Vec<OrchestrationAnswer>,
    /// Pass it as `cursor` for the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

/// A piece of a history.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryAnswer {
    /// The execution.
    pub(crate) execution: u64,
    /// Its events, in order.
    #[schema(value_type = Vec<Object>)]
    pub(crate) events: Vec<Event>,
    /// Pass it as `from` to read on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<u64>,
    /// At the end: activities of the instance that have not ended, the oldest 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) activities: Vec<ActivityAnswer>,
}

/// One life of an instance.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutionAnswer {
    /// Its number; the first is 1.
    execution: u64,
    /// The version of the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// How it stands.
    state: &'static str,
    /// Its events.
    events: u64,
    /// Their bytes.
    history_bytes: u64,
    /// When it began.
    started_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
}

impl From<ExecutionDetail> for ExecutionAnswer {
    fn from(detail: ExecutionDetail) -> Self {
        Self {
            execution: detail.execution,
            version: detail.version,
            state: detail.state.as_str(),
            events: detail.events,
            history_bytes: detail.history_bytes,
            started_at: render::time(detail.started_at),
            ended_at: detail.ended_at.map(render::time),
        }
    }
}

/// What was deleted.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeletedAnswer {
    /// Instances.
    instances: u64,
    /// Executions.
    executions: u64,
    /// Events.
    events: u64,
    /// Messages and activities.
    messages: u64,
}

impl From<DeleteReport> for DeletedAnswer {
    fn from(report: DeleteReport) -> Self {
        Self {
            instances: report.instances,
            executions: report.executions,
            events: report.events,
            messages: report.messages,
        }
    }
}

/// Which ended instances, or which old executions, to remove.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PurgeBody {
    /// Only these.
    pub(crate) instances: Option<Vec<String>>,
    /// Only what ended before this time.
    pub(crate) ended_before: Option<String>,
    /// Pruning only: so many of the newest executions stay.
    pub(crate) keep_last: Option<u32>,
    /// At most so many instances in one call (1000).
    pub(crate) limit: Option<u32>,
}

/// What was pruned.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrunedAnswer {
    /// Instances that were looked at.
    instances: u64,
    /// Executions that went.
    executions: u64,
    /// Events that went.
    events: u64,
}

impl From<PruneReport> for PrunedAnswer {
    fn from(report: PruneReport) -> Self {
        Self { instances: report.instances, executions: report.executions, events: report.events }
    }
}
