//! How queues, partitions and groups come to be, and where groups begin.
//!
//! # Invariants
//! * Every group of a queue has a cursor for every partition of the queue.

use std::sync::Arc;

use wakeline_core::{
    GroupName, Namespace, PartitionName, QueueLine, QueueName, QueueOptions, Selector,
    Subscription, TaskName, Timestamp,
};

use super::cursor::{created_at, window_end};
use super::gap;
use super::idle;
use crate::error::{Fault, Res, corrupt};
use crate::session::{Queue, Session};

/// A queue; made with the default options if it does not exist.
pub(crate) fn ensure_queue(s: &mut Session<'_>, name: &QueueName) -> Res<Arc<Queue>> {
    match s.queue(name)? {
        Some(queue) => Ok(queue),
        None => make_queue(s, name, name.derived_scope()),
    }
}

/// Makes a queue, its partition `Default`, and the groups that were waiting for it.
pub(crate) fn make_queue(
    s: &mut Session<'_>,
    name: &QueueName,
    (namespace, task): (Option<Namespace>, Option<TaskName>),
) -> Res<Arc<Queue>> {
    let sql = include_str!("../../sql/queries/queue_add.sql");
    s.conn.prepare_cached(sql)?.execute((
        name.as_str(),
        namespace.as_ref().map(Namespace::as_str),
        task.as_ref().map(TaskName::as_str),
        options_text(&QueueOptions::default()),
        s.now.0,
    ))?;
    let queue = s.queue(name)?.expect("it was just added");
    ensure_partition(s, &queue, &PartitionName::default_partition())?;
    for waiting in remembered(s, &queue)? {
        let Remembered { group, subscription, at } = waiting;
        add_group(s, &queue, &group, (subscription, at))?;
    }
    let sql = include_str!("../../sql/queries/subscription_done.sql");
    s.conn.prepare_cached(sql)?.execute([name.as_str()])?;
    Ok(queue)
}

/// Options as the database keeps them.
pub(crate) fn options_text(options: &QueueOptions) -> String {
    serde_json::to_string(options).expect("numbers and words become JSON")
}

/// A partition; made if it does not exist, with a cursor for every group of the queue.
pub(crate) fn ensure_partition(
    s: &mut Session<'_>,
    queue: &Queue,
    name: &PartitionName,
) -> Res<i64> {
    if let Some(id) = s.partition(queue, name)? {
        return Ok(id);
    }
    let sql = include_str!("../../sql/queries/partition_add.sql");
    s.conn.prepare_cached(sql)?.execute((queue.id, name.as_str()))?;
    let id = s.partition(queue, name)?.expect("it was just added");
    let sql = include_str!("../../sql/queries/cursor_add_for_partition.sql");
    s.conn.prepare_cached(sql)?.execute((id, queue.id, s.now.0))?;
    Ok(id)
}

/// Begins the group of a line in every queue that it speaks of; remembers where it is to begin
/// in those that come later. Returns the queues with the group's id in each.
pub(crate) fn begin(
    s: &mut Session<'_>,
    line: &QueueLine,
    subscription: Subscription,
) -> Res<Vec<(Arc<Queue>, i64)>> {
    let queues = s.matching(&line.selector)?;
    let found = !queues.is_empty();
    let mut begun = Vec::with_capacity(queues.len());
    for queue in queues {
        let group = match s.group(&queue, &line.group)? {
            Some(group) => group,
            None => add_group(s, &queue, &line.group, (subscription, s.now))?,
        };
        begun.push((queue, group));
    }
    if outlasts(line, subscription, found) && !knows(s, line)? {
        remember(s, line, subscription)?;
    }
    Ok(begun)
}

/// Whether a subscription counts for queues that come later.
pub(crate) fn outlasts(line: &QueueLine, subscription: Subscription, found: bool) -> bool {
    let lasting = subscription != Subscription::All && !line.group.is_queue_mode();
    lasting && (!found || matches!(line.selector, Selector::Filter { .. }))
}

/// Whether it is remembered already where the group of a line begins in later queues.
pub(crate) fn knows(s: &Session<'_>, line: &QueueLine) -> Res<bool> {
    let (queue, namespace, task) = scope(&line.selector);
    let sql = include_str!("../../sql/queries/subscription_known.sql");
    let params = (line.group.as_str(), queue, namespace, task);
    Ok(s.conn.prepare_cached(sql)?.exists(params)?)
}

/// What a selector says of later queues: their name, namespace and task.
fn scope(selector: &Selector) -> (Option<&str>, Option<&str>, Option<&str>) {
    match selector {
        Selector::Queue(queue) | Selector::Partition(queue, _) => {
            (Some(queue.as_str()), None, None)
        }
        Selector::Filter { namespace, task } => {
            (None, namespace.as_ref().map(Namespace::as_str), task.as_ref().map(TaskName::as_str))
        }
    }
}

