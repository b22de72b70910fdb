//! Consumer groups: their progress, and moving their cursors.
//!
//! # Where it sits
//! Implements `QueueGroups`. Nothing here is hot: each call is one statement, on a connection for
//! general use.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio_postgres::Row;
use wakeline_core::{Change, GroupName, PartitionId, PartitionName, QueueName, Subscription};
use wakeline_store::{
    GroupDetail, GroupPartition, GroupPartitionFilter, QueueGroups, Seek, SeekTo, StoreError,
};

use crate::PostgresStore;
use crate::access::Act;
use crate::admin::count;
use crate::rows::{self, Columns};

/// If a call has more changes than this, they are merged to one per queue.
const CHANGES_MAX: usize = 100;

/// A thousand years, in microseconds.
const BEHIND_MAX: i64 = 1000 * 366 * 86_400 * 1_000_000;

#[async_trait]
impl QueueGroups for PostgresStore {
    async fn groups(&self, group: Option<&GroupName>) -> Result<Vec<GroupDetail>, StoreError> {
        const OPERATION: &str = "list groups";
        let core = &self.queue.core;
        let group = group.map(GroupName::as_str);
        let rows = core.general(OPERATION, &core.sql.group_list, &[&group]).await?;
        rows.iter().map(|row| group_detail(&mut Columns::new(OPERATION, row))).collect()
    }

    async fn group_partitions(
        &self,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError> {
        const OPERATION: &str = "list partitions of groups";
        let core = &self.queue.core;
        let group = filter.group.as_ref().map(GroupName::as_str);
        let queue = filter.queue.as_ref().map(QueueName::as_str);
        let (limit, offset) = (i64::from(filter.limit), i64::from(filter.offset));
        let sql = &core.sql.group_partitions;
        let rows = core.general(OPERATION, sql, &[&group, &queue, &limit, &offset]).await?;
        rows.iter().map(|row| group_partition(OPERATION, row)).collect()
    }

    async fn lagging(
        &self,
        behind: Duration,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError> {
        const OPERATION: &str = "list lagging partitions";
        let core = &self.queue.core;
        let group = filter.group.as_ref().map(GroupName::as_str);
        let queue = filter.queue.as_ref().map(QueueName::as_str);
        let (limit, offset) = (i64::from(filter.limit), i64::from(filter.offset));
        // A longer time has the same effect: no message is that old.
        let behind = i64::try_from(behind.as_micros()).unwrap_or(i64::MAX).min(BEHIND_MAX);
        let sql = &core.sql.group_lagging;
        let rows =
            core.general(OPERATION, sql, &[&group, &queue, &behind, &limit, &offset]).await?;
        rows.iter().map(|row| group_partition(OPERATION, row)).collect()
    }

    async fn delete_group(
        &self,
        group: &GroupName,
        queue: Option<&QueueName>,
    ) -> Result<(u64, Vec<Change>), StoreError> {
        const OPERATION: &str = "delete group";
        let core = &self.queue.core;
        let queue = queue.map(QueueName::as_str);
        let sql = &core.sql.group_delete;
        let params: crate::connect::Params<'_> = &[&group.as_str(), &queue];
        let act = Act { operation: OPERATION, sql, params, changed: Act::any };
        let rows = core.recorded(act).await?;
        let (mut gone, mut changes) = (0, Vec::with_capacity(rows.len()));
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            let queue = columns.name_if("queue")?;
            let (namespace, task) = (columns.name_if("namespace")?, columns.name_if("task")?);
            let mut change = Change::of_filter(namespace, task, group.clone());
            change.queue = queue.unwrap_or(change.queue);
            changes.push(change);
            gone += count(columns.take()?);
        }
        self.shared.notifier.notify(&changes);
        Ok((gone, changes))
    }

    async fn seek(&self, seek: Seek) -> Result<(u64, Vec<Change>), StoreError> {
        const OPERATION: &str = "seek";
        let core = &self.queue.core;
        let (to, from) = match seek.to {
            SeekTo::Beginning => (0_i16, None),
            SeekTo::End => (1, None),
            SeekTo::Since(from) => {
                core.not_in_the_future("subscriptionTimestamp", from).await?;
                (2, Some(rows::system_time(from)))
            }
        };
        let queue = seek.queue.as_ref().map(QueueName::as_str);
        let partition = seek.partition.as_ref().map(PartitionName::as_str);
        let sql = &core.sql.group_seek;
        let params: crate::connect::Params<'_> =
            &[&seek.group.as_str(), &queue, &partition, &to, &from];
        let act = Act { operation: OPERATION, sql, params, changed: Act::any };
        let rows = core.recorded(act).await?;
        let mut changes = Vec::new();
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            let change = rows::change(&mut columns)?;
            if let Some(due) = columns.take::<Option<i64>>()? {
                let due_in = rows::span(due);
                changes.push(Change { group: Some(seek.group.clone()), due_in, ..change });
            }
        }
        if changes.len() > CHANGES_MAX {
            changes = by_queue(changes);
        }
        self.shared.notifier.notify(&changes);
        Ok((rows.len() as u64, changes))
    }
}

