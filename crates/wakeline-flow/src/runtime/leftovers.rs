//! Finishes deletions and prunings that were interrupted.
//!
//! # Where it sits
//! A task of each runtime, beside its dispatchers: a program may have no server that does this.
//!
//! # Invariants
//! * It ends as soon as nothing is left: an idle runtime makes no statement.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::error_chain;

use super::Shared;

/// The time after which something that failed is tried again.
const AGAIN: Duration = Duration::from_secs(60);

/// Goes on, piece by piece, until nothing is left or the runtime closes.
pub(super) async fn clear(shared: Arc<Shared>) {
    let Some(admin) = shared.provider.admin() else { return };
    while let Some(cleared) = shared.closing.run_until_cancelled(admin.clear_deleted()).await {
        let pause = match cleared {
            Ok(None) => return,
            Ok(Some(due)) => due,
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(error, "could not go on with interrupted deletions; will try again");
                AGAIN
            }
        };
        shared.closing.run_until_cancelled(tokio::time::sleep(pause)).await;
    }
}
