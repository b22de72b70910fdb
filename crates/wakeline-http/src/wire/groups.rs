//! Consumer groups.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_core::Subscription;
use wakeline_store::GroupDetail;

use crate::render;

/// A consumer group of one queue.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupAnswer {
    name: String,
    /// The queue, once more.
    topics: Vec<String>,
    queue_name: String,
    /// Partitions that it reads.
    members: u64,
    /// Partitions in which something is unread or unsettled.
    partitions_with_lag: u64,
    /// Messages that are unread or unsettled.
    total_lag: u64,
    /// Partitions that are leased.
    leases: u64,
    /// `Stable`, `Lagging`, or `Dead` if it lags and holds no lease.
    state: &'static str,
    /// `all`, `new` or `timestamp`.
    subscription_mode: &'static str,
    /// Where a subscription by time begins.
    subscription_timestamp: Option<String>,
    subscription_created_at: String,
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
            members: group.partitions,
            partitions_with_lag: group.partitions_behind,
            total_lag: group.lag,
            leases: group.leases,
            state,
            subscription_mode: mode,
            subscription_timestamp: from,
            subscription_created_at: render::time(group.created_at),
        }
    }
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
