//! Claims and sweeps: which partitions are offered to which request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wakeline_core::{
    CursorId, GroupName, LeaseId, LeaseToken, PartitionName, QueueLine, QueueName, Selector,
    Subscription, Timestamp,
};
use wakeline_store::{
    ClaimRequest, Delivered, DeliveryOutcome, Dropped, Grant, GrantedPartition, InvalidField,
    LineClaim, LineOutcome, PushGate,
};

use super::state::{Cursor, Held, Lease, Partition, Remembered, State};
use super::take::{Reading, Room};

/// Names a cursor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CursorKey {
    pub(super) queue: QueueName,
    pub(super) partition: PartitionName,
    pub(super) group: GroupName,
}

impl State {
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
            let grants: Vec<_> = (requests.iter())
                .map(|request| self.serve(&line, request, &mut served, now))
                .collect();
            let look = further || grants.iter().any(Option::is_none);
            let next_due = if look && !paused { self.next_due(&line, now) } else { None };
            let dropped = std::mem::take(&mut self.dropped);
            outcomes.push(LineOutcome { grants, next_due, dropped, paused, refused: None });
        }
        outcomes
    }

    /// Begins the group of a line where it has not begun yet.
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
            self.remembered.push(Remembered { selector, group, subscription, at: now });
        }
    }

    /// The cursors of a line in the order in which they are offered, with their due times. A group
    /// that has not begun is read as one that begins with `all`.
    fn offered(&self, line: &QueueLine, now: Timestamp) -> Vec<(CursorKey, Option<Timestamp>)> {
        let mut offered = Vec::new();
        for (name, queue) in &self.queues {
            if !queue.matches(name, &line.selector) {
                continue;
            }
            let group = queue.groups.get(&line.group);
            for (partition_name, partition) in &queue.partitions {
                let beginning = Cursor::at(partition.first, Timestamp(0));
                if matches!(&line.selector, Selector::Partition(_, p) if p != partition_name) {
                    continue;
                }
                let reading = Reading { options: &queue.options, partition, now };
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

    /// The time until something can be taken; zero if it can be now.
    pub(super) fn next_due(&self, line: &QueueLine, now: Timestamp) -> Option<Duration> {
        if line.is_chores() {
            return self.chores_due(now);
        }
        let read = self.offered(line, now).into_iter().filter_map(|(_, due_at)| due_at);
        let queues = self.queues.iter().filter(|(name, queue)| queue.matches(name, &line.selector));
        let open = self.maintenance.pushes == PushGate::Open;
        let queues = queues.filter(|_| open);
        let waits = queues.filter_map(|(_, queue)| queue.scheduled_due(&line.selector));
        read.chain(waits).min().map(|due_at| now.until(due_at))
    }

    /// When each cursor has something, or had.
    pub(super) fn queue_moments(&self, now: Timestamp) -> Vec<Timestamp> {
        let mut moments = Vec::new();
        for queue in self.queues.values() {
            moments.extend(queue.scheduled.iter().map(|one| one.deliver_at));
            for group in queue.groups.values() {
                for (name, cursor) in &group.cursors {
                    let partition = &queue.partitions[name];
                    let reading = Reading { options: &queue.options, partition, now };
                    moments.extend(reading.due_at(cursor));
                }
            }
        }
        moments
    }

    fn serve(
        &mut self,
        line: &QueueLine,
        request: &ClaimRequest,
        served: &mut BTreeSet<CursorKey>,
        now: Timestamp,
    ) -> Option<Grant> {
        let offered = self.offered(line, now);
        let repeated = self.held_under(&offered, request.token, now);
        if repeated.is_some() || self.maintenance.pops_paused {
            return repeated;
        }
        let mut gathered = Gathered::default();
        let (messages, bytes) = (request.batch_len_max as usize, request.bytes_max.max(1));
        let mut room = Room { messages, bytes };
        for (key, _) in offered {
            if !room.is_left(0, 0)
                || gathered.partitions.len() == request.partitions_len_max as usize
            {
                break;
            }
            if served.contains(&key) {
                continue;
            }
            let taken = self.take(&key, room, now);
            if taken.is_empty() {
                continue;
            }
            gathered.add(self, &key, &taken);
            room.messages -= taken.len();
            let last = gathered.partitions.last().expect("it was just added");
            let bytes: usize = last.messages.iter().map(|message| message.payload.len()).sum();
            room.bytes = room.bytes.saturating_sub(bytes as u64);
            if room.bytes == 0 {
                room.messages = 0;
            }
            self.hold(&key, request, taken, now);
            served.insert(key);
        }
        gathered.grant(self, (!request.auto_ack).then_some(request.token), now)
    }

    fn take(&mut self, key: &CursorKey, room: Room, now: Timestamp) -> BTreeMap<i64, Held> {
        let queue = self.queues.get_mut(&key.queue).expect("it was offered");
        let group = queue.groups.get_mut(&key.group).expect("it was offered");
        let cursor = group.cursors.get_mut(&key.partition).expect("it was offered");
        let ran_out = cursor.lease.clone().filter(|lease| lease.until <= now);
        let partition = &queue.partitions[&key.partition];
        let reading = Reading { options: &queue.options, partition, now };
        let due = reading.due_at(cursor).is_some_and(|due_at| due_at <= now);
        let buried = reading.end_expired_lease(cursor);
        let lost = reading.pass_over(cursor);
        let taken = reading.take(cursor, room);
        queue.losses.add(lost);
        if buried.is_some() && !queue.options.dead_letters {
            queue.losses.dropped += 1;
        }
        assert_eq!(due, !taken.is_empty(), "the due time of {key:?} agrees with what it gives");
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

    /// Rule 6.
    fn hold(
        &mut self,
        key: &CursorKey,
        request: &ClaimRequest,
        unsettled: BTreeMap<i64, Held>,
        now: Timestamp,
    ) {
        let queue = self.queues.get_mut(&key.queue).expect("it was offered");
        let until = now.plus(Duration::from_secs(queue.options.lease_secs.into()));
        let cursor = queue.cursor_mut(key).expect("it was offered");
        cursor.freed_at = now;
        cursor.taken = Some((now, request.worker.clone()));
        let (token, worker, ends) = (request.token, request.worker.clone(), BTreeMap::new());
        let lease = Lease { token, until, unsettled, at: now, worker, ends };
        match request.auto_ack {
            false => cursor.lease = Some(lease),
            true => {
                queue.groups.get_mut(&key.group).expect("it was offered").settled = true;
                let lease = Lease { until: now, ..lease };
                self.note(key, &lease, DeliveryOutcome::Acked, now);
            }
        }
    }

    /// What is still held under the token of a repeated claim.
    fn held_under(
        &self,
        offered: &[(CursorKey, Option<Timestamp>)],
        token: LeaseToken,
        now: Timestamp,
    ) -> Option<Grant> {
        let mut gathered = Gathered::default();
        for (key, _) in offered {
            let lease = self.cursor(key).lease.as_ref();
            if let Some(lease) = lease.filter(|lease| lease.token == token && lease.until > now) {
                gathered.add(self, key, &lease.unsettled);
            }
        }
        gathered.grant(self, Some(token), now)
    }

    pub(super) fn cursor(&self, key: &CursorKey) -> &Cursor {
        &self.queues[&key.queue].groups[&key.group].cursors[&key.partition]
    }
}

/// A grant on its way.
#[derive(Default)]
struct Gathered {
    keys: Vec<CursorKey>,
    partitions: Vec<GrantedPartition>,
}

impl Gathered {
    fn add(&mut self, state: &State, key: &CursorKey, messages: &BTreeMap<i64, Held>) {
        let partition = &state.queues[&key.queue].partitions[&key.partition];
        let deliver = |(offset, held): (&i64, &Held)| delivered(partition, *offset, held.failures);
        self.keys.push(key.clone());
        self.partitions.push(GrantedPartition {
            queue: key.queue.clone(),
            partition: key.partition.clone(),
            partition_id: partition.id,
            messages: messages.iter().map(deliver).collect(),
        });
    }

    fn grant(self, state: &State, token: Option<LeaseToken>, now: Timestamp) -> Option<Grant> {
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
        (!partitions.is_empty()).then_some(Grant { lease, lease_for, partitions })
    }
}

/// A message as its consumer sees it.
pub(super) fn delivered(partition: &Partition, offset: i64, failures: u32) -> Delivered {
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
