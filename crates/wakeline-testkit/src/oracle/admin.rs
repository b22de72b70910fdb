//! Configuration and inspection of queues.

use std::time::Duration;

use wakeline_core::{
    Change, GroupName, PartitionId, PartitionName, QueueName, QueueOptions, Selector, Timestamp,
    TransactionId,
};
use wakeline_store::{ConfigureQueue, MessageDetail, MessageState, PatchQueue, QueueDetail};

use super::claim::delivered;
use super::dead::Buried;
use super::state::{OracleCursor, OracleMessage, OraclePartition, OracleState};

impl OracleState {
    pub(super) fn configure(
        &mut self,
        command: ConfigureQueue,
        now: Timestamp,
    ) -> (QueueDetail, Vec<Change>) {
        let name = &command.queue;
        if !self.queues.contains_key(name) {
            let (namespace, task) = name.derived_scope();
            let namespace = command.namespace.clone().or(namespace);
            let task = command.task.clone().or(task);
            self.make_queue(name, namespace, task, now);
        }
        let queue = self.queues.get_mut(name).expect("it was just made");
        queue.namespace = command.namespace.or(queue.namespace.take());
        queue.task = command.task.or(queue.task.take());
        if queue.options.group_idle_secs != command.options.group_idle_secs {
            queue.groups.values_mut().for_each(|group| group.polled_at = now);
        }
        queue.options = command.options;
        let change = queue.change(name, Duration::ZERO);
        (self.queue(name).expect("it was just made"), vec![change])
    }

    pub(super) fn patch(
        &mut self,
        command: PatchQueue,
        now: Timestamp,
    ) -> Option<(QueueDetail, Vec<Change>)> {
        let PatchQueue { queue, namespace, task, options, create } = command;
        let found = self.queues.get(&queue).map(|queue| queue.options.clone());
        let options = options.apply(found.or(create.then(QueueOptions::default))?);
        Some(self.configure(ConfigureQueue { queue, namespace, task, options }, now))
    }

    pub(super) fn queue(&self, name: &QueueName) -> Option<QueueDetail> {
        let queue = self.queues.get(name)?;
        Some(QueueDetail {
            id: queue.id,
            queue: name.clone(),
            namespace: queue.namespace.clone(),
            task: queue.task.clone(),
            options: queue.options.clone(),
            default_partition: queue.partitions[&PartitionName::default_partition()].id,
        })
    }

    pub(super) fn delete_queue(&mut self, name: &QueueName) -> bool {
        self.dead_letters.retain(|buried| buried.letter.queue != *name);
        self.remembered.retain(|other| other.selector != Selector::Queue(name.clone()));
        self.queues.remove(name).is_some()
    }

    pub(super) fn message(
        &self,
        id: PartitionId,
        transaction_id: &TransactionId,
        now: Timestamp,
    ) -> Option<MessageDetail> {
        let (queue_name, queue) = (self.queues.iter())
            .find(|(_, queue)| queue.partitions.values().any(|partition| partition.id == id))?;
        let (name, partition) = queue.partitions.iter().find(|(_, p)| p.id == id)?;
        let offset = named(partition, transaction_id)?;
        let failures = (queue.groups.get(&GroupName::queue_mode()))
            .map_or(0, |group| failures(&group.cursors[name], offset));
        let groups = (queue.groups.iter())
            .map(|(group_name, group)| {
                let state = message_state(&group.cursors[name], offset, now).unwrap_or_else(|| {
                    let message = partition.message(offset);
                    self.settled_state(group_name, message)
                });
                (group_name.clone(), state)
            })
            .collect();
        let id = partition.message(offset).id;
        let errors = queue.groups.iter().filter_map(|(group_name, group)| {
            let dead =
                |buried: &&Buried| buried.letter.id == id && buried.letter.group == *group_name;
            let dead = || self.dead_letters.iter().rfind(dead)?.letter.error.clone();
            let error = last_error(&group.cursors[name], offset).or_else(dead)?;
            Some((group_name.clone(), error))
        });
        Some(MessageDetail {
            queue: queue_name.clone(),
            partition: name.clone(),
            message: delivered(partition, offset, failures),
            groups,
            errors: errors.collect(),
            ledger: self.ledger(queue_name, name, offset, now),
        })
    }

    pub(super) fn settled_state(&self, group: &GroupName, message: &OracleMessage) -> MessageState {
        let dead =
            |Buried { letter, .. }: &Buried| letter.id == message.id && letter.group == *group;
        if self.dead_letters.iter().any(dead) {
            MessageState::DeadLetter
        } else {
            MessageState::Completed
        }
    }
}

/// Returns the offset of the newest message with a transaction id.
pub(super) fn named(partition: &OraclePartition, transaction_id: &TransactionId) -> Option<i64> {
    let named =
        |message: &OracleMessage| message.transaction_id == *transaction_id && !message.deleted;
    let index = partition.log.iter().rposition(named)?;
    Some(partition.first + i64::try_from(index).ok()?)
}

fn failures(cursor: &OracleCursor, offset: i64) -> u32 {
    let held = cursor.lease.as_ref().and_then(|lease| lease.unsettled.get(&offset));
    let parked = cursor.parked.get(&offset);
    held.map(|held| held.failures).or(parked.map(|parked| parked.failures)).unwrap_or(0)
}

/// Returns the last error of a message that is not settled yet.
fn last_error(cursor: &OracleCursor, offset: i64) -> Option<String> {
    let held = cursor.lease.as_ref().and_then(|lease| lease.unsettled.get(&offset));
    let parked = cursor.parked.get(&offset);
    held.map(|held| &held.error).or(parked.map(|parked| &parked.error))?.clone()
}

/// Returns the state of a message that is not settled yet; `None` if it is settled.
pub(super) fn message_state(
    cursor: &OracleCursor,
    offset: i64,
    now: Timestamp,
) -> Option<MessageState> {
    let lease = cursor.lease.as_ref().filter(|lease| lease.unsettled.contains_key(&offset));
    match lease {
        Some(lease) if lease.until > now => Some(MessageState::Processing),
        Some(_) => Some(MessageState::Pending),
        None if offset >= cursor.next => Some(MessageState::Pending),
        None if cursor.parked.contains_key(&offset) => Some(MessageState::Pending),
        None => None,
    }
}
