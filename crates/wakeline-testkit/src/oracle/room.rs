//! How much room queues have.

use async_trait::async_trait;
use wakeline_core::{PartitionName, QueueName, Timestamp};
use wakeline_store::{QueueRoom, Room, StoreError};

use super::MemoryStore;
use super::groups::lag;
use super::state::{Queue, State};

#[async_trait]
impl QueueRoom for MemoryStore {
    async fn room(
        &self,
        queue: &QueueName,
        partitions: &[PartitionName],
    ) -> Result<Option<Room>, StoreError> {
        Ok(self.state.lock().room(queue, partitions, self.now()))
    }
}

impl State {
    fn room(&self, name: &QueueName, partitions: &[PartitionName], now: Timestamp) -> Option<Room> {
        let queue = self.queues.get(name)?;
        let options = &queue.options;
        let counted = |limit: u64| limit > 0;
        let all = queue.partitions.keys().map(|partition| len(queue, partition, now)).sum();
        let each = partitions.iter().map(|partition| len(queue, partition, now)).collect();
        Some(Room {
            len_max: options.len_max,
            partition_len_max: options.partition_len_max,
            lanes: options.lanes,
            len: if counted(options.len_max) { all } else { 0 },
            partition_lens: if counted(options.partition_len_max) { each } else { Vec::new() },
        })
    }
}

/// What the group that is furthest behind has yet to settle; without a group, what is stored. And
/// what waits for its time.
fn len(queue: &Queue, name: &PartitionName, now: Timestamp) -> u64 {
    let Some(partition) = queue.partitions.get(name) else { return 0 };
    let groups = queue.holding(now);
    let lags = groups.iter().map(|group| lag(partition, &group.cursors[name]));
    let scheduled = queue.scheduled.iter().filter(|one| one.partition == *name).count() as u64;
    lags.max().unwrap_or(partition.stored()) + scheduled
}
