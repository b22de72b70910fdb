//! Maintenance: suspending and resuming, and what goes with it on a node.
//!
//! # Where it sits
//! The store keeps what is suspended and judges each push and claim by it; this only asks it to,
//! wakes this node's waiters, and counts.
//!
//! # Invariants
//! * What was held back is released by whoever comes across it. The node that ended the maintenance
//!   goes through all of it besides, so that it is soon seen where nobody pops; if that node dies,
//!   nothing is lost.

use wakeline_core::error_chain;
use wakeline_store::{
    Carried, Maintenance, MaintenanceSet, PushGate, PushOutcome, SetMaintenance, StoreError,
};

use crate::{QueueError, QueueService};

impl QueueService {
    /// What is suspended.
    pub async fn maintenance(&self) -> Result<Maintenance, QueueError> {
        Ok(self.store().maintenance().await?)
    }

    /// How many messages are held back.
    pub async fn held_messages(&self) -> Result<u64, QueueError> {
        Ok(self.store().held_messages().await?)
    }

    /// Suspends, or resumes. Everyone who waits hears of it.
    pub async fn set_maintenance(&self, set: SetMaintenance) -> Result<MaintenanceSet, QueueError> {
        let service = self.clone();
        Carried::new(async move {
            let done = service.store().set_maintenance(set).await?;
            service.tell_everything();
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
                Ok(_) => self.tell_everything(),
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
