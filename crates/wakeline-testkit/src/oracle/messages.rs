//! Messages: browsing them, intervening, and removing them.

use async_trait::async_trait;
use wakeline_core::{Change, GroupName, PartitionId, PartitionName, QueueName, Timestamp};
use wakeline_store::{
    BROWSE_EXAMINED_FACTOR, BROWSE_PARTITIONS_MAX, BrowsePosition, DeliveryOutcome,
    GIVE_UP_DISTANCE_MAX, Intervention, InterventionOutcome, ListedMessage, ListedMessages,
    MessageFilter, MessageKey, Page, PartitionDetail, QueueMessages, StoreError,
};

use super::MemoryStore;
use super::admin::{message_state, named};
use super::claim::CursorKey;
use super::state::{
    OracleCursor, OracleHeld, OracleLease, OracleParked, OraclePartition, OracleQueue, OracleState,
};
use super::take::Doomed;

impl OracleState {
    fn browse(
        &self,
        filter: &MessageFilter,
        place: Option<BrowsePosition>,
        limit: u32,
        now: Timestamp,
    ) -> ListedMessages {
        let mut list = ListedMessages::default();
        let (mut looked, mut partitions) = (0, 0);
        for (queue, name, partition) in self.partitions_in_order() {
            let since = place.is_none_or(|place| partition.id >= place.partition);
            if !since || !fits(filter, queue, &self.queues[queue], name) {
                continue;
            }
            if partitions == BROWSE_PARTITIONS_MAX {
                let before = i64::MAX;
                list.next = Some(BrowsePosition { partition: partition.id, before });
                return list;
            }
            partitions += 1;
            let before = place.filter(|place| place.partition == partition.id);
            let before = before.map_or(i64::MAX, |place| place.before).min(partition.end());
            for offset in (partition.first..before).rev().filter(|at| !partition.is_gap(*at)) {
                let at = partition.message(offset).created_at;
                if filter.to.is_some_and(|to| at >= to) {
                    continue;
                }
                if filter.from.is_some_and(|from| at < from) {
                    break;
                }
                if list.messages.len() == limit as usize || looked == limit * BROWSE_EXAMINED_FACTOR
                {
                    let place = BrowsePosition { partition: partition.id, before: offset + 1 };
                    list.next = Some(place);
                    return list;
                }
                looked += 1;
                let message = self.listed(queue, name, offset, now);
                if filter.state.is_none_or(|state| state == message.state()) {
                    list.messages.push(message);
                }
            }
        }
        list
    }

    pub(super) fn partitions_in_order(
        &self,
    ) -> Vec<(&QueueName, &PartitionName, &OraclePartition)> {
        let each = self.queues.iter().flat_map(|(name, queue)| {
            queue.partitions.iter().map(move |(partition, state)| (name, partition, state))
        });
        let mut all: Vec<_> = each.collect();
        all.sort_by_key(|(_, _, partition)| partition.id);
        all
    }

    fn listed(
        &self,
        queue_name: &QueueName,
        name: &PartitionName,
        offset: i64,
        now: Timestamp,
    ) -> ListedMessage {
        let queue = &self.queues[queue_name];
        let partition = &queue.partitions[name];
        let message = partition.message(offset);
        let groups = queue.groups.iter().map(|(group, state)| {
            let standing = message_state(&state.cursors[name], offset, now);
            (group.clone(), standing.unwrap_or_else(|| self.settled_state(group, message)))
        });
        ListedMessage {
            queue: queue_name.clone(),
            namespace: queue.namespace.clone(),
            task: queue.task.clone(),
            priority: queue.options.priority,
            partition: name.clone(),
            partition_id: partition.id,
            offset,
            id: message.id,
            transaction_id: message.transaction_id.clone(),
            trace_id: message.trace_id,
            producer: message.producer.clone(),
            created_at: message.created_at,
            groups: groups.collect(),
        }
    }

