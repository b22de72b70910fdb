//! The ledger: how every lease ended, and to which workers a message was delivered.
//!
//! # Invariants
//! * The cursor holds the state of a live lease. Ending the lease writes one entry in the same
//!   transaction.
//! * An expired lease reads the same before and after its cursor is processed.

use rusqlite::{OptionalExtension as _, Row};
use wakeline_core::{GroupName, Timestamp};
use wakeline_store::{DeliveryOutcome, Housekeeping, LedgerEntry};

use super::cursor::{CursorLease, MessageInGroup, QueueCursor};
use super::offsets::Offsets;
use crate::error::{Res, corrupt};
use crate::session::{DbSession, QueueRow, micros};

/// The outcomes of the messages of a lease. Messages in no set but `all` were completed.
#[derive(Debug, Default)]
pub(crate) struct LeaseOutcomes {
    /// All offsets of the lease.
    pub(crate) all: Offsets,
    pub(crate) failed: Offsets,
    pub(crate) expired: Offsets,
    pub(crate) released: Offsets,
}

impl LeaseOutcomes {
    /// The outcome of a message that is no longer unsettled.
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

/// The outcome of the messages that are unsettled when a lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnsettledOutcome {
    /// The lease expired.
    Expired,
    /// The lease was released, or has no unsettled messages left.
    Released,
}

/// Records the end of a cursor's lease, unless its queue keeps no ledger.
pub(crate) fn record_lease_end(
    s: &DbSession<'_>,
    cursor: &QueueCursor,
    queue: &QueueRow,
    rest: UnsettledOutcome,
) -> Res<()> {
    let Some(lease) = &cursor.lease else { return Ok(()) };
    let with_rest = |own: &Offsets, kind: UnsettledOutcome| {
        let mut offsets = own.clone();
        if rest == kind {
            lease.unsettled.iter().for_each(|offset| offsets.insert(offset));
        }
        offsets
    };
    let outcomes = &lease.outcomes;
    let ended = if rest == UnsettledOutcome::Expired { lease.until } else { s.now.0 };
    let entry = NewLedgerEntry {
        all: outcomes.all.clone(),
        token: Some(lease.token.0.into_bytes()),
        until: lease.until,
        ended,
        failed: outcomes.failed.clone(),
        expired: with_rest(&outcomes.expired, UnsettledOutcome::Expired),
        released: with_rest(&outcomes.released, UnsettledOutcome::Released),
    };
    write(s, cursor, queue, &entry)
}

/// Records a delivery that is settled at once, without a lease.
pub(crate) fn record_unleased_delivery(
    s: &DbSession<'_>,
    cursor: &QueueCursor,
    queue: &QueueRow,
    all: &Offsets,
) -> Res<()> {
    let entry = NewLedgerEntry {
        all: all.clone(),
        until: s.now.0,
        ended: s.now.0,
        ..NewLedgerEntry::default()
    };
    write(s, cursor, queue, &entry)
}

/// The columns of a new ledger entry.
#[derive(Default)]
struct NewLedgerEntry {
    all: Offsets,
    token: Option<[u8; 16]>,
    until: i64,
    ended: i64,
    failed: Offsets,
    expired: Offsets,
    released: Offsets,
}

fn write(
    s: &DbSession<'_>,
    cursor: &QueueCursor,
    queue: &QueueRow,
    entry: &NewLedgerEntry,
) -> Res<()> {
    let (Some((first, last)), Some(taken_at)) = (entry.all.bounds(), cursor.taken_at) else {
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
        entry.all.to_string(),
        entry.failed.text(),
        entry.expired.text(),
        entry.released.text(),
    ))?;
    Ok(())
}

/// The deliveries of a message whose leases have ended.
pub(crate) fn of_message(s: &DbSession<'_>, partition: i64, offset: i64) -> Res<Vec<LedgerEntry>> {
    let sql = include_str!("../../sql/queries/ledger_list.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((partition, offset, s.now.0))?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.extend(decode(row, offset)?);
    }
    Ok(entries)
}

