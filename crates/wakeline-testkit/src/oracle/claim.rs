//! Claims and sweeps: which partitions are offered to which request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wakeline_core::{
    CursorId, GroupName, LeaseId, LeaseToken, PartitionName, QueueLine, QueueName, Selector,
    Subscription, Timestamp,
};
use wakeline_store::{
    ClaimRequest, ClaimedPartition, Delivered, DeliveryOutcome, Dropped, InvalidField, LineClaim,
    LineOutcome, PushGate, QueueClaimResult,
};

use super::state::{
    OracleCursor, OracleHeld, OracleLease, OraclePartition, OracleState, OracleSubscription,
};
use super::take::{OracleBatchCapacity, OracleReading};

/// The queue, partition and group that identify a cursor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CursorKey {
    pub(super) queue: QueueName,
    pub(super) partition: PartitionName,
    pub(super) group: GroupName,
}

impl OracleState {
    pub(super) fn claim(&mut self, lines: Vec<LineClaim>, now: Timestamp) -> Vec<LineOutcome> {
        let mut served = BTreeSet::new();
        let mut outcomes = Vec::new();
        for LineClaim { line, subscription, requests, further } in lines {
            if matches!(subscription, Subscription::From(from) if from > now) {
                let refusal = InvalidField::future("subscriptionFrom");
                outcomes.push(LineOutcome::refused(requests.len(), refusal));
                continue;
            }
            self.move_due(&line.selector, now);
            self.begin(&line, subscription, now);
            self.poll(&line, now);
            let paused = self.maintenance.pops_paused;
            let results: Vec<_> = (requests.iter())
                .map(|request| self.serve(&line, request, &mut served, now))
                .collect();
            let look = further || results.iter().any(Option::is_none);
            let next_due = if look && !paused { self.next_due(&line, now) } else { None };
            let dropped = std::mem::take(&mut self.dropped);
            outcomes.push(LineOutcome { results, next_due, dropped, paused, refused: None });
        }
        outcomes
    }

    /// Creates the group of a line in each matching queue that does not have it yet.
    fn begin(&mut self, line: &QueueLine, subscription: Subscription, now: Timestamp) {
        let queues: Vec<_> = (self.queues.iter())
            .filter(|(name, queue)| queue.matches(name, &line.selector))
            .map(|(name, _)| name.clone())
            .collect();
        for queue in &queues {
            self.ensure_group(queue, &line.group, subscription, now);
        }
        let selector = match &line.selector {
            Selector::Queue(_) | Selector::Partition(..) if !queues.is_empty() => return,
            Selector::Partition(queue, _) => Selector::Queue(queue.clone()),
            selector => selector.clone(),
        };
        let known = (self.remembered.iter())
            .any(|other| other.selector == selector && other.group == line.group);
        if !known && subscription != Subscription::All && !line.group.is_queue_mode() {
            let group = line.group.clone();
            self.remembered.push(OracleSubscription { selector, group, subscription, at: now });
        }
    }

    /// Returns the cursors of a line in the order in which they are offered, with their due times.
    /// A group that does not exist yet is treated as one with the subscription `all`.
    fn offered(&self, line: &QueueLine, now: Timestamp) -> Vec<(CursorKey, Option<Timestamp>)> {
        let mut offered = Vec::new();
        for (name, queue) in &self.queues {
            if !queue.matches(name, &line.selector) {
                continue;
            }
            let group = queue.groups.get(&line.group);
            for (partition_name, partition) in &queue.partitions {
                let beginning = OracleCursor::at(partition.first, Timestamp(0));
                if matches!(&line.selector, Selector::Partition(_, p) if p != partition_name) {
                    continue;
                }
                let reading = OracleReading { options: &queue.options, partition, now };
                let cursor = group.map_or(&beginning, |group| &group.cursors[partition_name]);
                let due_at = reading.due_at(cursor);
                let key = CursorKey {
                    queue: name.clone(),
                    partition: partition_name.clone(),
                    group: line.group.clone(),
                };
                let options = &queue.options;
                let rank = (options.priority, options.partition_priority(partition_name));
                offered.push((std::cmp::Reverse(rank), due_at, key));
            }
        }
        offered.sort();
        offered.into_iter().map(|(_, due_at, key)| (key, due_at)).collect()
    }

