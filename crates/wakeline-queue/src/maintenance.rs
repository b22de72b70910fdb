//! Maintenance: suspends and resumes pushes and pops, and does what this requires on a node.
//!
//! # Where it sits
//! The store keeps what is suspended and checks each push and claim against it. This module calls
//! it, wakes this node's waiters, and counts.
//!
//! # Invariants
//! * Messages that were held back are released by any push or pop that finds them. The node that
//!   ended the maintenance also releases all of them, so that they become available soon in queues
//!   without pops. If that node dies, nothing is lost.

use wakeline_core::error_chain;
use wakeline_store::{
    Maintenance, MaintenanceSet, PushGate, PushOutcome, RunToCompletion, SetMaintenance, StoreError,
};

use crate::{QueueError, QueueService};

impl QueueService {
    /// Returns what is suspended.
    pub async fn maintenance(&self) -> Result<Maintenance, QueueError> {
        Ok(self.store().maintenance().await?)
    }

    /// Returns the number of messages that are held back.
    pub async fn held_messages(&self) -> Result<u64, QueueError> {
        Ok(self.store().held_messages().await?)
    }

    /// Suspends or resumes pushes and pops, and notifies all waiters.
    pub async fn set_maintenance(&self, set: SetMaintenance) -> Result<MaintenanceSet, QueueError> {
        let service = self.clone();
        RunToCompletion::new(async move {
            let done = service.store().set_maintenance(set).await?;
            service.notify_all();
            if done.now.pushes == PushGate::Open {
                tokio::spawn(service.release_all());
            }
            Ok(done)
        })
        .await
    }

    async fn release_all(self) {
        loop {
            match self.store().release_held().await {
                Ok(0) => return,
                Ok(_) => self.notify_all(),
                Err(error) => {
                    tracing::warn!(
                        error = error_chain(&error),
                        "held messages could not be released: the next pushes and pops release them"
                    );
                    return;
                }
            }
        }
    }
}

/// Counts pushes that are held back.
pub(crate) fn count_held(outcomes: &[PushOutcome]) {
    let held = outcomes.iter().filter(|outcome| matches!(outcome, PushOutcome::Held { .. }));
    match held.count() {
        0 => {}
        held => metrics::counter!("wakeline_queue_pushes_held_total").increment(held as u64),
    }
}

/// Counts requests that are refused.
pub(crate) fn counted<T>(result: Result<T, StoreError>) -> Result<T, StoreError> {
    if matches!(result, Err(StoreError::Maintenance { .. })) {
        let limit = "maintenance";
        metrics::counter!("wakeline_queue_pushes_refused_total", "limit" => limit).increment(1);
    }
    result
}
