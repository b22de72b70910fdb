//! Wire types of consumer groups.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_core::Subscription;
use wakeline_store::{GroupDetail, GroupPartition};

use crate::render;

/// A consumer group of one queue.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupAnswer {
    /// The name of the group.
    name: String,
    /// A list that contains only the queue.
    topics: Vec<String>,
    /// The name of the queue.
    queue_name: String,
    /// The number of partitions that the group reads. The number of its consumers is not known.
    partition_count: u64,
    /// The number of partitions with unread or unsettled messages.
    partitions_with_lag: u64,
    /// The number of unread or unsettled messages.
    total_lag: u64,
    /// The age in seconds of the oldest unread or unsettled message.
    max_time_lag: u64,
    /// The number of partitions that the group has leased.
    leases: u64,
    /// `Stable`, `Lagging`, or `Dead` if it lags and holds no lease.
    state: &'static str,
    /// `all`, `new` or `timestamp`.
    subscription_mode: &'static str,
    /// The time at which a subscription by time begins.
    subscription_timestamp: Option<String>,
    /// When the group first polled the queue.
    subscription_created_at: String,
    /// When consumers last polled or waited, accurate to about an hour.
    last_polled_at: String,
    /// Whether no consumer has polled for `groupIdleSeconds`. An idle group does not count in the
    /// queue's capacity and does not keep completed messages from being removed, unless all groups
    /// of the queue are idle.
    idle: bool,
    /// Since when the group has been idle.
    idle_since: Option<String>,
}

impl From<GroupDetail> for GroupAnswer {
    fn from(group: GroupDetail) -> Self {
        let (mode, from) = match group.subscription {
            Subscription::All => ("all", None),
            Subscription::New => ("new", None),
            Subscription::From(time) => ("timestamp", Some(render::time(time))),
        };
        let state = match (group.lag, group.leases) {
            (0, _) => "Stable",
            (_, 0) => "Dead",
            _ => "Lagging",
        };
        Self {
            name: group.group.into(),
            topics: vec![group.queue.to_string()],
            queue_name: group.queue.into(),
            partition_count: group.partitions,
            partitions_with_lag: group.partitions_behind,
            total_lag: group.lag,
            max_time_lag: group.behind.as_secs(),
            leases: group.leases,
            state,
            subscription_mode: mode,
            subscription_timestamp: from,
            subscription_created_at: render::time(group.created_at),
            last_polled_at: render::time(group.polled_at),
            idle: group.idle_since.is_some(),
            idle_since: group.idle_since.map(render::time),
        }
    }
}

/// A consumer group in one queue, with its partitions.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupInQueueAnswer {
    #[serde(flatten)]
    group: GroupAnswer,
    /// The partitions, ordered by name.
    partitions: Vec<GroupPartitionAnswer>,
}

/// A consumer group in one partition.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GroupPartitionAnswer {
    /// The name of the partition.
    partition: String,
    /// The id of the partition.
    partition_id: String,
    /// The consumer that last popped messages: its `workerId`, or the name of its key or token.
    worker_id: Option<String>,
    /// When consumers last popped messages.
    last_consumed_at: Option<String>,
    /// The number of messages that the group has read or skipped.
    total_consumed: u64,
    /// The number of unread or unsettled messages.
    offset_lag: u64,
    /// The age in seconds of the oldest unread or unsettled message.
    time_lag_seconds: u64,
    /// When the oldest unread or unsettled message was pushed.
    oldest_unconsumed_at: Option<String>,
    /// Whether the group has leased the partition.
    lease_active: bool,
    /// When the lease ends.
    lease_expires_at: Option<String>,
}

/// Combines the queues of a group with their partitions, by the name of the queue. A queue without
/// listed partitions has an empty list.
pub(crate) fn by_queue(
    groups: Vec<GroupDetail>,
    partitions: Vec<GroupPartition>,
) -> BTreeMap<String, GroupInQueueAnswer> {
    let mut queues: BTreeMap<String, GroupInQueueAnswer> = (groups.into_iter())
        .map(|group| {
            let name = group.queue.to_string();
            (name, GroupInQueueAnswer { group: group.into(), partitions: Vec::new() })
        })
        .collect();
    for one in partitions {
        // A group that was created after the groups were read is left out.
        if let Some(queue) = queues.get_mut(one.queue.as_str()) {
            queue.partitions.push(one.into());
        }
    }
    queues
}

