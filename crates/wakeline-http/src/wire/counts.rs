//! Wire types of queues and partitions with their message counts.

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_core::{PartitionId, QueueOptions};
use wakeline_store::{MessageCounts, PartitionCounts, QueueCounts, QueueDetail};

use super::configure::ConfigureAnswer;
use crate::access::permit::ListWindow;
use crate::render;

/// Message counts in short form.
#[derive(Serialize, ToSchema)]
pub(crate) struct ShortCounts {
    /// The number of messages that were ever pushed.
    total: u64,
    /// The number of messages that wait for their first delivery or for a retry.
    pending: u64,
    /// The number of messages that are leased and not settled.
    processing: u64,
}

/// Message counts. A partition is counted by the state of the group that is furthest behind in it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageCountsAnswer {
    /// The number of messages that were ever pushed.
    total: u64,
    /// The number of messages that wait for their first delivery or for a retry.
    pending: u64,
    /// The number of messages that are leased and not settled.
    processing: u64,
    /// The number of messages that were settled, skipped or removed.
    completed: u64,
    /// The number of pending messages that were delivered before.
    failed: u64,
    /// The number of stored dead letters of all groups.
    dead_letter: u64,
}

/// Message counts, with the messages that groups lost because of limits of the queue.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TotalsAnswer {
    #[serde(flatten)]
    messages: MessageCountsAnswer,
    /// The number of messages that exceeded `ttl`, or that retention removed before they were
    /// settled.
    expired: u64,
    /// The number of messages that waited longer than `maxWaitTimeSeconds`.
    evicted: u64,
    /// The number of messages that exceeded the retry limit of a queue without dead letters.
    dropped: u64,
}

impl From<MessageCounts> for ShortCounts {
    fn from(counts: MessageCounts) -> Self {
        let MessageCounts { total, pending, processing, .. } = counts;
        Self { total, pending, processing }
    }
}

impl From<MessageCounts> for MessageCountsAnswer {
    fn from(counts: MessageCounts) -> Self {
        Self {
            total: counts.total,
            pending: counts.pending,
            processing: counts.processing,
            completed: counts.completed(),
            failed: counts.retrying,
            dead_letter: counts.dead_letters,
        }
    }
}

impl From<&QueueCounts> for TotalsAnswer {
    fn from(queue: &QueueCounts) -> Self {
        let messages = queue.messages.into();
        let wakeline_store::Losses { expired, evicted, dropped } = queue.losses;
        Self { messages, expired, evicted, dropped }
    }
}

/// A queue in a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueAnswer {
    /// The id of the queue.
    id: String,
    /// The name of the queue.
    name: String,
    /// The namespace of the queue.
    namespace: Option<String>,
    /// The task of the queue.
    task: Option<String>,
    /// The number of partitions.
    partitions: u64,
    /// The message counts.
    messages: ShortCounts,
    /// When the queue was created.
    created_at: String,
}

impl From<QueueCounts> for QueueAnswer {
    fn from(queue: QueueCounts) -> Self {
        Self {
            id: PartitionId(queue.id).to_string(),
            name: queue.queue.into(),
            namespace: queue.namespace.map(Into::into),
            task: queue.task.map(Into::into),
            partitions: queue.partitions,
            messages: queue.messages.into(),
            created_at: render::time(queue.created_at),
        }
    }
}

/// The window of a list that a page shows.
#[derive(Serialize, ToSchema)]
#[schema(as = PartAnswer)]
pub(crate) struct WindowAnswer {
    /// The maximum number of items of the page.
    limit: u32,
    /// The number of items before the page.
    offset: u32,
}

impl From<ListWindow> for WindowAnswer {
    fn from(window: ListWindow) -> Self {
        Self { limit: window.limit, offset: window.offset }
    }
}

/// A page of queues.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueuesAnswer {
    /// The queues, ordered by name.
    pub(crate) queues: Vec<QueueAnswer>,
    /// The window of the list that this page shows.
    pub(crate) pagination: WindowAnswer,
}

/// A partition with its message counts.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartitionCountsAnswer {
    /// The id of the partition.
    id: String,
    /// The name of the partition.
    name: String,
    /// Always null: the time is not stored.
    created_at: Option<String>,
    /// The message counts.
    stats: MessageCountsAnswer,
    /// When the oldest stored message was pushed.
    oldest_message: Option<String>,
    /// When the last message was pushed.
    newest_message: Option<String>,
}

impl From<PartitionCounts> for PartitionCountsAnswer {
    fn from(one: PartitionCounts) -> Self {
        Self {
            id: one.partition_id.to_string(),
            name: one.partition.into(),
            created_at: None,
            stats: one.messages.into(),
            oldest_message: one.oldest_at.map(render::time),
            newest_message: one.last_push_at.map(render::time),
        }
    }
}

