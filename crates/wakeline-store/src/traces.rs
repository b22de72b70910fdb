//! Traces: what consumers note on messages while they work on them.

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    GroupName, PartitionId, PartitionName, QueueName, Timestamp, TraceName, TransactionId,
};

use crate::dead::Page;
use crate::error::StoreError;
use crate::messages::MessageKey;

/// Most traces of a message.
pub const TRACES_PER_MESSAGE_MAX: u32 = 1_000;

/// Most names of a trace.
pub const TRACE_NAMES_MAX: usize = 16;

/// Most bytes of a trace's data.
pub const TRACE_DATA_BYTES_MAX: usize = 64 * 1024;

/// A trace to store.
#[derive(Debug, Clone)]
pub struct NewTrace {
    /// Its id, made by the node.
    pub id: Uuid,
    /// The message that it is noted on.
    pub message: MessageKey,
    /// What kind of thing happened.
    pub event_type: String,
    /// On whose behalf.
    pub group: GroupName,
    /// Who noted it.
    pub worker: Option<String>,
    /// Under what it can be found; each once.
    pub names: Vec<TraceName>,
    /// JSON text.
    pub data: Bytes,
}

/// What became of a new trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traced {
    /// Stored.
    Done,
    /// There is no such message.
    Missing,
    /// The message has [`TRACES_PER_MESSAGE_MAX`].
    TooMany,
}

/// A trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Its id.
    pub id: Uuid,
    /// What kind of thing happened.
    pub event_type: String,
    /// On whose behalf.
    pub group: GroupName,
    /// Who noted it.
    pub worker: Option<String>,
    /// Under what it can be found, in the order of the alphabet.
    pub names: Vec<TraceName>,
    /// JSON text.
    pub data: Bytes,
    /// When it was stored.
    pub created_at: Timestamp,
}

/// A trace and the message that it is noted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTrace {
    /// The trace.
    pub trace: Trace,
    /// The queue.
    pub queue: QueueName,
    /// The partition.
    pub partition: PartitionName,
    /// The partition's id.
    pub partition_id: PartitionId,
    /// The message.
    pub transaction_id: TransactionId,
    /// Its payload, JSON text.
    pub payload: Bytes,
}

/// A page of the traces of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedTraces {
    /// The newest first.
    pub traces: Vec<NamedTrace>,
    /// How many there are on all pages.
    pub total: u64,
}

/// A name of traces, and what has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceNameDetail {
    /// The name.
    pub name: TraceName,
    /// Traces of this name.
    pub traces: u64,
    /// Messages that they are noted on.
    pub messages: u64,
    /// When the newest was stored.
    pub last_seen: Timestamp,
}

/// A page of names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceNames {
    /// Those used last first.
    pub names: Vec<TraceNameDetail>,
    /// How many there are on all pages.
    pub total: u64,
}

/// Traces of messages. They go with their message.
#[async_trait]
pub trait QueueTraces: Send + Sync {
    /// Notes something on a message. In an encrypted queue its data are stored sealed.
    async fn add_trace(&self, trace: NewTrace) -> Result<Traced, StoreError>;

    /// The traces of a message, the oldest first.
    async fn traces(&self, message: MessageKey) -> Result<Vec<Trace>, StoreError>;

    /// The traces of a name.
    async fn traces_named(&self, name: &TraceName, page: Page) -> Result<NamedTraces, StoreError>;

    /// The names of traces.
    async fn trace_names(&self, page: Page) -> Result<TraceNames, StoreError>;
}
