//! How queues and partitions stand, in numbers.
//!
//! # Invariants
//! * No message is read to be counted. Of a queue only cursors are looked at that have something
//!   to do; without a group there is one probe for each partition.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use rusqlite::{Params, Row};
use wakeline_core::{GroupName, PartitionId, PartitionName, QueueName, Timestamp};
use wakeline_store::{
    DeadLetterError, Depth, Page, PartitionTally, QueueTallies, QueueTally, StoreError, Tally,
};

use super::inspect::groups_of;
use super::messages::{Listed, list_partitions};
use crate::SqliteStore;
use crate::error::{Res, corrupt};
use crate::queue::cursor::created_at;
use crate::queue::gap;
use crate::queue::idle;
use crate::queue::keep;
use crate::queue::offsets::{Offsets, OffsetsError};
use crate::session::{Queue, Session};

#[async_trait]
impl QueueTallies for SqliteStore {
    async fn queue_tallies(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<QueueTally>, StoreError> {
        let queue = queue.cloned();
        self.read("queue_tallies", move |s| queues(s, queue.as_ref(), page)).await
    }

    async fn partition_tallies(
        &self,
        queue: &QueueName,
        page: Page,
    ) -> Result<Vec<PartitionTally>, StoreError> {
        let queue = queue.clone();
        self.read("partition_tallies", move |s| partitions(s, &queue, page)).await
    }

    async fn depth(
        &self,
        queue: &QueueName,
        group: Option<&GroupName>,
        page: Page,
    ) -> Result<Option<Depth>, StoreError> {
        let (queue, group) = (queue.clone(), group.cloned());
        self.read("depth", move |s| depth(s, &queue, (group.as_ref(), page))).await
    }

    async fn dead_letter_errors(&self, newest: u32) -> Result<Vec<DeadLetterError>, StoreError> {
        self.read("dead_letter_errors", move |s| errors(s, newest)).await
    }
}

/// How a group stands in a partition.
struct Standing {
    partition: i64,
    /// `None`: no group, all that is stored.
    group: Option<i64>,
    lag: u64,
    processing: u64,
    retrying: u64,
    next: i64,
    /// Messages that were deleted from there on.
    gaps: i64,
    unsettled: Offsets,
}

/// How a queue's groups stand.
#[derive(Default)]
struct Behind {
    /// The one that is furthest behind, by partition; none where nothing is to do.
    worst: BTreeMap<i64, Standing>,
    leases: u64,
    leased: BTreeSet<i64>,
}

impl Behind {
    /// `holding`: whether its group counts, and is not idle.
    fn add(&mut self, standing: Standing, holding: bool) {
        if standing.processing > 0 {
            self.leases += 1;
            self.leased.insert(standing.partition);
        }
        let lag = self.worst.get(&standing.partition).map_or(0, |worst| worst.lag);
        if holding && standing.lag > lag {
            self.worst.insert(standing.partition, standing);
        }
    }
}

impl Standing {
    /// Where all that is stored is to be read.
    fn stored(partition: i64, (tail, gaps): (i64, i64), first: i64) -> Self {
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

    /// Whether a message is still to be settled.
    fn has_ahead(&self, s: &Session<'_>, offset: i64) -> Res<bool> {
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
    s: &Session<'_>,
    sql: &str,
    params: impl Params,
    holding: impl Fn(i64) -> bool,
) -> Res<Behind> {
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut behind = Behind::default();
    while let Some(row) = rows.next()? {
        let standing = Standing::decode(row, s.now)?;
        let holding = standing.group.is_none_or(&holding);
        behind.add(standing, holding);
    }
    Ok(behind)
}

/// How the groups of a queue stand, or one of them.
fn behind(s: &Session<'_>, queue: &Queue, only: Option<&GroupName>) -> Res<Behind> {
    let groups = groups_of(s, queue)?;
    if groups.iter().any(|(_, name)| only.is_none_or(|only| only == name)) {
        let sql = include_str!("../../sql/queries/tally_cursors.sql");
        let holding = idle::holding(s, queue)?;
        let counts = |group| only.is_some() || holding.contains(&group);
        return read_cursors(s, sql, (queue.id, only.map(GroupName::as_str)), counts);
    }
    let mut statement =
        s.conn.prepare_cached(include_str!("../../sql/queries/tally_stored.sql"))?;
    let mut rows = statement.query([queue.id])?;
    let mut behind = Behind::default();
    while let Some(row) = rows.next()? {
        let first: Option<i64> = row.get(2)?;
        if let Some(first) = first {
            behind.add(Standing::stored(row.get(0)?, (row.get(1)?, row.get(3)?), first), true);
        }
    }
    Ok(behind)
}

/// Counts dead letters. Returns the partitions that they come from.
fn count_dead(
    s: &Session<'_>,
    (sql, id): (&str, i64),
    worst: &BTreeMap<i64, Standing>,
    tally: &mut Tally,
) -> Res<u64> {
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([id])?;
    let mut partitions = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let (partition, offset, len): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        partitions.insert(partition);
        tally.dead_letters += len.unsigned_abs();
        let ahead = match worst.get(&partition) {
            Some(standing) => standing.has_ahead(s, offset)?,
            None => false,
        };
        tally.given_up += u64::from(!ahead);
    }
    Ok(partitions.len() as u64)
}

fn add_standing(tally: &mut Tally, standing: &Standing) {
    tally.pending += standing.lag - standing.processing;
    tally.processing += standing.processing;
    tally.retrying += standing.retrying;
}

fn queues(s: &mut Session<'_>, only: Option<&QueueName>, page: Page) -> Res<Vec<QueueTally>> {
    let sql = include_str!("../../sql/queries/tally_queues.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let params = (only.map(QueueName::as_str), page.limit, page.offset);
    let ids: Vec<(i64, i64)> = statement
        .query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut tallies = Vec::with_capacity(ids.len());
    for (id, created_at) in ids {
        let missing = || corrupt("queue", id)("it is missing");
        let queue = s.queue_by_id(id)?.ok_or_else(missing)?;
        let sql = include_str!("../../sql/queries/tally_partitions.sql");
        let (partitions, pushed): (i64, i64) =
            (s.conn.prepare_cached(sql)?).query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let behind = behind(s, &queue, None)?;
        let mut tally = Tally { total: pushed.unsigned_abs(), ..Tally::default() };
        behind.worst.values().for_each(|standing| add_standing(&mut tally, standing));
        let letters = (include_str!("../../sql/queries/tally_dead.sql"), id);
        let partitions_dead = count_dead(s, letters, &behind.worst, &mut tally)?;
        tallies.push(QueueTally {
            id,
            queue: queue.name.clone(),
            namespace: queue.namespace.clone(),
            task: queue.task.clone(),
            created_at: Timestamp(created_at),
            priority: queue.options.priority,
            partitions: partitions.unsigned_abs(),
            partitions_behind: behind.worst.len() as u64,
            partitions_leased: behind.leased.len() as u64,
            partitions_dead,
            leases: behind.leases,
            tally,
            losses: keep::losses(s, &queue.name)?,
        });
    }
    Ok(tallies)
}

fn partitions(s: &mut Session<'_>, name: &QueueName, page: Page) -> Res<Vec<PartitionTally>> {
    let Some(queue) = s.queue(name)? else { return Ok(Vec::new()) };
    let filter = wakeline_store::MessageFilter { queue: Some(name.clone()), ..Default::default() };
    let holding = idle::holding(s, &queue)?;
    let mut tallies = Vec::new();
    for listed in list_partitions(s, &filter, (0, page))? {
        tallies.push(partition(s, (&queue, &holding), listed)?);
    }
    Ok(tallies)
}

fn partition(
    s: &Session<'_>,
    (queue, holding): (&Queue, &[i64]),
    listed: Listed,
) -> Res<PartitionTally> {
    let Listed { partition, name, tail, last_push_at, gaps, .. } = listed;
    let sql = include_str!("../../sql/queries/tally_cursors_of_partition.sql");
    let counts = |group| holding.contains(&group);
    let mut behind = read_cursors(s, sql, (queue.id, partition), counts)?;
    if holding.is_empty() {
        let sql = include_str!("../../sql/queries/message_first.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query((partition, 0))?;
        if let Some(row) = rows.next()? {
            behind.add(Standing::stored(partition, (tail, gaps), row.get(0)?), true);
        }
    }
    let mut tally = Tally { total: tail.unsigned_abs(), ..Tally::default() };
    behind.worst.values().for_each(|standing| add_standing(&mut tally, standing));
    let letters = (include_str!("../../sql/queries/tally_dead_of_partition.sql"), partition);
    count_dead(s, letters, &behind.worst, &mut tally)?;
    Ok(PartitionTally {
        partition: name,
        partition_id: PartitionId(partition),
        tally,
        oldest_at: created_at(s, partition, 0)?.map(Timestamp),
        last_push_at: (tail > 0).then_some(Timestamp(last_push_at)),
    })
}

fn depth(
    s: &mut Session<'_>,
    name: &QueueName,
    (group, page): (Option<&GroupName>, Page),
) -> Res<Option<Depth>> {
    let Some(queue) = s.queue(name)? else { return Ok(None) };
    let behind = behind(s, &queue, group)?.worst;
    let mut depth = Depth {
        len: behind.values().map(|standing| standing.lag).sum(),
        partitions_behind: behind.len() as u64,
        partitions: Vec::new(),
    };
    let mut statement =
        s.conn.prepare_cached(include_str!("../../sql/queries/partition_name.sql"))?;
    for standing in behind.values().skip(page.offset as usize).take(page.limit as usize) {
        let name: String = statement.query_row([standing.partition], |row| row.get(0))?;
        let name = PartitionName::new(name).map_err(corrupt("partition", standing.partition))?;
        depth.partitions.push((name, standing.lag));
    }
    Ok(Some(depth))
}

fn errors(s: &Session<'_>, newest: u32) -> Res<Vec<DeadLetterError>> {
    let mut statement =
        s.conn.prepare_cached(include_str!("../../sql/queries/tally_errors.sql"))?;
    let mut rows = statement.query([newest])?;
    let mut errors = Vec::new();
    while let Some(row) = rows.next()? {
        let (name, len): (String, i64) = (row.get(0)?, row.get(2)?);
        let queue = QueueName::new(&*name).map_err(corrupt("queue", &name))?;
        errors.push(DeadLetterError { queue, error: row.get(1)?, len: len.unsigned_abs() });
    }
    Ok(errors)
}
