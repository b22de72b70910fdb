//! Maintenance mode, which suspends pushes and pops.

use async_trait::async_trait;
use wakeline_core::Selector;
use wakeline_store::{
    Maintenance, MaintenanceSet, PushGate, QueueMaintenance, SetMaintenance, StoreError,
};

use super::MemoryStore;
use super::state::OracleState;

impl OracleState {
    /// Refuses a push that is not empty while maintenance refuses pushes.
    pub(super) fn admit(&self, operation: &'static str, empty: bool) -> Result<(), StoreError> {
        match self.maintenance.pushes {
            PushGate::Refuse if !empty => Err(StoreError::Maintenance { operation }),
            _ => Ok(()),
        }
    }

    fn held(&self) -> usize {
        let scheduled = self.queues.values().flat_map(|queue| &queue.scheduled);
        scheduled.filter(|one| one.held).count()
    }
}

#[async_trait]
impl QueueMaintenance for MemoryStore {
    async fn maintenance(&self) -> Result<Maintenance, StoreError> {
        Ok(self.state.lock().maintenance)
    }

    async fn set_maintenance(&self, set: SetMaintenance) -> Result<MaintenanceSet, StoreError> {
        let done = self.recorded(|state, _| {
            let before = state.maintenance;
            state.maintenance = set.applied_to(before);
            MaintenanceSet { before, now: state.maintenance }
        });
        // As after a move of the clock, anything may be due.
        self.moved.send_modify(|moved| *moved += 1);
        Ok(done)
    }

    async fn held_messages(&self) -> Result<u64, StoreError> {
        Ok(self.state.lock().held() as u64)
    }

    /// Releases all held messages in one call.
    async fn release_held(&self) -> Result<u64, StoreError> {
        let mut state = self.state.lock();
        let before = state.held();
        state.move_due(&Selector::Filter { namespace: None, task: None }, self.now());
        Ok((before - state.held()) as u64)
    }
}