impl From<GroupPartition> for GroupPartitionAnswer {
    fn from(one: GroupPartition) -> Self {
        Self {
            partition: one.partition.into(),
            partition_id: one.partition_id.to_string(),
            worker_id: one.taken_by,
            last_consumed_at: one.taken_at.map(render::time),
            total_consumed: one.end.saturating_sub(one.lag),
            offset_lag: one.lag,
            time_lag_seconds: one.behind.as_secs(),
            oldest_unconsumed_at: one.oldest_at.map(render::time),
            lease_active: one.leased_until.is_some(),
            lease_expires_at: one.leased_until.map(render::time),
        }
    }
}

/// A partition in which a group is behind.
#[derive(Serialize, ToSchema)]
pub(crate) struct LaggingAnswer {
    /// The name of the consumer group.
    consumer_group: String,
    /// The name of the queue.
    queue_name: String,
    /// The name of the partition.
    partition_name: String,
    /// The id of the partition.
    partition_id: String,
    /// The consumer that last popped messages: its `workerId`, or the name of its key or token.
    worker_id: Option<String>,
    /// When consumers last popped messages.
    last_consumed_at: Option<String>,
    /// The number of unread or unsettled messages.
    offset_lag: u64,
    /// The age in seconds of the oldest unread or unsettled message.
    time_lag_seconds: u64,
    /// The age in hours of the oldest unread or unsettled message.
    lag_hours: f64,
    /// When the oldest unread or unsettled message was pushed.
    oldest_unconsumed_at: Option<String>,
}

impl From<GroupPartition> for LaggingAnswer {
    fn from(one: GroupPartition) -> Self {
        let hours = one.behind.as_secs_f64() / 3600.0;
        Self {
            consumer_group: one.group.into(),
            queue_name: one.queue.into(),
            partition_name: one.partition.into(),
            partition_id: one.partition_id.to_string(),
            worker_id: one.taken_by,
            last_consumed_at: one.taken_at.map(render::time),
            offset_lag: one.lag,
            time_lag_seconds: one.behind.as_secs(),
            lag_hours: (hours * 100.0).round() / 100.0,
            oldest_unconsumed_at: one.oldest_at.map(render::time),
        }
    }
}

/// The target of a seek. Exactly one field must be set.
#[derive(Deserialize, Default, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeekBody {
    /// Continue with messages that are pushed from now on.
    #[serde(default)]
    pub(crate) to_end: bool,
    /// Continue with the oldest stored message.
    #[serde(default)]
    pub(crate) to_beginning: bool,
    /// Continue with messages pushed at or after this time, in ISO 8601 format.
    pub(crate) timestamp: Option<String>,
}

/// The result of moving a group.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeekAnswer {
    /// Always true.
    pub(crate) success: bool,
    /// The name of the consumer group.
    pub(crate) consumer_group: String,
    /// The name of the queue.
    pub(crate) queue_name: String,
    /// The partition, if only one partition was moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partition_name: Option<String>,
    /// Whether the group was moved to the end.
    pub(crate) seek_to_end: bool,
    /// Whether the group was moved to the beginning.
    pub(crate) seek_to_beginning: bool,
    /// The time to which the group was moved.
    pub(crate) target_timestamp: Option<String>,
    /// Always true.
    pub(crate) updated: bool,
    /// The number of partitions in which the group was moved.
    pub(crate) partitions_updated: u64,
}

/// The time at which a group continues.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubscriptionBody {
    /// Continue with messages pushed at or after this time, in ISO 8601 format.
    pub(crate) subscription_timestamp: Option<String>,
}

/// The result of moving a group in all its queues.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubscriptionAnswer {
    /// Always true.
    pub(crate) success: bool,
    /// The name of the consumer group.
    pub(crate) consumer_group: String,
    /// The time to which the group was moved.
    pub(crate) new_timestamp: String,
    /// The number of partitions in which the group was moved.
    pub(crate) rows_updated: u64,
}

/// The result of deleting a group.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupDeletedAnswer {
    /// Always true.
    pub(crate) success: bool,
    /// The name of the consumer group.
    pub(crate) consumer_group: String,
    /// The queue, if the group was deleted in only one queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue_name: Option<String>,
    /// The number of partitions in which the group was deleted.
    pub(crate) deleted_partitions: u64,
    /// Always true: a group has no other metadata.
    pub(crate) metadata_deleted: bool,
}
