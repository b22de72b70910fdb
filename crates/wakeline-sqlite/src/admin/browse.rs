//! Lists messages, newest first in each partition.
//!
//! # Invariants
//! * The cost of a call is bounded by its limit, regardless of the number of messages and
//!   partitions.

use rusqlite::Row;
use uuid::Uuid;
use wakeline_core::{GroupName, MessageId, PartitionId, Timestamp, TransactionId};
use wakeline_store::{
    BROWSE_EXAMINED_FACTOR, BROWSE_PARTITIONS_MAX, BrowsePosition, ListedMessage, ListedMessages,
    MessageFilter, Page,
};

use super::inspect::{groups_of, state};
use super::messages::{PartitionRow, list_partitions};
use crate::error::{Res, corrupt};
use crate::queue::cursor::{MessageInGroup, QueueCursor};
use crate::queue::group::first_since;
use crate::session::{DbSession, QueueRow};

/// A call that is listing messages.
struct BrowseState<'f> {
    filter: &'f MessageFilter,
    limit: usize,
    /// The number of messages that may still be read.
    left: u32,
    list: ListedMessages,
}

/// Lists messages, starting at a position.
pub(super) fn browse(
    s: &mut DbSession<'_>,
    filter: &MessageFilter,
    place: Option<BrowsePosition>,
    limit: u32,
) -> Res<ListedMessages> {
    let from = place.map_or(0, |place| place.partition.0);
    let page = Page { limit: BROWSE_PARTITIONS_MAX + 1, offset: 0 };
    let partitions = list_partitions(s, filter, from, page)?;
    let left = limit.saturating_mul(BROWSE_EXAMINED_FACTOR);
    let list = ListedMessages::default();
    let mut browsing = BrowseState { filter, limit: limit as usize, left, list };
    for (index, listed) in partitions.iter().enumerate() {
        if index == BROWSE_PARTITIONS_MAX as usize {
            let partition = PartitionId(listed.partition);
            browsing.list.next = Some(BrowsePosition { partition, before: i64::MAX });
        }
        if browsing.list.next.is_some() {
            break;
        }
        let here = place.filter(|place| place.partition.0 == listed.partition);
        let before = here.map_or(i64::MAX, |place| place.before).min(listed.tail);
        browsing.partition(s, listed, before)?;
    }
    Ok(browsing.list)
}

impl BrowseState<'_> {
    /// Adds matching messages of one partition, before an offset.
    fn partition(&mut self, s: &mut DbSession<'_>, listed: &PartitionRow, before: i64) -> Res<()> {
        let MessageFilter { from, to, .. } = self.filter;
        if from.is_some_and(|from| listed.last_push_at < from.0) {
            return Ok(());
        }
        let before = match to {
            Some(to) => first_since(s, listed.partition, listed.tail, to.0)?.min(before),
            None => before,
        };
        let missing = || corrupt("partition", listed.partition)("its queue is missing");
        let queue = s.queue_by_id(listed.queue)?.ok_or_else(missing)?;
        let groups = groups_of(s, &queue)?;
        let sql = include_str!("../../sql/queries/message_list.sql");
        let conn = s.conn;
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query((listed.partition, before))?;
        while let Some(row) = rows.next()? {
            let mut message = decode(row, &queue, listed)?;
            if from.is_some_and(|from| message.created_at < from) {
                break;
            }
            if self.list.messages.len() == self.limit || self.left == 0 {
                let (partition, before) = (PartitionId(listed.partition), message.offset + 1);
                self.list.next = Some(BrowsePosition { partition, before });
                break;
            }
            self.left -= 1;
            add_group_states(s, &mut message, &groups)?;
            if self.filter.state.is_none_or(|state| state == message.state()) {
                self.list.messages.push(message);
            }
        }
        Ok(())
    }
}

/// Adds the state of a message in each group.
fn add_group_states(
    s: &DbSession<'_>,
    message: &mut ListedMessage,
    groups: &[(i64, GroupName)],
) -> Res<()> {
    for (group, name) in groups {
        let Some(cursor) = QueueCursor::read(s, message.partition_id.0, *group)? else { continue };
        let in_group = MessageInGroup { group: name, cursor: &cursor, offset: message.offset };
        message.groups.push((name.clone(), state(s, in_group)?));
    }
    Ok(())
}

fn decode(row: &Row<'_>, queue: &QueueRow, listed: &PartitionRow) -> Res<ListedMessage> {
    let offset: i64 = row.get(0)?;
    let place = || format!("{}/{offset}", listed.partition);
    let (id, trace_id): (Vec<u8>, Option<Vec<u8>>) = (row.get(1)?, row.get(3)?);
    let uuid = |bytes: &[u8]| Uuid::from_slice(bytes).map_err(corrupt("message", place()));
    let transaction_id: String = row.get(2)?;
    Ok(ListedMessage {
        queue: queue.name.clone(),
        namespace: queue.namespace.clone(),
        task: queue.task.clone(),
        priority: queue.options.priority,
        partition: listed.name.clone(),
        partition_id: PartitionId(listed.partition),
        offset,
        id: MessageId(uuid(&id)?),
        transaction_id: TransactionId::new(transaction_id).map_err(corrupt("message", place()))?,
        trace_id: trace_id.as_deref().map(uuid).transpose()?,
        producer: row.get(4)?,
        created_at: Timestamp(row.get(5)?),
        groups: Vec::new(),
    })
}
