//! Calls of maintenance, with mutations.

use async_trait::async_trait;
use wakeline_store::{
    LineClaim, LineOutcome, Maintenance, MaintenanceSet, PushGate, PushItem, PushOutcome,
    PushReply, QueueMaintenance, QueueStore as _, SetMaintenance, StoreError,
};

use super::MutantQueueStore;

#[async_trait]
impl QueueMaintenance for MutantQueueStore {
    async fn maintenance(&self) -> Result<Maintenance, StoreError> {
        self.inner.maintenance().await
    }

    async fn set_maintenance(&self, set: SetMaintenance) -> Result<MaintenanceSet, StoreError> {
        self.inner.set_maintenance(set).await
    }

    async fn held_messages(&self) -> Result<u64, StoreError> {
        self.inner.held_messages().await
    }

    async fn release_held(&self) -> Result<u64, StoreError> {
        self.inner.release_held().await
    }
}

impl MutantQueueStore {
    /// Reports that messages are held back, but delivers them.
    pub(super) async fn push_past(&self, items: Vec<PushItem>) -> Result<PushReply, StoreError> {
        let Maintenance { pushes, .. } = self.inner.maintenance().await?;
        if pushes != PushGate::Hold {
            return self.inner.push(items).await;
        }
        let gate = |pushes| SetMaintenance { pushes: Some(pushes), pops_paused: None };
        self.inner.set_maintenance(gate(PushGate::Open)).await?;
        let mut reply = self.inner.push(items).await?;
        self.inner.set_maintenance(gate(PushGate::Hold)).await?;
        for outcome in &mut reply.outcomes {
            if let PushOutcome::Queued { id, partition } = *outcome {
                *outcome = PushOutcome::Held { id, partition };
            }
        }
        Ok(reply)
    }

    /// Reports that claims are paused, but serves them.
    pub(super) async fn claim_past(
        &self,
        lines: Vec<LineClaim>,
    ) -> Result<Vec<LineOutcome>, StoreError> {
        let Maintenance { pops_paused, .. } = self.inner.maintenance().await?;
        let pause = |paused| SetMaintenance { pushes: None, pops_paused: Some(paused) };
        self.inner.set_maintenance(pause(false)).await?;
        let mut outcomes = self.inner.claim(lines).await?;
        self.inner.set_maintenance(pause(pops_paused)).await?;
        outcomes.iter_mut().for_each(|outcome| outcome.paused = pops_paused);
        Ok(outcomes)
    }
}