fn group_detail(columns: &mut Columns<'_>) -> Result<GroupDetail, StoreError> {
    let (queue, group) = (columns.name("queue")?, columns.name("group")?);
    let mode: i16 = columns.take()?;
    let from: Option<SystemTime> = columns.take()?;
    Ok(GroupDetail {
        queue,
        group,
        subscription: match (mode, from) {
            (0, _) => Subscription::All,
            (2, Some(from)) => Subscription::From(rows::timestamp(from)),
            _ => Subscription::New,
        },
        created_at: columns.moment()?,
        partitions: count(columns.take()?),
        partitions_behind: count(columns.take()?),
        lag: count(columns.take()?),
        leases: count(columns.take()?),
        behind: behind(columns)?,
        polled_at: columns.moment()?,
        idle_since: columns.take::<Option<SystemTime>>()?.map(rows::timestamp),
    })
}

/// The time since a timestamp, by the database's clock; the next two columns are the timestamp and
/// the present time.
fn behind(columns: &mut Columns<'_>) -> Result<Duration, StoreError> {
    let oldest_at = columns.take::<Option<SystemTime>>()?.map(rows::timestamp);
    let now = columns.moment()?;
    Ok(oldest_at.map_or(Duration::ZERO, |at| at.until(now)))
}

fn group_partition(operation: &'static str, row: &Row) -> Result<GroupPartition, StoreError> {
    let mut columns = Columns::new(operation, row);
    let (queue, group) = (columns.name("queue")?, columns.name("group")?);
    let partition = columns.name("partition")?;
    let partition_id = PartitionId(columns.take()?);
    let (end, lag) = (count(columns.take()?), count(columns.take()?));
    let oldest_at = columns.take::<Option<SystemTime>>()?.map(rows::timestamp);
    let leased_until = columns.take::<Option<SystemTime>>()?.map(rows::timestamp);
    let now = columns.moment()?;
    let behind = oldest_at.map_or(Duration::ZERO, |at| at.until(now));
    Ok(GroupPartition {
        queue,
        group,
        partition,
        partition_id,
        end,
        lag,
        oldest_at,
        behind,
        leased_until,
        taken_at: columns.take::<Option<SystemTime>>()?.map(rows::timestamp),
        taken_by: columns.take()?,
    })
}

/// Merges changes to one per queue, due when the first of them is.
fn by_queue(changes: Vec<Change>) -> Vec<Change> {
    let mut queues: BTreeMap<QueueName, Change> = BTreeMap::new();
    for change in changes {
        let due_in = change.due_in;
        let whole =
            queues.entry(change.queue.clone()).or_insert(Change { partition: None, ..change });
        whole.due_in = whole.due_in.min(due_in);
    }
    queues.into_values().collect()
}
