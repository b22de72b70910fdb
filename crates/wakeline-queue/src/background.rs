//! The background work of queues: jobs that redrive dead letters.
//!
//! # Where it sits
//! [`QueueService::run`] waits in the hub's background line as a consumer waits in its own. So
//! nothing is polled while there is nothing to do, and any node continues what another one began.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wakeline_core::{QueueLine, error_chain};
use wakeline_store::RunToCompletion;
use wakeline_wake::{HintSource, Patience, TakeError, TakeOutcome};

use crate::api::PopRequest;
use crate::service::QueueService;

/// The maximum number of rows that one run processes.
const ROWS: u32 = 200;
/// The pause after a failure.
const FAILED_SLEEP: Duration = Duration::from_secs(1);
/// The pause after an empty wait that ended early.
const IDLE_SLEEP: Duration = Duration::from_millis(100);
/// The longest pause between two checks in poll mode.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// The shortest pause between two checks in poll mode.
const CHECK_INTERVAL_MIN: Duration = Duration::from_secs(1);

impl QueueService {
    /// Does background work until `shutdown`.
    pub async fn run(&self, shutdown: CancellationToken) {
        let work = async {
            if self.uses_hints() {
                self.wait_for_background_work().await;
            } else {
                self.poll_background_work().await;
            }
        };
        shutdown.run_until_cancelled(work).await;
    }

    async fn wait_for_background_work(&self) {
        loop {
            let began = Instant::now();
            let patience = Patience::Wait(self.stretch_max);
            let pause = match self
                .hub
                .take(QueueLine::background(), PopRequest::background(), patience)
                .await
            {
                Ok(TakeOutcome::Claimed(_)) => self.run_background_task().await,
                Ok(TakeOutcome::Empty) => {
                    (began.elapsed() < self.stretch_max / 2).then_some(IDLE_SLEEP)
                }
                Ok(TakeOutcome::Drained) => return,
                Err(TakeError::TooMany { retry_after }) => Some(retry_after),
                Err(TakeError::Claim(error)) => {
                    tracing::warn!(
                        error = error_chain(&error),
                        "a maintenance task of queues failed: trying again"
                    );
                    Some(FAILED_SLEEP)
                }
            };
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Does one unit of background work and publishes its hints. It runs to completion, because the
    /// hints of a commit must not be lost when a node stops. Returns how long to pause afterwards:
    /// `None` unless there was nothing to do or it failed.
    async fn run_background_task(&self) -> Option<Duration> {
        let (store, hub) = (self.store().clone(), self.hub.clone());
        RunToCompletion::new(async move {
            match store.run_queue_background(ROWS).await {
                Ok(done) => {
                    hub.hint(&done.changes, HintSource::InProcess);
                    let nothing = done.rows == 0 && done.next_due == Some(Duration::ZERO);
                    nothing.then_some(IDLE_SLEEP)
                }
                Err(error) => {
                    tracing::warn!(
                        error = error_chain(&error),
                        "a maintenance task of queues failed: trying again"
                    );
                    Some(FAILED_SLEEP)
                }
            }
        })
        .await
    }

    /// Does background work in poll mode. It is checked at its own slow pace, because the
    /// configured polling interval is meant for messages.
    async fn poll_background_work(&self) {
        loop {
            let pause = match self.store().run_queue_background(ROWS).await {
                Ok(done) => {
                    self.hub.hint(&done.changes, HintSource::InProcess);
                    match done.next_due {
                        Some(Duration::ZERO) if done.rows > 0 => continue,
                        due => due
                            .unwrap_or(CHECK_INTERVAL_MAX)
                            .clamp(CHECK_INTERVAL_MIN, CHECK_INTERVAL_MAX),
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        error = error_chain(&error),
                        "a maintenance task of queues failed: trying again"
                    );
                    CHECK_INTERVAL_MAX
                }
            };
            tokio::time::sleep(pause).await;
        }
    }
}
