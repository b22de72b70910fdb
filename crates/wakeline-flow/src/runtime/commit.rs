//! Commits a turn, repeatedly until the provider has stored or refused it or the lease is lost.
//!
//! # Invariants
//! * An outage is never treated as a refusal, however long it is.
//! * A turn is treated as refused if only its own commit takes too long, repeatedly: it would
//!   occupy its dispatcher, and lock what it writes to, forever.

use wakeline_core::{InstanceId, error_chain};

use super::RuntimeShared;
use super::retry_pauses::RetryPauses;
use super::uncommitted::Uncommitted;
use crate::provider::{OrchestrationAck, ProviderError};

/// The number of refusals of a commit after which the refusal is final.
const REFUSALS_MAX: u32 = 3;

/// The number of commits in a row that took longer than the store allows after which the turn is
/// treated as refused, if the lease could be renewed after each of them. This is more than
/// [`REFUSALS_MAX`], because a database that is busy or is being repaired can be too slow for a
/// commit and fast enough for a renewal: with the limit of 10 s that PostgreSQL has by default, it
/// takes about two minutes.
const TOO_LONG_MAX: u32 = 10;

/// Commits a turn. A commit with an unknown outcome is repeated as long as the lease lives: if it
/// had succeeded, the lease would have ended. A refused commit is repeated a few times, because the
/// database may have been at fault.
pub(super) async fn commit(
    shared: &RuntimeShared,
    uncommitted: &Uncommitted,
    ack: OrchestrationAck,
    life: i64,
) -> Result<(), ProviderError> {
    let mut retry_pauses = RetryPauses::default();
    let (mut refusals, mut failed) = (0, false);
    loop {
        let error = match shared.provider.ack_orchestration_item(ack.clone()).await {
            Err(error @ ProviderError::Retryable { .. }) => {
                // The lease may be lost by the time that the provider is available again.
                if !std::mem::replace(&mut failed, true) {
                    uncommitted.excuse(life);
                }
                if !error.exceeded_time_limit() {
                    uncommitted.not_too_long(life);
                } else if takes_too_long(shared, uncommitted, &ack, life).await {
                    return Err(too_long(&error));
                }
                error
            }
            Err(error @ ProviderError::Permanent { .. }) if refusals + 1 < REFUSALS_MAX => {
                refusals += 1;
                error
            }
            Ok(()) => {
                uncommitted.forget(life);
                return Ok(());
            }
            ended => return ended,
        };
        log(&ack.instance, &retry_pauses, &error);
        tokio::select! {
            () = retry_pauses.pause() => {}
            () = shared.cancelling.cancelled() => return Err(error),
        }
    }
}

/// Records that a commit of this instance took too long, unless other calls take too long as well.
/// Returns whether this happened so often in a row that the next commit is expected to take too
/// long as well.
async fn takes_too_long(
    shared: &RuntimeShared,
    uncommitted: &Uncommitted,
    ack: &OrchestrationAck,
    life: i64,
) -> bool {
    let lease = shared.options.orchestrator_lock_timeout;
    match shared.provider.renew_orchestration_item_lock(&ack.lock_token, lease).await {
        // Even if the lease is lost, the provider has answered in time.
        Ok(()) | Err(ProviderError::LockLost) => {
            let refused = uncommitted.too_long(life) >= TOO_LONG_MAX;
            if refused {
                // The count begins again once the instance is resumed.
                uncommitted.not_too_long(life);
            }
            refused
        }
        Err(_) => {
            uncommitted.not_too_long(life);
            false
        }
    }
}

fn too_long(error: &ProviderError) -> ProviderError {
    let message = format!(
        "the commit took too long {TOO_LONG_MAX} times in a row, while other calls \
         succeeded: {}",
        error_chain(error)
    );
    ProviderError::Permanent { operation: "commit the turn", source: message.into() }
}

fn log(instance: &InstanceId, retry_pauses: &RetryPauses, error: &ProviderError) {
    let (attempts, error) = (retry_pauses.count() + 1, error_chain(error));
    if retry_pauses.should_warn() {
        tracing::warn!(%instance, attempts, error, "could not commit a turn: trying again");
    } else {
        tracing::debug!(%instance, attempts, error, "could not commit a turn: trying again");
    }
}
