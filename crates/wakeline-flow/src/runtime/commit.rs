//! Offers what a turn did to the provider until it is committed, refused, or its lease is lost.
//!
//! # Invariants
//! * An outage is never taken for a refusal, however long it is.
//! * A turn whose commit alone takes too long, again and again, is refused: it would hold its
//!   dispatcher, and what it writes to, for ever.

use wakeline_core::{InstanceId, error_chain};

use super::Shared;
use super::repeats::Repeats;
use super::uncommitted::Uncommitted;
use crate::provider::{OrchestrationAck, ProviderError};

/// So many refusals of a commit are taken as final.
const REFUSALS_MAX: u32 = 3;

/// So many commits in a row that took longer than the store allows are taken as a refusal, if the
/// lease could be renewed after each of them. More than [`REFUSALS_MAX`], because a database that
/// is busy or is being repaired can be too slow for a commit and fast enough for a renewal: at the
/// limit of 10 s that PostgreSQL has by default, this is about two minutes.
const TOO_LONG_MAX: u32 = 10;

/// Commits. One of unknown outcome is repeated for as long as the lease lives: if it had succeeded,
/// its lease is gone. One that was refused is repeated a few times: the database may have been at
/// fault.
pub(super) async fn commit(
    shared: &Shared,
    uncommitted: &Uncommitted,
    ack: OrchestrationAck,
    life: i64,
) -> Result<(), ProviderError> {
    let mut repeats = Repeats::default();
    let (mut refusals, mut failed) = (0, false);
    loop {
        let error = match shared.provider.ack_orchestration_item(ack.clone()).await {
            Err(error @ ProviderError::Retryable { .. }) => {
                // Its lease may be lost by the time that the provider hears of the turn.
                if !std::mem::replace(&mut failed, true) {
                    uncommitted.excuse(life);
                }
                if takes_too_long(shared, uncommitted, &ack.lock_token, (life, &error)).await {
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
        log(&ack.instance, &repeats, &error);
        tokio::select! {
            () = repeats.pause() => {}
            () = shared.cancelling.cancelled() => return Err(error),
        }
    }
}

/// Whether commits of this life took too long so often, while the store had time for others, that
/// the next one would as well.
async fn takes_too_long(
    shared: &Shared,
    uncommitted: &Uncommitted,
    lock_token: &str,
    (life, error): (i64, &ProviderError),
) -> bool {
    if !error.exceeded_time_limit() {
        uncommitted.not_too_long(life);
        return false;
    }
    let lease = shared.options.orchestrator_lock_timeout;
    match shared.provider.renew_orchestration_item_lock(lock_token, lease).await {
        // That the lease is lost is an answer, too.
        Ok(()) | Err(ProviderError::LockLost) => {
            let refused = uncommitted.too_long(life) >= TOO_LONG_MAX;
            if refused {
                // Once it is resumed, it counts from the beginning.
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
    let words = format!(
        "it took too long {TOO_LONG_MAX} times in a row, while other calls succeeded: {}",
        error_chain(error)
    );
    ProviderError::Permanent { operation: "commit the turn", source: words.into() }
}

fn log(instance: &InstanceId, repeats: &Repeats, error: &ProviderError) {
    let (attempts, error) = (repeats.so_far() + 1, error_chain(error));
    if repeats.is_notable() {
        tracing::warn!(%instance, attempts, error, "a turn could not be committed yet");
    } else {
        tracing::debug!(%instance, attempts, error, "a commit is repeated");
    }
}
