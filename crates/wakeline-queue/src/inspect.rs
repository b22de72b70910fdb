//! The statistics of this node.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::QueueError;
use crate::service::QueueService;

impl QueueService {
    /// Writes statistics to the store while something happens, until `shutdown`, and then the last
    /// ones.
    pub async fn run_statistics(&self, shutdown: CancellationToken) {
        let hub = self.hub.clone();
        self.statistics().run(move || hub.snapshot().waiters, shutdown).await;
    }

    /// Writes what was counted now. Returns the number of queues.
    pub async fn write_statistics(&self) -> Result<u64, QueueError> {
        Ok(self.statistics().write(self.hub.snapshot().waiters).await?)
    }

    /// Returns the time since statistics were last written; `None` if they never were.
    pub fn statistics_age(&self) -> Option<Duration> {
        self.statistics().since_last_write()
    }

    /// Returns the id under which this process writes its statistics. It changes with each start.
    pub fn node(&self) -> Uuid {
        self.statistics().node()
    }
}
