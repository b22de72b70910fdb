//! Renews the leases of turns and activities while they run.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use wakeline_core::{InstanceId, error_chain};

use super::RuntimeShared;
use crate::message::ActivityTask;
use crate::provider::{ProviderError, SeenVersions};

/// An activity that has run for this long also waits for the end of its instance.
const WATCH_AFTER: Duration = Duration::from_millis(500);

/// The longest single wait for the end of an instance.
const WATCH_MAX: Duration = Duration::from_secs(3600);

/// Renews the lease of a turn until it is dropped.
pub(super) struct TurnRenewal(AbortHandle);

impl TurnRenewal {
    /// Renews for the first time after a third of the lease: most turns have ended long before.
    pub(super) fn start(shared: &Arc<RuntimeShared>, lock_token: &str) -> Self {
        let (shared, token) = (Arc::clone(shared), lock_token.to_owned());
        // The renewal ends when the runtime is stopped, so that another runtime gets the turn.
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
pub(super) async fn renew_turn(shared: &RuntimeShared, lock_token: &str) {
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

/// Renews the lease of an activity, for the first time after `first`. Returns when the instance no
/// longer needs the activity or the lease is lost.
pub(super) async fn renew_activity(
    shared: &RuntimeShared,
    task: &ActivityTask,
    lock_token: &str,
    first: Duration,
) {
    let lease = shared.options.worker_lock_timeout;
    let mut pause = first;
    let mut ended = pin!(instance_ended(shared, &task.instance));
    let mut notified = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = &mut ended, if !notified => notified = true,
        }
        match shared.provider.renew_work_item_lock(lock_token, lease).await {
            Ok(Some(state)) if !state.is_ended() => {
                shared.lost_attempts.recover(task, lock_token);
                pause = lease / 3;
            }
            Ok(_) | Err(ProviderError::LockLost | ProviderError::Closed) => return,
            Err(error) => {
                // The next attempt may begin before this one learns that it has lost its lease.
                shared.lost_attempts.excuse(task, lock_token);
                tracing::warn!(
                    error = error_chain(&error),
                    "could not renew the lease of an activity"
                );
                pause = (lease / 10).max(Duration::from_millis(1));
            }
        }
    }
}

/// Waits for the end of an instance as a client does, so that its activity is cancelled without
/// waiting for the next renewal. Most activities end before this sends its first statement.
async fn instance_ended(shared: &RuntimeShared, instance: &InstanceId) {
    tokio::time::sleep(WATCH_AFTER).await;
    let Some(admin) = shared.provider.admin() else { return std::future::pending().await };
    loop {
        match admin.wait(instance, SeenVersions::default(), WATCH_MAX).await {
            Ok(Some(_)) => return,
            Ok(None) => {}
            Err(ProviderError::Closed) => return std::future::pending().await,
            Err(error) => {
                let error = error_chain(&error);
                tracing::debug!(error, %instance, "could not check whether an instance has ended");
                tokio::time::sleep(shared.options.worker_lock_timeout / 3).await;
            }
        }
    }
}
