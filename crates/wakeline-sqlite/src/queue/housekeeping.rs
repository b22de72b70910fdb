//! Queue housekeeping: each call does a limited amount of work, in the order in which queues are
//! due.
//!
//! # Invariants
//! * A cursor never points before the first stored message, and only stored messages are parked or
//!   leased: removing messages moves the cursors in the same transaction.
//! * No message is removed while it is leased, or while its transaction id is still needed to
//!   recognise duplicates.

use std::time::Duration;

use rusqlite::{OptionalExtension as _, Row};
use wakeline_core::{Change, PartitionName, QueueName, Timestamp};
use wakeline_store::{Housekeeping, HousekeepingReport, Losses};

use super::cursor::{QueueCursor, created_at};
use super::gap;
use super::group::first_since;
use super::idle;
use super::ledger;
use super::skip::{count, skip_old};
use super::take::end_expired_lease;
use crate::admin::stats;
use crate::error::{Res, corrupt};
use crate::session::{DbSession, QueueRow, micros};

/// The maximum number of partitions that one call processes.
const PARTITIONS_MAX: i64 = 500;
/// Longest pause between two passes over a queue. The pause is a tenth of the queue's shortest time
/// limit, but at most this.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The progress of the current pass over a queue.
struct QueuePass {
    queue: i64,
    due_at: i64,
    after: i64,
    next_at: Option<i64>,
}

/// The queue of a pass.
struct PassQueue<'q> {
    queue: &'q QueueRow,
    /// The groups that retain the messages which they have not settled.
    retaining: &'q [i64],
}

/// A partition that a pass visits.
struct PassPartition {
    id: i64,
    name: PartitionName,
    /// The end of its log.
    tail: i64,
}

/// What was done in one partition.
struct PartitionPass {
    removed: u64,
    more: bool,
    changed: bool,
    /// When the oldest remaining message was pushed.
    oldest_at: Option<i64>,
}

/// Does a limited amount of housekeeping.
pub(crate) fn housekeep(s: &mut DbSession<'_>, options: Housekeeping) -> Res<HousekeepingReport> {
    let mut report = HousekeepingReport::default();
    if options.restart {
        let sql = include_str!("../../sql/queries/housekeeping_restart.sql");
        s.conn.prepare_cached(sql)?.execute([s.now.0])?;
    }
    if let Some(pass) = first(s)?.filter(|pass| pass.due_at <= s.now.0) {
        continue_pass(s, pass, options, &mut report)?;
    }
    report.losses = report_losses(s)?;
    let more_stats = options.stats_keep.map(|keep| stats::forget(s, keep, options.rows_max.max(1)));
    let more = ledger::forget(s, options)? | more_stats.transpose()?.unwrap_or(false);
    report.next_due = if more { Some(Duration::ZERO) } else { next_due(s, options)? };
    s.hint(&report.changes);
    Ok(report)
}

/// Answers from a snapshot, if no housekeeping is due.
pub(crate) fn peek(
    s: &mut DbSession<'_>,
    options: Housekeeping,
) -> Res<Option<HousekeepingReport>> {
    let first = first(s)?;
    let due = first.as_ref().is_some_and(|pass| pass.due_at <= s.now.0);
    let forgets = ledger::first_due(s)?.is_some_and(|due_at| due_at <= s.now.0);
    let old = options.stats_keep.map(|keep| stats::has_old(s, keep)).transpose()?;
    if options.restart || due || forgets || old == Some(true) || !unreported(s)?.is_empty() {
        return Ok(None);
    }
    let next_due = next_due(s, options)?;
    Ok(Some(HousekeepingReport { next_due, ..HousekeepingReport::default() }))
}

/// When to call again. Ledger entries are removed in batches, at most once per interval.
fn next_due(s: &DbSession<'_>, options: Housekeeping) -> Res<Option<Duration>> {
    let pass = first(s)?.map(|pass| pass.due_at);
    let pause = s.now.plus(options.interval).0;
    let forgets = ledger::first_due(s)?.map(|due_at| due_at.max(pause));
    let next = pass.into_iter().chain(forgets).min();
    Ok(next.map(|due_at| s.now.until(Timestamp(due_at))))
}

