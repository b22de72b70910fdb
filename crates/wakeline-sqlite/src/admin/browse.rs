//! Looking through messages, newest first in each partition.
//!
//! # Invariants
//! * What one call costs is bounded by its limit, however many messages and partitions there are.

use rusqlite::Row;
use uuid::Uuid;
use wakeline_core::{GroupName, MessageId, PartitionId, Timestamp, TransactionId};
use wakeline_store::{
    BROWSE_LOOK, BROWSE_PARTITIONS, ListedMessage, ListedMessages, MessageFilter, MessagePlace,
    Page,
};

use super::inspect::{groups_of, state};
use super::messages::{Listed, list_partitions};
use crate::error::{Res, corrupt};
use crate::queue::cursor::Cursor;
use crate::queue::group::first_since;
use crate::session::{Queue, Session};

/// A look that is under way.
struct Look<'f> {
    filter: &'f MessageFilter,
    limit: usize,
    /// Messages that may still be looked at.
    left: u32,
    list: ListedMessages,
}

/// Messages from a place on.
pub(super) fn browse(
    s: &mut Session<'_>,
    filter: &MessageFilter,
    (place, limit): (Option<MessagePlace>, u32),
) -> Res<ListedMessages> {
    let from = place.map_or(0, |place| place.partition.0);
    let page = Page { limit: BROWSE_PARTITIONS + 1, offset: 0 };
    let partitions = list_partitions(s, filter, (from, page))?;
    let left = limit.saturating_mul(BROWSE_LOOK);
    let list = ListedMessages::default();
    let mut look = Look { filter, limit: limit as usize, left, list };
    for (index, listed) in partitions.iter().enumerate() {
        if index == BROWSE_PARTITIONS as usize {
            let partition = PartitionId(listed.partition);
            look.list.next = Some(MessagePlace { partition, before: i64::MAX });
        }
        if look.list.next.is_some() {
            break;
        }
        let here = place.filter(|place| place.partition.0 == listed.partition);
        let before = here.map_or(i64::MAX, |place| place.before).min(listed.tail);
        look.partition(s, listed, before)?;
    }
    Ok(look.list)
}

impl Look<'_> {
    /// Looks through one partition, before an offset.
    fn partition(&mut self, s: &mut Session<'_>, listed: &Listed, before: i64) -> Res<()> {
        let MessageFilter { from, to, .. } = self.filter;
        if from.is_some_and(|from| listed.last_push_at < from.0) {
            return Ok(());
        }
        let before = match to {
            Some(to) => first_since(s, listed.partition, (listed.tail, to.0))?.min(before),
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
                self.list.next = Some(MessagePlace { partition, before });
                break;
            }
            self.left -= 1;
            stand(s, &mut message, &groups)?;
            if self.filter.state.is_none_or(|state| state == message.state()) {
                self.list.messages.push(message);
            }
        }
        Ok(())
    }
}

/// How each group stands with a message.
fn stand(s: &Session<'_>, message: &mut ListedMessage, groups: &[(i64, GroupName)]) -> Res<()> {
    for (group, name) in groups {
        let Some(cursor) = Cursor::read(s, message.partition_id.0, *group)? else { continue };
        message.groups.push((name.clone(), state(s, &cursor, (message.offset, name))?));
    }
    Ok(())
}

fn decode(row: &Row<'_>, queue: &Queue, listed: &Listed) -> Res<ListedMessage> {
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
