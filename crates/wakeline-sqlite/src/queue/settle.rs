//! What consumers say of what they hold: settle, release, extend.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{
    Change, CursorId, Fencing, GroupName, LeaseId, PartitionId, RetryDecision, Timestamp, Verdict,
};
use wakeline_store::{Extension, Losses, SettleItem, SettleOutcome, SettleReply};

use super::cursor::{Cursor, Held, Parked};
use super::idle;
use super::ledger::{self, Rest};
use super::offsets::Offsets;
use super::pass::count;
use crate::error::{Res, corrupt};
use crate::session::{Queue, Session};

/// Cursors that are open for settling. Each is written once, whatever the batch.
#[derive(Default)]
struct Open {
    places: HashMap<(PartitionId, GroupName), Option<usize>>,
    cursors: Vec<Settling>,
}

struct Settling {
    cursor: Cursor,
    queue: Arc<Queue>,
    group: GroupName,
    changed: bool,
}

/// Settles messages, each by itself.
pub(crate) fn settle(s: &mut Session<'_>, items: &[SettleItem]) -> Res<SettleReply> {
    let mut open = Open::default();
    let mut outcomes = Vec::with_capacity(items.len());
    for item in items {
        outcomes.push(settle_one(s, &mut open, item)?);
    }
    let changes = open.write(s)?;
    s.hint(&changes);
    Ok(SettleReply { outcomes, changes })
}

fn settle_one(s: &mut Session<'_>, open: &mut Open, item: &SettleItem) -> Res<SettleOutcome> {
    let Some(settling) = open.cursor(s, item)? else { return Ok(SettleOutcome::StaleLease) };
    let Settling { cursor, queue, changed, .. } = settling;
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
    let fate = apply(s, cursor, queue, (offset, item))?;
    *changed = true;
    let lease = cursor.lease.as_mut().expect("it is live");
    lease.unsettled.remove(offset);
    match item.verdict {
        Verdict::Completed => {}
        Verdict::Failed | Verdict::DeadLetter => lease.past.failed.insert(offset),
        Verdict::Retry => lease.past.released.insert(offset),
    }
    let lease_ended = lease.unsettled.is_empty();
    if lease_ended {
        ledger::note(s, cursor, queue, Rest::Released)?;
        cursor.lease = None;
        cursor.freed_at = s.now.0;
    }
    Ok(SettleOutcome::Settled {
        queue: queue.name.clone(),
        partition: cursor.partition_name.clone(),
        lease_ended,
        dead_lettered: fate == Fate::Buried,
        dropped: fate == Fate::Dropped,
    })
}