/// A queue with its options, its message counts, and a page of its partitions.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueDetailAnswer {
    /// The id of the queue.
    id: String,
    /// The name of the queue.
    name: String,
    /// When the queue was created.
    created_at: String,
    /// The message counts of the queue.
    totals: TotalsAnswer,
    /// The partitions.
    partitions: Vec<PartitionCountsAnswer>,
    /// The window of the list of partitions that this page shows.
    pagination: WindowAnswer,
    #[serde(flatten)]
    configured: ConfigureAnswer,
}

/// A queue and a page of its partitions, as read from the store.
pub(crate) struct QueueWithPartitions {
    pub(crate) detail: QueueDetail,
    pub(crate) counts: QueueCounts,
    pub(crate) partitions: Vec<PartitionCounts>,
    pub(crate) window: ListWindow,
}

impl From<QueueWithPartitions> for QueueDetailAnswer {
    fn from(queue: QueueWithPartitions) -> Self {
        let QueueWithPartitions { detail, counts, partitions, window } = queue;
        Self {
            id: PartitionId(counts.id).to_string(),
            name: counts.queue.to_string(),
            created_at: render::time(counts.created_at),
            totals: (&counts).into(),
            partitions: partitions.into_iter().map(Into::into).collect(),
            pagination: window.into(),
            configured: detail.into(),
        }
    }
}

/// The options of a queue that dashboards show.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ShortOptions {
    /// The length of a lease in seconds.
    lease_time: u32,
    /// The number of failures after which the next one makes a message a dead letter.
    retry_limit: u32,
    /// The delay of the first retry in milliseconds.
    retry_delay: u64,
    /// Seconds after which a message is no longer delivered; 0 for never.
    ttl: u32,
    /// The maximum number of unsettled messages; 0 for no limit.
    max_queue_size: u64,
    /// Whether messages that exceed the retry limit are kept as dead letters.
    dead_letter_queue: bool,
}

impl From<&QueueOptions> for ShortOptions {
    fn from(options: &QueueOptions) -> Self {
        Self {
            lease_time: options.lease_secs,
            retry_limit: options.retry_limit,
            retry_delay: options.retry_delay_ms,
            ttl: options.ttl_secs,
            max_queue_size: options.len_max,
            dead_letter_queue: options.dead_letters,
        }
    }
}

/// A queue as dashboards show it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct QueueHead {
    /// The id of the queue.
    id: String,
    /// The name of the queue.
    name: String,
    /// The namespace of the queue.
    namespace: Option<String>,
    /// The task of the queue.
    task: Option<String>,
    /// The priority of the queue in pops over several queues.
    priority: i32,
    /// When the queue was created.
    created_at: String,
    /// The options of the queue.
    config: ShortOptions,
}

/// The progress of consumers in a partition.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct CursorAnswer {
    /// The number of messages that are neither pending nor processing.
    total_consumed: u64,
    /// Always null: the number is not stored.
    batches_consumed: Option<u64>,
}

/// A partition as dashboards show it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PartitionStatus {
    #[serde(flatten)]
    partition: PartitionCountsAnswer,
    /// The message counts in short form.
    messages: ShortCounts,
    /// The progress of consumers.
    cursor: CursorAnswer,
    /// When the last message was pushed.
    last_activity: Option<String>,
}

/// A queue with its message counts and a page of its partitions, as dashboards show it.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueueStatusAnswer {
    /// The queue.
    queue: QueueHead,
    /// The message counts of the queue.
    totals: TotalsAnswer,
    /// The partitions.
    partitions: Vec<PartitionStatus>,
    /// The window of the list of partitions that this page shows.
    pagination: WindowAnswer,
}

impl From<QueueWithPartitions> for QueueStatusAnswer {
    fn from(queue: QueueWithPartitions) -> Self {
        let QueueWithPartitions { detail, counts, partitions, window } = queue;
        let status = |one: PartitionCounts| {
            let MessageCounts { total, pending, processing, .. } = one.messages;
            let total_consumed = total.saturating_sub(pending + processing);
            PartitionStatus {
                messages: one.messages.into(),
                cursor: CursorAnswer { total_consumed, batches_consumed: None },
                last_activity: one.last_push_at.map(render::time),
                partition: one.into(),
            }
        };
        Self {
            totals: (&counts).into(),
            queue: QueueHead {
                id: PartitionId(counts.id).to_string(),
                name: counts.queue.into(),
                namespace: counts.namespace.map(Into::into),
                task: counts.task.map(Into::into),
                priority: counts.priority,
                created_at: render::time(counts.created_at),
                config: (&detail.options).into(),
            },
            partitions: partitions.into_iter().map(status).collect(),
            pagination: window.into(),
        }
    }
}
