//! Reads instances: outcome, status, history, key-value state and lists.

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{Capability, InstanceId, KvKey, OrchestrationName, Timestamp};

use super::lane::HistoryBatch;
use crate::error::StoreError;

/// The state of an execution, or of an instance by its current execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InstanceState {
    /// Instances only: started, and waiting for the first turn.
    Pending,
    /// The execution is in progress.
    Running,
    /// The orchestration returned a result.
    Completed,
    /// The orchestration returned an error, or was given up.
    Failed,
    /// The orchestration was cancelled.
    Cancelled,
    /// The instance was ended by an administrator, without running its code.
    Terminated,
    /// Executions only: the next execution continues the instance.
    ContinuedAsNew,
}

impl InstanceState {
    /// All states, in the order of [`FlowDepths::instances`].
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Terminated,
        Self::ContinuedAsNew,
    ];

    /// Whether the instance has reached a final state.
    pub fn is_ended(self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::ContinuedAsNew)
    }

    /// The state's name as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Terminated => "terminated",
            Self::ContinuedAsNew => "continued_as_new",
        }
    }

    /// Parses a name as returned by [`InstanceState::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// One entry of an instance's key-value state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    /// The entry's key.
    pub key: KvKey,
    /// The value as bytes.
    pub value: Bytes,
    /// The execution that set the value.
    pub execution: u64,
    /// When the value was set.
    pub updated_at: Timestamp,
}

/// An instance with its current state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceDetail {
    /// The instance's id.
    pub instance: InstanceId,
    /// The orchestration's name. For a pending instance: its capability up to the first `@`.
    pub name: OrchestrationName,
    /// The code version that the current execution is pinned to.
    pub version: Option<String>,
    /// The capability that its next turn requires.
    pub capability: Option<Capability>,
    /// The state of the current execution.
    pub state: InstanceState,
    /// Why it is suspended, if it is.
    pub suspended: Option<String>,
    /// The result or the error, as encoded by the runtime.
    pub output: Option<Bytes>,
    /// The status text set by the orchestration.
    pub status: Option<String>,
    /// Incremented with every change of the status text; 0 if it never had one.
    pub status_version: u64,
    /// Incremented with every turn that changed the key-value state; 0 if none did.
    pub kv_version: u64,
    /// The number of the current execution; 0 while the instance is pending.
    pub execution: u64,
    /// The parent that waits for it. For a pending instance: the sender of the first start message.
    pub parent: Option<InstanceId>,
    /// When the first turn was committed. For a pending instance: when it was started.
    pub created_at: Timestamp,
    /// When the last turn was committed. For a pending instance: when it was started.
    pub updated_at: Timestamp,
    /// When the instance ended, if it has.
    pub ended_at: Option<Timestamp>,
}

/// An execution with its current state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionDetail {
    /// The execution's number; the first is 1.
    pub execution: u64,
    /// The code version that it is pinned to.
    pub version: Option<String>,
    /// The state of the execution.
    pub state: InstanceState,
    /// The result or the error, as encoded by the runtime.
    pub output: Option<Bytes>,
    /// The number of events in its history.
    pub events: u64,
    /// The size of the events as stored, in bytes.
    pub history_bytes: u64,
    /// When the execution began.
    pub started_at: Timestamp,
    /// When the execution ended, if it has.
    pub ended_at: Option<Timestamp>,
}

/// A page of a history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryPage {
    /// The execution's number; 0 if it does not exist.
    pub execution: u64,
    /// Batches of events in order; the first may begin before the requested event.
    pub batches: Vec<HistoryBatch>,
    /// The event to continue from; `None` if this was the last page.
    pub next: Option<u64>,
}

/// What a client that waits for an outcome reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// There is no instance with this id.
    Missing,
    /// The instance exists, or was started and is pending.
    Found(Box<InstanceDetail>),
}

