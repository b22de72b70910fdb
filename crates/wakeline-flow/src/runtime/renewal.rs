//! Keeps a lease alive while its holder works.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use wakeline_core::error_chain;

use super::Shared;
use crate::provider::ProviderError;

/// Renews the lease of a turn until it is dropped.
pub(super) struct TurnRenewal(AbortHandle);

impl TurnRenewal {
    /// Begins to renew after a third of the lease: most turns are over long before.
    pub(super) fn start(shared: &Arc<Shared>, lock_token: &str) -> Self {
        let (shared, token) = (Arc::clone(shared), lock_token.to_owned());
        let task = tokio::spawn(async move { renew_turn(&shared, &token).await });
        Self(task.abort_handle())
    }
}

impl Drop for TurnRenewal {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Renews the lease of a turn until it is lost.
pub(super) async fn renew_turn(shared: &Shared, lock_token: &str) {
    let lease = shared.options.orchestrator_lock_timeout;
    loop {
        tokio::time::sleep(lease / 3).await;
        match shared.provider.renew_orchestration_item_lock(lock_token, lease).await {
            Ok(()) => {}
            Err(ProviderError::LockLost | ProviderError::Closed) => return,
            Err(error) => {
                tracing::warn!(error = error_chain(&error), "could not renew the lease of a turn")
            }
        }
    }
}

/// Renews the lease of an activity, for the first time after `first`, until its instance does not
/// want it any more, or the lease is lost; then it cancels `unwanted`.
pub(super) async fn renew_activity(
    shared: &Shared,
    lock_token: &str,
    unwanted: &CancellationToken,
    first: Duration,
) {
    let lease = shared.options.worker_lock_timeout;
    let mut pause = first;
    loop {
        tokio::time::sleep(pause).await;
        match shared.provider.renew_work_item_lock(lock_token, lease).await {
            Ok(Some(state)) if !state.is_ended() => pause = lease / 3,
            Ok(_) | Err(ProviderError::LockLost | ProviderError::Closed) => {
                unwanted.cancel();
                return;
            }
            Err(error) => {
                tracing::warn!(
                    error = error_chain(&error),
                    "could not renew the lease of an activity"
                );
                pause = (lease / 10).max(Duration::from_millis(1));
            }
        }
    }
}