/// Begins a group in a queue.
fn add_group(
    s: &mut Session<'_>,
    queue: &Queue,
    name: &GroupName,
    (subscription, at): (Subscription, Timestamp),
) -> Res<i64> {
    if let Some(group) = s.group(queue, name)? {
        return Ok(group);
    }
    let subscription = if name.is_queue_mode() { Subscription::All } else { subscription };
    let (mode, from) = mode_columns(subscription);
    idle::resume(s, queue)?;
    let sql = include_str!("../../sql/queries/group_add.sql");
    let params = (queue.id, name.as_str(), mode, from, at.0, s.now.0);
    s.conn.prepare_cached(sql)?.execute(params)?;
    let group = s.group(queue, name)?.expect("it was just added");
    let sql = match subscription {
        Subscription::All => include_str!("../../sql/queries/cursor_add_all.sql"),
        _ => include_str!("../../sql/queries/cursor_add_new.sql"),
    };
    let mut statement = s.conn.prepare_cached(sql)?;
    match subscription {
        Subscription::All => {
            let (delay, window) = (queue.delay_micros(), queue.window_micros());
            statement.execute((queue.id, group, delay, window))?;
        }
        _ => drop(statement.execute((queue.id, group))?),
    }
    if let Subscription::From(from) = subscription {
        start_from(s, queue, group, (from, None))?;
    }
    Ok(group)
}

/// Moves a group's cursors, which stand at the tails, back to what was pushed since a moment.
pub(crate) fn start_from(
    s: &Session<'_>,
    queue: &Queue,
    group: i64,
    (from, only): (Timestamp, Option<&PartitionName>),
) -> Res<()> {
    let sql = include_str!("../../sql/queries/partition_pushed_since.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((queue.id, from.0, only.map(PartitionName::as_str)))?;
    while let Some(row) = rows.next()? {
        let (partition, tail, last_push_at): (i64, i64, i64) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let next = first_since(s, partition, (tail, from.0))?;
        if let Some(head) = created_at(s, partition, next)?.filter(|_| next < tail) {
            let due = (head + queue.delay_micros()).max(window_end(queue, head, last_push_at));
            let sql = include_str!("../../sql/queries/cursor_start.sql");
            s.conn.prepare_cached(sql)?.execute((partition, group, next, due))?;
        }
    }
    Ok(())
}

/// The first offset whose message was pushed at or after a moment: times ascend with offsets, and
/// what is no longer stored is older than what is.
pub(crate) fn first_since(s: &Session<'_>, partition: i64, (tail, from): (i64, i64)) -> Res<i64> {
    let (mut low, mut high) = (0, tail);
    while low < high {
        let middle = low + (high - low) / 2;
        match created_at(s, partition, middle)? {
            Some(at) if at < from => low = middle + 1,
            // Also where nothing is stored from there on: the end of the log may be a gap.
            _ => high = middle,
        }
    }
    // There may be nothing stored there.
    gap::next_stored(s, partition, (low, tail))
}

fn remember(s: &Session<'_>, line: &QueueLine, subscription: Subscription) -> Res<()> {
    let (queue, namespace, task) = scope(&line.selector);
    let (mode, from) = mode_columns(subscription);
    let sql = include_str!("../../sql/queries/subscription_add.sql");
    let params = (line.group.as_str(), queue, namespace, task, mode, from, s.now.0);
    s.conn.prepare_cached(sql)?.execute(params)?;
    Ok(())
}

/// A subscription that was made before its queue.
struct Remembered {
    group: GroupName,
    subscription: Subscription,
    at: Timestamp,
}

fn remembered(s: &Session<'_>, queue: &Queue) -> Res<Vec<Remembered>> {
    let sql = include_str!("../../sql/queries/subscription_matching.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((
        queue.name.as_str(),
        queue.namespace.as_ref().map(Namespace::as_str),
        queue.task.as_ref().map(TaskName::as_str),
    ))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let group: String = row.get(1)?;
        let mode: String = row.get(2)?;
        found.push(Remembered {
            group: GroupName::new(group).map_err(corrupt("subscription", id))?,
            subscription: subscription("subscription", id, (&mode, row.get(3)?))?,
            at: Timestamp(row.get(4)?),
        });
    }
    Ok(found)
}

pub(crate) fn mode_columns(subscription: Subscription) -> (&'static str, Option<i64>) {
    match subscription {
        Subscription::All => ("all", None),
        Subscription::New => ("new", None),
        Subscription::From(from) => ("from", Some(from.0)),
    }
}

/// A subscription from its columns.
pub(crate) fn subscription(
    what: &'static str,
    id: i64,
    columns: (&str, Option<i64>),
) -> Result<Subscription, Fault> {
    match columns {
        ("all", None) => Ok(Subscription::All),
        ("new", None) => Ok(Subscription::New),
        ("from", Some(from)) => Ok(Subscription::From(Timestamp(from))),
        (mode, _) => Err(corrupt(what, id)(format!("{mode:?} is not where a group begins"))),
    }
}
