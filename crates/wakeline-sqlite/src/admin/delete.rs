//! Deletes one message for all groups.

use std::sync::Arc;

use rusqlite::OptionalExtension as _;
use wakeline_core::{Change, GroupName, Timestamp};
use wakeline_store::MessageKey;

use super::inspect::groups_of;
use crate::error::{Res, corrupt};
use crate::queue::cursor::QueueCursor;
use crate::queue::gap;
use crate::queue::ledger::{self, UnsettledOutcome};
use crate::session::{DbSession, QueueRow};

/// A message that is being deleted.
struct DeletedMessage {
    queue: Arc<QueueRow>,
    partition: i64,
    offset: i64,
}

/// Deletes a message. Returns whether it existed, and hints for the messages that it had blocked.
pub(super) fn delete(s: &mut DbSession<'_>, message: &MessageKey) -> Res<(bool, Vec<Change>)> {
    let partition = message.partition.0;
    let sql = include_str!("../../sql/queries/message_newest.sql");
    let params = (partition, message.transaction_id.as_str());
    let found: Option<(i64, i64)> = (s.conn.prepare_cached(sql)?)
        .query_row(params, |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((offset, queue)) = found else { return Ok((false, Vec::new())) };
    let missing = || corrupt("partition", partition)("its queue is missing");
    let queue = s.queue_by_id(queue)?.ok_or_else(missing)?;
    for sql in [
        include_str!("../../sql/queries/message_delete.sql"),
        include_str!("../../sql/queries/trace_delete.sql"),
        include_str!("../../sql/queries/gap_add.sql"),
    ] {
        s.conn.prepare_cached(sql)?.execute((partition, offset))?;
    }
    gap::recount(s, partition)?;
    let changes = remove_from_cursors(s, &DeletedMessage { queue, partition, offset })?;
    let first = gap::next_stored(s, partition, 0, i64::MAX)?;
    gap::trim(s, partition, first)?;
    s.hint(&changes);
    Ok((true, changes))
}

/// Removes the message from all cursors of its partition.
fn remove_from_cursors(s: &DbSession<'_>, deleted: &DeletedMessage) -> Res<Vec<Change>> {
    let mut changes = Vec::new();
    for (group, name) in groups_of(s, &deleted.queue)? {
        if let Some(cursor) = QueueCursor::read(s, deleted.partition, group)? {
            changes.extend(remove_from_cursor(s, cursor, name, deleted)?);
        }
    }
    Ok(changes)
}

fn remove_from_cursor(
    s: &DbSession<'_>,
    mut cursor: QueueCursor,
    group: GroupName,
    deleted: &DeletedMessage,
) -> Res<Option<Change>> {
    let DeletedMessage { queue, offset, .. } = deleted;
    let offset = *offset;
    let next_before = cursor.next;
    let parked = cursor.parked;
    if cursor.parked > 0 {
        cursor.unpark(s, offset)?;
    }
    if next_before == offset {
        cursor.next = gap::next_stored(s, cursor.partition, offset, cursor.tail)?;
    }
    let now = s.now.0;
    let mut was_leased = false;
    if let Some(lease) = cursor.lease.as_mut().filter(|lease| lease.unsettled.contains(offset)) {
        was_leased = true;
        lease.unsettled.remove(offset);
        if lease.until > now {
            lease.outcomes.released.insert(offset);
        } else {
            lease.outcomes.expired.insert(offset);
        }
    }
    if !was_leased && cursor.parked == parked && next_before != offset {
        return Ok(None);
    }
    if cursor.lease.as_ref().is_some_and(|lease| lease.unsettled.is_empty()) {
        let live = cursor.live(now).is_some();
        ledger::record_lease_end(
            s,
            &cursor,
            queue,
            if live { UnsettledOutcome::Released } else { UnsettledOutcome::Expired },
        )?;
        cursor.lease = None;
    }
    if cursor.lease.is_none() {
        cursor.freed_at = now;
    }
    cursor.due_at = cursor.due(s, queue)?;
    cursor.write(s)?;
    let free = cursor.lease.is_none();
    Ok(cursor.due_at.filter(|_| free).map(|due_at| Change {
        partition: Some(cursor.partition_name.clone()),
        group: Some(group),
        ..queue.change(s.now.until(Timestamp(due_at)))
    }))
}
