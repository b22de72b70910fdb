//! Creates queues, partitions and groups, and determines where groups start to read.
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
use crate::error::{Res, StoreFault, corrupt};
use crate::session::{DbSession, QueueRow};

/// Returns a queue. It is created with the default options if it does not exist.
pub(crate) fn ensure_queue(s: &mut DbSession<'_>, name: &QueueName) -> Res<Arc<QueueRow>> {
    match s.queue(name)? {
        Some(queue) => Ok(queue),
        None => {
            let (namespace, task) = name.derived_scope();
            make_queue(s, name, namespace, task)
        }
    }
}

/// Creates a queue, its partition `Default`, and the groups that subscribed before it existed.
pub(crate) fn make_queue(
    s: &mut DbSession<'_>,
    name: &QueueName,
    namespace: Option<Namespace>,
    task: Option<TaskName>,
) -> Res<Arc<QueueRow>> {
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
    for group in early_subscriptions(s, &queue)? {
        add_group(s, &queue, &group)?;
    }
    let sql = include_str!("../../sql/queries/subscription_done.sql");
    s.conn.prepare_cached(sql)?.execute([name.as_str()])?;
    Ok(queue)
}

/// Encodes options for the database.
pub(crate) fn options_text(options: &QueueOptions) -> String {
    serde_json::to_string(options).expect("numbers and words become JSON")
}

/// Returns a partition. It is created if it does not exist, with a cursor for every group of the
/// queue.
pub(crate) fn ensure_partition(
    s: &mut DbSession<'_>,
    queue: &QueueRow,
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

/// Creates the group of a line in every matching queue, and stores where it starts to read in
/// queues that are created later. Returns the queues with the group's id in each.
pub(crate) fn create_missing(
    s: &mut DbSession<'_>,
    line: &QueueLine,
    subscription: Subscription,
) -> Res<Vec<(Arc<QueueRow>, i64)>> {
    let queues = s.matching(&line.selector)?;
    let found = !queues.is_empty();
    let mut created = Vec::with_capacity(queues.len());
    for queue in queues {
        let group = match s.group(&queue, &line.group)? {
            Some(group) => group,
            None => {
                let name = line.group.clone();
                add_group(s, &queue, &NewGroup { name, subscription, at: s.now })?
            }
        };
        created.push((queue, group));
    }
    if applies_to_later_queues(line, subscription, found) && !is_subscription_stored(s, line)? {
        store_subscription(s, line, subscription)?;
    }
    Ok(created)
}

/// Whether a subscription also applies to queues that are created later.
pub(crate) fn applies_to_later_queues(
    line: &QueueLine,
    subscription: Subscription,
    found: bool,
) -> bool {
    let lasting = subscription != Subscription::All && !line.group.is_queue_mode();
    lasting && (!found || matches!(line.selector, Selector::Filter { .. }))
}

/// Whether the subscription for later queues is already stored.
pub(crate) fn is_subscription_stored(s: &DbSession<'_>, line: &QueueLine) -> Res<bool> {
    let (queue, namespace, task) = scope(&line.selector);
    let sql = include_str!("../../sql/queries/subscription_known.sql");
    let params = (line.group.as_str(), queue, namespace, task);
    Ok(s.conn.prepare_cached(sql)?.exists(params)?)
}

/// The name, namespace and task of the queues that a selector matches.
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

/// Creates a group in a queue.
fn add_group(s: &mut DbSession<'_>, queue: &QueueRow, new: &NewGroup) -> Res<i64> {
    let NewGroup { name, subscription, at } = new;
    if let Some(group) = s.group(queue, name)? {
        return Ok(group);
    }
    let subscription = if name.is_queue_mode() { Subscription::All } else { *subscription };
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
        start_from(s, queue, group, StartPosition { from, partition: None })?;
    }
    Ok(group)
}

/// Where a group starts to read.
pub(crate) struct StartPosition<'a> {
    /// At the first message that was pushed since this time.
    pub(crate) from: Timestamp,
    /// Only in this partition, instead of in all.
    pub(crate) partition: Option<&'a PartitionName>,
}

/// Moves a group's cursors, which are at the tails, back to the messages pushed since a time.
pub(crate) fn start_from(
    s: &DbSession<'_>,
    queue: &QueueRow,
    group: i64,
    start: StartPosition<'_>,
) -> Res<()> {
    let StartPosition { from, partition: only } = start;
    let sql = include_str!("../../sql/queries/partition_pushed_since.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((queue.id, from.0, only.map(PartitionName::as_str)))?;
    while let Some(row) = rows.next()? {
        let (partition, tail, last_push_at): (i64, i64, i64) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let next = first_since(s, partition, tail, from.0)?;
        if let Some(head) = created_at(s, partition, next)?.filter(|_| next < tail) {
            let due = (head + queue.delay_micros()).max(window_end(queue, head, last_push_at));
            let sql = include_str!("../../sql/queries/cursor_start.sql");
            s.conn.prepare_cached(sql)?.execute((partition, group, next, due))?;
        }
    }
    Ok(())
}

/// The first offset whose message was pushed at or after a time. Push times ascend with offsets,
/// and removed messages are older than stored ones, so this is a binary search.
pub(crate) fn first_since(s: &DbSession<'_>, partition: i64, tail: i64, from: i64) -> Res<i64> {
    let (mut low, mut high) = (0, tail);
    while low < high {
        let middle = low + (high - low) / 2;
        match created_at(s, partition, middle)? {
            Some(at) if at < from => low = middle + 1,
            // Also if nothing is stored from there on, because the end of the log may be a gap.
            _ => high = middle,
        }
    }
    // The offset itself may be a gap.
    gap::next_stored(s, partition, low, tail)
}

fn store_subscription(s: &DbSession<'_>, line: &QueueLine, subscription: Subscription) -> Res<()> {
    let (queue, namespace, task) = scope(&line.selector);
    let (mode, from) = mode_columns(subscription);
    let sql = include_str!("../../sql/queries/subscription_add.sql");
    let params = (line.group.as_str(), queue, namespace, task, mode, from, s.now.0);
    s.conn.prepare_cached(sql)?.execute(params)?;
    Ok(())
}

/// A group to create, and the subscription that decides where it starts to read.
struct NewGroup {
    name: GroupName,
    subscription: Subscription,
    /// When the subscription was made, possibly before its queue existed.
    at: Timestamp,
}

/// The groups that subscribed to a queue before it existed.
fn early_subscriptions(s: &DbSession<'_>, queue: &QueueRow) -> Res<Vec<NewGroup>> {
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
        found.push(NewGroup {
            name: GroupName::new(group).map_err(corrupt("subscription", id))?,
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

/// Decodes a subscription from its columns.
pub(crate) fn subscription(
    what: &'static str,
    id: i64,
    columns: (&str, Option<i64>),
) -> Result<Subscription, StoreFault> {
    match columns {
        ("all", None) => Ok(Subscription::All),
        ("new", None) => Ok(Subscription::New),
        ("from", Some(from)) => Ok(Subscription::From(Timestamp(from))),
        (mode, _) => Err(corrupt(what, id)(format!("{mode:?} is not a valid subscription mode"))),
    }
}
