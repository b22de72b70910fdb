//! Finishes deletions and prunings that were interrupted.
//!
//! # Where it sits
//! Every runtime has such a task beside its dispatchers, because a program may have no server that
//! does this.
//!
//! # Invariants
//! * The task ends as soon as nothing is left: an idle runtime sends no statements.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::error_chain;

use super::RuntimeShared;

/// The delay after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// Continues deletions in batches until nothing is left or the runtime closes.
pub(super) async fn clear(shared: Arc<RuntimeShared>) {
    let Some(admin) = shared.provider.admin() else { return };
    while let Some(cleared) = shared.closing.run_until_cancelled(admin.clear_deleted()).await {
        let pause = match cleared {
            Ok(None) => return,
            Ok(Some(due)) => due,
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(error, "could not continue interrupted deletions; will try again");
                RETRY_DELAY
            }
        };
        shared.closing.run_until_cancelled(tokio::time::sleep(pause)).await;
    }
}
