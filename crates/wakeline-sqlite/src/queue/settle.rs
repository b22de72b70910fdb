//! Settling, releasing and extending leases.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{
    Change, CursorId, Fencing, GroupName, LeaseId, PartitionId, RetryDecision, Timestamp, Verdict,
};
use wakeline_store::{Extension, Losses, SettleItem, SettleOutcome, SettleReply};

use super::cursor::{ParkedMessage, QueueCursor, RetryState};
use super::idle;
use super::ledger::{self, UnsettledOutcome};
use super::offsets::Offsets;
use super::skip::count;
use crate::error::{Res, corrupt};
use crate::session::{DbSession, QueueRow};

/// The cursors that a batch of settlements changes. Each is written once per batch.
#[derive(Default)]
struct OpenCursors {
    places: HashMap<(PartitionId, GroupName), Option<usize>>,
    cursors: Vec<SettlingCursor>,
}

struct SettlingCursor {
    cursor: QueueCursor,
    queue: Arc<QueueRow>,
    group: GroupName,
    changed: bool,
}

/// Settles messages, each independently of the others.
pub(crate) fn settle(s: &mut DbSession<'_>, items: &[SettleItem]) -> Res<SettleReply> {
    let mut open = OpenCursors::default();
    let mut outcomes = Vec::with_capacity(items.len());
    for item in items {
        outcomes.push(settle_one(s, &mut open, item)?);
    }
    let changes = open.write(s)?;
    s.hint(&changes);
    Ok(SettleReply { outcomes, changes })
}

fn settle_one(
    s: &mut DbSession<'_>,
    open: &mut OpenCursors,
    item: &SettleItem,
) -> Res<SettleOutcome> {
    let Some(settling) = open.cursor(s, item)? else { return Ok(SettleOutcome::StaleLease) };
    let SettlingCursor { cursor, queue, .. } = settling;
    if item.token.is_none() && queue.options.fencing == Fencing::Strict {
        return Ok(SettleOutcome::LeaseRequired);
    }
    let Some(lease) = cursor.live(s.now.0) else { return Ok(SettleOutcome::StaleLease) };
    if item.token.is_some_and(|token| token != lease.token) {
        return Ok(SettleOutcome::StaleLease);
    }
    let Some(offset) = unsettled(s, cursor.partition, &lease.unsettled, item)? else {
        return Ok(SettleOutcome::NotFound);
    };
    let effect = apply(s, settling, offset, item)?;
    let SettlingCursor { cursor, queue, changed, .. } = settling;
    *changed = true;
    let lease = cursor.lease.as_mut().expect("it is live");
    lease.unsettled.remove(offset);
    match item.verdict {
        Verdict::Completed => {}
        Verdict::Failed | Verdict::DeadLetter => lease.outcomes.failed.insert(offset),
        Verdict::Retry => lease.outcomes.released.insert(offset),
    }
    let lease_ended = lease.unsettled.is_empty();
    if lease_ended {
        ledger::record_lease_end(s, cursor, queue, UnsettledOutcome::Released)?;
        cursor.lease = None;
        cursor.freed_at = s.now.0;
    }
    Ok(SettleOutcome::Settled {
        queue: queue.name.clone(),
        partition: cursor.partition_name.clone(),
        lease_ended,
        dead_lettered: effect == SettleEffect::DeadLettered,
        dropped: effect == SettleEffect::Dropped,
    })
}

