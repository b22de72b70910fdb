//! Maintenance of the slow store: all calls are passed on.

use async_trait::async_trait;
use wakeline_store::{Maintenance, MaintenanceSet, QueueMaintenance, SetMaintenance, StoreError};

use crate::slow::SlowStore;

#[async_trait]
impl QueueMaintenance for SlowStore {
    async fn maintenance(&self) -> Result<Maintenance, StoreError> {
        self.0.maintenance().await
    }

    async fn set_maintenance(&self, set: SetMaintenance) -> Result<MaintenanceSet, StoreError> {
        self.0.set_maintenance(set).await
    }

    async fn held_messages(&self) -> Result<u64, StoreError> {
        self.0.held_messages().await
    }

    async fn release_held(&self) -> Result<u64, StoreError> {
        self.0.release_held().await
    }
}
