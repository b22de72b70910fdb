//! The ledger: how every lease ended, and to whom a message was delivered.
//!
//! # Invariants
//! * A lease that is out is told by its cursor; its end writes one entry, in the same transaction.
//! * A lease that ran out reads the same before its cursor is looked at again and after it.

use rusqlite::{OptionalExtension as _, Row};
use wakeline_core::{GroupName, Timestamp};
use wakeline_store::{DeliveryOutcome, Housekeeping, LedgerEntry};

use super::cursor::{Cursor, Lease};
use super::offsets::Offsets;
use crate::error::{Res, corrupt};
use crate::session::{Queue, Session, micros};

/// What became of the messages of a lease, as far as it was not completed.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// All that it was given.
    pub(crate) all: Offsets,
    pub(crate) failed: Offsets,
    pub(crate) expired: Offsets,
    pub(crate) released: Offsets,
}

impl Past {
    /// How it ended for a message that is not open.
    fn outcome(&self, offset: i64) -> DeliveryOutcome {
        if self.failed.contains(offset) {
            DeliveryOutcome::Failed
        } else if self.expired.contains(offset) {
            DeliveryOutcome::Expired
        } else if self.released.contains(offset) {
            DeliveryOutcome::Released
        } else {
            DeliveryOutcome::Acked
        }
    }
}

/// What the messages end as that are unsettled when a lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// The lease ran out.
    Expired,
    /// It was given back; or there are none left.
    Released,
}

/// Writes how the lease of a cursor ends, unless its queue keeps no ledger.
pub(crate) fn note(s: &Session<'_>, cursor: &Cursor, queue: &Queue, rest: Rest) -> Res<()> {
    let Some(lease) = &cursor.lease else { return Ok(()) };
    let with_rest = |own: &Offsets, kind: Rest| match rest == kind {
        true => own.iter().chain(lease.unsettled.iter()).fold(Offsets::default(), |mut all, o| {
            all.insert(o);
            all
        }),
        false => own.clone(),
    };
    let past = &lease.past;
    let ended = if rest == Rest::Expired { lease.until } else { s.now.0 };
    let entry = Ended {
        token: Some(lease.token.0.into_bytes()),
        until: lease.until,
        ended,
        failed: past.failed.clone(),
        expired: with_rest(&past.expired, Rest::Expired),
        released: with_rest(&past.released, Rest::Released),
    };
    write(s, cursor, queue, (&past.all, entry))
}

/// Writes what is settled as it is delivered.
pub(crate) fn note_at_once(
    s: &Session<'_>,
    cursor: &Cursor,
    queue: &Queue,
    all: &Offsets,
) -> Res<()> {
    let entry = Ended { until: s.now.0, ended: s.now.0, ..Ended::default() };
    write(s, cursor, queue, (all, entry))
}

/// An entry on its way.
#[derive(Default)]
struct Ended {
    token: Option<[u8; 16]>,
    until: i64,
    ended: i64,
    failed: Offsets,
    expired: Offsets,
    released: Offsets,
}

fn write(
    s: &Session<'_>,
    cursor: &Cursor,
    queue: &Queue,
    (all, entry): (&Offsets, Ended),
) -> Res<()> {
    let (Some((first, last)), Some(taken_at)) = (all.bounds(), cursor.taken_at) else {
        return Ok(());
    };
    if queue.options.ledger_secs == 0 {
        return Ok(());
    }
    let sql = include_str!("../../sql/queries/ledger_add.sql");
    s.conn.prepare_cached(sql)?.execute((
        cursor.partition,
        cursor.group,
        first,
        last,
        entry.token,
        &cursor.taken_by,
        taken_at,
        entry.until,
        entry.ended,
        entry.ended.saturating_add(micros(queue.options.ledger_secs)),
        all.to_string(),
        entry.failed.text(),
        entry.expired.text(),
        entry.released.text(),
    ))?;
    Ok(())
}

