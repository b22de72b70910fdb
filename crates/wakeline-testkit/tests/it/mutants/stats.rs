//! Calls of statistics, which no rule of claims depends on and no mutation changes.

use async_trait::async_trait;
use wakeline_store::{
    DatabaseStats, NodePoint, QueuePoint, StatsQuery, StatsRange, StatsRecord, StatsStore,
    StoreError,
};

use super::MutantQueueStore;

#[async_trait]
impl StatsStore for MutantQueueStore {
    async fn record_stats(&self, record: StatsRecord) -> Result<(), StoreError> {
        self.inner.record_stats(record).await
    }

    async fn queue_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<QueuePoint>), StoreError> {
        self.inner.queue_stats(query).await
    }

    async fn node_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<NodePoint>), StoreError> {
        self.inner.node_stats(query).await
    }

    async fn database_stats(&self) -> Result<Option<DatabaseStats>, StoreError> {
        self.inner.database_stats().await
    }
}
