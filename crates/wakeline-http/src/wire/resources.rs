//! Wire types of queue depths, namespaces, tasks, short messages and buffers.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_store::{Depth, ListedMessage, MessageCounts, QueueCounts};

use super::counts::MessageCountsAnswer;
use super::messages::state_word;
use crate::render;

/// The number of unsettled messages of a partition.
#[derive(Serialize, ToSchema)]
struct PartitionDepth {
    /// The name of the partition.
    partition: String,
    /// The number of unread or unsettled messages.
    pending: u64,
}

/// The number of unsettled messages of a queue.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DepthAnswer {
    /// The name of the queue.
    queue: String,
    /// The consumer group, if the request named one.
    group: Option<String>,
    /// The number of unread or unsettled messages. Without a group, those of the group furthest
    /// behind in each partition.
    pending: u64,
    /// The number of partitions with unread or unsettled messages.
    partitions_pending: u64,
    /// Always false: every message is delivered.
    conflation: bool,
    /// The same as `pending`.
    effective_pending: u64,
    /// The partitions with unread or unsettled messages, in the order of their creation.
    partitions: Vec<PartitionDepth>,
}

impl DepthAnswer {
    pub(crate) fn new(queue: String, group: Option<String>, depth: Depth) -> Self {
        let each = depth.partitions.into_iter();
        let each = each.map(|(name, pending)| PartitionDepth { partition: name.into(), pending });
        Self {
            queue,
            group,
            pending: depth.len,
            partitions_pending: depth.partitions_behind,
            conflation: false,
            effective_pending: depth.len,
            partitions: each.collect(),
        }
    }
}

/// The totals of several queues.
#[derive(Default)]
pub(crate) struct QueueSum {
    pub(crate) queues: u64,
    pub(crate) partitions: u64,
    pub(crate) messages: MessageCounts,
}

impl QueueSum {
    pub(crate) fn add(&mut self, queue: &QueueCounts) {
        self.queues += 1;
        self.partitions += queue.partitions;
        self.messages.add(queue.messages);
    }
}

/// A namespace with the total counts of its queues.
#[derive(Serialize, ToSchema)]
pub(crate) struct NamespaceAnswer {
    /// The name of the namespace; null for queues without one.
    namespace: Option<String>,
    /// The number of queues.
    queues: u64,
    /// The number of partitions.
    partitions: u64,
    /// The message counts of all queues together.
    messages: MessageCountsAnswer,
}

/// All namespaces.
#[derive(Serialize, ToSchema)]
pub(crate) struct NamespacesAnswer {
    /// The namespaces, ordered by name.
    namespaces: Vec<NamespaceAnswer>,
}

impl From<BTreeMap<Option<String>, QueueSum>> for NamespacesAnswer {
    fn from(sums: BTreeMap<Option<String>, QueueSum>) -> Self {
        let each = sums.into_iter().map(|(namespace, sum)| NamespaceAnswer {
            namespace,
            queues: sum.queues,
            partitions: sum.partitions,
            messages: sum.messages.into(),
        });
        Self { namespaces: each.collect() }
    }
}

/// A task with the total counts of its queues.
#[derive(Serialize, ToSchema)]
pub(crate) struct TaskAnswer {
    /// The name of the task; null for queues without one.
    task: Option<String>,
    /// The number of queues.
    queues: u64,
    /// The number of partitions.
    partitions: u64,
    /// The message counts of all queues together.
    messages: MessageCountsAnswer,
}

/// All tasks.
#[derive(Serialize, ToSchema)]
pub(crate) struct TasksAnswer {
    /// The tasks, ordered by name.
    tasks: Vec<TaskAnswer>,
}

impl From<BTreeMap<Option<String>, QueueSum>> for TasksAnswer {
    fn from(sums: BTreeMap<Option<String>, QueueSum>) -> Self {
        let each = sums.into_iter().map(|(task, sum)| TaskAnswer {
            task,
            queues: sum.queues,
            partitions: sum.partitions,
            messages: sum.messages.into(),
        });
        Self { tasks: each.collect() }
    }
}

/// The short form of a message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShortMessage {
    /// The id of the message.
    id: String,
    /// The transaction id of the message.
    transaction_id: String,
    /// The id of the partition.
    partition_id: String,
    /// The name of the queue.
    queue: String,
    /// The name of the partition.
    partition: String,
    /// Queue and partition, joined by a slash, for display.
    queue_path: String,
    /// The state for consumers that name no group. If there are none, the state in the first group.
    status: &'static str,
    /// When the message was pushed.
    created_at: String,
}

impl From<ListedMessage> for ShortMessage {
    fn from(message: ListedMessage) -> Self {
        Self {
            id: message.id.to_string(),
            transaction_id: message.transaction_id.to_string(),
            partition_id: message.partition_id.to_string(),
            queue_path: format!("{}/{}", message.queue, message.partition),
            status: state_word(message.state()),
            queue: message.queue.into(),
            partition: message.partition.into(),
            created_at: render::time(message.created_at),
        }
    }
}

/// The messages that are buffered because of maintenance.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BuffersAnswer {
    /// The number of messages that were pushed during maintenance and not delivered yet; 0 if the
    /// store is unreachable.
    pub(crate) pending: u64,
    /// Always 0: a push succeeds only once it is in the store.
    pub(crate) failed: u64,
    /// Whether the store is reachable.
    pub(crate) db_healthy: bool,
    /// The process id of the server.
    pub(crate) worker: u32,
}
