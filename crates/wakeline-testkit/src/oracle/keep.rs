//! Housekeeping: removes everything that is past its retention, in one call.

use std::time::Duration;

use wakeline_core::{GroupName, PartitionName, QueueName, Timestamp};
use wakeline_store::{DeliveryOutcome, HousekeepingReport, Losses};

use super::claim::CursorKey;
use super::groups::oldest;
use super::state::{OracleCursor, OracleMessage, OraclePartition, OracleQueue, OracleState};
use super::take::OracleReading;

impl OracleState {
    pub(super) fn housekeep(&mut self, now: Timestamp) -> HousekeepingReport {
        let mut report = HousekeepingReport::default();
        let limited: Vec<QueueName> = (self.queues.iter())
            .filter(|(_, queue)| queue.options.has_time_limits())
            .map(|(name, _)| name.clone())
            .collect();
        for name in limited {
            let mut lost = self.pass_over_all(&name, now);
            let queue = self.queues.get_mut(&name).expect("it was just listed");
            let partitions: Vec<PartitionName> = queue.partitions.keys().cloned().collect();
            for partition in partitions {
                let (removed, unsettled) = queue.remove_old(&partition, now);
                report.removed += removed;
                lost.expired += unsettled;
                if removed > 0 {
                    let change = queue.change(&name, Duration::ZERO);
                    report
                        .changes
                        .push(wakeline_core::Change { partition: Some(partition), ..change });
                }
            }
            queue.losses.add(lost);
        }
        let spans = self.queues.values().filter_map(|queue| queue.options.shortest_span());
        report.next_due = spans.min();
        // Each loss is reported once, by the first call that finds it.
        for (name, queue) in &mut self.queues {
            let mut unreported = queue.losses;
            unreported.expired -= queue.reported.expired;
            unreported.evicted -= queue.reported.evicted;
            unreported.dropped -= queue.reported.dropped;
            queue.reported = queue.losses;
            if !unreported.is_none() {
                report.losses.push((name.clone(), unreported));
            }
        }
        report
    }

    pub(super) fn losses(&self, name: &QueueName) -> Losses {
        self.queues.get(name).map(|queue| queue.losses).unwrap_or_default()
    }

    /// Ends expired leases, and skips messages that groups may no longer receive.
    fn pass_over_all(&mut self, name: &QueueName, now: Timestamp) -> Losses {
        let mut lost = Losses::default();
        let queue = &self.queues[name];
        let keys: Vec<CursorKey> = (queue.groups.iter())
            .flat_map(|(group, state)| state.cursors.keys().map(move |p| (group, p)))
            .filter(|(_, partition)| queue.may_be_past(partition, now))
            .map(|(group, partition): (&GroupName, &PartitionName)| CursorKey {
                queue: name.clone(),
                partition: partition.clone(),
                group: group.clone(),
            })
            .collect();
        for key in keys {
            let queue = self.queues.get_mut(name).expect("it was just listed");
            let group = queue.groups.get_mut(&key.group).expect("it was just listed");
            let cursor = group.cursors.get_mut(&key.partition).expect("it was just listed");
            let partition = &queue.partitions[&key.partition];
            let reading = OracleReading { options: &queue.options, partition, now };
            let ran_out = cursor.lease.clone().filter(|lease| lease.until <= now);
            let ended = ran_out.is_some();
            let buried = reading.end_expired_lease(cursor);
            let passed = reading.pass_over(cursor);
            if ended || !passed.is_none() {
                cursor.freed_at = now;
            }
            lost.add(passed);
            match buried {
                Some(buried) if queue.options.dead_letters => self.bury(&key, buried, now),
                Some(_) => lost.dropped += 1,
                None => {}
            }
            if let Some(lease) = ran_out {
                self.note(&key, &lease, DeliveryOutcome::Expired, now);
            }
        }
        lost
    }
}

impl OracleQueue {
    /// Whether the oldest message of a partition is as old as the shortest limit.
    fn may_be_past(&self, name: &PartitionName, now: Timestamp) -> bool {
        let oldest = self.partitions[name].log.first();
        let shortest = self.options.shortest_span();
        oldest
            .zip(shortest)
            .is_some_and(|(message, shortest)| message.created_at.plus(shortest) <= now)
    }

    /// Removes messages by the rules of retention. Returns how many it removed, and how many
    /// deliveries that loses: one for each group that had not settled a message.
    fn remove_old(&mut self, name: &PartitionName, now: Timestamp) -> (u64, u64) {
        if !self.may_be_past(name, now) {
            return (0, 0);
        }
        let partition = &self.partitions[name];
        let cursors = || self.groups.values().map(|group| &group.cursors[name]);
        let created_at = |offset| partition.message(offset).created_at;
        let leased = cursors().filter_map(|cursor| first_leased(cursor, now)).map(created_at).min();
        // Idle groups keep only the messages that they have under a lease.
        let holding = self.holding(now).into_iter().map(|group| &group.cursors[name]);
        let unsettled = holding.filter_map(|cursor| oldest(partition, cursor)).map(created_at);
        let unsettled = unsettled.chain(leased).min();
        let known = Duration::from_secs(self.options.dedup_window_secs.into());
        let old = |message: &OracleMessage, age: Option<Duration>, first: Option<Timestamp>| {
            age.is_some_and(|age| message.created_at.plus(age) <= now)
                && message.created_at.plus(known) < now
                && first.is_none_or(|first| message.created_at < first)
        };
        let completed_age =
            self.options.completed_removal_age().filter(|_| !self.groups.is_empty());
        let goes = |message: &&OracleMessage| {
            old(message, self.options.removal_age(), leased)
                || old(message, completed_age, unsettled)
        };
        let len = partition.log.iter().take_while(goes).count();
        let groups_len = self.groups.len();
        let before = partition.clone();
        let first = {
            let partition = self.partitions.get_mut(name).expect("it is there");
            partition.log.drain(..len);
            partition.first += i64::try_from(len).expect("a log in memory is short");
            partition.trim();
            partition.first
        };
        let removed = before.between(before.first, first);
        let cursors = self.groups.values_mut().filter_map(|group| group.cursors.get_mut(name));
        let lost = cursors.map(|cursor| begin_at(cursor, &before, first, now)).sum();
        (removed, if groups_len == 0 { removed } else { lost })
    }
}

fn first_leased(cursor: &OracleCursor, now: Timestamp) -> Option<i64> {
    let lease = cursor.lease.as_ref().filter(|lease| lease.until > now)?;
    lease.unsettled.keys().next().copied()
}

/// Moves a cursor past removed messages. Returns how many of them were unsettled.
fn begin_at(
    cursor: &mut OracleCursor,
    before: &OraclePartition,
    first: i64,
    now: Timestamp,
) -> u64 {
    let kept = cursor.parked.split_off(&first);
    let parked = std::mem::replace(&mut cursor.parked, kept).len() as u64;
    let unread = before.between(cursor.next, first);
    cursor.next = cursor.next.max(first);
    if parked + unread > 0 && cursor.lease.is_none() {
        cursor.freed_at = now;
    }
    parked + unread
}