/// Selects instances; by default the newest 100.
#[derive(Debug, Clone)]
pub struct ListInstances {
    /// Only instances of this orchestration.
    pub name: Option<OrchestrationName>,
    /// Only instances in one of these states; empty for all.
    pub states: Vec<InstanceState>,
    /// Only suspended instances, or only those that are not.
    pub suspended: Option<bool>,
    /// Only instances whose id begins with this prefix.
    pub id_prefix: Option<String>,
    /// Only children of this instance.
    pub parent: Option<InstanceId>,
    /// Only instances created at or after this time.
    pub created_from: Option<Timestamp>,
    /// Only instances created before this time.
    pub created_before: Option<Timestamp>,
    /// Only instances after this one in the list: where the previous page ended.
    pub after: Option<(Timestamp, InstanceId)>,
    /// The maximum number of instances to return.
    pub limit: u32,
}

impl Default for ListInstances {
    fn default() -> Self {
        Self {
            name: None,
            states: Vec::new(),
            suspended: None,
            id_prefix: None,
            parent: None,
            created_from: None,
            created_before: None,
            after: None,
            limit: 100,
        }
    }
}

/// A page of instances, newest first, by (creation, id) descending.
#[derive(Debug, Clone, Default)]
pub struct ListedInstances {
    /// The instances of this page.
    pub instances: Vec<InstanceDetail>,
    /// What to pass as `after` for the next page; `None` if this was the last one.
    pub next: Option<(Timestamp, InstanceId)>,
}

/// The amount of data that an instance holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InstanceStats {
    /// The number of events of the current execution.
    pub events: u64,
    /// The size of these events as stored, in bytes.
    pub history_bytes: u64,
    /// The number of messages in its mailbox, visible or not.
    pub messages: u64,
    /// The number of activities that wait or run.
    pub work: u64,
    /// The number of keys with a value.
    pub kv_keys: u64,
    /// The total size of the values in bytes.
    pub kv_bytes: u64,
}

/// How much work waits in the whole store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowDepths {
    /// The number of messages in all mailboxes.
    pub messages: u64,
    /// The number of activities that wait for a worker.
    pub work: u64,
    /// The number of leased turns.
    pub leased_turns: u64,
    /// The number of leased activities.
    pub leased_work: u64,
    /// The number of timers and other messages that are not visible yet.
    pub delayed: u64,
    /// The number of instances by state, in the order of [`InstanceState::ALL`].
    pub instances: [u64; 7],
    /// The number of stored executions.
    pub executions: u64,
    /// The number of events of all executions.
    pub events: u64,
}

/// Read access to orchestrations.
#[async_trait]
pub trait FlowReader: Send + Sync {
    /// An instance with its current state, or that it does not exist.
    async fn instance(&self, instance: &InstanceId) -> Result<Watched, StoreError>;

    /// The payloads of messages in an instance's mailbox that may begin an execution, in order. A
    /// pending instance begins with the first one.
    async fn waiting_starts(&self, instance: &InstanceId) -> Result<Vec<Bytes>, StoreError>;

    /// Like [`FlowReader::instance`] for several instances, but first records that a client is
    /// waiting, so that the next change of outcome, status text or key-value state is published to
    /// all processes.
    async fn watch(&self, instances: Vec<InstanceId>) -> Result<Vec<Watched>, StoreError>;

    /// A page of the history of an execution (the current one if `None`) from an event on: at least
    /// one batch if there is any, and about `bytes_max` bytes at most.
    async fn history(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
        from_event: u64,
        bytes_max: usize,
    ) -> Result<HistoryPage, StoreError>;

    /// The executions of an instance, oldest first.
    async fn executions(&self, instance: &InstanceId) -> Result<Vec<ExecutionDetail>, StoreError>;

    /// The current key-value state, ordered by key, or the entry of one key.
    async fn kv(
        &self,
        instance: &InstanceId,
        key: Option<&KvKey>,
    ) -> Result<Vec<KvEntry>, StoreError>;

    /// A page of instances, newest first.
    async fn list_instances(&self, filter: ListInstances) -> Result<ListedInstances, StoreError>;

    /// An instance and all its descendants, parents before children.
    async fn tree(&self, instance: &InstanceId) -> Result<Vec<InstanceId>, StoreError>;

    /// The amount of data that an instance holds; `None` if it does not exist.
    async fn stats(&self, instance: &InstanceId) -> Result<Option<InstanceStats>, StoreError>;

    /// How much work waits in the whole store.
    async fn depths(&self) -> Result<FlowDepths, StoreError>;
}
