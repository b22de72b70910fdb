//! Wire types of partitions, and of clearing queues.

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_store::PartitionDetail;

use crate::render;

/// The result of clearing a queue or a partition.
#[derive(Serialize, ToSchema)]
pub(crate) struct ClearedAnswer {
    /// Always true.
    pub(crate) success: bool,
    /// The name of the queue.
    pub(crate) queue: String,
    /// The number of messages that were deleted.
    pub(crate) cleared: u64,
}

/// The result of deleting a partition.
#[derive(Serialize, ToSchema)]
pub(crate) struct PartitionDeletedAnswer {
    /// The name of the queue.
    pub(crate) queue: String,
    /// The name of the partition.
    pub(crate) partition: String,
    /// Always true.
    pub(crate) deleted: bool,
    /// Whether the partition existed before.
    pub(crate) existed: bool,
}

/// A partition.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartitionAnswer {
    /// The id of the partition.
    id: String,
    /// The name of the partition.
    name: String,
    /// The name of the queue.
    queue: String,
    /// The namespace of the queue.
    namespace: Option<String>,
    /// The task of the queue.
    task: Option<String>,
    /// The number of messages that were ever pushed to the partition.
    total_messages: u64,
    /// When the last message was pushed.
    last_activity: Option<String>,
}

impl From<PartitionDetail> for PartitionAnswer {
    fn from(partition: PartitionDetail) -> Self {
        Self {
            id: partition.partition_id.to_string(),
            name: partition.partition.into(),
            queue: partition.queue.into(),
            namespace: partition.namespace.map(Into::into),
            task: partition.task.map(Into::into),
            total_messages: partition.end,
            last_activity: partition.last_push_at.map(render::time),
        }
    }
}

/// A page of partitions.
#[derive(Serialize, ToSchema)]
pub(crate) struct PartitionsAnswer {
    /// The partitions in the order of their creation.
    pub(crate) partitions: Vec<PartitionAnswer>,
}
