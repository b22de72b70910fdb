//! Background work of the queues: jobs that redrive dead letters.
//!
//! # Where it sits
//! [`QueueService::run`] waits in the hub's line of chores like a consumer in its own, so that
//! nothing polls while there is nothing to do, and any node carries on what another one began.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wakeline_core::{QueueLine, error_chain};
use wakeline_store::Carried;
use wakeline_wake::{HintSource, Patience, TakeError, Taken};

use crate::face::Ask;
use crate::service::QueueService;

/// Rows that one piece of work deals with.
const ROWS: u32 = 200;
/// The rest after a failure.
const FAILED_SLEEP: Duration = Duration::from_secs(1);
/// The rest after an empty wait that ended early.
const IDLE_SLEEP: Duration = Duration::from_millis(100);
/// The longest pause between two looks where no hints are heard.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// The shortest.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl QueueService {
    /// Does background work until `shutdown`.
    pub async fn run(&self, shutdown: CancellationToken) {
        let work = async {
            match self.uses_hints() {
                true => self.wait_for_chores().await,
                false => self.look_for_chores().await,
            }
        };
        shutdown.run_until_cancelled(work).await;
    }

    async fn wait_for_chores(&self) {
        loop {
            let began = Instant::now();
            let patience = Patience::Wait(self.stretch_max);
            let pause = match self.hub.take(QueueLine::chores(), Ask::chores(), patience).await {
                Ok(Taken::Granted(_)) => self.do_a_piece().await,
                Ok(Taken::Empty) => (began.elapsed() < self.stretch_max / 2).then_some(IDLE_SLEEP),
                Ok(Taken::Drained) => return,
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

    /// Does a piece, and tells of it, to the end: the hints of a commit must not be lost with a
    /// node that stops. How long to rest after it: not at all, unless it came to nothing.
    async fn do_a_piece(&self) -> Option<Duration> {
        let (store, hub) = (self.store().clone(), self.hub.clone());
        Carried::new(async move {
            match store.do_queue_chores(ROWS).await {
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

    /// Looks now and then, at its own slow pace: polling is for messages.
    async fn look_for_chores(&self) {
        loop {
            let pause = match self.store().do_queue_chores(ROWS).await {
                Ok(done) => {
                    self.hub.hint(&done.changes, HintSource::InProcess);
                    match done.next_due {
                        Some(Duration::ZERO) if done.rows > 0 => continue,
                        due => due.unwrap_or(LOOK_EVERY).clamp(LOOK_AGAIN, LOOK_EVERY),
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        error = error_chain(&error),
                        "a maintenance task of queues failed: trying again"
                    );
                    LOOK_EVERY
                }
            };
            tokio::time::sleep(pause).await;
        }
    }
}