/// The messages that the groups of a queue have lost.
pub(crate) fn losses(s: &mut DbSession<'_>, name: &QueueName) -> Res<Losses> {
    let Some(queue) = s.queue(name)? else { return Ok(Losses::default()) };
    let sql = include_str!("../../sql/queries/housekeeping_read.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let found = statement.query_row([queue.id], |row| decode_losses(row, 0));
    Ok(found.optional()?.unwrap_or_default())
}

/// Starts housekeeping of a queue now, or ends it if the queue has no time limits.
pub(crate) fn schedule(s: &DbSession<'_>, queue: &QueueRow) -> Res<()> {
    let due_at = queue.options.has_time_limits().then_some(s.now.0);
    let sql = include_str!("../../sql/queries/housekeeping_set.sql");
    s.conn.prepare_cached(sql)?.execute((queue.id, due_at))?;
    Ok(())
}

/// Decodes the three counts of lost messages, starting at a column.
fn decode_losses(row: &Row<'_>, first: usize) -> rusqlite::Result<Losses> {
    let count = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
    Ok(Losses { expired: count(first)?, evicted: count(first + 1)?, dropped: count(first + 2)? })
}

fn first(s: &DbSession<'_>) -> Res<Option<QueuePass>> {
    let sql = include_str!("../../sql/queries/housekeeping_first.sql");
    let pass = s.conn.prepare_cached(sql)?.query_row([], |row| {
        Ok(QueuePass {
            queue: row.get(0)?,
            due_at: row.get(1)?,
            after: row.get(2)?,
            next_at: row.get(3)?,
        })
    });
    Ok(pass.optional()?)
}

fn unreported(s: &DbSession<'_>) -> Res<Vec<(QueueName, Losses)>> {
    let sql = include_str!("../../sql/queries/housekeeping_unreported.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let queue = QueueName::new(&*name).map_err(corrupt("queue", &name))?;
        found.push((queue, decode_losses(row, 1)?));
    }
    Ok(found)
}

fn report_losses(s: &DbSession<'_>) -> Res<Vec<(QueueName, Losses)>> {
    let losses = unreported(s)?;
    if !losses.is_empty() {
        let sql = include_str!("../../sql/queries/housekeeping_reported.sql");
        s.conn.prepare_cached(sql)?.execute([])?;
    }
    Ok(losses)
}

/// Continues the pass over a queue with more partitions.
fn continue_pass(
    s: &mut DbSession<'_>,
    mut pass: QueuePass,
    options: Housekeeping,
    report: &mut HousekeepingReport,
) -> Res<()> {
    let Some(queue) = s.queue_by_id(pass.queue)? else { return write(s, &pass, None) };
    let Some(shortest) = queue.options.shortest_span() else { return write(s, &pass, None) };
    let retaining = idle::retaining_groups(s, &queue)?;
    let partitions = partitions(s, &pass)?;
    let mut left = u64::from(options.rows_max.max(1));
    let mut unfinished = partitions.len() as i64 == PARTITIONS_MAX;
    let of = PassQueue { queue: &queue, retaining: &retaining };
    for partition in partitions {
        let result = clean_partition(s, &of, &partition, left)?;
        left = left.saturating_sub(result.removed);
        report.removed += result.removed;
        if result.changed {
            let change = queue.change(Duration::ZERO);
            report.changes.push(Change { partition: Some(partition.name), ..change });
        }
        if !result.more {
            pass.after = partition.id;
            let next_at = result.oldest_at.map(|at| Timestamp(at).plus(shortest).0);
            pass.next_at = pass.next_at.into_iter().chain(next_at).min();
        }
        if result.more || left == 0 {
            unfinished = true;
            break;
        }
    }
    if unfinished {
        return write(s, &pass, Some(pass.due_at));
    }
    let pause = options.interval.max((shortest / 10).min(PAUSE_MAX));
    let next_at = pass.next_at.unwrap_or(s.now.plus(shortest).0);
    pass = QueuePass { after: 0, next_at: None, ..pass };
    write(s, &pass, Some(next_at.max(s.now.plus(pause).0)))
}

fn write(s: &DbSession<'_>, pass: &QueuePass, due_at: Option<i64>) -> Res<()> {
    let sql = include_str!("../../sql/queries/housekeeping_write.sql");
    s.conn.prepare_cached(sql)?.execute((pass.queue, due_at, pass.after, pass.next_at))?;
    Ok(())
}

fn partitions(s: &DbSession<'_>, pass: &QueuePass) -> Res<Vec<PassPartition>> {
    let sql = include_str!("../../sql/queries/partition_after.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((pass.queue, pass.after, PARTITIONS_MAX))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, name): (i64, String) = (row.get(0)?, row.get(1)?);
        let name = PartitionName::new(name).map_err(corrupt("partition", id))?;
        found.push(PassPartition { id, name, tail: row.get(2)? });
    }
    Ok(found)
}

/// Does the housekeeping of one partition, unless its oldest message is younger than the shortest
/// limit.
fn clean_partition(
    s: &DbSession<'_>,
    of: &PassQueue<'_>,
    partition: &PassPartition,
    rows_max: u64,
) -> Res<PartitionPass> {
    let queue = of.queue;
    let (partition, tail) = (partition.id, partition.tail);
    let mut result = PartitionPass { removed: 0, more: false, changed: false, oldest_at: None };
    result.oldest_at = created_at(s, partition, 0)?;
    let young =
        |at: i64| queue.options.shortest_span().is_none_or(|span| Timestamp(at).plus(span) > s.now);
    if result.oldest_at.is_none_or(young) {
        return Ok(result);
    }
    let mut cursors = Vec::new();
    for group in groups(s, partition)? {
        let Some(mut cursor) = QueueCursor::read(s, partition, group)? else { continue };
        let ended = cursor.lease.as_ref().is_some_and(|lease| lease.until <= s.now.0);
        end_expired_lease(s, &mut cursor, queue)?;
        let lost = skip_old(s, &mut cursor, queue)?;
        cursors.push((cursor, ended || !lost.is_none()));
    }
    let before = before(s, of, partition, &cursors)?;
    let mut cut = first_since(s, partition, tail, before)?;
    let sql = include_str!("../../sql/queries/message_nth.sql");
    let nth = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let limit = s.conn.prepare_cached(sql)?.query_row((partition, nth), |row| row.get(0));
    if let Some(limit) = limit.optional()?.filter(|limit| *limit < cut) {
        cut = limit;
        result.more = true;
    }
    let sql = include_str!("../../sql/queries/message_remove.sql");
    result.removed = s.conn.prepare_cached(sql)?.execute((partition, cut))? as u64;
    if result.removed > 0 {
        let sql = include_str!("../../sql/queries/trace_remove.sql");
        s.conn.prepare_cached(sql)?.execute((partition, cut))?;
        let mut expired = if cursors.is_empty() { result.removed } else { 0 };
        for (cursor, touched) in &mut cursors {
            let lost = move_past(s, cursor, cut)?;
            *touched |= lost > 0;
            expired += lost;
        }
        gap::trim(s, partition, cut)?;
        count(s, queue, Losses { expired, ..Losses::default() })?;
        result.oldest_at = created_at(s, partition, 0)?;
    }
    for (cursor, _) in cursors.iter_mut().filter(|(_, touched)| *touched) {
        result.changed = true;
        if cursor.lease.is_none() {
            cursor.freed_at = s.now.0;
        }
        cursor.due_at = cursor.due(s, queue)?;
        cursor.write(s)?;
    }
    Ok(result)
}

fn groups(s: &DbSession<'_>, partition: i64) -> Res<Vec<i64>> {
    let sql = include_str!("../../sql/queries/cursor_of_partition.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let rows = statement.query_map([partition], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The time before which messages may be removed.
fn before(
    s: &DbSession<'_>,
    of: &PassQueue<'_>,
    partition: i64,
    cursors: &[(QueueCursor, bool)],
) -> Res<i64> {
    let (mut leased, mut unsettled) = (None, None);
    for (cursor, _) in cursors {
        let held = cursor.lease.as_ref().and_then(|lease| lease.unsettled.bounds());
        let held = held.map(|(first, _)| first);
        let parked = if cursor.parked > 0 { cursor.lowest_parked(s)? } else { None };
        let unread = (cursor.next < cursor.tail).then_some(cursor.next);
        leased = leased.into_iter().chain(held).min();
        let open = parked.into_iter().chain(unread).min();
        let open = open.filter(|_| of.retaining.contains(&cursor.group));
        unsettled = [unsettled, held, open].into_iter().flatten().min();
    }
    let options = &of.queue.options;
    let known = s.now.0 - micros(options.dedup_window_secs);
    let limit = |age: Option<Duration>, first: Option<i64>| -> Res<Option<i64>> {
        let Some(age) = age else { return Ok(None) };
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        let old = s.now.0.saturating_sub(age).saturating_add(1).min(known);
        let first = match first {
            Some(offset) => created_at(s, partition, offset)?,
            None => None,
        };
        Ok(Some(first.map_or(old, |first| old.min(first))))
    };
    let completed = options.completed_removal_age().filter(|_| !cursors.is_empty());
    let limits = [limit(options.removal_age(), leased)?, limit(completed, unsettled)?];
    Ok(limits.into_iter().flatten().max().unwrap_or(i64::MIN))
}

/// Moves a cursor past removed messages. Returns how many of them were unsettled.
fn move_past(s: &DbSession<'_>, cursor: &mut QueueCursor, first: i64) -> Res<u64> {
    let mut parked = 0;
    if cursor.parked > 0 {
        let sql = include_str!("../../sql/queries/retry_remove_below.sql");
        let gone = s.conn.prepare_cached(sql)?.execute((cursor.partition, cursor.group, first))?;
        cursor.parked -= i64::try_from(gone).unwrap_or(i64::MAX);
        parked = gone as u64;
    }
    let unread = cursor.distance(s, first)?.unsigned_abs();
    cursor.next = cursor.next.max(first);
    Ok(parked + unread)
}
