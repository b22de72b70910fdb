//! Counts the messages of queues and partitions.
//!
//! # Where it sits
//! Implements `CountsStore`. Nothing here is hot: each call is one statement, on a connection for
//! general use.

use std::time::SystemTime;

use async_trait::async_trait;
use tokio_postgres::Row;
use wakeline_core::{GroupName, PartitionId, QueueName};
use wakeline_store::{
    CountsStore, DeadLetterError, Depth, Losses, MessageCounts, Page, PartitionCounts, QueueCounts,
    StoreError,
};

use crate::PostgresStore;
use crate::admin::count;
use crate::rows::{self, Columns};

#[async_trait]
impl CountsStore for PostgresStore {
    async fn queue_counts(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<QueueCounts>, StoreError> {
        const OPERATION: &str = "count queues";
        let core = &self.queue.core;
        let queue = queue.map(QueueName::as_str);
        let (limit, offset) = (i64::from(page.limit), i64::from(page.offset));
        let sql = &core.sql.queue_counts;
        let rows = core.general(OPERATION, sql, &[&queue, &limit, &offset]).await?;
        rows.iter().map(|row| queue_counts(OPERATION, row)).collect()
    }

    async fn partition_counts(
        &self,
        queue: &QueueName,
        page: Page,
    ) -> Result<Vec<PartitionCounts>, StoreError> {
        const OPERATION: &str = "count partitions";
        let core = &self.queue.core;
        let (limit, offset) = (i64::from(page.limit), i64::from(page.offset));
        let sql = &core.sql.partition_counts;
        let rows = core.general(OPERATION, sql, &[&queue.as_str(), &limit, &offset]).await?;
        rows.iter().map(|row| partition_counts(OPERATION, row)).collect()
    }

    async fn depth(
        &self,
        queue: &QueueName,
        group: Option<&GroupName>,
        page: Page,
    ) -> Result<Option<Depth>, StoreError> {
        const OPERATION: &str = "read depth";
        let core = &self.queue.core;
        let group = group.map(GroupName::as_str);
        let (limit, offset) = (i64::from(page.limit), i64::from(page.offset));
        let sql = &core.sql.queue_depth;
        let params: crate::connect::Params<'_> = &[&queue.as_str(), &group, &limit, &offset];
        let rows = core.general(OPERATION, sql, params).await?;
        let mut depth = None;
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            let name = columns.name_if("partition")?;
            let len = count(columns.take()?);
            match (name, &mut depth) {
                (Some(name), Some(Depth { partitions, .. })) => partitions.push((name, len)),
                _ => {
                    let partitions_behind = count(columns.take()?);
                    depth = Some(Depth { len, partitions_behind, partitions: Vec::new() });
                }
            }
        }
        Ok(depth)
    }

    async fn dead_letter_errors(&self, newest: u32) -> Result<Vec<DeadLetterError>, StoreError> {
        const OPERATION: &str = "count errors of dead letters";
        let core = &self.queue.core;
        let sql = &core.sql.dead_letter_errors;
        let rows = core.general(OPERATION, sql, &[&i64::from(newest)]).await?;
        let error = |row: &Row| {
            let mut columns = Columns::new(OPERATION, row);
            let queue = columns.name("queue")?;
            Ok(DeadLetterError { queue, error: columns.take()?, len: count(columns.take()?) })
        };
        rows.iter().map(error).collect()
    }
}

fn queue_counts(operation: &'static str, row: &Row) -> Result<QueueCounts, StoreError> {
    let mut columns = Columns::new(operation, row);
    Ok(QueueCounts {
        id: columns.take::<i32>()?.into(),
        queue: columns.name("queue")?,
        namespace: columns.name_if("namespace")?,
        task: columns.name_if("task")?,
        created_at: columns.moment()?,
        priority: columns.take()?,
        partitions: count(columns.take()?),
        partitions_behind: count(columns.take()?),
        partitions_leased: count(columns.take()?),
        partitions_dead: count(columns.take()?),
        leases: count(columns.take()?),
        messages: message_counts(&mut columns)?,
        losses: Losses {
            expired: count(columns.take()?),
            evicted: count(columns.take()?),
            dropped: count(columns.take()?),
        },
    })
}

fn partition_counts(operation: &'static str, row: &Row) -> Result<PartitionCounts, StoreError> {
    let mut columns = Columns::new(operation, row);
    let (partition, partition_id) = (columns.name("partition")?, PartitionId(columns.take()?));
    let messages = message_counts(&mut columns)?;
    let oldest_at = columns.take::<Option<SystemTime>>()?.map(rows::timestamp);
    let last_push_at = columns.take::<Option<SystemTime>>()?.map(rows::timestamp);
    Ok(PartitionCounts { partition, partition_id, messages, oldest_at, last_push_at })
}

fn message_counts(columns: &mut Columns<'_>) -> Result<MessageCounts, StoreError> {
    Ok(MessageCounts {
        total: count(columns.take()?),
        pending: count(columns.take()?),
        processing: count(columns.take()?),
        retrying: count(columns.take()?),
        given_up: count(columns.take()?),
        dead_letters: count(columns.take()?),
    })
}
