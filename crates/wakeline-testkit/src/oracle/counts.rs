//! Message counts of queues and partitions.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use wakeline_core::{GroupName, PartitionId, PartitionName, QueueName, Timestamp};
use wakeline_store::{
    CountsStore, DeadLetterError, Depth, MessageCounts, Page, PartitionCounts, QueueCounts,
    StoreError,
};

use super::MemoryStore;
use super::groups::lag;
use super::state::{OracleCursor, OraclePartition, OracleQueue, OracleState};

#[async_trait]
impl CountsStore for MemoryStore {
    async fn queue_counts(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<QueueCounts>, StoreError> {
        let state = self.state.lock();
        let fitting =
            state.queues.iter().filter(|(name, _)| queue.is_none_or(|only| only == *name));
        let each = fitting.map(|(name, queue)| state.queue_counts(name, queue, self.now()));
        Ok(cut(each, page))
    }

    async fn partition_counts(
        &self,
        queue: &QueueName,
        page: Page,
    ) -> Result<Vec<PartitionCounts>, StoreError> {
        let state = self.state.lock();
        let Some(queue) = state.queues.get(queue) else { return Ok(Vec::new()) };
        let each = in_order(queue).into_iter().map(|(name, partition)| PartitionCounts {
            partition: name.clone(),
            partition_id: partition.id,
            messages: state.partition_counts(queue, name, self.now()),
            oldest_at: partition.log.first().map(|message| message.created_at),
            last_push_at: (partition.end() > 0).then_some(partition.last_push_at),
        });
        Ok(cut(each, page))
    }

    async fn depth(
        &self,
        queue: &QueueName,
        group: Option<&GroupName>,
        page: Page,
    ) -> Result<Option<Depth>, StoreError> {
        let state = self.state.lock();
        let Some(queue) = state.queues.get(queue) else { return Ok(None) };
        let behind = |(name, partition): (&PartitionName, &OraclePartition)| {
            let cursor = match group {
                Some(group) => queue.groups.get(group).map(|group| &group.cursors[name]),
                None => worst(queue, name, self.now()),
            };
            let len = cursor.map_or(partition.stored(), |cursor| lag(partition, cursor));
            (len > 0).then(|| (name.clone(), len))
        };
        let all: Vec<_> = in_order(queue).into_iter().filter_map(behind).collect();
        Ok(Some(Depth {
            len: all.iter().map(|(_, len)| len).sum(),
            partitions_behind: all.len() as u64,
            partitions: cut(all.into_iter(), page),
        }))
    }

    async fn dead_letter_errors(&self, newest: u32) -> Result<Vec<DeadLetterError>, StoreError> {
        let state = self.state.lock();
        let mut counts: BTreeMap<(QueueName, Option<String>), u64> = BTreeMap::new();
        for buried in state.dead_letters.iter().rev().take(newest as usize) {
            let key = (buried.letter.queue.clone(), buried.letter.error.clone());
            *counts.entry(key).or_default() += 1;
        }
        let error = |((queue, error), len)| DeadLetterError { queue, error, len };
        let mut errors: Vec<_> = counts.into_iter().map(error).collect();
        errors.sort_by_key(|error| std::cmp::Reverse(error.len));
        Ok(errors)
    }
}

fn cut<T>(all: impl Iterator<Item = T>, page: Page) -> Vec<T> {
    all.skip(page.offset as usize).take(page.limit as usize).collect()
}

/// Returns the partitions in the order in which they were created.
fn in_order(queue: &OracleQueue) -> Vec<(&PartitionName, &OraclePartition)> {
    let mut all: Vec<_> = queue.partitions.iter().collect();
    all.sort_by_key(|(_, partition)| partition.id);
    all
}

/// Returns the cursor that is furthest behind in a partition; among equals, that of the first group
/// by name.
fn worst<'a>(
    queue: &'a OracleQueue,
    name: &PartitionName,
    now: Timestamp,
) -> Option<&'a OracleCursor> {
    let partition = &queue.partitions[name];
    let cursors = queue.holding(now).into_iter().rev().map(|group| &group.cursors[name]);
    cursors.max_by_key(|cursor| lag(partition, cursor))
}

fn live(cursor: &OracleCursor, now: Timestamp) -> bool {
    cursor.lease.as_ref().is_some_and(|lease| lease.until > now)
}

impl OracleState {
    fn queue_counts(&self, name: &QueueName, queue: &OracleQueue, now: Timestamp) -> QueueCounts {
        let mut counts = MessageCounts::default();
        let mut behind = 0;
        for partition in queue.partitions.keys() {
            let one = self.partition_counts(queue, partition, now);
            behind += u64::from(one.pending + one.processing > 0);
            counts.add(one);
        }
        let cursors = queue.groups.values().flat_map(|group| &group.cursors);
        let leased: Vec<&PartitionName> =
            cursors.filter(|(_, cursor)| live(cursor, now)).map(|(name, _)| name).collect();
        let dead: BTreeSet<PartitionId> = (self.dead_letters.iter())
            .filter(|buried| buried.letter.queue == *name)
            .map(|buried| buried.letter.partition_id)
            .collect();
        QueueCounts {
            id: queue.id,
            queue: name.clone(),
            namespace: queue.namespace.clone(),
            task: queue.task.clone(),
            created_at: queue.created_at,
            priority: queue.options.priority,
            partitions: queue.partitions.len() as u64,
            partitions_behind: behind,
            partitions_leased: leased.iter().collect::<BTreeSet<_>>().len() as u64,
            partitions_dead: dead.len() as u64,
            leases: leased.len() as u64,
            messages: counts,
            losses: queue.losses,
        }
    }

    fn partition_counts(
        &self,
        queue: &OracleQueue,
        name: &PartitionName,
        now: Timestamp,
    ) -> MessageCounts {
        let partition = &queue.partitions[name];
        let letters = || self.dead_letters.iter().filter(|b| b.letter.partition_id == partition.id);
        let mut counts = MessageCounts {
            total: partition.end().unsigned_abs(),
            dead_letters: letters().count() as u64,
            ..MessageCounts::default()
        };
        let dead: BTreeSet<i64> = letters().map(|buried| buried.offset).collect();
        let Some(cursor) = worst(queue, name, now) else {
            counts.pending = partition.stored();
            let gone = |at: &&i64| **at < partition.first || partition.is_gap(**at);
            counts.given_up = dead.iter().filter(gone).count() as u64;
            return counts;
        };
        let held = cursor.lease.as_ref().map(|lease| &lease.unsettled);
        if live(cursor, now) {
            counts.processing = held.map_or(0, |held| held.len() as u64);
        }
        counts.pending = lag(partition, cursor) - counts.processing;
        counts.retrying = cursor.parked.len() as u64;
        let ahead = |at: &i64| {
            (*at >= cursor.next && !partition.is_gap(*at))
                || cursor.parked.contains_key(at)
                || held.is_some_and(|held| held.contains_key(at))
        };
        counts.given_up = dead.iter().filter(|at| !ahead(at)).count() as u64;
        counts
    }
}