/// The deliveries of a message that have ended, or are of the past.
pub(crate) fn of_message(s: &Session<'_>, partition: i64, offset: i64) -> Res<Vec<LedgerEntry>> {
    let sql = include_str!("../../sql/queries/ledger_list.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((partition, offset, s.now.0))?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.extend(decode(row, offset)?);
    }
    Ok(entries)
}

/// The delivery of a message under the lease of a cursor, if it is of it.
pub(crate) fn of_cursor(
    s: &Session<'_>,
    cursor: &Cursor,
    queue: &Queue,
    (offset, group): (i64, &GroupName),
) -> Option<LedgerEntry> {
    let lease = cursor.lease.as_ref()?;
    let past = &lease.past;
    let offered_at = cursor.taken_at.filter(|_| past.all.contains(offset))?;
    let kept = queue.options.ledger_secs;
    let over = lease.until <= s.now.0;
    if over && (kept == 0 || lease.until.saturating_add(micros(kept)) <= s.now.0) {
        return None;
    }
    let outcome = match lease.unsettled.contains(offset) {
        true if over => DeliveryOutcome::Expired,
        true => DeliveryOutcome::Open,
        false => past.outcome(offset),
    };
    let (first_offset, last_offset) = past.all.bounds()?;
    Some(LedgerEntry {
        offered_at: Timestamp(offered_at),
        ended_at: over.then_some(Timestamp(lease.until)),
        group: group.clone(),
        worker: cursor.taken_by.clone(),
        leased_until: Timestamp(lease.until),
        outcome,
        first_offset,
        last_offset,
        messages: past.all.iter().count() as u64,
    })
}

/// Columns: group_id, its name, worker, times, first and last offset, sets.
fn decode(row: &Row<'_>, offset: i64) -> Res<Option<LedgerEntry>> {
    let group: i64 = row.get(0)?;
    let name: String = row.get(1)?;
    let past = read_past(row, 8, group)?;
    if !past.all.contains(offset) {
        return Ok(None);
    }
    Ok(Some(LedgerEntry {
        offered_at: Timestamp(row.get(3)?),
        ended_at: Some(Timestamp(row.get(5)?)),
        group: GroupName::new(name).map_err(corrupt("group", group))?,
        worker: row.get(2)?,
        leased_until: Timestamp(row.get(4)?),
        outcome: past.outcome(offset),
        first_offset: row.get(6)?,
        last_offset: row.get(7)?,
        messages: past.all.iter().count() as u64,
    }))
}

/// Reads four sets, from a column on. One that is not there is empty.
pub(crate) fn read_past(row: &Row<'_>, first: usize, id: i64) -> Res<Past> {
    let set = |column: usize| -> Res<Offsets> {
        match row.get::<_, Option<String>>(column)? {
            Some(text) => text.parse().map_err(corrupt("ledger", id)),
            None => Ok(Offsets::default()),
        }
    };
    Ok(Past {
        all: set(first)?,
        failed: set(first + 1)?,
        expired: set(first + 2)?,
        released: set(first + 3)?,
    })
}

/// Forgets some entries that were kept for long enough. True if there may be more.
pub(crate) fn forget(s: &Session<'_>, how: Housekeeping) -> Res<bool> {
    let sql = include_str!("../../sql/queries/ledger_forget.sql");
    let most = how.rows_max.max(1);
    let gone = s.conn.prepare_cached(sql)?.execute((s.now.0, most))?;
    Ok(gone >= most as usize)
}

/// When there is something to forget.
pub(crate) fn first_due(s: &Session<'_>) -> Res<Option<i64>> {
    let sql = include_str!("../../sql/queries/ledger_first.sql");
    Ok(s.conn.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?)
}

impl Lease {
    /// The sets as the cursor's row keeps them.
    pub(super) fn past_texts(&self) -> [Option<String>; 4] {
        let Past { all, failed, expired, released } = &self.past;
        [all.text(), failed.text(), expired.text(), released.text()]
    }
}
