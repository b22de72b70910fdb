//! Maintenance on both sides.

use wakeline_store::{
    Maintenance, PushGate, PushItem, QueueMaintenance as _, SetMaintenance, StoreError,
};

use super::compare::{Same, same};
use super::world::{World, failed};

/// What both sides answered; `None` if both refused for a maintenance.
pub(super) fn agreed<T>(
    oracle: Result<T, StoreError>,
    store: Result<T, StoreError>,
) -> Result<Option<(T, T)>, String> {
    let refused =
        |result: &Result<T, StoreError>| matches!(result, Err(StoreError::Maintenance { .. }));
    same("whether it is refused", refused(&oracle), refused(&store))?;
    match refused(&oracle) {
        true => Ok(None),
        false => Ok(Some((oracle.map_err(failed)?, store.map_err(failed)?))),
    }
}

impl World<'_> {
    pub(super) async fn maintain(&mut self, set: SetMaintenance) -> Same {
        let oracle = self.oracle.set_maintenance(set).await.map_err(failed)?;
        let store = self.store.set_maintenance(set).await.map_err(failed)?;
        same("what is suspended", oracle, store)
    }

    /// The same is suspended, and as much is held back.
    pub(super) async fn inspect_maintenance(&self) -> Same {
        let oracle = self.oracle.maintenance().await.map_err(failed)?;
        let store = self.store.maintenance().await.map_err(failed)?;
        same("what is suspended", oracle, store)?;
        let oracle = self.oracle.held_messages().await.map_err(failed)?;
        let store = self.store.held_messages().await.map_err(failed)?;
        same("number of messages held back", oracle, store)
    }

    /// Whether pushes do not go through.
    pub(super) async fn holds_back(&self) -> Result<bool, String> {
        let Maintenance { pushes, .. } = self.oracle.maintenance().await.map_err(failed)?;
        Ok(pushes != PushGate::Open)
    }

    /// Whether a message may be pushed: where producers are refused, some stores have made its
    /// partition by then.
    pub(super) async fn may_push(&self, item: &PushItem) -> Result<bool, String> {
        let Maintenance { pushes, .. } = self.oracle.maintenance().await.map_err(failed)?;
        Ok(pushes != PushGate::Refuse || self.oracle.has_partition(&item.queue, &item.partition))
    }

    /// Whether claims get nothing.
    pub(super) async fn is_paused(&self) -> Result<bool, String> {
        let Maintenance { pops_paused, .. } = self.oracle.maintenance().await.map_err(failed)?;
        Ok(pops_paused)
    }

    /// Leaves the store open for the next case.
    pub(super) async fn reopen(&self) {
        let open = SetMaintenance { pushes: Some(PushGate::Open), pops_paused: Some(false) };
        self.store.set_maintenance(open).await.ok();
    }
}
