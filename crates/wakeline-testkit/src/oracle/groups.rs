//! Consumer groups: their progress, and seeking.

use std::time::Duration;

use wakeline_core::{Change, GroupName, QueueName, Selector, Subscription, Timestamp};
use wakeline_store::{GroupDetail, GroupPartition, GroupPartitionFilter, Seek, SeekTo};

use super::claim::CursorKey;
use super::state::{OracleCursor, OraclePartition, OracleQueue, OracleState};

impl OracleState {
    pub(super) fn groups(&self, only: Option<&GroupName>, now: Timestamp) -> Vec<GroupDetail> {
        let mut details = Vec::new();
        for (queue_name, queue) in &self.queues {
            for name in queue.groups.keys() {
                if only.is_none_or(|only| only == name) {
                    details.push(queue.group_detail(queue_name, name, now));
                }
            }
        }
        details.sort_by(|a, b| (&a.group, &a.queue).cmp(&(&b.group, &b.queue)));
        details
    }

    pub(super) fn delete_group(
        &mut self,
        name: &GroupName,
        only: Option<&QueueName>,
    ) -> (u64, Vec<Change>) {
        let mut changes = Vec::new();
        self.remembered.retain(|other| {
            let concerned = match (only, &other.selector) {
                (None, _) => true,
                (Some(only), Selector::Queue(queue)) => queue == only,
                (Some(_), _) => false,
            };
            let forgotten = other.group == *name && concerned;
            if forgotten {
                changes.push(subscription_change(&other.selector, name));
            }
            !forgotten
        });
        let mut gone = 0;
        for (queue_name, queue) in &mut self.queues {
            if only.is_none_or(|only| only == queue_name)
                && let Some(group) = queue.groups.remove(name)
            {
                gone += group.cursors.len() as u64;
                let change = queue.change(queue_name, Duration::ZERO);
                changes.push(Change { group: Some(name.clone()), ..change });
            }
        }
        (gone, changes)
    }

    pub(super) fn seek(&mut self, seek: &Seek, now: Timestamp) -> (u64, Vec<Change>) {
        let mut moved = Vec::new();
        for (queue_name, queue) in &mut self.queues {
            if seek.queue.as_ref().is_some_and(|only| only != queue_name) {
                continue;
            }
            let Some(group) = queue.groups.get_mut(&seek.group) else { continue };
            if seek.partition.is_none() {
                group.subscription = match seek.to {
                    SeekTo::Beginning => Subscription::All,
                    SeekTo::End => Subscription::From(now),
                    SeekTo::Since(from) => Subscription::From(from),
                };
            }
            for partition in group.cursors.keys() {
                if seek.partition.as_ref().is_some_and(|only| only != partition) {
                    continue;
                }
                let log = &queue.partitions[partition];
                let next = match seek.to {
                    SeekTo::Beginning => log.first,
                    SeekTo::End => log.end(),
                    SeekTo::Since(from) => log.first_since(from),
                };
                let key = CursorKey {
                    queue: queue_name.clone(),
                    partition: partition.clone(),
                    group: seek.group.clone(),
                };
                moved.push((key, next));
            }
        }
        for (key, next) in &moved {
            self.move_cursor(key, *next, now);
        }
        let keys = moved.iter().map(|(key, _)| key);
        let changes = keys.filter_map(|key| self.left_behind(key, now)).collect();
        (moved.len() as u64, changes)
    }

    /// Moves a cursor. Its lease and its parked messages are dropped.
    pub(super) fn move_cursor(&mut self, key: &CursorKey, next: i64, now: Timestamp) {
        self.note_lost(key, now);
        let queue = self.queues.get_mut(&key.queue).expect("it has the cursor");
        let cursor = queue.cursor_mut(key).expect("it is there");
        *cursor = OracleCursor { taken: cursor.taken.take(), ..OracleCursor::at(next, now) };
    }

    pub(super) fn group_partitions(
        &self,
        filter: &GroupPartitionFilter,
        now: Timestamp,
    ) -> Vec<GroupPartition> {
        let mut all = self.all_group_partitions(filter, now);
        all.sort_by(|a, b| {
            (&a.group, &a.queue, &a.partition).cmp(&(&b.group, &b.queue, &b.partition))
        });
        page(all, filter)
    }