/// The delivery of a message under a cursor's current lease, if the lease includes the message.
pub(crate) fn of_cursor(
    s: &DbSession<'_>,
    queue: &QueueRow,
    message: MessageInGroup<'_>,
) -> Option<LedgerEntry> {
    let MessageInGroup { group, cursor, offset } = message;
    let lease = cursor.lease.as_ref()?;
    let outcomes = &lease.outcomes;
    let offered_at = cursor.taken_at.filter(|_| outcomes.all.contains(offset))?;
    let kept = queue.options.ledger_secs;
    let over = lease.until <= s.now.0;
    if over && (kept == 0 || lease.until.saturating_add(micros(kept)) <= s.now.0) {
        return None;
    }
    let outcome = if !lease.unsettled.contains(offset) {
        outcomes.outcome(offset)
    } else if over {
        DeliveryOutcome::Expired
    } else {
        DeliveryOutcome::Open
    };
    let (first_offset, last_offset) = outcomes.all.bounds()?;
    Some(LedgerEntry {
        offered_at: Timestamp(offered_at),
        ended_at: over.then_some(Timestamp(lease.until)),
        group: group.clone(),
        worker: cursor.taken_by.clone(),
        leased_until: Timestamp(lease.until),
        outcome,
        first_offset,
        last_offset,
        messages: outcomes.all.iter().count() as u64,
    })
}

/// Columns: group_id, its name, worker, times, first and last offset, sets of offsets.
fn decode(row: &Row<'_>, offset: i64) -> Res<Option<LedgerEntry>> {
    let group: i64 = row.get(0)?;
    let name: String = row.get(1)?;
    let outcomes = read_outcomes(row, 8, group)?;
    if !outcomes.all.contains(offset) {
        return Ok(None);
    }
    Ok(Some(LedgerEntry {
        offered_at: Timestamp(row.get(3)?),
        ended_at: Some(Timestamp(row.get(5)?)),
        group: GroupName::new(name).map_err(corrupt("group", group))?,
        worker: row.get(2)?,
        leased_until: Timestamp(row.get(4)?),
        outcome: outcomes.outcome(offset),
        first_offset: row.get(6)?,
        last_offset: row.get(7)?,
        messages: outcomes.all.iter().count() as u64,
    }))
}

/// Reads four sets of offsets, starting at a column. NULL is an empty set.
pub(crate) fn read_outcomes(row: &Row<'_>, first: usize, id: i64) -> Res<LeaseOutcomes> {
    let set = |column: usize| -> Res<Offsets> {
        match row.get::<_, Option<String>>(column)? {
            Some(text) => text.parse().map_err(corrupt("ledger", id)),
            None => Ok(Offsets::default()),
        }
    };
    Ok(LeaseOutcomes {
        all: set(first)?,
        failed: set(first + 1)?,
        expired: set(first + 2)?,
        released: set(first + 3)?,
    })
}

/// Deletes some entries that are past their retention. Returns whether there may be more.
pub(crate) fn forget(s: &DbSession<'_>, options: Housekeeping) -> Res<bool> {
    let sql = include_str!("../../sql/queries/ledger_forget.sql");
    let most = options.rows_max.max(1);
    let gone = s.conn.prepare_cached(sql)?.execute((s.now.0, most))?;
    Ok(gone >= most as usize)
}

/// When the first entry is past its retention.
pub(crate) fn first_due(s: &DbSession<'_>) -> Res<Option<i64>> {
    let sql = include_str!("../../sql/queries/ledger_first.sql");
    Ok(s.conn.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?)
}

impl CursorLease {
    /// The sets of offsets, encoded for the cursor's row.
    pub(super) fn outcome_texts(&self) -> [Option<String>; 4] {
        let LeaseOutcomes { all, failed, expired, released } = &self.outcomes;
        [all.text(), failed.text(), expired.text(), released.text()]
    }
}
