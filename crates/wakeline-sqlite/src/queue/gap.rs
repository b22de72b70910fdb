//! Gaps: offsets whose messages were deleted one by one.
//!
//! # Invariants
//! * No cursor stands in a gap, and none is parked or under a lease.
//! * A partition counts its gaps, which lie behind the first message that it stores. Where it
//!   counts none, nothing here is asked.

use super::cursor::Cursor;
use crate::error::Res;
use crate::session::Session;

/// The first offset from one on that has a message, or the end of the log.
pub(crate) fn next_stored(s: &Session<'_>, partition: i64, (from, tail): (i64, i64)) -> Res<i64> {
    let sql = include_str!("../../sql/queries/message_first.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((partition, from))?;
    Ok(rows.next()?.map(|row| row.get(0)).transpose()?.unwrap_or(tail))
}

/// How many messages were deleted from an offset on, before another one.
pub(crate) fn count(s: &Session<'_>, partition: i64, (from, to): (i64, i64)) -> Res<i64> {
    let sql = include_str!("../../sql/queries/gap_count.sql");
    Ok(s.conn.prepare_cached(sql)?.query_row((partition, from, to), |row| row.get(0))?)
}

/// Whether the message at an offset was deleted.
pub(crate) fn contains(s: &Session<'_>, partition: i64, offset: i64) -> Res<bool> {
    let sql = include_str!("../../sql/queries/gap_read.sql");
    Ok(s.conn.prepare_cached(sql)?.exists((partition, offset))?)
}

/// Forgets what lies before the first message that is stored, and counts the rest.
pub(crate) fn trim(s: &Session<'_>, partition: i64, first: i64) -> Res<()> {
    let sql = include_str!("../../sql/queries/gap_trim.sql");
    if s.conn.prepare_cached(sql)?.execute((partition, first))? > 0 {
        recount(s, partition)?;
    }
    Ok(())
}

/// Counts the gaps of a partition.
pub(crate) fn recount(s: &Session<'_>, partition: i64) -> Res<()> {
    let sql = include_str!("../../sql/queries/partition_gaps.sql");
    s.conn.prepare_cached(sql)?.execute([partition])?;
    Ok(())
}

impl Cursor {
    /// Where the cursor stands once it has read up to an offset: in no gap.
    pub(crate) fn beyond(&self, s: &Session<'_>, offset: i64) -> Res<i64> {
        match self.gaps {
            0 => Ok(offset),
            _ => next_stored(s, self.partition, (offset, self.tail)),
        }
    }

    /// Messages between where the cursor stands and an offset.
    pub(crate) fn distance(&self, s: &Session<'_>, offset: i64) -> Res<i64> {
        let gaps = match self.gaps {
            0 => 0,
            _ => count(s, self.partition, (self.next, offset))?,
        };
        Ok((offset - self.next - gaps).max(0))
    }
}
