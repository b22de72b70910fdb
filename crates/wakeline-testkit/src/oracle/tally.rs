//! How queues and partitions stand, in numbers.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use wakeline_core::{GroupName, PartitionId, PartitionName, QueueName, Timestamp};
use wakeline_store::{
    DeadLetterError, Depth, Page, PartitionTally, QueueTallies, QueueTally, StoreError, Tally,
};

use super::MemoryStore;
use super::groups::lag;
use super::state::{Cursor, Partition, Queue, State};

#[async_trait]
impl QueueTallies for MemoryStore {
    async fn queue_tallies(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<QueueTally>, StoreError> {
        let state = self.state.lock();
        let fitting =
            state.queues.iter().filter(|(name, _)| queue.is_none_or(|only| only == *name));
        let each = fitting.map(|(name, queue)| state.queue_tally(name, queue, self.now()));
        Ok(cut(each, page))
    }

    async fn partition_tallies(
        &self,
        queue: &QueueName,
        page: Page,
    ) -> Result<Vec<PartitionTally>, StoreError> {
        let state = self.state.lock();
        let Some(queue) = state.queues.get(queue) else { return Ok(Vec::new()) };
        let each = in_order(queue).into_iter().map(|(name, partition)| PartitionTally {
            partition: name.clone(),
            partition_id: partition.id,
            tally: state.partition_tally(queue, name, self.now()),
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
        let behind = |(name, partition): (&PartitionName, &Partition)| {
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

/// Partitions in the order in which they were made.
fn in_order(queue: &Queue) -> Vec<(&PartitionName, &Partition)> {
    let mut all: Vec<_> = queue.partitions.iter().collect();
    all.sort_by_key(|(_, partition)| partition.id);
    all
}

/// The cursor that is furthest behind in a partition; of equals that of the first group by name.
fn worst<'a>(queue: &'a Queue, name: &PartitionName, now: Timestamp) -> Option<&'a Cursor> {
    let partition = &queue.partitions[name];
    let cursors = queue.holding(now).into_iter().rev().map(|group| &group.cursors[name]);
    cursors.max_by_key(|cursor| lag(partition, cursor))
}

fn live(cursor: &Cursor, now: Timestamp) -> bool {
    cursor.lease.as_ref().is_some_and(|lease| lease.until > now)
}

impl State {
    fn queue_tally(&self, name: &QueueName, queue: &Queue, now: Timestamp) -> QueueTally {
        let mut tally = Tally::default();
        let mut behind = 0;
        for partition in queue.partitions.keys() {
            let one = self.partition_tally(queue, partition, now);
            behind += u64::from(one.pending + one.processing > 0);
            tally.add(one);
        }
        let cursors = queue.groups.values().flat_map(|group| &group.cursors);
        let leased: Vec<&PartitionName> =
            cursors.filter(|(_, cursor)| live(cursor, now)).map(|(name, _)| name).collect();
        let dead: BTreeSet<PartitionId> = (self.dead_letters.iter())
            .filter(|buried| buried.letter.queue == *name)
            .map(|buried| buried.letter.partition_id)
            .collect();
        QueueTally {
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
            tally,
            losses: queue.losses,
        }
    }

    fn partition_tally(&self, queue: &Queue, name: &PartitionName, now: Timestamp) -> Tally {
        let partition = &queue.partitions[name];
        let letters = || self.dead_letters.iter().filter(|b| b.letter.partition_id == partition.id);
        let mut tally = Tally {
            total: partition.end().unsigned_abs(),
            dead_letters: letters().count() as u64,
            ..Tally::default()
        };
        let dead: BTreeSet<i64> = letters().map(|buried| buried.offset).collect();
        let Some(cursor) = worst(queue, name, now) else {
            tally.pending = partition.stored();
            let gone = |at: &&i64| **at < partition.first || partition.is_gap(**at);
            tally.given_up = dead.iter().filter(gone).count() as u64;
            return tally;
        };
        let held = cursor.lease.as_ref().map(|lease| &lease.unsettled);
        if live(cursor, now) {
            tally.processing = held.map_or(0, |held| held.len() as u64);
        }
        tally.pending = lag(partition, cursor) - tally.processing;
        tally.retrying = cursor.parked.len() as u64;
        let ahead = |at: &i64| {
            (*at >= cursor.next && !partition.is_gap(*at))
                || cursor.parked.contains_key(at)
                || held.is_some_and(|held| held.contains_key(at))
        };
        tally.given_up = dead.iter().filter(|at| !ahead(at)).count() as u64;
        tally
    }
}
