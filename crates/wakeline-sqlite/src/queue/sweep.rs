//! The safety sweep: when lines have messages next. It only reads.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{QueueLine, Selector, Timestamp};

use super::cursor::QueueCursor;
use super::idle;
use super::schedule;
use crate::admin::redrive;
use crate::error::Res;
use crate::session::{DbSession, QueueRow};

/// Number of cursors of a queue with a window that are read to find the exact due time.
const WINDOWS_LEN_MAX: i64 = 16;

/// The result of a sweep.
pub(crate) struct Swept {
    /// How long until each line has messages, or `None` if it has none to wait for.
    pub(crate) due: Vec<Option<Duration>>,
    /// Whether polls of the lines' groups should be recorded.
    pub(crate) polls_due: bool,
}

/// Finds out how long until each line has messages. A group that does not exist yet is treated as
/// one that starts with all messages, so that no message is missed if a hint was lost before its
/// first claim.
pub(crate) fn sweep(s: &mut DbSession<'_>, lines: &[QueueLine]) -> Res<Swept> {
    let mut answers = Vec::with_capacity(lines.len());
    let mut polls_due = false;
    for line in lines {
        if line.is_background() {
            let due = redrive::next_due(s)?;
            answers.push(due.map(|due| s.now.until(Timestamp(due))));
            continue;
        }
        let mut groups = Vec::new();
        let mut due = None;
        for queue in s.matching(&line.selector)? {
            match s.group(&queue, &line.group)? {
                Some(group) => {
                    polls_due = polls_due || idle::is_poll_due(s, &queue, group)?;
                    groups.push((queue, group));
                }
                None => {
                    due = earlier(due, unread(s, line, &queue)?);
                    due = earlier(due, scheduled(s, line, &queue)?);
                }
            }
        }
        due = earlier(due, next_due(s, line, &groups)?);
        answers.push(due.map(|due| s.now.until(Timestamp(due))));
    }
    Ok(Swept { due: answers, polls_due })
}

/// The earliest time, past or future, at which a cursor of the line may have messages.
pub(crate) fn next_due(
    s: &mut DbSession<'_>,
    line: &QueueLine,
    groups: &[(Arc<QueueRow>, i64)],
) -> Res<Option<i64>> {
    let mut next = None;
    for (queue, group) in groups {
        let due = match &line.selector {
            Selector::Partition(_, name) => match s.partition(queue, name)? {
                Some(partition) => partition_due(s, queue, partition, *group)?,
                None => None,
            },
            Selector::Queue(_) | Selector::Filter { .. } => group_due(s, queue, *group)?,
        };
        next = earlier(next, earlier(due, scheduled(s, line, queue)?));
    }
    Ok(next)
}

fn partition_due(
    s: &DbSession<'_>,
    queue: &QueueRow,
    partition: i64,
    group: i64,
) -> Res<Option<i64>> {
    match QueueCursor::read(s, partition, group)? {
        // A push moves the end of a window without writing the cursor.
        Some(cursor) if queue.window_micros() > 0 => cursor.due(s, queue),
        Some(cursor) => Ok(cursor.due_at),
        None => Ok(None),
    }
}

/// The first due time of the group in the index. For a queue with a window, the earliest exact time
/// of the first few cursors, or the last of their indexed times if that is earlier.
fn group_due(s: &DbSession<'_>, queue: &QueueRow, group: i64) -> Res<Option<i64>> {
    let limit = if queue.window_micros() > 0 { WINDOWS_LEN_MAX } else { 1 };
    let sql = include_str!("../../sql/queries/group_next_due.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((group, limit))?;
    let (mut next, mut seen) = (None, 0);
    while let Some(row) = rows.next()? {
        let due_at: i64 = row.get(0)?;
        seen += 1;
        if limit == 1 || next.is_some_and(|next| next <= due_at) {
            return Ok(earlier(next, Some(due_at)));
        }
        next = earlier(next, partition_due(s, queue, row.get(1)?, group)?);
        if seen == limit {
            return Ok(earlier(next, Some(due_at)));
        }
    }
    Ok(next)
}

/// When the first scheduled message of the line is due.
pub(crate) fn scheduled(
    s: &mut DbSession<'_>,
    line: &QueueLine,
    queue: &QueueRow,
) -> Res<Option<i64>> {
    match &line.selector {
        Selector::Partition(_, name) => match s.partition(queue, name)? {
            Some(partition) => schedule::next_due(s, queue, Some(partition)),
            None => Ok(None),
        },
        Selector::Queue(_) | Selector::Filter { .. } => schedule::next_due(s, queue, None),
    }
}

fn unread(s: &mut DbSession<'_>, line: &QueueLine, queue: &QueueRow) -> Res<Option<i64>> {
    let partition = match &line.selector {
        Selector::Partition(_, name) => Some(name.as_str()),
        Selector::Queue(_) | Selector::Filter { .. } => None,
    };
    let sql = include_str!("../../sql/queries/queue_unread_due.sql");
    let params = (queue.id, partition, queue.delay_micros(), queue.window_micros());
    Ok(s.conn.prepare_cached(sql)?.query_row(params, |row| row.get(0))?)
}

fn earlier(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a.into_iter().chain(b).min()
}
