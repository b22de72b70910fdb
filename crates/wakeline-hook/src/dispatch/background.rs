//! The background work of webhooks: jobs, expired payloads, and leftovers of deleted applications.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wakeline_core::{HookLine, error_chain};
use wakeline_store::RunToCompletion;
use wakeline_wake::{Patience, TakeError, TakeOutcome};

use super::{ERROR_PAUSE, IDLE_SLEEP};
use crate::api::{HookClaimResult, HookRequest};
use crate::service::HookServiceInner;

/// The pause between two units of work on a node without hints, and after a unit that did nothing.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Does background work until `shutdown`.
pub(super) async fn run(inner: Arc<HookServiceInner>, shutdown: CancellationToken) {
    let work = async {
        if inner.hub.mode().uses_hints() { wait(&inner).await } else { poll(&inner).await }
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = work => {}
    }
}

/// Waits in the background line of the hub, and does the work when it is notified.
async fn wait(inner: &Arc<HookServiceInner>) {
    loop {
        let began = Instant::now();
        let patience = Patience::Wait(inner.max_wait);
        let pause =
            match inner.hub.take(HookLine::Background, HookRequest::Background, patience).await {
                Ok(TakeOutcome::Claimed(HookClaimResult::Background)) => run_one_unit(inner).await,
                Ok(
                    TakeOutcome::Claimed(
                        HookClaimResult::Deliveries(_) | HookClaimResult::Calls(_),
                    )
                    | TakeOutcome::Empty,
                ) => (began.elapsed() < inner.max_wait / 2).then_some(IDLE_SLEEP),
                Ok(TakeOutcome::Drained) => return,
                Err(TakeError::TooMany { retry_after }) => Some(retry_after),
                Err(TakeError::Claim(error)) => {
                    tracing::warn!(
                        error = error_chain(&error),
                        "a maintenance task of webhooks failed: trying again"
                    );
                    Some(ERROR_PAUSE)
                }
            };
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Does one unit of work and publishes its changes. It runs to completion even if the node stops,
/// so that the hints of a commit are not lost. Returns how long to pause afterwards: not at all,
/// unless the unit did nothing.
async fn run_one_unit(inner: &Arc<HookServiceInner>) -> Option<Duration> {
    let inner = Arc::clone(inner);
    RunToCompletion::new(async move {
        match inner.store.run_background(inner.dispatch.background_rows).await {
            Ok(report) => {
                inner.hint(&report.changes);
                (report.rows == 0 && report.changes.is_empty()).then_some(LOOK_AGAIN)
            }
            Err(error) => {
                tracing::warn!(
                    error = error_chain(&error),
                    "a maintenance task of webhooks failed: trying again"
                );
                Some(ERROR_PAUSE)
            }
        }
    })
    .await
}

/// Does the work at regular intervals, on a node without hints. The pause is short even if the
/// store expects no work for a while, because no hint reports a message whose deliveries are still
/// to be created, and these should not be late.
async fn poll(inner: &HookServiceInner) {
    loop {
        let pause = match inner.store.run_background(inner.dispatch.background_rows).await {
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
                ERROR_PAUSE
            }
        };
        tokio::time::sleep(pause).await;
    }
}
