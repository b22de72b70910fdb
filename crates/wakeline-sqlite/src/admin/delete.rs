//! Deleting one message, for all groups.

use std::sync::Arc;

use rusqlite::OptionalExtension as _;
use wakeline_core::{Change, GroupName, Timestamp};
use wakeline_store::MessageKey;

use super::inspect::groups_of;
use crate::error::{Res, corrupt};
use crate::queue::cursor::Cursor;
use crate::queue::gap;
use crate::queue::ledger::{self, Rest};
use crate::session::{Queue, Session};

/// Deletes a message. Returns whether there was one, and whom to tell of what it held up.
pub(super) fn delete(s: &mut Session<'_>, message: &MessageKey) -> Res<(bool, Vec<Change>)> {
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
    let changes = let_go(s, &queue, (partition, offset))?;
    let first = gap::next_stored(s, partition, (0, i64::MAX))?;
    gap::trim(s, partition, first)?;
    s.hint(&changes);
    Ok((true, changes))
}

/// Takes the message from all cursors.
fn let_go(
    s: &Session<'_>,
    queue: &Arc<Queue>,
    (partition, offset): (i64, i64),
) -> Res<Vec<Change>> {
    let mut changes = Vec::new();
    for (group, name) in groups_of(s, queue)? {
        if let Some(cursor) = Cursor::read(s, partition, group)? {
            changes.extend(take_from(s, cursor, queue, (offset, name))?);
        }
    }
    Ok(changes)
}

fn take_from(
    s: &Session<'_>,
    mut cursor: Cursor,
    queue: &Queue,
    (offset, group): (i64, GroupName),
) -> Res<Option<Change>> {
    let stood = cursor.next;
    let parked = cursor.parked;
    if cursor.parked > 0 {
        cursor.unpark(s, offset)?;
    }
    if stood == offset {
        cursor.next = gap::next_stored(s, cursor.partition, (offset, cursor.tail))?;
    }
    let now = s.now.0;
    let mut held = false;
    if let Some(lease) = cursor.lease.as_mut().filter(|lease| lease.unsettled.contains(offset)) {
        held = true;
        lease.unsettled.remove(offset);
        match lease.until > now {
            true => lease.past.released.insert(offset),
            false => lease.past.expired.insert(offset),
        }
    }
    if !held && cursor.parked == parked && stood != offset {
        return Ok(None);
    }
    if cursor.lease.as_ref().is_some_and(|lease| lease.unsettled.is_empty()) {
        let live = cursor.live(now).is_some();
        ledger::note(s, &cursor, queue, if live { Rest::Released } else { Rest::Expired })?;
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
