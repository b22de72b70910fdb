//! Reading instances: outcome, status, history, key-value state, lists.

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{Capability, InstanceId, KvKey, OrchestrationName, Timestamp};

use super::lane::HistoryBatch;
use crate::error::StoreError;

/// How an execution, or an instance by its current execution, stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InstanceState {
    /// An instance only: it was started and waits for its first turn.
    Pending,
    /// It goes on.
    Running,
    /// It returned a result.
    Completed,
    /// It returned an error, or was given up.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It was ended from outside, without its code.
    Terminated,
    /// An execution only: the next one took over.
    ContinuedAsNew,
}

impl InstanceState {
    /// All states.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Terminated,
        Self::ContinuedAsNew,
    ];

    /// Whether nothing follows.
    pub fn is_ended(self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::ContinuedAsNew)
    }

    /// The state as it is stored.
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

    /// The state that is stored as this text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// A value of the key-value state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    /// The key.
    pub key: KvKey,
    /// The value.
    pub value: Bytes,
    /// The execution that set it.
    pub execution: u64,
    /// When.
    pub updated_at: Timestamp,
}

/// An instance as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceDetail {
    /// Its id.
    pub instance: InstanceId,
    /// The orchestration's name. Of a pending one: what it needs, up to the first `@`.
    pub name: OrchestrationName,
    /// The version that its current execution is pinned to.
    pub version: Option<String>,
    /// What it needs.
    pub capability: Option<Capability>,
    /// How its current execution stands.
    pub state: InstanceState,
    /// Why it is held back, if it is.
    pub suspended: Option<String>,
    /// The result or the error, as the runtime encoded it.
    pub output: Option<Bytes>,
    /// The status text.
    pub status: Option<String>,
    /// Goes up with every change of the status text; 0 if it never had one.
    pub status_version: u64,
    /// Goes up with every turn that changed the key-value state; 0 if none did.
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

/// An execution as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionDetail {
    /// Its number; the first is 1.
    pub execution: u64,
    /// The version that it is pinned to.
    pub version: Option<String>,
    /// How it stands.
    pub state: InstanceState,
    /// The result or the error, as the runtime encoded it.
    pub output: Option<Bytes>,
    /// Its events.
    pub events: u64,
    /// Their bytes, as stored.
    pub history_bytes: u64,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// A piece of a history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryPage {
    /// The execution; 0 if there is none.
    pub execution: u64,
    /// Batches in order; the first may begin before what was asked for.
    pub batches: Vec<HistoryBatch>,
    /// Where to read on; `None` if this was the last piece.
    pub next: Option<u64>,
}

/// What a waiter for an outcome reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// There is no instance of this id.
    Missing,
    /// It exists, or was started and is pending.
    There(Box<InstanceDetail>),
}

/// Which instances to list. By default the newest 100.
#[derive(Debug, Clone)]
pub struct ListInstances {
    /// Only of this orchestration.
    pub name: Option<OrchestrationName>,
    /// Only in one of these states; empty for all.
    pub states: Vec<InstanceState>,
    /// Only those that are held back, or only those that are not.
    pub suspended: Option<bool>,
    /// Only those whose id begins with this.
    pub id_prefix: Option<String>,
    /// Only children of this one.
    pub parent: Option<InstanceId>,
    /// Only those created at or after.
    pub created_from: Option<Timestamp>,
    /// Only those created before.
    pub created_before: Option<Timestamp>,
    /// Only those before this one in the list: where the last page ended.
    pub after: Option<(Timestamp, InstanceId)>,
    /// At most so many.
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
    /// The instances.
    pub instances: Vec<InstanceDetail>,
    /// What to pass as `after` for the next page; `None` if this was the last one.
    pub next: Option<(Timestamp, InstanceId)>,
}

/// How much an instance holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InstanceStats {
    /// Events of the current execution.
    pub events: u64,
    /// Their bytes, as stored.
    pub history_bytes: u64,
    /// Messages in its lane, visible or not.
    pub messages: u64,
    /// Activities that wait or run.
    pub work: u64,
    /// Keys with a value.
    pub kv_keys: u64,
    /// Bytes of the values.
    pub kv_bytes: u64,
}

/// How much waits in the whole store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowDepths {
    /// Messages in lanes.
    pub messages: u64,
    /// Activities that wait.
    pub work: u64,
    /// Leased turns.
    pub leased_turns: u64,
    /// Leased activities.
    pub leased_work: u64,
    /// Timers and other messages that are not visible yet.
    pub delayed: u64,
    /// Instances by state, in the order of [`InstanceState::ALL`].
    pub instances: [u64; 7],
    /// Executions.
    pub executions: u64,
    /// Events of all executions.
    pub events: u64,
}

/// Reads of orchestrations.
#[async_trait]
pub trait FlowReader: Send + Sync {
    /// An instance as it stands, or that it is missing.
    async fn instance(&self, instance: &InstanceId) -> Result<Watched, StoreError>;

    /// The payloads of messages in an instance's lane that may begin an execution, in order: the
    /// first of a pending instance is the one that it begins with.
    async fn waiting_starts(&self, instance: &InstanceId) -> Result<Vec<Bytes>, StoreError>;

    /// Like [`FlowReader::instance`] for several, but first notes that somebody waits, so that
    /// the next change of outcome, status text or key-value state is hinted to all processes.
    async fn watch(&self, instances: Vec<InstanceId>) -> Result<Vec<Watched>, StoreError>;

    /// A piece of the history of an execution (the current one if `None`) from an event on; at
    /// least one batch if there is any, about `bytes_max` at most.
    async fn history(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
        from_event: u64,
        bytes_max: usize,
    ) -> Result<HistoryPage, StoreError>;

    /// The executions of an instance, oldest first.
    async fn executions(&self, instance: &InstanceId) -> Result<Vec<ExecutionDetail>, StoreError>;

    /// The key-value state as it stands, ordered by key; of one key if it is named.
    async fn kv(
        &self,
        instance: &InstanceId,
        key: Option<&KvKey>,
    ) -> Result<Vec<KvEntry>, StoreError>;

    /// A page of instances.
    async fn list_instances(&self, filter: ListInstances) -> Result<ListedInstances, StoreError>;

    /// An instance and all below it, parents before children.
    async fn tree(&self, instance: &InstanceId) -> Result<Vec<InstanceId>, StoreError>;

    /// How much an instance holds; `None` if there is none.
    async fn stats(&self, instance: &InstanceId) -> Result<Option<InstanceStats>, StoreError>;

    /// How much waits in the whole store.
    async fn depths(&self) -> Result<FlowDepths, StoreError>;
}
