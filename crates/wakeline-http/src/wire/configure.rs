//! Configuration of queues.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_core::PartitionId;
use wakeline_store::QueueDetail;

use super::options::{OptionsAnswer, OptionsBody};

/// A queue to make or change.
#[derive(Deserialize, ToSchema)]
pub(crate) struct ConfigureBody {
    /// The queue.
    pub(crate) queue: Option<String>,
    /// Its namespace; stays as it is if omitted.
    pub(crate) namespace: Option<String>,
    /// Its task; stays as it is if omitted.
    pub(crate) task: Option<String>,
    /// Its options; omitted ones go back to their defaults.
    pub(crate) options: Option<OptionsBody>,
}

/// What to change of a queue.
#[derive(Deserialize, ToSchema)]
pub(crate) struct PatchBody {
    /// Its namespace; stays as it is if omitted.
    pub(crate) namespace: Option<String>,
    /// Its task; stays as it is if omitted.
    pub(crate) task: Option<String>,
    /// Options to change; omitted ones stay as they are.
    pub(crate) options: Option<OptionsBody>,
}

/// A queue with its options in force.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigureAnswer {
    configured: bool,
    queue_id: String,
    /// The id of the partition `Default`.
    partition_id: String,
    queue: String,
    namespace: Option<String>,
    task: Option<String>,
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