    fn intervene(
        &mut self,
        message: &MessageKey,
        group: &GroupName,
        intervention: Intervention,
        now: Timestamp,
    ) -> (InterventionOutcome, Vec<Change>) {
        let found =
            self.partitions_in_order().into_iter().find(|(.., p)| p.id == message.partition);
        let offset = found.and_then(|(.., p)| named(p, &message.transaction_id));
        let Some(offset) = offset else { return (InterventionOutcome::Missing, Vec::new()) };
        let Some(key) = self.find(message.partition, |key, _| key.group == *group) else {
            return (InterventionOutcome::NoGroup, Vec::new());
        };
        let queue = self.queues.get_mut(&key.queue).expect("it was just found");
        let cursor = queue.cursor_mut(&key).expect("it was just found");
        let held = |cursor: &mut OracleCursor| {
            cursor.live_lease(now).is_some_and(|lease| lease.unsettled.contains_key(&offset))
        };
        if held(cursor) {
            return (InterventionOutcome::Leased, Vec::new());
        }
        let free = cursor.lease.is_none();
        let outcome = match intervention {
            Intervention::Retry => self.retry(&key, offset, now),
            Intervention::GiveUp { error } => self.give_up(&key, offset, error, now),
        };
        let notify = outcome == InterventionOutcome::Done && free;
        (outcome, self.left_behind(&key, now).into_iter().filter(|_| notify).collect())
    }

    fn retry(&mut self, key: &CursorKey, offset: i64, now: Timestamp) -> InterventionOutcome {
        let id = self.queues[&key.queue].partitions[&key.partition].message(offset).id;
        let queue = self.queues.get_mut(&key.queue).expect("it was just found");
        let cursor = queue.cursor_mut(key).expect("it was just found");
        let expired = cursor.lease.as_ref().is_some_and(|l| l.unsettled.contains_key(&offset));
        if offset >= cursor.next || expired {
            return InterventionOutcome::Done;
        }
        if let Some(parked) = cursor.parked.get_mut(&offset) {
            parked.due_at = parked.due_at.min(now);
            return InterventionOutcome::Done;
        }
        let parked = OracleParked { failures: 0, due_at: now, error: None, alone: false };
        cursor.parked.insert(offset, parked);
        self.dead_letters
            .retain(|buried| buried.letter.id != id || buried.letter.group != key.group);
        InterventionOutcome::Done
    }

    fn give_up(
        &mut self,
        key: &CursorKey,
        offset: i64,
        error: Option<String>,
        now: Timestamp,
    ) -> InterventionOutcome {
        let queue = self.queues.get_mut(&key.queue).expect("it was just found");
        let partition = queue.partitions[&key.partition].clone();
        let cursor = queue.cursor_mut(key).expect("it was just found");
        let lease = cursor.lease.as_mut();
        let mut ended = None;
        let held = if let Some(held) = lease.and_then(|lease| lease.take_back(offset)) {
            if cursor.lease.as_ref().is_some_and(|lease| lease.unsettled.is_empty()) {
                ended = cursor.lease.take();
                cursor.freed_at = now;
            }
            held
        } else if let Some(parked) = cursor.parked.remove(&offset) {
            let OracleParked { failures, error, alone, .. } = parked;
            OracleHeld { failures, error, alone, from_log: false }
        } else if offset < cursor.next {
            return InterventionOutcome::Settled;
        } else if partition.between(cursor.next, offset) > GIVE_UP_DISTANCE_MAX.unsigned_abs() {
            return InterventionOutcome::TooFar;
        } else {
            for before in (cursor.next..offset).filter(|before| !partition.is_gap(*before)) {
                let parked = OracleParked { failures: 0, due_at: now, error: None, alone: false };
                cursor.parked.insert(before, parked);
            }
            cursor.next = partition.beyond(offset + 1);
            OracleHeld { failures: 0, error: None, alone: false, from_log: true }
        };
        let held = OracleHeld { error: error.or(held.error), ..held };
        self.bury(key, Doomed { offset, held }, now);
        if let Some(lease) = ended {
            self.note(key, &lease, DeliveryOutcome::Expired, now);
        }
        InterventionOutcome::Done
    }