    /// Returns the time until a message can be taken; zero if one can be taken now.
    pub(super) fn next_due(&self, line: &QueueLine, now: Timestamp) -> Option<Duration> {
        if line.is_background() {
            return self.background_due(now);
        }
        let read = self.offered(line, now).into_iter().filter_map(|(_, due_at)| due_at);
        let queues = self.queues.iter().filter(|(name, queue)| queue.matches(name, &line.selector));
        let open = self.maintenance.pushes == PushGate::Open;
        let queues = queues.filter(|_| open);
        let waits = queues.filter_map(|(_, queue)| queue.scheduled_due(&line.selector));
        read.chain(waits).min().map(|due_at| now.until(due_at))
    }

    /// Returns the due times of all scheduled messages and cursors, including past ones.
    pub(super) fn queue_moments(&self, now: Timestamp) -> Vec<Timestamp> {
        let mut due_times = Vec::new();
        for queue in self.queues.values() {
            due_times.extend(queue.scheduled.iter().map(|one| one.deliver_at));
            for group in queue.groups.values() {
                for (name, cursor) in &group.cursors {
                    let partition = &queue.partitions[name];
                    let reading = OracleReading { options: &queue.options, partition, now };
                    due_times.extend(reading.due_at(cursor));
                }
            }
        }
        due_times
    }

    fn serve(
        &mut self,
        line: &QueueLine,
        request: &ClaimRequest,
        served: &mut BTreeSet<CursorKey>,
        now: Timestamp,
    ) -> Option<QueueClaimResult> {
        let offered = self.offered(line, now);
        let repeated = self.held_under(&offered, request.token, now);
        if repeated.is_some() || self.maintenance.pops_paused {
            return repeated;
        }
        let mut gathered = OracleGathered::default();
        let (messages, bytes) = (request.batch_len_max as usize, request.bytes_max.max(1));
        let mut capacity = OracleBatchCapacity { messages, bytes };
        for (key, _) in offered {
            if !capacity.is_left(0, 0)
                || gathered.partitions.len() == request.partitions_len_max as usize
            {
                break;
            }
            if served.contains(&key) {
                continue;
            }
            let taken = self.take(&key, capacity, now);
            if taken.is_empty() {
                continue;
            }
            gathered.add(self, &key, &taken);
            capacity.messages -= taken.len();
            let last = gathered.partitions.last().expect("it was just added");
            let bytes: usize = last.messages.iter().map(|message| message.payload.len()).sum();
            capacity.bytes = capacity.bytes.saturating_sub(bytes as u64);
            if capacity.bytes == 0 {
                capacity.messages = 0;
            }
            self.hold(&key, request, taken, now);
            served.insert(key);
        }
        gathered.into_result(self, (!request.auto_ack).then_some(request.token), now)
    }

    fn take(
        &mut self,
        key: &CursorKey,
        capacity: OracleBatchCapacity,
        now: Timestamp,
    ) -> BTreeMap<i64, OracleHeld> {
        let queue = self.queues.get_mut(&key.queue).expect("it was offered");
        let group = queue.groups.get_mut(&key.group).expect("it was offered");
        let cursor = group.cursors.get_mut(&key.partition).expect("it was offered");
        let ran_out = cursor.lease.clone().filter(|lease| lease.until <= now);
        let partition = &queue.partitions[&key.partition];
        let reading = OracleReading { options: &queue.options, partition, now };
        let due = reading.due_at(cursor).is_some_and(|due_at| due_at <= now);
        let buried = reading.end_expired_lease(cursor);
        let lost = reading.pass_over(cursor);
        let taken = reading.take(cursor, capacity);
        queue.losses.add(lost);
        if buried.is_some() && !queue.options.dead_letters {
            queue.losses.dropped += 1;
        }
        assert_eq!(due, !taken.is_empty(), "the due time of {key:?} agrees with what can be taken");
        match buried {
            Some(buried) if queue.options.dead_letters => self.bury(key, buried, now),
            Some(buried) => self.dropped.push(Dropped {
                queue: key.queue.clone(),
                partition: key.partition.clone(),
                offset: buried.offset,
            }),
            None => {}
        }
        if let Some(lease) = ran_out {
            self.note(key, &lease, DeliveryOutcome::Expired, now);
        }
        taken
    }

