//! How full queues are, compared with their limits.

use async_trait::async_trait;
use wakeline_core::{PartitionName, QueueName, Timestamp};
use wakeline_store::{QueueCapacities, QueueCapacity, StoreError};

use super::MemoryStore;
use super::groups::lag;
use super::state::{OracleQueue, OracleState};

#[async_trait]
impl QueueCapacities for MemoryStore {
    async fn capacity(
        &self,
        queue: &QueueName,
        partitions: &[PartitionName],
    ) -> Result<Option<QueueCapacity>, StoreError> {
        Ok(self.state.lock().capacity(queue, partitions, self.now()))
    }
}

impl OracleState {
    fn capacity(
        &self,
        name: &QueueName,
        partitions: &[PartitionName],
        now: Timestamp,
    ) -> Option<QueueCapacity> {
        let queue = self.queues.get(name)?;
        let options = &queue.options;
        let limited = |limit: u64| limit > 0;
        let all = queue.partitions.keys().map(|partition| len(queue, partition, now)).sum();
        let each = partitions.iter().map(|partition| len(queue, partition, now)).collect();
        Some(QueueCapacity {
            len_max: options.len_max,
            partition_len_max: options.partition_len_max,
            lanes: options.lanes,
            len: if limited(options.len_max) { all } else { 0 },
            partition_lens: if limited(options.partition_len_max) { each } else { Vec::new() },
        })
    }
}

/// Counts the scheduled messages, plus those that the group furthest behind has not settled (or, if
/// the queue has no group, those that are stored).
fn len(queue: &OracleQueue, name: &PartitionName, now: Timestamp) -> u64 {
    let Some(partition) = queue.partitions.get(name) else { return 0 };
    let groups = queue.holding(now);
    let lags = groups.iter().map(|group| lag(partition, &group.cursors[name]));
    let scheduled = queue.scheduled.iter().filter(|one| one.partition == *name).count() as u64;
    lags.max().unwrap_or(partition.stored()) + scheduled
}
