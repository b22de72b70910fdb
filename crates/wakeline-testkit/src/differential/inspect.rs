//! Comparing everything that can be listed on both sides.

use std::time::Duration;

use wakeline_core::{GroupName, TransactionId};
use wakeline_store::{
    DeadLetter, DeadLetterFilter, GroupDetail, GroupPartition, GroupPartitionFilter, MessageDetail,
    Page, QueueAdmin as _, QueueCapacities as _, QueueDeadLetters as _, QueueGroups as _, Store,
};

use super::compare::{Comparison, same};
use super::side::{QueueHold, QueueSkew};
use super::world::{QueueWorld, failed};

/// The skew of the oracle's own clock.
const NO_SKEW: QueueSkew = QueueSkew(0);

/// How far behind the partitions are that are listed as lagging.
const LAGGING: Duration = Duration::from_secs(3);

impl QueueWorld<'_> {
    pub(super) async fn inspect(&mut self) -> Comparison {
        self.inspect_scheduled().await?;
        self.inspect_maintenance().await?;
        for queue in self.names.queues.clone() {
            let filter = DeadLetterFilter { queue: Some(queue.clone()), ..Default::default() };
            let page = Page { limit: 10_000, offset: 0 };
            let oracle = self.oracle.dead_letters(filter.clone(), page).await.map_err(failed)?;
            let store = self.store.dead_letters(filter, page).await.map_err(failed)?;
            same("number of dead letters", oracle.total, store.total)?;
            let (oracle, store) = (oracle.letters, store.letters);
            let plain = |letters: Vec<DeadLetter>| {
                let mut letters = letters;
                letters.sort_by(|a, b| {
                    let key = |l: &DeadLetter| (l.failed_at, l.id, l.group.clone());
                    key(a).cmp(&key(b))
                });
                letters
            };
            let oracle = oracle.iter().map(|letter| NO_SKEW.dead_letter(letter)).collect();
            let store = store.iter().map(|letter| self.skew.dead_letter(letter)).collect();
            same(&format!("dead letters of {queue}"), plain(oracle), plain(store))?;
            let oracle = self.oracle.queue(&queue).await.map_err(failed)?;
            let store = self.store.queue(&queue).await.map_err(failed)?;
            same("whether the queue exists", oracle.is_some(), store.is_some())?;
            let partitions = &self.names.partitions;
            let oracle = self.oracle.capacity(&queue, partitions).await.map_err(failed)?;
            let store = self.store.capacity(&queue, partitions).await.map_err(failed)?;
            same(&format!("fill level of {queue}"), oracle, store)?;
            self.inspect_list(&queue).await?;
            self.inspect_counts(&queue).await?;
        }
        for group in self.names.groups.clone() {
            self.inspect_group(&group).await?;
        }
        for hold in self.holds.clone().iter().rev().take(4) {
            self.inspect_messages(hold).await?;
        }
        Ok(())
    }

    async fn inspect_group(&self, group: &GroupName) -> Comparison {
        let oracle = self.oracle.groups(Some(group)).await.map_err(failed)?;
        let store = self.store.groups(Some(group)).await.map_err(failed)?;
        // The group of queue mode also exists in queues of other cases, and a store may create it
        // together with its queue.
        let ours = |detail: &&GroupDetail| {
            !group.is_queue_mode() || oracle.iter().any(|other| other.queue == detail.queue)
        };
        let plain = |detail: &GroupDetail| {
            let counts = [detail.partitions, detail.partitions_behind, detail.lag, detail.leases];
            (detail.group.clone(), detail.queue.clone(), counts)
        };
        let polls = |skew: QueueSkew, detail: &GroupDetail| {
            let idle_since = detail.idle_since.map(|since| skew.to_oracle(since));
            (detail.queue.clone(), skew.to_oracle(detail.polled_at), idle_since)
        };
        let of_store: Vec<_> = store.iter().filter(ours).map(plain).collect();
        let of_oracle: Vec<_> = oracle.iter().map(plain).collect();
        same("groups (partitions, behind, lag, leases)", of_oracle, of_store)?;
        let of_store: Vec<_> = store.iter().filter(ours).map(|one| polls(self.skew, one)).collect();
        let of_oracle: Vec<_> = oracle.iter().map(|one| polls(NO_SKEW, one)).collect();
        same("polls of groups, and since when they are idle", of_oracle, of_store)?;
        if group.is_queue_mode() {
            return Ok(());
        }
        let filter = GroupPartitionFilter {
            group: Some(group.clone()),
            limit: 1_000,
            ..GroupPartitionFilter::default()
        };
        let oracle = self.oracle.group_partitions(filter.clone()).await.map_err(failed)?;
        let store = self.store.group_partitions(filter.clone()).await.map_err(failed)?;
        same(
            "partitions of a group",
            plain_partitions(NO_SKEW, oracle),
            plain_partitions(self.skew, store),
        )?;
        let oracle = self.oracle.lagging(LAGGING, filter.clone()).await.map_err(failed)?;
        let store = self.store.lagging(LAGGING, filter).await.map_err(failed)?;
        let oldest_first = store.is_sorted_by_key(|partition| partition.oldest_at);
        same("whether the oldest comes first", true, oldest_first)?;
        let sorted = |mut partitions: Vec<GroupPartition>| {
            partitions.sort_by(|a, b| (&a.queue, &a.partition).cmp(&(&b.queue, &b.partition)));
            partitions
        };
        let oracle = sorted(plain_partitions(NO_SKEW, oracle));
        let store = sorted(plain_partitions(self.skew, store));
        same("lagging partitions", oracle, store)
    }

    async fn inspect_messages(&self, hold: &QueueHold) -> Comparison {
        for id in hold.messages.iter().take(3) {
            let oracle = find(&self.oracle, hold.oracle.partition, id).await?;
            let store = find(self.store.as_ref(), hold.store.partition, id).await?;
            let known: Vec<GroupName> = (oracle.iter())
                .flat_map(|detail| detail.groups.iter().map(|(group, _)| group.clone()))
                .collect();
            let store = store.map(|mut detail| {
                detail.message = self.skew.delivered(&detail.message);
                detail.groups.retain(|(group, _)| known.contains(group));
                detail.groups.sort_by(|a, b| a.0.cmp(&b.0));
                detail.errors.retain(|(group, _)| known.contains(group));
                detail.errors.sort_by(|a, b| a.0.cmp(&b.0));
                detail.ledger = self.skew.ledger(detail.ledger);
                detail
            });
            let oracle = oracle.map(|mut detail| {
                detail.ledger = NO_SKEW.ledger(detail.ledger);
                detail
            });
            same("message", oracle, store)?;
        }
        Ok(())
    }
}

fn plain_partitions(skew: QueueSkew, partitions: Vec<GroupPartition>) -> Vec<GroupPartition> {
    partitions.into_iter().map(|partition| skew.group_partition(partition)).collect()
}

async fn find(
    store: &dyn Store,
    partition: wakeline_core::PartitionId,
    id: &TransactionId,
) -> Result<Option<MessageDetail>, String> {
    store.message(partition, id).await.map_err(failed)
}