/// The lowest unsettled offset with the transaction id of an item.
fn unsettled(
    s: &DbSession<'_>,
    partition: i64,
    unsettled: &Offsets,
    item: &SettleItem,
) -> Res<Option<i64>> {
    let Some((first, last)) = unsettled.bounds() else { return Ok(None) };
    let sql = include_str!("../../sql/queries/message_named.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((partition, item.transaction_id.as_str(), first, last))?;
    while let Some(row) = rows.next()? {
        let offset = row.get(0)?;
        if unsettled.contains(offset) {
            return Ok(Some(offset));
        }
    }
    Ok(None)
}

/// What happened to a settled message.
#[derive(PartialEq, Eq)]
enum SettleEffect {
    /// It was completed, or parked for another delivery.
    CompletedOrParked,
    /// It became a dead letter.
    DeadLettered,
    /// It was dropped: its attempts are used up, and its queue keeps no dead letters.
    Dropped,
}

/// Applies the verdict of an item, while the cursor still has its lease.
fn apply(
    s: &DbSession<'_>,
    settling: &mut SettlingCursor,
    offset: i64,
    item: &SettleItem,
) -> Res<SettleEffect> {
    let SettlingCursor { cursor, queue, .. } = settling;
    if item.verdict == Verdict::Completed {
        if cursor.lease.as_ref().is_some_and(|lease| offset < lease.start) {
            cursor.unpark(s, offset)?;
        }
        return Ok(SettleEffect::CompletedOrParked);
    }
    let RetryState { mut failures, alone, error } = cursor.retry_state(s, offset)?;
    let error = item.error.clone().or(error);
    let decision = match item.verdict {
        Verdict::Completed | Verdict::DeadLetter => None,
        Verdict::Retry => Some(RetryDecision::After(Duration::ZERO)),
        Verdict::Failed => {
            failures = failures.saturating_add(1);
            Some(queue.options.after_failure(failures, &item.transaction_id))
        }
    };
    let retry = RetryState { failures, alone, error };
    match decision {
        Some(RetryDecision::After(wait)) => {
            let due_at = s.now.plus(wait).0;
            cursor.park(s, offset, &ParkedMessage { retry, due_at })?;
            Ok(SettleEffect::CompletedOrParked)
        }
        Some(RetryDecision::GiveUp) if !queue.options.dead_letters => {
            cursor.unpark(s, offset)?;
            count(s, queue, Losses { dropped: 1, ..Losses::default() })?;
            Ok(SettleEffect::Dropped)
        }
        Some(RetryDecision::GiveUp) | None => {
            cursor.bury(s, offset, &retry)?;
            Ok(SettleEffect::DeadLettered)
        }
    }
}

impl OpenCursors {
    fn cursor(
        &mut self,
        s: &mut DbSession<'_>,
        item: &SettleItem,
    ) -> Res<Option<&mut SettlingCursor>> {
        let place = match self.places.entry((item.partition, item.group.clone())) {
            Entry::Occupied(place) => *place.get(),
            Entry::Vacant(place) => {
                let found = match QueueCursor::named(s, item.partition.0, &item.group)? {
                    None => None,
                    Some(cursor) => {
                        let queue = queue_of(s, &cursor)?;
                        let group = item.group.clone();
                        self.cursors.push(SettlingCursor { cursor, queue, group, changed: false });
                        Some(self.cursors.len() - 1)
                    }
                };
                *place.insert(found)
            }
        };
        Ok(place.map(|place| &mut self.cursors[place]))
    }

    /// Writes the changed cursors. Returns hints for the leases that ended.
    fn write(self, s: &DbSession<'_>) -> Res<Vec<Change>> {
        let mut changes = Vec::new();
        for SettlingCursor { mut cursor, queue, group, changed } in self.cursors {
            if !changed {
                continue;
            }
            idle::record_settled(s, cursor.group)?;
            if cursor.lease.is_some() {
                cursor.write_unsettled(s)?;
            } else {
                changes.extend(write_free_cursor(s, &mut cursor, &queue, group)?);
            }
        }
        Ok(changes)
    }
}

/// Writes a cursor whose lease has ended. Returns the hint if it has more messages.
fn write_free_cursor(
    s: &DbSession<'_>,
    cursor: &mut QueueCursor,
    queue: &QueueRow,
    group: GroupName,
) -> Res<Option<Change>> {
    cursor.due_at = cursor.due(s, queue)?;
    cursor.write(s)?;
    Ok(cursor.due_at.map(|due_at| Change {
        partition: Some(cursor.partition_name.clone()),
        group: Some(group),
        ..queue.change(s.now.until(Timestamp(due_at)))
    }))
}

fn queue_of(s: &mut DbSession<'_>, cursor: &QueueCursor) -> Res<Arc<QueueRow>> {
    let missing = || corrupt("cursor", cursor.name())("its queue is missing");
    s.queue_by_id(cursor.queue)?.ok_or_else(missing)
}

/// The cursor with this id, if it is still leased under this lease's token.
fn leased(s: &DbSession<'_>, lease: &LeaseId, id: CursorId) -> Res<Option<QueueCursor>> {
    let cursor = QueueCursor::read(s, id.partition.0, id.group.0.into())?;
    Ok(cursor.filter(|cursor| cursor.live(s.now.0).is_some_and(|live| live.token == lease.token)))
}

/// Releases the unsettled messages of leases, without counting an attempt.
pub(crate) fn release(s: &mut DbSession<'_>, leases: &[LeaseId]) -> Res<Vec<Change>> {
    let mut changes = Vec::new();
    for lease in leases {
        for id in &lease.cursors {
            let Some(mut cursor) = leased(s, lease, *id)? else { continue };
            let queue = queue_of(s, &cursor)?;
            ledger::record_lease_end(s, &cursor, &queue, UnsettledOutcome::Released)?;
            end_lease(s, &mut cursor)?;
            let group = group_name(s, cursor.group)?;
            changes.extend(write_free_cursor(s, &mut cursor, &queue, group)?);
        }
    }
    s.hint(&changes);
    Ok(changes)
}

/// Ends the lease: moves the next offset back over the unsettled messages right before it, and
/// parks the rest.
fn end_lease(s: &DbSession<'_>, cursor: &mut QueueCursor) -> Res<()> {
    let Some(lease) = &cursor.lease else { return Ok(()) };
    let start = lease.start;
    let mut offsets: Vec<_> = lease.unsettled.iter().collect();
    while offsets.last().is_some_and(|last| *last + 1 == cursor.next && *last >= start) {
        offsets.pop();
        cursor.next -= 1;
    }
    for offset in offsets {
        let retry = cursor.retry_state(s, offset)?;
        cursor.park(s, offset, &ParkedMessage { retry, due_at: s.now.0 })?;
    }
    cursor.lease = None;
    cursor.freed_at = s.now.0;
    Ok(())
}

fn group_name(s: &DbSession<'_>, group: i64) -> Res<GroupName> {
    let sql = include_str!("../../sql/queries/group_name.sql");
    let name: String = s.conn.prepare_cached(sql)?.query_row([group], |row| row.get(0))?;
    GroupName::new(name).map_err(corrupt("group", group))
}

/// Moves the end of a lease to `span` from now on each cursor that it still holds, but never to an
/// earlier time.
pub(crate) fn extend(s: &mut DbSession<'_>, lease: &LeaseId, span: Duration) -> Res<Extension> {
    let mut extension = Extension { held: Vec::new(), lost: Vec::new(), expires_at: None };
    for id in &lease.cursors {
        let Some(cursor) = leased(s, lease, *id)? else {
            extension.lost.push(id.partition);
            continue;
        };
        let until = cursor.live(s.now.0).map_or(0, |live| live.until).max(s.now.plus(span).0);
        let sql = include_str!("../../sql/queries/cursor_extend.sql");
        s.conn.prepare_cached(sql)?.execute((cursor.partition, cursor.group, until))?;
        extension.held.push(id.partition);
        let first = extension.expires_at.map_or(until, |Timestamp(at)| at.min(until));
        extension.expires_at = Some(Timestamp(first));
    }
    Ok(extension)
}
