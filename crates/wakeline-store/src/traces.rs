//! Traces: notes that consumers attach to messages while they process them.

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    GroupName, PartitionId, PartitionName, QueueName, Timestamp, TraceName, TransactionId,
};

use crate::dead::Page;
use crate::error::StoreError;
use crate::messages::MessageKey;

/// The maximum number of traces of a message.
pub const TRACES_PER_MESSAGE_MAX: u32 = 1_000;

/// The maximum number of names of a trace.
pub const TRACE_NAMES_MAX: usize = 16;

/// The maximum size of a trace's data, in bytes.
pub const TRACE_DATA_BYTES_MAX: usize = 64 * 1024;

/// A trace to store.
#[derive(Debug, Clone)]
pub struct NewTrace {
    /// The trace's id, chosen by the node.
    pub id: Uuid,
    /// The message that the trace is attached to.
    pub message: MessageKey,
    /// The type of the event that the consumer reports.
    pub event_type: String,
    /// The group that the consumer belongs to.
    pub group: GroupName,
    /// The worker that added the trace, if it gave a name.
    pub worker: Option<String>,
    /// The names by which the trace can be found, without repetitions.
    pub names: Vec<TraceName>,
    /// The data as JSON text.
    pub data: Bytes,
}

/// The outcome of adding a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddTraceOutcome {
    /// The trace was stored.
    Done,
    /// The message does not exist.
    Missing,
    /// The message already has [`TRACES_PER_MESSAGE_MAX`] traces.
    TooMany,
}

/// A trace of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The trace's id.
    pub id: Uuid,
    /// The type of the event that the consumer reported.
    pub event_type: String,
    /// The group that the consumer belongs to.
    pub group: GroupName,
    /// The worker that added the trace, if it gave a name.
    pub worker: Option<String>,
    /// The names by which the trace can be found, in alphabetical order.
    pub names: Vec<TraceName>,
    /// The data as JSON text.
    pub data: Bytes,
    /// When the trace was stored.
    pub created_at: Timestamp,
}

/// A trace together with its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTrace {
    /// The trace.
    pub trace: Trace,
    /// The queue that holds the message.
    pub queue: QueueName,
    /// The name of the partition that holds the message.
    pub partition: PartitionName,
    /// The id of the partition.
    pub partition_id: PartitionId,
    /// The transaction id of the message.
    pub transaction_id: TransactionId,
    /// The message's payload as JSON text.
    pub payload: Bytes,
}

/// A page of the traces with a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedTraces {
    /// The traces of this page, newest first.
    pub traces: Vec<NamedTrace>,
    /// The number of traces on all pages.
    pub total: u64,
}

/// A trace name and how often it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceNameDetail {
    /// The name.
    pub name: TraceName,
    /// The number of traces with this name.
    pub traces: u64,
    /// The number of messages with such a trace.
    pub messages: u64,
    /// When the newest trace with this name was stored.
    pub last_seen: Timestamp,
}

/// A page of trace names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceNames {
    /// The names of this page, most recently used first.
    pub names: Vec<TraceNameDetail>,
    /// The number of names on all pages.
    pub total: u64,
}

/// Traces of messages. They are removed together with their message.
#[async_trait]
pub trait QueueTraces: Send + Sync {
    /// Adds a trace to a message. In an encrypted queue the data is stored encrypted.
    async fn add_trace(&self, trace: NewTrace) -> Result<AddTraceOutcome, StoreError>;

    /// The traces of a message, oldest first.
    async fn traces(&self, message: MessageKey) -> Result<Vec<Trace>, StoreError>;

    /// A page of the traces with a name, newest first.
    async fn traces_named(&self, name: &TraceName, page: Page) -> Result<NamedTraces, StoreError>;

    /// A page of all trace names, most recently used first.
    async fn trace_names(&self, page: Page) -> Result<TraceNames, StoreError>;
}
