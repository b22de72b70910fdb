//! Counts the messages of queues and partitions by state.
//!
//! # Invariants
//! * No message is read to be counted. For a queue, only cursors that have a due time are read; if
//!   the queue has no group, one probe is made per partition.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use rusqlite::{Params, Row};
use wakeline_core::{GroupName, PartitionId, PartitionName, QueueName, Timestamp};
use wakeline_store::{
    CountsStore, DeadLetterError, Depth, MessageCounts, Page, PartitionCounts, QueueCounts,
    StoreError,
};

use super::inspect::groups_of;
use super::messages::{PartitionRow, list_partitions};
use crate::SqliteStore;
use crate::error::{Res, corrupt};
use crate::queue::cursor::created_at;
use crate::queue::gap;
use crate::queue::housekeeping;
use crate::queue::idle;
use crate::queue::offsets::{Offsets, OffsetsError};
use crate::session::{DbSession, QueueRow};

#[async_trait]
impl CountsStore for SqliteStore {
    async fn queue_counts(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<QueueCounts>, StoreError> {
        let queue = queue.cloned();
        self.read("queue_counts", move |s| queues(s, queue.as_ref(), page)).await
    }

    async fn partition_counts(
        &self,
        queue: &QueueName,
        page: Page,
    ) -> Result<Vec<PartitionCounts>, StoreError> {
        let queue = queue.clone();
        self.read("partition_counts", move |s| partitions(s, &queue, page)).await
    }

    async fn depth(
        &self,
        queue: &QueueName,
        group: Option<&GroupName>,
        page: Page,
    ) -> Result<Option<Depth>, StoreError> {
        let (queue, group) = (queue.clone(), group.cloned());
        self.read("depth", move |s| depth(s, &queue, group.as_ref(), page)).await
    }

    async fn dead_letter_errors(&self, newest: u32) -> Result<Vec<DeadLetterError>, StoreError> {
        self.read("dead_letter_errors", move |s| errors(s, newest)).await
    }
}

/// What a group has not settled in one partition.
struct PartitionBacklog {
    partition: i64,
    /// `None` if the queue has no group: then all stored messages are unread.
    group: Option<i64>,
    lag: u64,
    processing: u64,
    retrying: u64,
    next: i64,
    /// The number of deleted messages at or after `next`.
    gaps: i64,
    unsettled: Offsets,
}

/// What the groups of a queue have not settled.
#[derive(Default)]
struct QueueBacklog {
    /// By partition: the backlog of the group that is furthest behind. Partitions without backlog
    /// are missing.
    worst: BTreeMap<i64, PartitionBacklog>,
    leases: u64,
    leased: BTreeSet<i64>,
}

impl QueueBacklog {
    /// Adds a backlog. `retaining` says whether its group is counted, because it is not idle.
    fn add(&mut self, backlog: PartitionBacklog, retaining: bool) {
        if backlog.processing > 0 {
            self.leases += 1;
            self.leased.insert(backlog.partition);
        }
        let lag = self.worst.get(&backlog.partition).map_or(0, |worst| worst.lag);
        if retaining && backlog.lag > lag {
            self.worst.insert(backlog.partition, backlog);
        }
    }
}

impl PartitionBacklog {
    /// The backlog of a partition without groups: all of its stored messages.
    fn stored(partition: i64, tail: i64, gaps: i64, first: i64) -> Self {
        Self {
            partition,
            group: None,
            lag: (tail - first - gaps).unsigned_abs(),
            gaps,
            processing: 0,
            retrying: 0,
            next: first,
            unsettled: Offsets::default(),
        }
    }

    fn decode(row: &Row<'_>, now: Timestamp) -> Res<Self> {
        let (partition, group): (i64, i64) = (row.get(0)?, row.get(1)?);
        let (tail, next, parked): (i64, i64, i64) = (row.get(2)?, row.get(3)?, row.get(4)?);
        let (until, start): (Option<i64>, Option<i64>) = (row.get(5)?, row.get(6)?);
        let (text, gaps): (Option<String>, i64) = (row.get(7)?, row.get(8)?);
        let unsettled: Offsets = match text.map(|text| text.parse()).transpose() {
            Ok(unsettled) => unsettled.unwrap_or_default(),
            Err(error) => {
                let error: OffsetsError = error;
                return Err(corrupt("cursor", format!("{partition}/{group}"))(error));
            }
        };
        let start = start.unwrap_or(next);
        let again = unsettled.iter().filter(|offset| *offset < start).count() as u64;
        let held = unsettled.iter().count() as u64;
        let live = until.is_some_and(|until| until > now.0);
        let parked = parked.unsigned_abs();
        Ok(Self {
            partition,
            group: Some(group),
            lag: (tail - next - gaps).unsigned_abs() + parked + held - again,
            gaps,
            processing: if live { held } else { 0 },
            retrying: parked - again,
            next,
            unsettled,
        })
    }

