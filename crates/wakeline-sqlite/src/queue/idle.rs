//! Groups that nobody polls any more: they hold no messages back, and count against no limit.
//!
//! # Invariants
//! * A poll is recorded only if the recorded one is old: most polls write nothing.

use wakeline_core::{QueueLine, QueueOptions, Timestamp};

use crate::error::Res;
use crate::session::{Queue, Session};

/// What is recorded of a group's polls.
pub(crate) struct Polls {
    /// The last one that was recorded.
    pub(crate) polled_at: Timestamp,
    /// Whether it has ever settled anything.
    pub(crate) settled: bool,
}

impl Polls {
    /// Since when the group is idle, if it is.
    pub(crate) fn idle_since(&self, options: &QueueOptions, now: Timestamp) -> Option<Timestamp> {
        let after = options.group_idle_after(self.settled)?;
        Some(self.polled_at.plus(after)).filter(|since| *since <= now)
    }
}

/// Whether a poll of a group is to be recorded.
pub(crate) fn is_poll_due(s: &Session<'_>, queue: &Queue, group: i64) -> Res<bool> {
    let sql = include_str!("../../sql/queries/group_poll.sql");
    let polls = s.conn.prepare_cached(sql)?.query_row([group], |row| {
        Ok(Polls { polled_at: Timestamp(row.get(0)?), settled: row.get(1)? })
    })?;
    let recorded_after = queue.options.poll_recorded_after(polls.settled);
    Ok(polls.polled_at.plus(recorded_after) <= s.now)
}

/// Records a poll of a group, if that is due.
pub(crate) fn record_poll(s: &Session<'_>, queue: &Queue, group: i64) -> Res<()> {
    if is_poll_due(s, queue, group)? {
        resume(s, queue)?;
        let sql = include_str!("../../sql/queries/group_polled.sql");
        s.conn.prepare_cached(sql)?.execute((group, s.now.0))?;
    }
    Ok(())
}

/// Records that the groups of lines are polled, by those who wait.
pub(crate) fn record_polls(s: &mut Session<'_>, lines: &[QueueLine]) -> Res<()> {
    for line in lines {
        for queue in s.matching(&line.selector)? {
            if let Some(group) = s.group(&queue, &line.group)? {
                record_poll(s, &queue, group)?;
            }
        }
    }
    Ok(())
}

/// Records that a group has settled something.
pub(crate) fn record_settled(s: &Session<'_>, group: i64) -> Res<()> {
    let sql = include_str!("../../sql/queries/group_settled.sql");
    s.conn.prepare_cached(sql)?.execute([group])?;
    Ok(())
}

/// Counts all groups of a queue as polled if every one of them is idle: somebody comes back after a
/// time in which nobody polled. Otherwise the first one to come back would take from the others
/// what they have yet to read.
pub(crate) fn resume(s: &Session<'_>, queue: &Queue) -> Res<()> {
    if groups(s, queue)?.1.is_empty() {
        let sql = include_str!("../../sql/queries/group_polled_all.sql");
        s.conn.prepare_cached(sql)?.execute((queue.id, s.now.0))?;
    }
    Ok(())
}

/// The groups of a queue that count against its limits and hold messages back: those that are not
/// idle; or all of them, where all are.
pub(crate) fn holding(s: &Session<'_>, queue: &Queue) -> Res<Vec<i64>> {
    let (all, in_use) = groups(s, queue)?;
    Ok(if in_use.is_empty() { all } else { in_use })
}

/// All groups of a queue, and those that are not idle.
fn groups(s: &Session<'_>, queue: &Queue) -> Res<(Vec<i64>, Vec<i64>)> {
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
