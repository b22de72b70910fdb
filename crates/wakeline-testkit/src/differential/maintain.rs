//! Maintenance mode on both sides.

use wakeline_store::{
    Maintenance, PushGate, PushItem, QueueMaintenance as _, SetMaintenance, StoreError,
};

use super::compare::{Comparison, same};
use super::world::{QueueWorld, failed};

/// Returns both replies, or `None` if both sides refused the call because of a maintenance.
pub(super) fn agreed<T>(
    oracle: Result<T, StoreError>,
    store: Result<T, StoreError>,
) -> Result<Option<(T, T)>, String> {
    let refused =
        |result: &Result<T, StoreError>| matches!(result, Err(StoreError::Maintenance { .. }));
    same("whether it is refused", refused(&oracle), refused(&store))?;
    if refused(&oracle) {
        return Ok(None);
    }
    Ok(Some((oracle.map_err(failed)?, store.map_err(failed)?)))
}

impl QueueWorld<'_> {
    pub(super) async fn maintain(&mut self, set: SetMaintenance) -> Comparison {
        let oracle = self.oracle.set_maintenance(set).await.map_err(failed)?;
        let store = self.store.set_maintenance(set).await.map_err(failed)?;
        same("what is suspended", oracle, store)
    }

    /// Compares what is suspended and how many messages are held.
    pub(super) async fn inspect_maintenance(&self) -> Comparison {
        let oracle = self.oracle.maintenance().await.map_err(failed)?;
        let store = self.store.maintenance().await.map_err(failed)?;
        same("what is suspended", oracle, store)?;
        let oracle = self.oracle.held_messages().await.map_err(failed)?;
        let store = self.store.held_messages().await.map_err(failed)?;
        same("number of held messages", oracle, store)
    }

    /// Returns whether pushes are held or refused.
    pub(super) async fn holds_back(&self) -> Result<bool, String> {
        let Maintenance { pushes, .. } = self.oracle.maintenance().await.map_err(failed)?;
        Ok(pushes != PushGate::Open)
    }

    /// Returns whether a message may be pushed. If pushes are refused, its partition must exist,
    /// because some stores create the partition before they refuse the push.
    pub(super) async fn may_push(&self, item: &PushItem) -> Result<bool, String> {
        let Maintenance { pushes, .. } = self.oracle.maintenance().await.map_err(failed)?;
        Ok(pushes != PushGate::Refuse || self.oracle.has_partition(&item.queue, &item.partition))
    }

    /// Returns whether claims are paused.
    pub(super) async fn is_paused(&self) -> Result<bool, String> {
        let Maintenance { pops_paused, .. } = self.oracle.maintenance().await.map_err(failed)?;
        Ok(pops_paused)
    }

    /// Ends the maintenance before the next case.
    pub(super) async fn reopen(&self) {
        let open = SetMaintenance { pushes: Some(PushGate::Open), pops_paused: Some(false) };
        self.store.set_maintenance(open).await.ok();
    }
}
