//! Consumer groups.

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
    name: String,
    /// The queue, once more.
    topics: Vec<String>,
    queue_name: String,
    /// Partitions that it reads. How many consumers it has is not known.
    partition_count: u64,
    /// Partitions in which something is unread or unsettled.
    partitions_with_lag: u64,
    /// Messages that are unread or unsettled.
    total_lag: u64,
    /// How many seconds ago the oldest of these was pushed.
    max_time_lag: u64,
    /// Partitions that are leased.
    leases: u64,
    /// `Stable`, `Lagging`, or `Dead` if it lags and holds no lease.
    state: &'static str,
    /// `all`, `new` or `timestamp`.
    subscription_mode: &'static str,
    /// Where a subscription by time begins.
    subscription_timestamp: Option<String>,
    subscription_created_at: String,
    /// When consumers last polled, or waited; up to an hour less exact than that.
    last_polled_at: String,
    /// Nobody has polled for `groupIdleSeconds`: the group no longer counts in the queue's
    /// capacity, nor holds completed messages back, unless all groups of the queue are idle.
    idle: bool,
    /// Since when.
    idle_since: Option<String>,
}

impl From<GroupDetail> for GroupAnswer {
    fn from(group: GroupDetail) -> Self {
        let (mode, from) = match group.subscription {
            Subscription::All => ("all", None),
            Subscription::New => ("new", None),
            Subscription::From(moment) => ("timestamp", Some(render::time(moment))),
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

/// A consumer group in one queue, partition by partition.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupInQueueAnswer {
    #[serde(flatten)]
    group: GroupAnswer,
    /// In order of their names.
    partitions: Vec<GroupPartitionAnswer>,
}

/// A consumer group in one partition.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GroupPartitionAnswer {
    partition: String,
    partition_id: String,
    /// Who took messages last: as it called itself, or the name of its key or token.
    worker_id: Option<String>,
    /// When that was.
    last_consumed_at: Option<String>,
    /// Messages that it has read or passed over.
    total_consumed: u64,
    /// Messages that are unread or unsettled.
    offset_lag: u64,
    /// How long ago the oldest of these was pushed.
    time_lag_seconds: u64,
    oldest_unconsumed_at: Option<String>,
    lease_active: bool,
    lease_expires_at: Option<String>,
}

/// A group in each of its queues, by the queue's name. Queues of which no partition is listed have
/// none.
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
        // A group that began after the groups were read is listed next time.
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
    consumer_group: String,
    queue_name: String,
    partition_name: String,
    partition_id: String,
    /// Who took messages last: as it called itself, or the name of its key or token.
    worker_id: Option<String>,
    /// When that was.
    last_consumed_at: Option<String>,
    offset_lag: u64,
    time_lag_seconds: u64,
    lag_hours: f64,
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

/// Where a group shall go on: one of these.
#[derive(Deserialize, Default, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeekBody {
    /// With what will be pushed.
    #[serde(default)]
    pub(crate) to_end: bool,
    /// With the oldest message that is stored.
    #[serde(default)]
    pub(crate) to_beginning: bool,
    /// With what was pushed at or after this time, ISO 8601.
    pub(crate) timestamp: Option<String>,
}

/// Where a group goes on.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeekAnswer {
    pub(crate) success: bool,
    pub(crate) consumer_group: String,
    pub(crate) queue_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partition_name: Option<String>,
    pub(crate) seek_to_end: bool,
    pub(crate) seek_to_beginning: bool,
    pub(crate) target_timestamp: Option<String>,
    pub(crate) updated: bool,
    pub(crate) partitions_updated: u64,
}

/// Where a group shall continue.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubscriptionBody {
    /// ISO 8601.
    pub(crate) subscription_timestamp: Option<String>,
}

/// Where a group continues.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubscriptionAnswer {
    pub(crate) success: bool,
    pub(crate) consumer_group: String,
    pub(crate) new_timestamp: String,
    pub(crate) rows_updated: u64,
}

/// A group that was forgotten.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupDeletedAnswer {
    pub(crate) success: bool,
    pub(crate) consumer_group: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue_name: Option<String>,
    pub(crate) deleted_partitions: u64,
    pub(crate) metadata_deleted: bool,
}