    fn clear(
        &mut self,
        name: &QueueName,
        only: Option<&PartitionName>,
        dead_letters: bool,
        now: Timestamp,
    ) -> Option<u64> {
        let queue = self.queues.get_mut(name)?;
        let chosen = |name: &PartitionName| only.is_none_or(|only| only == name);
        if only.is_some_and(|only| !queue.partitions.contains_key(only)) {
            return None;
        }
        let (mut gone, mut moved) = (0, Vec::new());
        for (partition_name, partition) in
            queue.partitions.iter_mut().filter(|(partition, _)| chosen(partition))
        {
            gone += partition.stored();
            partition.first = partition.end();
            partition.log.clear();
            for group in queue.groups.keys().cloned() {
                let (queue, partition_name) = (name.clone(), partition_name.clone());
                let key = CursorKey { queue, partition: partition_name, group };
                moved.push((key, partition.first));
            }
        }
        for (key, next) in moved {
            self.move_cursor(&key, next, now);
        }
        if dead_letters {
            self.dead_letters
                .retain(|buried| buried.letter.queue != *name || !chosen(&buried.letter.partition));
        }
        Some(gone)
    }

    fn delete_partition(&mut self, queue: &QueueName, name: &PartitionName) -> bool {
        let Some(state) = self.queues.get_mut(queue) else { return false };
        if *name == PartitionName::default_partition() {
            return false;
        }
        for group in state.groups.values_mut() {
            group.cursors.remove(name);
        }
        let Some(partition) = state.partitions.remove(name) else { return false };
        state.scheduled.retain(|one| one.partition != *name);
        self.dead_letters.retain(|buried| buried.letter.partition_id != partition.id);
        true
    }
}

impl OracleLease {
    /// Takes a message out of an expired lease.
    fn take_back(&mut self, offset: i64) -> Option<OracleHeld> {
        let held = self.unsettled.remove(&offset)?;
        self.ends.insert(offset, DeliveryOutcome::Expired);
        Some(held)
    }
}

fn fits(
    filter: &MessageFilter,
    name: &QueueName,
    queue: &OracleQueue,
    partition: &PartitionName,
) -> bool {
    filter.queue.as_ref().is_none_or(|only| only == name)
        && filter.partition.as_ref().is_none_or(|only| only == partition)
        && (filter.namespace.is_none() || filter.namespace == queue.namespace)
        && (filter.task.is_none() || filter.task == queue.task)
}

fn detail(
    queue: &QueueName,
    state: &OracleQueue,
    name: &PartitionName,
    p: &OraclePartition,
) -> PartitionDetail {
    PartitionDetail {
        queue: queue.clone(),
        namespace: state.namespace.clone(),
        task: state.task.clone(),
        partition: name.clone(),
        partition_id: PartitionId(p.id.0),
        end: p.end().unsigned_abs(),
        last_push_at: (p.end() > 0).then_some(p.last_push_at),
    }
}

#[async_trait]
impl QueueMessages for MemoryStore {
    async fn browse(
        &self,
        filter: MessageFilter,
        place: Option<BrowsePosition>,
        limit: u32,
    ) -> Result<ListedMessages, StoreError> {
        let state = self.state.lock();
        Ok(state.browse(&filter, place, limit, self.now()))
    }

    async fn intervene(
        &self,
        message: MessageKey,
        group: &GroupName,
        intervention: Intervention,
    ) -> Result<(InterventionOutcome, Vec<Change>), StoreError> {
        Ok(self.recorded(|state, now| state.intervene(&message, group, intervention, now)))
    }

    async fn delete_message(&self, message: MessageKey) -> Result<(bool, Vec<Change>), StoreError> {
        Ok(self.recorded(|state, now| state.delete_message(&message, now)))
    }

    async fn clear_queue(
        &self,
        queue: &QueueName,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError> {
        Ok(self.recorded(|state, now| state.clear(queue, None, dead_letters, now)))
    }

    async fn clear_partition(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError> {
        Ok(self.recorded(|state, now| state.clear(queue, Some(partition), dead_letters, now)))
    }

    async fn delete_partition(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
    ) -> Result<bool, StoreError> {
        Ok(self.recorded(|state, _| state.delete_partition(queue, partition)))
    }

    async fn partitions(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<PartitionDetail>, StoreError> {
        let state = self.state.lock();
        let all = state.partitions_in_order().into_iter();
        let fitting = all.filter(|(name, ..)| queue.is_none_or(|only| only == *name));
        let each =
            fitting.map(|(name, partition, p)| detail(name, &state.queues[name], partition, p));
        Ok(each.skip(page.offset as usize).take(page.limit as usize).collect())
    }
}
