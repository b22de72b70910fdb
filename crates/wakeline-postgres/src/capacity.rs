//! Reads the capacity of queues.

use async_trait::async_trait;
use wakeline_core::{PartitionName, QueueName};
use wakeline_store::{QueueCapacities, QueueCapacity, StoreError};

use crate::PostgresStore;
use crate::rows::Columns;

const OPERATION: &str = "read capacity";

#[async_trait]
impl QueueCapacities for PostgresStore {
    async fn capacity(
        &self,
        queue: &QueueName,
        partitions: &[PartitionName],
    ) -> Result<Option<QueueCapacity>, StoreError> {
        let core = &self.queue.core;
        let names: Vec<&str> = partitions.iter().map(PartitionName::as_str).collect();
        let sql = &core.sql.queue_capacity;
        let rows = core.general(OPERATION, sql, &[&queue.as_str(), &names]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut columns = Columns::new(OPERATION, row);
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        Ok(Some(QueueCapacity {
            len_max: count(columns.take()?),
            partition_len_max: count(columns.take()?),
            lanes: u32::try_from(columns.take::<i64>()?).unwrap_or(0),
            len: count(columns.take()?),
            partition_lens: columns.take::<Vec<i64>>()?.into_iter().map(count).collect(),
        }))
    }
}
