//! How queues and partitions stand, in numbers.

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_core::{PartitionId, QueueOptions};
use wakeline_store::{PartitionTally, QueueDetail, QueueTally, Tally};

use super::configure::ConfigureAnswer;
use crate::access::permit::Part;
use crate::render;

/// How messages stand, in short.
#[derive(Serialize, ToSchema)]
pub(crate) struct ShortTally {
    /// Messages that were ever pushed.
    total: u64,
    /// Not delivered yet, or waiting to be delivered again.
    pending: u64,
    /// Delivered under a live lease, not settled.
    processing: u64,
}

/// How messages stand. A partition stands as its group does that is furthest behind in it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TallyAnswer {
    /// Messages that were ever pushed.
    total: u64,
    /// Not delivered yet, or waiting to be delivered again.
    pending: u64,
    /// Delivered under a live lease, not settled.
    processing: u64,
    /// Done with: settled, passed over or removed.
    completed: u64,
    /// Of those pending, such that were delivered before.
    failed: u64,
    /// Dead letters that are stored, of all groups.
    dead_letter: u64,
}

/// The same, with what groups lost to the limits of a queue's owner.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TotalsAnswer {
    #[serde(flatten)]
    tally: TallyAnswer,
    /// Older than `ttl`, or removed by retention before they were settled.
    expired: u64,
    /// Waited longer than `maxWaitTimeSeconds`.
    evicted: u64,
    /// Used up their tries while the queue keeps no dead letters.
    dropped: u64,
}

impl From<Tally> for ShortTally {
    fn from(tally: Tally) -> Self {
        let Tally { total, pending, processing, .. } = tally;
        Self { total, pending, processing }
    }
}

impl From<Tally> for TallyAnswer {
    fn from(tally: Tally) -> Self {
        Self {
            total: tally.total,
            pending: tally.pending,
            processing: tally.processing,
            completed: tally.completed(),
            failed: tally.retrying,
            dead_letter: tally.dead_letters,
        }
    }
}

impl From<&QueueTally> for TotalsAnswer {
    fn from(queue: &QueueTally) -> Self {
        let tally = queue.tally.into();
        let wakeline_store::Losses { expired, evicted, dropped } = queue.losses;
        Self { tally, expired, evicted, dropped }
    }
}

/// A queue in a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueAnswer {
    id: String,
    name: String,
    namespace: Option<String>,
    task: Option<String>,
    /// How many it has.
    partitions: u64,
    messages: ShortTally,
    created_at: String,
}

impl From<QueueTally> for QueueAnswer {
    fn from(queue: QueueTally) -> Self {
        Self {
            id: PartitionId(queue.id).to_string(),
            name: queue.queue.into(),
            namespace: queue.namespace.map(Into::into),
            task: queue.task.map(Into::into),
            partitions: queue.partitions,
            messages: queue.tally.into(),
            created_at: render::time(queue.created_at),
        }
    }
}

/// Which part of a list this is.
#[derive(Serialize, ToSchema)]
pub(crate) struct PartAnswer {
    limit: u32,
    offset: u32,
}

impl From<Part> for PartAnswer {
    fn from(part: Part) -> Self {
        Self { limit: part.limit, offset: part.offset }
    }
}

/// Queues, by name.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueuesAnswer {
    pub(crate) queues: Vec<QueueAnswer>,
    pub(crate) pagination: PartAnswer,
}

/// A partition and how it stands.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartitionTallyAnswer {
    id: String,
    name: String,
    /// Always null: it is not kept.
    created_at: Option<String>,
    stats: TallyAnswer,
    /// When the oldest message that is stored was pushed.
    oldest_message: Option<String>,
    /// When the last message was pushed.
    newest_message: Option<String>,
}

impl From<PartitionTally> for PartitionTallyAnswer {
    fn from(one: PartitionTally) -> Self {
        Self {
            id: one.partition_id.to_string(),
            name: one.partition.into(),
            created_at: None,
            stats: one.tally.into(),
            oldest_message: one.oldest_at.map(render::time),
            newest_message: one.last_push_at.map(render::time),
        }
    }
}

/// A queue: its options, how it stands, and some of its partitions.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueDetailAnswer {
    id: String,
    name: String,
    created_at: String,
    totals: TotalsAnswer,
    partitions: Vec<PartitionTallyAnswer>,
    pagination: PartAnswer,
    #[serde(flatten)]
    configured: ConfigureAnswer,
}

/// All that is told of a queue.
pub(crate) struct WholeQueue {
    pub(crate) detail: QueueDetail,
    pub(crate) tally: QueueTally,
    pub(crate) partitions: Vec<PartitionTally>,
    pub(crate) part: Part,
}

impl From<WholeQueue> for QueueDetailAnswer {
    fn from(whole: WholeQueue) -> Self {
        let WholeQueue { detail, tally, partitions, part } = whole;
        Self {
            id: PartitionId(tally.id).to_string(),
            name: tally.queue.to_string(),
            created_at: render::time(tally.created_at),
            totals: (&tally).into(),
            partitions: partitions.into_iter().map(Into::into).collect(),
            pagination: part.into(),
            configured: detail.into(),
        }
    }
}

/// A queue's options that a dashboard shows.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ShortOptions {
    lease_time: u32,
    retry_limit: u32,
    retry_delay: u64,
    ttl: u32,
    max_queue_size: u64,
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

/// A queue, as a dashboard shows it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct QueueHead {
    id: String,
    name: String,
    namespace: Option<String>,
    task: Option<String>,
    priority: i32,
    created_at: String,
    config: ShortOptions,
}

/// How far a partition was read.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct CursorAnswer {
    /// Messages that are neither pending nor processing.
    total_consumed: u64,
    /// Always null: it is not kept.
    batches_consumed: Option<u64>,
}

/// A partition, as a dashboard shows it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PartitionStatus {
    #[serde(flatten)]
    partition: PartitionTallyAnswer,
    messages: ShortTally,
    cursor: CursorAnswer,
    /// When the last message was pushed.
    last_activity: Option<String>,
}

/// A queue and how it stands, as a dashboard shows it.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueueStatusAnswer {
    queue: QueueHead,
    totals: TotalsAnswer,
    partitions: Vec<PartitionStatus>,
    pagination: PartAnswer,
}

impl From<WholeQueue> for QueueStatusAnswer {
    fn from(whole: WholeQueue) -> Self {
        let WholeQueue { detail, tally, partitions, part } = whole;
        let status = |one: PartitionTally| {
            let Tally { total, pending, processing, .. } = one.tally;
            let total_consumed = total.saturating_sub(pending + processing);
            PartitionStatus {
                messages: one.tally.into(),
                cursor: CursorAnswer { total_consumed, batches_consumed: None },
                last_activity: one.last_push_at.map(render::time),
                partition: one.into(),
            }
        };
        Self {
            totals: (&tally).into(),
            queue: QueueHead {
                id: PartitionId(tally.id).to_string(),
                name: tally.queue.into(),
                namespace: tally.namespace.map(Into::into),
                task: tally.task.map(Into::into),
                priority: tally.priority,
                created_at: render::time(tally.created_at),
                config: (&detail.options).into(),
            },
            partitions: partitions.into_iter().map(status).collect(),
            pagination: part.into(),
        }
    }
}