    /// Leases the taken messages, or settles them at once if the request has `auto_ack`.
    fn hold(
        &mut self,
        key: &CursorKey,
        request: &ClaimRequest,
        unsettled: BTreeMap<i64, OracleHeld>,
        now: Timestamp,
    ) {
        let queue = self.queues.get_mut(&key.queue).expect("it was offered");
        let until = now.plus(Duration::from_secs(queue.options.lease_secs.into()));
        let cursor = queue.cursor_mut(key).expect("it was offered");
        cursor.freed_at = now;
        cursor.taken = Some((now, request.worker.clone()));
        let (token, worker, ends) = (request.token, request.worker.clone(), BTreeMap::new());
        let lease = OracleLease { token, until, unsettled, at: now, worker, ends };
        if request.auto_ack {
            queue.groups.get_mut(&key.group).expect("it was offered").settled = true;
            let lease = OracleLease { until: now, ..lease };
            self.note(key, &lease, DeliveryOutcome::Acked, now);
        } else {
            cursor.lease = Some(lease);
        }
    }

    /// Returns what is still leased under the request's token, in case the claim is repeated.
    fn held_under(
        &self,
        offered: &[(CursorKey, Option<Timestamp>)],
        token: LeaseToken,
        now: Timestamp,
    ) -> Option<QueueClaimResult> {
        let mut gathered = OracleGathered::default();
        for (key, _) in offered {
            let lease = self.cursor(key).lease.as_ref();
            if let Some(lease) = lease.filter(|lease| lease.token == token && lease.until > now) {
                gathered.add(self, key, &lease.unsettled);
            }
        }
        gathered.into_result(self, Some(token), now)
    }

    pub(super) fn cursor(&self, key: &CursorKey) -> &OracleCursor {
        &self.queues[&key.queue].groups[&key.group].cursors[&key.partition]
    }
}

/// The partitions that have been collected for a claim result.
#[derive(Default)]
struct OracleGathered {
    keys: Vec<CursorKey>,
    partitions: Vec<ClaimedPartition>,
}

impl OracleGathered {
    fn add(&mut self, state: &OracleState, key: &CursorKey, messages: &BTreeMap<i64, OracleHeld>) {
        let partition = &state.queues[&key.queue].partitions[&key.partition];
        let deliver =
            |(offset, held): (&i64, &OracleHeld)| delivered(partition, *offset, held.failures);
        self.keys.push(key.clone());
        self.partitions.push(ClaimedPartition {
            queue: key.queue.clone(),
            partition: key.partition.clone(),
            partition_id: partition.id,
            messages: messages.iter().map(deliver).collect(),
        });
    }

    fn into_result(
        self,
        state: &OracleState,
        token: Option<LeaseToken>,
        now: Timestamp,
    ) -> Option<QueueClaimResult> {
        let until = |key| state.cursor(key).lease.as_ref().map(|lease| lease.until);
        let first = self.keys.iter().filter_map(until).min();
        let lease_for = first.map_or(Duration::ZERO, |until| now.until(until));
        let cursor_id = |key: &CursorKey| CursorId {
            partition: state.queues[&key.queue].partitions[&key.partition].id,
            group: state.queues[&key.queue].groups[&key.group].id,
        };
        let cursors = self.keys.iter().map(cursor_id).collect();
        let lease = token.map(|token| LeaseId { token, cursors });
        let partitions = self.partitions;
        (!partitions.is_empty()).then_some(QueueClaimResult { lease, lease_for, partitions })
    }
}

/// Builds a message as its consumer sees it.
pub(super) fn delivered(partition: &OraclePartition, offset: i64, failures: u32) -> Delivered {
    let message = partition.message(offset);
    Delivered {
        id: message.id,
        transaction_id: message.transaction_id.clone(),
        trace_id: message.trace_id,
        payload: message.payload.clone(),
        created_at: message.created_at,
        offset,
        attempt: failures + 1,
        producer: message.producer.clone(),
    }
}
