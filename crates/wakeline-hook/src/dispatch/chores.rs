//! Background work: jobs, expired payloads, what deleted applications left.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wakeline_core::{HookLine, error_chain};
use wakeline_store::Carried;
use wakeline_wake::{Patience, TakeError, Taken};

use super::{FAILED_SLEEP, IDLE_SLEEP};
use crate::face::{Ask, Grant};
use crate::service::Inner;

/// The pause between two looks where no hints are heard, and after a piece that came to nothing.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Does background work until `shutdown`.
pub(super) async fn run(inner: Arc<Inner>, shutdown: CancellationToken) {
    let work = async {
        match inner.hub.mode().uses_hints() {
            true => wait(&inner).await,
            false => look(&inner).await,
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = work => {}
    }
}

/// Waits in the line of chores like everybody else, and does them when it hears of some.
async fn wait(inner: &Arc<Inner>) {
    loop {
        let began = Instant::now();
        let patience = Patience::Wait(inner.max_wait);
        let pause = match inner.hub.take(HookLine::Chores, Ask::Chores, patience).await {
            Ok(Taken::Granted(Grant::Chores)) => do_a_piece(inner).await,
            Ok(Taken::Granted(Grant::Deliveries(_) | Grant::Calls(_)) | Taken::Empty) => {
                (began.elapsed() < inner.max_wait / 2).then_some(IDLE_SLEEP)
            }
            Ok(Taken::Drained) => return,
            Err(TakeError::TooMany { retry_after }) => Some(retry_after),
            Err(TakeError::Claim(error)) => {
                tracing::warn!(
                    error = error_chain(&error),
                    "a maintenance task of webhooks failed: trying again"
                );
                Some(FAILED_SLEEP)
            }
        };
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Does a piece, and tells of it, to the end: the hints of a commit must not be lost with a node
/// that stops. How long to rest after it: not at all, unless it came to nothing.
async fn do_a_piece(inner: &Arc<Inner>) -> Option<Duration> {
    let inner = Arc::clone(inner);
    Carried::new(async move {
        match inner.store.do_chores(inner.dispatch.chore_rows).await {
            Ok(report) => {
                inner.hint(&report.changes);
                (report.rows == 0 && report.changes.is_empty()).then_some(LOOK_AGAIN)
            }
            Err(error) => {
                tracing::warn!(
                    error = error_chain(&error),
                    "a maintenance task of webhooks failed: trying again"
                );
                Some(FAILED_SLEEP)
            }
        }
    })
    .await
}

/// Looks every now and then. No hint says that a message left deliveries to be made, and these
/// should not be late, so the pause is short even if the store expects nothing for a while.
async fn look(inner: &Inner) {
    loop {
        let pause = match inner.store.do_chores(inner.dispatch.chore_rows).await {
            Ok(report) => {
                inner.hint(&report.changes);
                if report.rows > 0 && report.next_due == Some(Duration::ZERO) {
                    continue;
                }
                LOOK_AGAIN
            }
            Err(error) => {
                tracing::warn!(
                    error = error_chain(&error),
                    "a maintenance task of webhooks failed: trying again"
                );
                FAILED_SLEEP
            }
        };
        tokio::time::sleep(pause).await;
    }
}
