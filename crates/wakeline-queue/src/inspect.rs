//! What this node tells of itself over time.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::QueueError;
use crate::service::QueueService;

impl QueueService {
    /// Has figures over time written down while something happens, until `shutdown`; at the end the
    /// last ones.
    pub async fn keep_figures(&self, shutdown: CancellationToken) {
        let hub = self.hub.clone();
        self.figures().run(move || hub.snapshot().waiters, shutdown).await;
    }

    /// Has what was counted written down now. Returns of how many queues.
    pub async fn write_figures(&self) -> Result<u64, QueueError> {
        Ok(self.figures().write(self.hub.snapshot().waiters).await?)
    }

    /// How long ago figures were written down; `None` if never.
    pub fn figures_age(&self) -> Option<Duration> {
        self.figures().age()
    }

    /// The id under which this process writes its figures: another one with each start.
    pub fn node(&self) -> Uuid {
        self.figures().node()
    }
}