    /// Whether a message is part of the backlog.
    fn has_ahead(&self, s: &DbSession<'_>, offset: i64) -> Res<bool> {
        let deleted = self.gaps > 0 && gap::contains(s, self.partition, offset)?;
        let ahead = (offset >= self.next && !deleted) || self.unsettled.contains(offset);
        let Some(group) = self.group.filter(|_| !ahead && self.retrying > 0) else {
            return Ok(ahead);
        };
        let sql = include_str!("../../sql/queries/retry_read.sql");
        Ok(s.conn.prepare_cached(sql)?.exists((self.partition, group, offset))?)
    }
}

fn read_cursors(
    s: &DbSession<'_>,
    sql: &str,
    params: impl Params,
    retaining: impl Fn(i64) -> bool,
) -> Res<QueueBacklog> {
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut behind = QueueBacklog::default();
    while let Some(row) = rows.next()? {
        let backlog = PartitionBacklog::decode(row, s.now)?;
        let retaining = backlog.group.is_none_or(&retaining);
        behind.add(backlog, retaining);
    }
    Ok(behind)
}

/// The backlog of all groups of a queue, or of one of them.
fn behind(s: &DbSession<'_>, queue: &QueueRow, only: Option<&GroupName>) -> Res<QueueBacklog> {
    let groups = groups_of(s, queue)?;
    if groups.iter().any(|(_, name)| only.is_none_or(|only| only == name)) {
        let sql = include_str!("../../sql/queries/counts_cursors.sql");
        let retaining = idle::retaining_groups(s, queue)?;
        let counts = |group| only.is_some() || retaining.contains(&group);
        return read_cursors(s, sql, (queue.id, only.map(GroupName::as_str)), counts);
    }
    let mut statement =
        s.conn.prepare_cached(include_str!("../../sql/queries/counts_stored.sql"))?;
    let mut rows = statement.query([queue.id])?;
    let mut behind = QueueBacklog::default();
    while let Some(row) = rows.next()? {
        let first: Option<i64> = row.get(2)?;
        if let Some(first) = first {
            behind
                .add(PartitionBacklog::stored(row.get(0)?, row.get(1)?, row.get(3)?, first), true);
        }
    }
    Ok(behind)
}

/// The number of dead letters of a queue or a partition.
#[derive(Default)]
struct DeadCounts {
    dead_letters: u64,
    /// Those whose message is not also part of a backlog.
    given_up: u64,
    /// The number of partitions that have dead letters.
    partitions: u64,
}

/// Counts the dead letters that a statement finds for the id of a queue or a partition.
fn count_dead(
    s: &DbSession<'_>,
    sql: &str,
    id: i64,
    worst: &BTreeMap<i64, PartitionBacklog>,
) -> Res<DeadCounts> {
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([id])?;
    let mut partitions = BTreeSet::new();
    let mut counts = DeadCounts::default();
    while let Some(row) = rows.next()? {
        let (partition, offset, len): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        partitions.insert(partition);
        counts.dead_letters += len.unsigned_abs();
        let ahead = match worst.get(&partition) {
            Some(backlog) => backlog.has_ahead(s, offset)?,
            None => false,
        };
        counts.given_up += u64::from(!ahead);
    }
    counts.partitions = partitions.len() as u64;
    Ok(counts)
}

fn message_counts(pushed: i64, behind: &QueueBacklog, dead: &DeadCounts) -> MessageCounts {
    let mut messages = MessageCounts {
        total: pushed.unsigned_abs(),
        dead_letters: dead.dead_letters,
        given_up: dead.given_up,
        ..MessageCounts::default()
    };
    behind.worst.values().for_each(|backlog| add_backlog(&mut messages, backlog));
    messages
}

fn add_backlog(messages: &mut MessageCounts, backlog: &PartitionBacklog) {
    messages.pending += backlog.lag - backlog.processing;
    messages.processing += backlog.processing;
    messages.retrying += backlog.retrying;
}

fn queues(s: &mut DbSession<'_>, only: Option<&QueueName>, page: Page) -> Res<Vec<QueueCounts>> {
    let sql = include_str!("../../sql/queries/counts_queues.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let params = (only.map(QueueName::as_str), page.limit, page.offset);
    let ids: Vec<(i64, i64)> = statement
        .query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut all = Vec::with_capacity(ids.len());
    for (id, created_at) in ids {
        let missing = || corrupt("queue", id)("it is missing");
        let queue = s.queue_by_id(id)?.ok_or_else(missing)?;
        let sql = include_str!("../../sql/queries/counts_partitions.sql");
        let (partitions, pushed): (i64, i64) =
            (s.conn.prepare_cached(sql)?).query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let behind = behind(s, &queue, None)?;
        let sql = include_str!("../../sql/queries/counts_dead.sql");
        let dead = count_dead(s, sql, id, &behind.worst)?;
        let messages = message_counts(pushed, &behind, &dead);
        all.push(QueueCounts {
            id,
            queue: queue.name.clone(),
            namespace: queue.namespace.clone(),
            task: queue.task.clone(),
            created_at: Timestamp(created_at),
            priority: queue.options.priority,
            partitions: partitions.unsigned_abs(),
            partitions_behind: behind.worst.len() as u64,
            partitions_leased: behind.leased.len() as u64,
            partitions_dead: dead.partitions,
            leases: behind.leases,
            messages,
            losses: housekeeping::losses(s, &queue.name)?,
        });
    }
    Ok(all)
}

fn partitions(s: &mut DbSession<'_>, name: &QueueName, page: Page) -> Res<Vec<PartitionCounts>> {
    let Some(queue) = s.queue(name)? else { return Ok(Vec::new()) };
    let filter = wakeline_store::MessageFilter { queue: Some(name.clone()), ..Default::default() };
    let retaining = idle::retaining_groups(s, &queue)?;
    let mut all = Vec::new();
    for listed in list_partitions(s, &filter, 0, page)? {
        all.push(partition(s, &queue, &retaining, listed)?);
    }
    Ok(all)
}

fn partition(
    s: &DbSession<'_>,
    queue: &QueueRow,
    retaining: &[i64],
    listed: PartitionRow,
) -> Res<PartitionCounts> {
    let PartitionRow { partition, name, tail, last_push_at, gaps, .. } = listed;
    let sql = include_str!("../../sql/queries/counts_cursors_of_partition.sql");
    let counts = |group| retaining.contains(&group);
    let mut behind = read_cursors(s, sql, (queue.id, partition), counts)?;
    if retaining.is_empty() {
        let sql = include_str!("../../sql/queries/message_first.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query((partition, 0))?;
        if let Some(row) = rows.next()? {
            behind.add(PartitionBacklog::stored(partition, tail, gaps, row.get(0)?), true);
        }
    }
    let sql = include_str!("../../sql/queries/counts_dead_of_partition.sql");
    let dead = count_dead(s, sql, partition, &behind.worst)?;
    let messages = message_counts(tail, &behind, &dead);
    Ok(PartitionCounts {
        partition: name,
        partition_id: PartitionId(partition),
        messages,
        oldest_at: created_at(s, partition, 0)?.map(Timestamp),
        last_push_at: (tail > 0).then_some(Timestamp(last_push_at)),
    })
}

fn depth(
    s: &mut DbSession<'_>,
    name: &QueueName,
    group: Option<&GroupName>,
    page: Page,
) -> Res<Option<Depth>> {
    let Some(queue) = s.queue(name)? else { return Ok(None) };
    let behind = behind(s, &queue, group)?.worst;
    let mut depth = Depth {
        len: behind.values().map(|backlog| backlog.lag).sum(),
        partitions_behind: behind.len() as u64,
        partitions: Vec::new(),
    };
    let mut statement =
        s.conn.prepare_cached(include_str!("../../sql/queries/partition_name.sql"))?;
    for backlog in behind.values().skip(page.offset as usize).take(page.limit as usize) {
        let name: String = statement.query_row([backlog.partition], |row| row.get(0))?;
        let name = PartitionName::new(name).map_err(corrupt("partition", backlog.partition))?;
        depth.partitions.push((name, backlog.lag));
    }
    Ok(Some(depth))
}

fn errors(s: &DbSession<'_>, newest: u32) -> Res<Vec<DeadLetterError>> {
    let mut statement =
        s.conn.prepare_cached(include_str!("../../sql/queries/counts_errors.sql"))?;
    let mut rows = statement.query([newest])?;
    let mut errors = Vec::new();
    while let Some(row) = rows.next()? {
        let (name, len): (String, i64) = (row.get(0)?, row.get(2)?);
        let queue = QueueName::new(&*name).map_err(corrupt("queue", &name))?;
        errors.push(DeadLetterError { queue, error: row.get(1)?, len: len.unsigned_abs() });
    }
    Ok(errors)
}
