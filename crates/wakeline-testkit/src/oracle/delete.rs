//! Deleting one message, for all groups.

use wakeline_core::{Change, Timestamp};
use wakeline_store::{DeliveryOutcome, MessageKey};

use super::admin::named;
use super::claim::CursorKey;
use super::state::OracleState;

impl OracleState {
    /// Deletes a message for all groups. Returns whether it existed, and the changes for the groups
    /// that it had blocked.
    pub(super) fn delete_message(
        &mut self,
        message: &MessageKey,
        now: Timestamp,
    ) -> (bool, Vec<Change>) {
        let found =
            self.partitions_in_order().into_iter().find(|(.., p)| p.id == message.partition);
        let Some((queue, name, partition)) = found else { return (false, Vec::new()) };
        let Some(offset) = named(partition, &message.transaction_id) else {
            return (false, Vec::new());
        };
        let (queue, name) = (queue.clone(), name.clone());
        let state = self.queues.get_mut(&queue).expect("it was just found");
        let partition = state.partitions.get_mut(&name).expect("it was just found");
        let index = usize::try_from(offset - partition.first).expect("it is stored");
        partition.log[index].deleted = true;
        partition.log[index].traces.clear();
        let groups: Vec<_> = state.groups.keys().cloned().collect();
        let mut changes = Vec::new();
        for group in groups {
            let key = CursorKey { queue: queue.clone(), partition: name.clone(), group };
            changes.extend(self.take_from(&key, offset, now));
        }
        let state = self.queues.get_mut(&queue).expect("it was just found");
        state.partitions.get_mut(&name).expect("it was just found").trim();
        (true, changes)
    }

    /// Removes a deleted message from a cursor.
    fn take_from(&mut self, key: &CursorKey, offset: i64, now: Timestamp) -> Option<Change> {
        let queue = self.queues.get_mut(&key.queue).expect("it has the cursor");
        let partition = &queue.partitions[&key.partition];
        let beyond = partition.beyond(offset);
        let cursor = queue.cursor_mut(key).expect("it is there");
        let mut touched = cursor.parked.remove(&offset).is_some();
        if cursor.next == offset {
            cursor.next = beyond;
            touched = true;
        }
        let mut ended = None;
        if let Some(lease) = &mut cursor.lease
            && lease.unsettled.remove(&offset).is_some()
        {
            let live = lease.until > now;
            let outcome = if live { DeliveryOutcome::Released } else { DeliveryOutcome::Expired };
            lease.ends.insert(offset, outcome);
            ended = cursor.lease.take_if(|lease| lease.unsettled.is_empty());
        }
        if cursor.lease.is_some() || !(touched || ended.is_some()) {
            return None;
        }
        cursor.freed_at = now;
        if let Some(lease) = ended {
            self.note(key, &lease, DeliveryOutcome::Released, now);
        }
        self.left_behind(key, now)
    }
}
