//! Calls of statistics, with planned faults.

use async_trait::async_trait;
use wakeline_store::{
    DatabaseStats, NodePoint, QueuePoint, StatsQuery, StatsRange, StatsRecord, StatsStore,
    StoreError,
};

use super::FaultingStore;

#[async_trait]
impl StatsStore for FaultingStore {
    async fn record_stats(&self, record: StatsRecord) -> Result<(), StoreError> {
        self.call("record_stats", self.inner.record_stats(record)).await
    }

    async fn queue_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<QueuePoint>), StoreError> {
        self.call("queue_stats", self.inner.queue_stats(query)).await
    }

    async fn node_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<NodePoint>), StoreError> {
        self.call("node_stats", self.inner.node_stats(query)).await
    }

    async fn database_stats(&self) -> Result<Option<DatabaseStats>, StoreError> {
        self.call("database_stats", self.inner.database_stats()).await
    }
}
