//! The room of queues, with one rule broken.

use async_trait::async_trait;
use wakeline_core::{PartitionName, QueueName};
use wakeline_store::{QueueRoom, Room, StoreError};

use super::{Sin, Sinner};

#[async_trait]
impl QueueRoom for Sinner {
    async fn room(
        &self,
        queue: &QueueName,
        partitions: &[PartitionName],
    ) -> Result<Option<Room>, StoreError> {
        let room = self.inner.room(queue, partitions).await?;
        if self.sin == Sin::SeesTooMuchRoom {
            return Ok(room.map(|room| Room { len: room.len.min(1), ..room }));
        }
        Ok(room)
    }
}
