//! Gaps: offsets whose messages were deleted one by one.
//!
//! # Invariants
//! * No cursor points into a gap, and no offset of a gap is parked or leased.
//! * A partition counts its gaps, all of which lie after its first stored message. If the count is
//!   0, no query of this module runs.

use super::cursor::QueueCursor;
use crate::error::Res;
use crate::session::DbSession;

/// The first offset at or after `from` that has a message, or the end of the log.
pub(crate) fn next_stored(s: &DbSession<'_>, partition: i64, from: i64, tail: i64) -> Res<i64> {
    let sql = include_str!("../../sql/queries/message_first.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((partition, from))?;
    Ok(rows.next()?.map(|row| row.get(0)).transpose()?.unwrap_or(tail))
}

/// The number of deleted messages in a range of offsets; `to` is exclusive.
pub(crate) fn count(s: &DbSession<'_>, partition: i64, from: i64, to: i64) -> Res<i64> {
    let sql = include_str!("../../sql/queries/gap_count.sql");
    Ok(s.conn.prepare_cached(sql)?.query_row((partition, from, to), |row| row.get(0))?)
}

/// Whether the message at an offset was deleted.
pub(crate) fn contains(s: &DbSession<'_>, partition: i64, offset: i64) -> Res<bool> {
    let sql = include_str!("../../sql/queries/gap_read.sql");
    Ok(s.conn.prepare_cached(sql)?.exists((partition, offset))?)
}

/// Deletes the gaps before the first stored message, and counts the rest.
pub(crate) fn trim(s: &DbSession<'_>, partition: i64, first: i64) -> Res<()> {
    let sql = include_str!("../../sql/queries/gap_trim.sql");
    if s.conn.prepare_cached(sql)?.execute((partition, first))? > 0 {
        recount(s, partition)?;
    }
    Ok(())
}

/// Counts the gaps of a partition and stores the number.
pub(crate) fn recount(s: &DbSession<'_>, partition: i64) -> Res<()> {
    let sql = include_str!("../../sql/queries/partition_gaps.sql");
    s.conn.prepare_cached(sql)?.execute([partition])?;
    Ok(())
}

impl QueueCursor {
    /// The cursor's next offset after it has read up to `offset`: the first one outside a gap.
    pub(crate) fn after_gap(&self, s: &DbSession<'_>, offset: i64) -> Res<i64> {
        match self.gaps {
            0 => Ok(offset),
            _ => next_stored(s, self.partition, offset, self.tail),
        }
    }

    /// The number of messages between the cursor and an offset.
    pub(crate) fn distance(&self, s: &DbSession<'_>, offset: i64) -> Res<i64> {
        let gaps = match self.gaps {
            0 => 0,
            _ => count(s, self.partition, self.next, offset)?,
        };
        Ok((offset - self.next - gaps).max(0))
    }
}
