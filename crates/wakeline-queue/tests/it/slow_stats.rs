//! Statistics: all calls are passed on.

use async_trait::async_trait;
use wakeline_store::{
    DatabaseStats, NodePoint, QueuePoint, StatsQuery, StatsRange, StatsRecord, StatsStore,
    StoreError,
};

use super::slow::SlowStore;

#[async_trait]
impl StatsStore for SlowStore {
    async fn record_stats(&self, record: StatsRecord) -> Result<(), StoreError> {
        self.0.record_stats(record).await
    }

    async fn queue_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<QueuePoint>), StoreError> {
        self.0.queue_stats(query).await
    }

    async fn node_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<NodePoint>), StoreError> {
        self.0.node_stats(query).await
    }

    async fn database_stats(&self) -> Result<Option<DatabaseStats>, StoreError> {
        self.0.database_stats().await
    }
}
