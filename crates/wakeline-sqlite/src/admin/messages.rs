//! Interventions in single messages, clearing of queues and partitions, and lists of partitions.

use wakeline_core::{
    Change, GroupName, Namespace, PartitionId, PartitionName, QueueName, TaskName, Timestamp,
};
use wakeline_store::{
    GIVE_UP_DISTANCE_MAX, Intervention, InterventionOutcome, MessageFilter, MessageKey, Page,
    PartitionDetail,
};

use super::inspect::groups_of;
use crate::error::{Res, corrupt};
use crate::queue::cursor::{ParkedMessage, QueueCursor, RetryState};
use crate::queue::gap;
use crate::queue::ledger::{self, UnsettledOutcome};
use crate::session::{DbSession, QueueRow};
use rusqlite::OptionalExtension as _;

/// Retries a message in a group, or makes it a dead letter.
pub(super) fn intervene(
    s: &mut DbSession<'_>,
    message: &MessageKey,
    group: &GroupName,
    intervention: &Intervention,
) -> Res<(InterventionOutcome, Vec<Change>)> {
    let partition = message.partition.0;
    let sql = include_str!("../../sql/queries/message_newest.sql");
    let params = (partition, message.transaction_id.as_str());
    let offset: Option<i64> =
        s.conn.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?;
    let Some(offset) = offset else { return Ok((InterventionOutcome::Missing, Vec::new())) };
    let Some(mut cursor) = QueueCursor::named(s, partition, group)? else {
        return Ok((InterventionOutcome::NoGroup, Vec::new()));
    };
    if cursor.live(s.now.0).is_some_and(|lease| lease.unsettled.contains(offset)) {
        return Ok((InterventionOutcome::Leased, Vec::new()));
    }
    let free = cursor.lease.is_none();
    let missing = || corrupt("cursor", cursor.name())("its queue is missing");
    let queue = s.queue_by_id(cursor.queue)?.ok_or_else(missing)?;
    let outcome = match intervention {
        Intervention::Retry => retry(s, &mut cursor, offset, group)?,
        Intervention::GiveUp { error } => {
            let given_up = GivenUpMessage { offset, error: error.clone() };
            bury(s, &mut cursor, &queue, given_up)?
        }
    };
    if outcome != InterventionOutcome::Done {
        return Ok((outcome, Vec::new()));
    }
    cursor.due_at = cursor.due(s, &queue)?;
    cursor.write(s)?;
    let change = cursor.due_at.filter(|_| free).map(|due_at| Change {
        partition: Some(cursor.partition_name.clone()),
        group: Some(group.clone()),
        ..queue.change(s.now.until(Timestamp(due_at)))
    });
    let changes: Vec<_> = change.into_iter().collect();
    s.hint(&changes);
    Ok((outcome, changes))
}

fn retry(
    s: &DbSession<'_>,
    cursor: &mut QueueCursor,
    offset: i64,
    group: &GroupName,
) -> Res<InterventionOutcome> {
    if cursor.has_ahead(s, offset)? {
        let sql = include_str!("../../sql/queries/retry_make_due.sql");
        let leased = cursor.lease.as_ref().is_some_and(|lease| lease.unsettled.contains(offset));
        if !leased {
            let params = (cursor.partition, cursor.group, offset, s.now.0);
            s.conn.prepare_cached(sql)?.execute(params)?;
        }
        return Ok(InterventionOutcome::Done);
    }
    cursor.park_again(
        s,
        offset,
        &ParkedMessage { retry: RetryState::default(), due_at: s.now.0 },
    )?;
    let sql = include_str!("../../sql/queries/dead_letter_forget.sql");
    s.conn.prepare_cached(sql)?.execute((cursor.partition, offset, group.as_str()))?;
    Ok(InterventionOutcome::Done)
}

/// A message that a user gives up.
struct GivenUpMessage {
    offset: i64,
    /// The error that its dead letter gets, instead of that of its last attempt.
    error: Option<String>,
}