    pub(super) fn lagging(
        &self,
        behind: Duration,
        filter: &GroupPartitionFilter,
        now: Timestamp,
    ) -> Vec<GroupPartition> {
        let mut all = self.all_group_partitions(filter, now);
        let micros = i64::try_from(behind.as_micros()).unwrap_or(i64::MAX);
        let before = Timestamp(now.0.saturating_sub(micros));
        all.retain(|one| one.oldest_at.is_some_and(|at| at <= before));
        all.sort_by(|a, b| {
            let key = |one: &GroupPartition| (one.oldest_at, one.partition_id, one.group.clone());
            key(a).cmp(&key(b))
        });
        page(all, filter)
    }

    fn all_group_partitions(
        &self,
        filter: &GroupPartitionFilter,
        now: Timestamp,
    ) -> Vec<GroupPartition> {
        let mut all = Vec::new();
        for (queue_name, queue) in &self.queues {
            for (name, group) in &queue.groups {
                if filter.queue.as_ref().is_some_and(|only| only != queue_name)
                    || filter.group.as_ref().is_some_and(|only| only != name)
                {
                    continue;
                }
                for (partition_name, cursor) in &group.cursors {
                    let partition = &queue.partitions[partition_name];
                    let oldest_at = oldest(partition, cursor)
                        .map(|offset| partition.message(offset).created_at);
                    let lease = cursor.lease.as_ref().filter(|lease| lease.until > now);
                    all.push(GroupPartition {
                        queue: queue_name.clone(),
                        group: name.clone(),
                        partition: partition_name.clone(),
                        partition_id: partition.id,
                        end: partition.end().unsigned_abs(),
                        lag: lag(partition, cursor),
                        oldest_at,
                        behind: oldest_at.map_or(Duration::ZERO, |at| at.until(now)),
                        leased_until: lease.map(|lease| lease.until),
                        taken_at: cursor.taken.as_ref().map(|(at, _)| *at),
                        taken_by: cursor.taken.as_ref().and_then(|(_, by)| by.clone()),
                    });
                }
            }
        }
        all
    }
}

fn page(all: Vec<GroupPartition>, filter: &GroupPartitionFilter) -> Vec<GroupPartition> {
    all.into_iter().skip(filter.offset as usize).take(filter.limit as usize).collect()
}

/// Returns the offset of the oldest message that is unread or unsettled.
pub(super) fn oldest(partition: &OraclePartition, cursor: &OracleCursor) -> Option<i64> {
    let held = cursor.lease.iter().flat_map(|lease| lease.unsettled.keys()).min();
    let unread = (cursor.next < partition.end()).then_some(cursor.next);
    held.into_iter().chain(cursor.parked.keys().min()).copied().chain(unread).min()
}

/// Returns the change for the waiters whose subscription had been remembered.
fn subscription_change(selector: &Selector, group: &GroupName) -> Change {
    match selector {
        Selector::Queue(queue) | Selector::Partition(queue, _) => {
            let change = Change::of_filter(None, None, group.clone());
            Change { queue: queue.clone(), ..change }
        }
        Selector::Filter { namespace, task } => {
            Change::of_filter(namespace.clone(), task.clone(), group.clone())
        }
    }
}

impl OracleQueue {
    fn group_detail(
        &self,
        queue_name: &QueueName,
        name: &GroupName,
        now: Timestamp,
    ) -> GroupDetail {
        let group = &self.groups[name];
        let lags: Vec<u64> = (group.cursors.iter())
            .map(|(partition, cursor)| lag(&self.partitions[partition], cursor))
            .collect();
        let oldest_at = (group.cursors.iter())
            .filter_map(|(name, cursor)| {
                let partition = &self.partitions[name];
                oldest(partition, cursor).map(|offset| partition.message(offset).created_at)
            })
            .min();
        let live =
            |cursor: &&OracleCursor| cursor.lease.as_ref().is_some_and(|lease| lease.until > now);
        GroupDetail {
            queue: queue_name.clone(),
            group: name.clone(),
            subscription: group.subscription,
            created_at: group.created_at,
            partitions: lags.len() as u64,
            partitions_behind: lags.iter().filter(|lag| **lag > 0).count() as u64,
            lag: lags.iter().sum(),
            behind: oldest_at.map_or(Duration::ZERO, |at| at.until(now)),
            leases: group.cursors.values().filter(live).count() as u64,
            polled_at: group.polled_at,
            idle_since: self.idle_since(group, now),
        }
    }
}

pub(super) fn lag(partition: &OraclePartition, cursor: &OracleCursor) -> u64 {
    let unread = partition.between(cursor.next, partition.end());
    let unsettled = cursor.lease.as_ref().map_or(0, |lease| lease.unsettled.len());
    unread + (cursor.parked.len() + unsettled) as u64
}
