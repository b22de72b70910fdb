//! Keeps a lease alive while its holder works.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use wakeline_core::{InstanceId, error_chain};

use super::Shared;
use crate::message::ActivityTask;
use crate::provider::{ProviderError, Seen};

/// An activity that has run for so long waits for the end of its instance.
const WATCH_AFTER: Duration = Duration::from_millis(500);

/// The longest single wait for it.
const WATCH_MAX: Duration = Duration::from_secs(3600);

/// Renews the lease of a turn until it is dropped.
pub(super) struct TurnRenewal(AbortHandle);

impl TurnRenewal {
    /// Begins to renew after a third of the lease: most turns are over long before.
    pub(super) fn start(shared: &Arc<Shared>, lock_token: &str) -> Self {
        let (shared, token) = (Arc::clone(shared), lock_token.to_owned());
        // Once the runtime was stopped, another one may have the turn.
        let task = tokio::spawn(async move {
            shared.cancelling.run_until_cancelled(renew_turn(&shared, &token)).await;
        });
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

/// Renews the lease of an activity, for the first time after `first`. Returns when its instance
/// does not want it any more, or the lease is lost.
pub(super) async fn renew_activity(
    shared: &Shared,
    task: &ActivityTask,
    lock_token: &str,
    first: Duration,
) {
    let lease = shared.options.worker_lock_timeout;
    let mut pause = first;
    let mut ended = pin!(instance_ended(shared, &task.instance));
    let mut heard = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = &mut ended, if !heard => heard = true,
        }
        match shared.provider.renew_work_item_lock(lock_token, lease).await {
            Ok(Some(state)) if !state.is_ended() => {
                shared.lost_tries.recover(task, lock_token);
                pause = lease / 3;
            }
            Ok(_) | Err(ProviderError::LockLost | ProviderError::Closed) => return,
            Err(error) => {
                // The next try may begin before this one hears that it has lost its lease.
                shared.lost_tries.excuse(task, lock_token);
                tracing::warn!(
                    error = error_chain(&error),
                    "could not renew the lease of an activity"
                );
                pause = (lease / 10).max(Duration::from_millis(1));
            }
        }
    }
}

/// Waits for the end of an instance as a client does, so that an activity of it is cancelled
/// without waiting for the next renewal. Most activities are over before that is worth a statement.
async fn instance_ended(shared: &Shared, instance: &InstanceId) {
    tokio::time::sleep(WATCH_AFTER).await;
    let Some(admin) = shared.provider.admin() else { return std::future::pending().await };
    loop {
        match admin.wait(instance, Seen::default(), WATCH_MAX).await {
            Ok(Some(_)) => return,
            Ok(None) => {}
            Err(ProviderError::Closed) => return std::future::pending().await,
            Err(error) => {
                let error = error_chain(&error);
                tracing::debug!(error, %instance, "could not wait for the end of an instance");
                tokio::time::sleep(shared.options.worker_lock_timeout / 3).await;
            }
        }
    }
}
