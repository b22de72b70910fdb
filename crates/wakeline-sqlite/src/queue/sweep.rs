//! When the lines have something next. Reads only.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::OptionalExtension as _;
use wakeline_core::{QueueLine, Selector, Timestamp};

use crate::error::Res;
use crate::session::{Queue, Session};

/// How long until each line has something. A group that has not begun yet would begin with
/// everything, so that a hint that was lost before its first claim costs no work.
pub(crate) fn sweep(s: &mut Session<'_>, lines: &[QueueLine]) -> Res<Vec<Option<Duration>>> {
    let mut answers = Vec::with_capacity(lines.len());
    for line in lines {
        let mut groups = Vec::new();
        let mut due = None;
        for queue in s.matching(&line.selector)? {
            match s.group(&queue, &line.group)? {
                Some(group) => groups.push((queue, group)),
                None => due = earlier(due, unread(s, line, &queue)?),
            }
        }
        due = earlier(due, next_due(s, line, &groups)?);
        answers.push(due.map(|due| s.now.until(Timestamp(due))));
    }
    Ok(answers)
}

/// The earliest time at which a cursor of the line may have something; it may have passed.
pub(crate) fn next_due(
    s: &mut Session<'_>,
    line: &QueueLine,
    groups: &[(Arc<Queue>, i64)],
) -> Res<Option<i64>> {
    let mut next = None;
    for (queue, group) in groups {
        let due: Option<Option<i64>> = match &line.selector {
            Selector::Partition(_, name) => {
                let Some(partition) = s.partition(queue, name)? else { continue };
                let sql = include_str!("../../sql/queries/cursor_next_due.sql");
                let mut statement = s.conn.prepare_cached(sql)?;
                statement.query_row((partition, group), |row| row.get(0)).optional()?
            }
            Selector::Queue(_) | Selector::Filter { .. } => {
                let sql = include_str!("../../sql/queries/group_next_due.sql");
                let mut statement = s.conn.prepare_cached(sql)?;
                statement.query_row([group], |row| row.get(0)).optional()?
            }
        };
        next = earlier(next, due.flatten());
    }
    Ok(next)
}

fn unread(s: &mut Session<'_>, line: &QueueLine, queue: &Queue) -> Res<Option<i64>> {
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