fn bury(
    s: &DbSession<'_>,
    cursor: &mut QueueCursor,
    queue: &QueueRow,
    given_up: GivenUpMessage,
) -> Res<InterventionOutcome> {
    let GivenUpMessage { offset, error } = given_up;
    let ahead = cursor.has_ahead(s, offset)?;
    if !ahead {
        return Ok(InterventionOutcome::Settled);
    }
    let mut retry = retry_state(s, cursor, offset)?;
    if offset >= cursor.next {
        if cursor.distance(s, offset)? > GIVE_UP_DISTANCE_MAX {
            return Ok(InterventionOutcome::TooFar);
        }
        for before in cursor.next..offset {
            if cursor.gaps > 0 && gap::contains(s, cursor.partition, before)? {
                continue;
            }
            let parked = ParkedMessage { retry: RetryState::default(), due_at: s.now.0 };
            cursor.park_again(s, before, &parked)?;
        }
        cursor.next = cursor.after_gap(s, offset + 1)?;
    }
    retry.error = error.or(retry.error);
    cursor.bury(s, offset, &retry)?;
    if let Some(lease) = &mut cursor.lease {
        // The lease has expired: `intervene` refuses messages of live leases.
        if lease.unsettled.contains(offset) {
            lease.unsettled.remove(offset);
            lease.outcomes.expired.insert(offset);
        }
        if lease.unsettled.is_empty() {
            ledger::record_lease_end(s, cursor, queue, UnsettledOutcome::Expired)?;
            cursor.lease = None;
            cursor.freed_at = s.now.0;
        }
    }
    Ok(InterventionOutcome::Done)
}

