//! Consumer groups: their progress, and moving them.

use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{
    Change, GroupName, PartitionId, PartitionName, QueueName, Subscription, Timestamp,
};

use crate::error::StoreError;

/// A consumer group of one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDetail {
    /// The queue that the group reads.
    pub queue: QueueName,
    /// The group's name.
    pub group: GroupName,
    /// Where the group began to read.
    pub subscription: Subscription,
    /// When the group subscribed.
    pub created_at: Timestamp,
    /// The number of partitions that the group reads.
    pub partitions: u64,
    /// The number of partitions with unread or unsettled messages.
    pub partitions_behind: u64,
    /// The number of unread or unsettled messages.
    pub lag: u64,
    /// The age of the oldest unread or unsettled message.
    pub behind: Duration,
    /// The number of partitions that are leased.
    pub leases: u64,
    /// When consumers last polled, accurate to
    /// [`poll_recorded_after`](wakeline_core::QueueOptions::poll_recorded_after).
    pub polled_at: Timestamp,
    /// Since when the group is idle, if it is.
    pub idle_since: Option<Timestamp>,
}

/// The progress of a consumer group in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPartition {
    /// The queue that the group reads.
    pub queue: QueueName,
    /// The group's name.
    pub group: GroupName,
    /// The name of the partition.
    pub partition: PartitionName,
    /// The id of the partition.
    pub partition_id: PartitionId,
    /// The number of messages ever pushed to the partition, stored or not.
    pub end: u64,
    /// The number of unread or unsettled messages.
    pub lag: u64,
    /// When the oldest unread or unsettled message was pushed.
    pub oldest_at: Option<Timestamp>,
    /// The age of that message.
    pub behind: Duration,
    /// When the lease of the partition ends, if the group holds one.
    pub leased_until: Option<Timestamp>,
    /// When consumers last claimed messages.
    pub taken_at: Option<Timestamp>,
    /// The worker that did.
    pub taken_by: Option<String>,
}

/// Selects partitions of groups.
#[derive(Debug, Clone, Default)]
pub struct GroupPartitionFilter {
    /// Only of this group.
    pub group: Option<GroupName>,
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// The maximum number of entries to return.
    pub limit: u32,
    /// The number of entries to skip.
    pub offset: u32,
}

/// The position to which a group is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeekTo {
    /// The oldest message that is stored.
    Beginning,
    /// The end of the log: only messages that are pushed later.
    End,
    /// The first message pushed at or after this time.
    Since(Timestamp),
}

/// A request to move a group.
#[derive(Debug, Clone)]
pub struct Seek {
    /// The group to move.
    pub group: GroupName,
    /// Only in this queue, instead of in all that the group reads.
    pub queue: Option<QueueName>,
    /// Only in this partition of each queue.
    pub partition: Option<PartitionName>,
    /// The position to move to.
    pub to: SeekTo,
}

/// Administration of consumer groups.
#[async_trait]
pub trait QueueGroups: Send + Sync {
    /// All groups, or those of one name, ordered by name and queue.
    async fn groups(&self, group: Option<&GroupName>) -> Result<Vec<GroupDetail>, StoreError>;

    /// Groups, partition by partition, ordered by the names of group, queue and partition.
    async fn group_partitions(
        &self,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError>;

    /// Partitions in which a group is behind by at least `behind`, the oldest message first.
    /// Partitions whose messages are all settled are not examined.
    async fn lagging(
        &self,
        behind: Duration,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError>;

    /// Removes a group from one queue or from all; its next poll subscribes again. Returns the
    /// number of removed cursors and the changes to publish: consumers that are already waiting
    /// would not claim by themselves, and the group begins again with their next claim.
    async fn delete_group(
        &self,
        group: &GroupName,
        queue: Option<&QueueName>,
    ) -> Result<(u64, Vec<Change>), StoreError>;

    /// Moves a group. Its leases end and its parked messages are forgotten. Unless one partition is
    /// named, its subscription changes too: to everything, or to messages pushed since the given
    /// time (the current time for the end). Returns the number of moved cursors.
    async fn seek(&self, seek: Seek) -> Result<(u64, Vec<Change>), StoreError>;
}