/// The lowest unsettled offset of a transaction id.
fn unsettled(
    s: &Session<'_>,
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

/// What becomes of a message that is settled.
#[derive(PartialEq, Eq)]
enum Fate {
    /// It is done, or waits to be delivered again.
    Plain,
    /// It is a dead letter.
    Buried,
    /// It used up its tries, and its queue keeps no dead letters.
    Dropped,
}

/// Does what the verdict says; the lease is still there.
fn apply(
    s: &Session<'_>,
    cursor: &mut Cursor,
    queue: &Queue,
    (offset, item): (i64, &SettleItem),
) -> Res<Fate> {
    if item.verdict == Verdict::Completed {
        if cursor.lease.as_ref().is_some_and(|lease| offset < lease.start) {
            cursor.unpark(s, offset)?;
        }
        return Ok(Fate::Plain);
    }
    let Held { mut failures, alone, error } = cursor.held(s, offset)?;
    let error = item.error.clone().or(error);
    let decision = match item.verdict {
        Verdict::Completed | Verdict::DeadLetter => None,
        Verdict::Retry => Some(RetryDecision::After(Duration::ZERO)),
        Verdict::Failed => {
            failures = failures.saturating_add(1);
            Some(queue.options.after_failure(failures, &item.transaction_id))
        }
    };
    let held = Held { failures, alone, error };
    match decision {
        Some(RetryDecision::After(wait)) => {
            let due_at = s.now.plus(wait).0;
            cursor.park(s, offset, &Parked { held, due_at })?;
            Ok(Fate::Plain)
        }
        Some(RetryDecision::Bury) if !queue.options.dead_letters => {
            cursor.unpark(s, offset)?;
            count(s, queue, Losses { dropped: 1, ..Losses::default() })?;
            Ok(Fate::Dropped)
        }
        Some(RetryDecision::Bury) | None => {
            cursor.bury(s, offset, &held)?;
            Ok(Fate::Buried)
        }
    }
}

impl Open {
    fn cursor(&mut self, s: &mut Session<'_>, item: &SettleItem) -> Res<Option<&mut Settling>> {
        let place = match self.places.entry((item.partition, item.group.clone())) {
            Entry::Occupied(place) => *place.get(),
            Entry::Vacant(place) => {
                let found = match Cursor::named(s, item.partition.0, &item.group)? {
                    None => None,
                    Some(cursor) => {
                        let queue = queue_of(s, &cursor)?;
                        let group = item.group.clone();
                        self.cursors.push(Settling { cursor, queue, group, changed: false });
                        Some(self.cursors.len() - 1)
                    }
                };
                *place.insert(found)
            }
        };
        Ok(place.map(|place| &mut self.cursors[place]))
    }

    /// Writes what was settled; returns what the ended leases made available.
    fn write(self, s: &Session<'_>) -> Res<Vec<Change>> {
        let mut changes = Vec::new();
        for Settling { mut cursor, queue, group, changed } in self.cursors {
            if changed {
                idle::record_settled(s, cursor.group)?;
            }
            match (changed, &cursor.lease) {
                (false, _) => {}
                (true, Some(_)) => cursor.write_unsettled(s)?,
                (true, None) => changes.extend(free(s, &mut cursor, &queue, group)?),
            }
        }
        Ok(changes)
    }
}

/// Writes a cursor whose lease has ended, and tells what it has to offer.
fn free(
    s: &Session<'_>,
    cursor: &mut Cursor,
    queue: &Queue,
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

fn queue_of(s: &mut Session<'_>, cursor: &Cursor) -> Res<Arc<Queue>> {
    let missing = || corrupt("cursor", cursor.name())("its queue is missing");
    s.queue_by_id(cursor.queue)?.ok_or_else(missing)
}

/// The cursor of a lease, if the lease is live there.
fn leased(s: &Session<'_>, lease: &LeaseId, id: CursorId) -> Res<Option<Cursor>> {
    let cursor = Cursor::read(s, id.partition.0, id.group.0.into())?;
    Ok(cursor.filter(|cursor| cursor.live(s.now.0).is_some_and(|live| live.token == lease.token)))
}

/// Gives back what is unsettled, uncounted.
pub(crate) fn release(s: &mut Session<'_>, leases: &[LeaseId]) -> Res<Vec<Change>> {
    let mut changes = Vec::new();
    for lease in leases {
        for id in &lease.cursors {
            let Some(mut cursor) = leased(s, lease, *id)? else { continue };
            let queue = queue_of(s, &cursor)?;
            ledger::note(s, &cursor, &queue, Rest::Released)?;
            give_back(s, &mut cursor)?;
            let group = group_name(s, cursor.group)?;
            changes.extend(free(s, &mut cursor, &queue, group)?);
        }
    }
    s.hint(&changes);
    Ok(changes)
}

/// What ends at the next offset moves it back; the rest is parked.
fn give_back(s: &Session<'_>, cursor: &mut Cursor) -> Res<()> {
    let Some(lease) = &cursor.lease else { return Ok(()) };
    let start = lease.start;
    let mut offsets: Vec<_> = lease.unsettled.iter().collect();
    while offsets.last().is_some_and(|last| *last + 1 == cursor.next && *last >= start) {
        offsets.pop();
        cursor.next -= 1;
    }
    for offset in offsets {
        let held = cursor.held(s, offset)?;
        cursor.park(s, offset, &Parked { held, due_at: s.now.0 })?;
    }
    cursor.lease = None;
    cursor.freed_at = s.now.0;
    Ok(())
}

fn group_name(s: &Session<'_>, group: i64) -> Res<GroupName> {
    let sql = include_str!("../../sql/queries/group_name.sql");
    let name: String = s.conn.prepare_cached(sql)?.query_row([group], |row| row.get(0))?;
    GroupName::new(name).map_err(corrupt("group", group))
}

/// Moves the end of a lease to `span` from now, where it is still held; never to an earlier time.
pub(crate) fn extend(s: &mut Session<'_>, lease: &LeaseId, span: Duration) -> Res<Extension> {
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
