//! Idle groups, which no consumer polls any more: they retain no messages, and count against no
//! limit.
//!
//! # Invariants
//! * A poll is recorded only if the last recorded poll is old, so that most polls write nothing.

use wakeline_core::{QueueLine, QueueOptions, Timestamp};

use crate::error::Res;
use crate::session::{DbSession, QueueRow};

/// The recorded polls of a group.
pub(crate) struct Polls {
    /// Time of the last recorded poll.
    pub(crate) polled_at: Timestamp,
    /// Whether the group has ever settled a message.
    pub(crate) settled: bool,
}

impl Polls {
    /// The time since which the group has been idle, if it is idle.
    pub(crate) fn idle_since(&self, options: &QueueOptions, now: Timestamp) -> Option<Timestamp> {
        let after = options.group_idle_after(self.settled)?;
        Some(self.polled_at.plus(after)).filter(|since| *since <= now)
    }
}

/// Whether a poll of a group should be recorded now.
pub(crate) fn is_poll_due(s: &DbSession<'_>, queue: &QueueRow, group: i64) -> Res<bool> {
    let sql = include_str!("../../sql/queries/group_poll.sql");
    let polls = s.conn.prepare_cached(sql)?.query_row([group], |row| {
        Ok(Polls { polled_at: Timestamp(row.get(0)?), settled: row.get(1)? })
    })?;
    let recorded_after = queue.options.poll_recorded_after(polls.settled);
    Ok(polls.polled_at.plus(recorded_after) <= s.now)
}

/// Records a poll of a group, if the last recorded one is old.
pub(crate) fn record_poll(s: &DbSession<'_>, queue: &QueueRow, group: i64) -> Res<()> {
    if is_poll_due(s, queue, group)? {
        resume(s, queue)?;
        let sql = include_str!("../../sql/queries/group_polled.sql");
        s.conn.prepare_cached(sql)?.execute((group, s.now.0))?;
    }
    Ok(())
}

/// Records polls for the groups of lines, because their waiters count as polling.
pub(crate) fn record_polls(s: &mut DbSession<'_>, lines: &[QueueLine]) -> Res<()> {
    for line in lines {
        for queue in s.matching(&line.selector)? {
            if let Some(group) = s.group(&queue, &line.group)? {
                record_poll(s, &queue, group)?;
            }
        }
    }
    Ok(())
}

/// Records that a group has settled a message.
pub(crate) fn record_settled(s: &DbSession<'_>, group: i64) -> Res<()> {
    let sql = include_str!("../../sql/queries/group_settled.sql");
    s.conn.prepare_cached(sql)?.execute([group])?;
    Ok(())
}

/// If all groups of a queue are idle, records a poll for each of them, because consumers come back
/// after a time without any polls. Otherwise only the first group to come back would retain
/// messages, and the others would lose what they have not read.
pub(crate) fn resume(s: &DbSession<'_>, queue: &QueueRow) -> Res<()> {
    if groups(s, queue)?.1.is_empty() {
        let sql = include_str!("../../sql/queries/group_polled_all.sql");
        s.conn.prepare_cached(sql)?.execute((queue.id, s.now.0))?;
    }
    Ok(())
}

/// The groups of a queue that count against its limits and retain messages: those that are not
/// idle, or all groups if all are idle.
pub(crate) fn retaining_groups(s: &DbSession<'_>, queue: &QueueRow) -> Res<Vec<i64>> {
    let (all, in_use) = groups(s, queue)?;
    Ok(if in_use.is_empty() { all } else { in_use })
}

/// All groups of a queue, and those of them that are not idle.
fn groups(s: &DbSession<'_>, queue: &QueueRow) -> Res<(Vec<i64>, Vec<i64>)> {
    let mut statement = s.conn.prepare_cached(include_str!("../../sql/queries/group_polls.sql"))?;
    let mut rows = statement.query([queue.id])?;
    let (mut all, mut in_use) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let group = row.get(0)?;
        let polls = Polls { polled_at: Timestamp(row.get(1)?), settled: row.get(2)? };
        all.push(group);
        if polls.idle_since(&queue.options, s.now).is_none() {
            in_use.push(group);
        }
    }
    Ok((all, in_use))
}
