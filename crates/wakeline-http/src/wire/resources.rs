//! What there is beside queues: depths, namespaces, tasks, messages in short.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_store::{Depth, ListedMessage, QueueTally, Tally};

use super::messages::state_word;
use super::tally::TallyAnswer;
use crate::render;

/// What a partition has yet to settle.
#[derive(Serialize, ToSchema)]
struct PartitionDepth {
    partition: String,
    pending: u64,
}

/// How much is yet to be settled.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DepthAnswer {
    queue: String,
    group: Option<String>,
    /// Messages that are unread or unsettled; without a group, of the one furthest behind in
    /// each partition.
    pending: u64,
    partitions_pending: u64,
    /// Always false: every message is delivered.
    conflation: bool,
    /// The same as `pending`.
    effective_pending: u64,
    /// Those that have something, in the order in which they were made.
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

/// Queues that belong together.
#[derive(Default)]
pub(crate) struct Sum {
    pub(crate) queues: u64,
    pub(crate) partitions: u64,
    pub(crate) tally: Tally,
}

impl Sum {
    pub(crate) fn add(&mut self, queue: &QueueTally) {
        self.queues += 1;
        self.partitions += queue.partitions;
        self.tally.add(queue.tally);
    }
}

/// A namespace and how its queues stand.
#[derive(Serialize, ToSchema)]
pub(crate) struct NamespaceAnswer {
    /// Null: queues that have none.
    namespace: Option<String>,
    queues: u64,
    partitions: u64,
    messages: TallyAnswer,
}

/// Namespaces, by name.
#[derive(Serialize, ToSchema)]
pub(crate) struct NamespacesAnswer {
    namespaces: Vec<NamespaceAnswer>,
}

impl From<BTreeMap<Option<String>, Sum>> for NamespacesAnswer {
    fn from(sums: BTreeMap<Option<String>, Sum>) -> Self {
        let each = sums.into_iter().map(|(namespace, Sum { queues, partitions, tally })| {
            NamespaceAnswer { namespace, queues, partitions, messages: tally.into() }
        });
        Self { namespaces: each.collect() }
    }
}

/// A task and how its queues stand.
#[derive(Serialize, ToSchema)]
pub(crate) struct TaskAnswer {
    /// Null: queues that have none.
    task: Option<String>,
    queues: u64,
    partitions: u64,
    messages: TallyAnswer,
}

/// Tasks, by name.
#[derive(Serialize, ToSchema)]
pub(crate) struct TasksAnswer {
    tasks: Vec<TaskAnswer>,
}

impl From<BTreeMap<Option<String>, Sum>> for TasksAnswer {
    fn from(sums: BTreeMap<Option<String>, Sum>) -> Self {
        let each = sums.into_iter().map(|(task, Sum { queues, partitions, tally })| TaskAnswer {
            task,
            queues,
            partitions,
            messages: tally.into(),
        });
        Self { tasks: each.collect() }
    }
}

/// A message of a queue, in short.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShortMessage {
    id: String,
    transaction_id: String,
    partition_id: String,
    queue: String,
    partition: String,
    /// Queue and partition, joined by a slash, for display.
    queue_path: String,
    /// How it stands with consumers that name no group, or with the first group.
    status: &'static str,
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

/// What waits outside the store.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BuffersAnswer {
    /// Messages that were pushed during a maintenance and are delivered after it; 0 while the
    /// store does not answer.
    pub(crate) pending: u64,
    /// Always 0: a push is answered once it is in the store.
    pub(crate) failed: u64,
    /// Whether the store answers.
    pub(crate) db_healthy: bool,
    /// The number of the server's process.
    pub(crate) worker: u32,
}
