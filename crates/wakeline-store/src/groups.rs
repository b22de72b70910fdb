//! Consumer groups: how far they are, and moving them.

use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{
    Change, GroupName, PartitionId, PartitionName, QueueName, Subscription, Timestamp,
};

use crate::error::StoreError;

/// A consumer group of one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDetail {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupName,
    /// Where it began.
    pub subscription: Subscription,
    /// When it subscribed.
    pub created_at: Timestamp,
    /// Partitions that it reads.
    pub partitions: u64,
    /// Partitions in which something is unread or unsettled.
    pub partitions_behind: u64,
    /// Messages that are unread or unsettled.
    pub lag: u64,
    /// How long ago the oldest of these was pushed.
    pub behind: Duration,
    /// Partitions that are leased.
    pub leases: u64,
    /// When consumers last polled, to within
    /// [`poll_recorded_after`](wakeline_core::QueueOptions::poll_recorded_after).
    pub polled_at: Timestamp,
    /// Since when it is idle, if it is.
    pub idle_since: Option<Timestamp>,
}

/// A consumer group in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPartition {
    /// The queue.
    pub queue: QueueName,
    /// The group.
    pub group: GroupName,
    /// The partition.
    pub partition: PartitionName,
    /// The partition's id.
    pub partition_id: PartitionId,
    /// Messages of the partition, whether they are still stored or not.
    pub end: u64,
    /// Messages that are unread or unsettled.
    pub lag: u64,
    /// When the oldest message that is unread or unsettled was pushed.
    pub oldest_at: Option<Timestamp>,
    /// How long ago that was.
    pub behind: Duration,
    /// When its lease ends, if it holds one.
    pub leased_until: Option<Timestamp>,
    /// When consumers last took messages.
    pub taken_at: Option<Timestamp>,
    /// Who did.
    pub taken_by: Option<String>,
}

/// Which partitions of groups to list.
#[derive(Debug, Clone, Default)]
pub struct GroupPartitionFilter {
    /// Only of this group.
    pub group: Option<GroupName>,
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// At most so many.
    pub limit: u32,
    /// After skipping so many.
    pub offset: u32,
}

/// Where a group is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeekTo {
    /// With the oldest message that is stored.
    Beginning,
    /// With what will be pushed.
    End,
    /// With what was pushed at or after a moment.
    Since(Timestamp),
}

/// Moves a group.
#[derive(Debug, Clone)]
pub struct Seek {
    /// The group.
    pub group: GroupName,
    /// Only in this queue, instead of in all that it reads.
    pub queue: Option<QueueName>,
    /// Only in this partition of each.
    pub partition: Option<PartitionName>,
    /// Where to.
    pub to: SeekTo,
}

/// Consumer groups.
#[async_trait]
pub trait QueueGroups: Send + Sync {
    /// All groups, or those of one name, ordered by name and queue.
    async fn groups(&self, group: Option<&GroupName>) -> Result<Vec<GroupDetail>, StoreError>;

    /// Groups, partition by partition, ordered by the names of group, queue and partition.
    async fn group_partitions(
        &self,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError>;

    /// Partitions in which a group is behind by at least so long, the oldest message first. Looks
    /// at no partition whose messages are all settled.
    async fn lagging(
        &self,
        behind: Duration,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError>;

    /// Forgets a group, in one queue or in all: its next poll subscribes anew. Returns the
    /// number of cursors that went, and whom to tell: those who wait in the group make no claim
    /// by themselves, and it begins anew with their next one.
    async fn delete_group(
        &self,
        group: &GroupName,
        queue: Option<&QueueName>,
    ) -> Result<(u64, Vec<Change>), StoreError>;

    /// Moves a group. What it holds under a lease is lost to it, and what it has parked is
    /// forgotten. Unless one partition is named its subscription changes with it: to all, or to
    /// what was pushed since then, where the end is now. Returns the number of cursors moved.
    async fn seek(&self, seek: Seek) -> Result<(u64, Vec<Change>), StoreError>;
}