/// The retry state of a parked message, or the default.
fn retry_state(s: &DbSession<'_>, cursor: &QueueCursor, offset: i64) -> Res<RetryState> {
    let sql = include_str!("../../sql/queries/retry_read.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((cursor.partition, cursor.group, offset))?;
    match rows.next()? {
        Some(row) => {
            Ok(RetryState { failures: row.get(0)?, alone: row.get(1)?, error: row.get(2)? })
        }
        None => Ok(RetryState::default()),
    }
}

/// Removes all messages of a queue. Returns their number, or `None` if there is no such queue.
pub(super) fn clear(
    s: &mut DbSession<'_>,
    name: &QueueName,
    dead_letters: bool,
) -> Res<Option<u64>> {
    let Some(queue) = s.queue(name)? else { return Ok(None) };
    let sql = include_str!("../../sql/queries/queue_delete_messages.sql");
    let gone = s.conn.prepare_cached(sql)?.execute([queue.id])? as u64;
    for sql in [
        include_str!("../../sql/queries/queue_delete_traces.sql"),
        include_str!("../../sql/queries/queue_delete_retries.sql"),
        include_str!("../../sql/queries/queue_delete_gaps.sql"),
        include_str!("../../sql/queries/queue_clear_gaps.sql"),
    ] {
        s.conn.prepare_cached(sql)?.execute([queue.id])?;
    }
    for (group, _) in groups_of(s, &queue)? {
        record_lost_leases(s, &queue, group, None)?;
    }
    let sql = include_str!("../../sql/queries/queue_clear_cursors.sql");
    s.conn.prepare_cached(sql)?.execute((queue.id, s.now.0))?;
    if dead_letters {
        let sql = include_str!("../../sql/queries/queue_delete_dead_letters.sql");
        s.conn.prepare_cached(sql)?.execute([queue.id])?;
    }
    Ok(Some(gone))
}

/// Removes all messages of a partition. Returns their number, or `None` if there is no such
/// partition.
pub(super) fn clear_partition(
    s: &mut DbSession<'_>,
    queue: &QueueName,
    name: &PartitionName,
    dead_letters: bool,
) -> Res<Option<u64>> {
    let Some(queue) = s.queue(queue)? else { return Ok(None) };
    let Some(partition) = s.partition(&queue, name)? else { return Ok(None) };
    let sql = include_str!("../../sql/queries/partition_delete_messages.sql");
    let gone = s.conn.prepare_cached(sql)?.execute([partition])? as u64;
    for sql in [
        include_str!("../../sql/queries/partition_delete_traces.sql"),
        include_str!("../../sql/queries/partition_delete_retries.sql"),
        include_str!("../../sql/queries/partition_delete_gaps.sql"),
        include_str!("../../sql/queries/partition_gaps.sql"),
    ] {
        s.conn.prepare_cached(sql)?.execute([partition])?;
    }
    for (group, _) in groups_of(s, &queue)? {
        record_lost_leases(s, &queue, group, Some(name))?;
    }
    let sql = include_str!("../../sql/queries/partition_clear_cursors.sql");
    s.conn.prepare_cached(sql)?.execute((partition, s.now.0))?;
    if dead_letters {
        let sql = include_str!("../../sql/queries/partition_delete_dead_letters.sql");
        s.conn.prepare_cached(sql)?.execute([partition])?;
    }
    Ok(Some(gone))
}

/// Records in the ledger that the leases of a group in a queue, or in one of its partitions, have
/// ended. The caller writes the cursors.
pub(super) fn record_lost_leases(
    s: &DbSession<'_>,
    queue: &QueueRow,
    group: i64,
    only: Option<&PartitionName>,
) -> Res<()> {
    let sql = include_str!("../../sql/queries/cursor_leased.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((queue.id, group))?;
    while let Some(row) = rows.next()? {
        let Some(cursor) = QueueCursor::read(s, row.get(0)?, group)? else { continue };
        if only.is_none_or(|only| *only == cursor.partition_name) {
            let live = cursor.live(s.now.0).is_some();
            let rest = if live { UnsettledOutcome::Released } else { UnsettledOutcome::Expired };
            ledger::record_lease_end(s, &cursor, queue, rest)?;
        }
    }
    Ok(())
}

/// Deletes a partition with everything in it. Returns whether it existed. The default partition
/// cannot be deleted.
pub(super) fn delete_partition(
    s: &mut DbSession<'_>,
    queue: &QueueName,
    name: &PartitionName,
) -> Res<bool> {
    let Some(queue) = s.queue(queue)? else { return Ok(false) };
    let Some(partition) = s.partition(&queue, name)? else { return Ok(false) };
    if *name == PartitionName::default_partition() {
        return Ok(false);
    }
    for sql in [
        include_str!("../../sql/queries/partition_delete_messages.sql"),
        include_str!("../../sql/queries/partition_delete_gaps.sql"),
        include_str!("../../sql/queries/partition_delete_scheduled.sql"),
        include_str!("../../sql/queries/partition_delete_traces.sql"),
        include_str!("../../sql/queries/partition_delete_ledger.sql"),
        include_str!("../../sql/queries/partition_delete_retries.sql"),
        include_str!("../../sql/queries/partition_delete_cursors.sql"),
        include_str!("../../sql/queries/partition_delete_dead_letters.sql"),
        include_str!("../../sql/queries/partition_delete.sql"),
    ] {
        s.conn.prepare_cached(sql)?.execute([partition])?;
    }
    s.cache.clear();
    Ok(true)
}

/// The columns of a partition that lists need.
pub(super) struct PartitionRow {
    pub(super) partition: i64,
    pub(super) queue: i64,
    pub(super) name: PartitionName,
    pub(super) tail: i64,
    pub(super) last_push_at: i64,
    pub(super) gaps: i64,
}

/// The partitions that match a filter, ordered by id, starting at an id.
pub(super) fn list_partitions(
    s: &mut DbSession<'_>,
    filter: &MessageFilter,
    from: i64,
    page: Page,
) -> Res<Vec<PartitionRow>> {
    let queue = match &filter.queue {
        None => None,
        Some(name) => match s.queue(name)? {
            Some(queue) => Some(queue.id),
            None => return Ok(Vec::new()),
        },
    };
    let sql = include_str!("../../sql/queries/partition_list.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((
        from,
        queue,
        filter.partition.as_ref().map(PartitionName::as_str),
        filter.namespace.as_ref().map(Namespace::as_str),
        filter.task.as_ref().map(TaskName::as_str),
        page.limit,
        page.offset,
    ))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (partition, name): (i64, String) = (row.get(0)?, row.get(2)?);
        found.push(PartitionRow {
            partition,
            queue: row.get(1)?,
            name: PartitionName::new(name).map_err(corrupt("partition", partition))?,
            tail: row.get(3)?,
            last_push_at: row.get(4)?,
            gaps: row.get(5)?,
        });
    }
    Ok(found)
}

/// The partitions of one queue, or of all queues.
pub(super) fn partitions(
    s: &mut DbSession<'_>,
    queue: Option<&QueueName>,
    page: Page,
) -> Res<Vec<PartitionDetail>> {
    let filter = MessageFilter { queue: queue.cloned(), ..MessageFilter::default() };
    let mut details = Vec::new();
    for listed in list_partitions(s, &filter, 0, page)? {
        let missing = || corrupt("partition", listed.partition)("its queue is missing");
        let queue = s.queue_by_id(listed.queue)?.ok_or_else(missing)?;
        details.push(PartitionDetail {
            queue: queue.name.clone(),
            namespace: queue.namespace.clone(),
            task: queue.task.clone(),
            partition: listed.name,
            partition_id: PartitionId(listed.partition),
            end: listed.tail.unsigned_abs(),
            last_push_at: (listed.tail > 0).then_some(Timestamp(listed.last_push_at)),
        });
    }
    Ok(details)
}
