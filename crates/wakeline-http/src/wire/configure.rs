//! Wire types for configuring queues.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_core::PartitionId;
use wakeline_store::QueueDetail;

use super::options::{OptionsAnswer, OptionsBody};

/// A queue to create or change.
#[derive(Deserialize, ToSchema)]
pub(crate) struct ConfigureBody {
    /// The name of the queue.
    pub(crate) queue: Option<String>,
    /// The namespace of the queue; not changed if omitted.
    pub(crate) namespace: Option<String>,
    /// The task of the queue; not changed if omitted.
    pub(crate) task: Option<String>,
    /// The options of the queue. Omitted options are reset to their defaults.
    pub(crate) options: Option<OptionsBody>,
}

/// Changes to a queue.
#[derive(Deserialize, ToSchema)]
pub(crate) struct PatchBody {
    /// The namespace of the queue; not changed if omitted.
    pub(crate) namespace: Option<String>,
    /// The task of the queue; not changed if omitted.
    pub(crate) task: Option<String>,
    /// The options to change. Omitted options keep their values.
    pub(crate) options: Option<OptionsBody>,
}

/// A queue with its effective options.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigureAnswer {
    /// Always true.
    configured: bool,
    /// The id of the queue.
    queue_id: String,
    /// The id of the partition `Default`.
    partition_id: String,
    /// The name of the queue.
    queue: String,
    /// The namespace of the queue.
    namespace: Option<String>,
    /// The task of the queue.
    task: Option<String>,
    /// The effective options of the queue.
    options: OptionsAnswer,
}

impl From<QueueDetail> for ConfigureAnswer {
    fn from(detail: QueueDetail) -> Self {
        Self {
            configured: true,
            queue_id: PartitionId(detail.id).to_string(),
            partition_id: detail.default_partition.to_string(),
            queue: detail.queue.into(),
            namespace: detail.namespace.map(Into::into),
            task: detail.task.map(Into::into),
            options: detail.options.into(),
        }
    }
}
