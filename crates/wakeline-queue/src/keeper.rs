//! Has the store's housekeeping done: what is past its time goes.
//!
//! # Where it sits
//! A background loop of each node. The store says when there is something to do, and lets one node
//! at a time do it.
//!
//! # Invariants
//! * Nothing is polled: between two pieces of work the loop sleeps until the store's next due time,
//!   or until this node changes a queue. Where no queue has limits of time it looks once an hour,
//!   for those that another node gave some and then died.
//! * One piece at a time, with a pause after it: housekeeping is never in a hurry.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wakeline_core::{QueueName, error_chain};
use wakeline_store::{Carried, Housekeeping, HousekeepingReport, Losses, StoreError};

use crate::QueueService;

/// The longest time without a look.
const LOOK_EVERY: Duration = Duration::from_secs(3600);
/// The shortest pause between two pieces.
const PAUSE: Duration = Duration::from_millis(10);
/// The pause after a failure.
const FAILED_PAUSE: Duration = Duration::from_secs(10);
/// Queues that are counted by name; the others go together.
const LABELS_MAX: usize = 100;

/// Has housekeeping done for a service.
pub(crate) struct HouseKeeper {
    service: QueueService,
    how: Housekeeping,
    meters: Meters,
}

impl HouseKeeper {
    pub(crate) fn new(service: QueueService, how: Housekeeping) -> Self {
        Self { service, how, meters: Meters::new() }
    }

    /// Runs until `shutdown`. A piece under way is finished.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let configured = Arc::clone(self.service.configured());
        while !shutdown.is_cancelled() {
            let began = Instant::now();
            let done = self.piece().await;
            let pause = pause(&done);
            self.meters.count(done, began.elapsed());
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = configured.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does a piece and gives its hints, to the end.
    async fn piece(&self) -> Result<HousekeepingReport, StoreError> {
        let (service, how) = (self.service.clone(), self.how);
        Carried::new(async move {
            let report = service.store().housekeep(how).await?;
            service.tell(&report.changes);
            service.figures().kept(&report);
            Ok(report)
        })
        .await
    }
}

fn pause(done: &Result<HousekeepingReport, StoreError>) -> Duration {
    match done {
        Ok(report) => report.next_due.unwrap_or(LOOK_EVERY).clamp(PAUSE, LOOK_EVERY),
        Err(_) => FAILED_PAUSE,
    }
}

/// `wakeline_housekeeping_*`, and what queues lost.
struct Meters {
    done: Counter,
    failed: Counter,
    removed: Counter,
    seconds: Histogram,
    labels: HashSet<QueueName>,
}

impl Meters {
    fn new() -> Self {
        let runs = |outcome| counter!("wakeline_housekeeping_runs_total", "outcome" => outcome);
        Self {
            done: runs("ok"),
            failed: runs("error"),
            removed: counter!("wakeline_housekeeping_removed_total"),
            seconds: histogram!("wakeline_housekeeping_seconds"),
            labels: HashSet::new(),
        }
    }

    fn count(&mut self, done: Result<HousekeepingReport, StoreError>, took: Duration) {
        let report = match done {
            Ok(report) => report,
            Err(error) => {
                tracing::warn!(
                    error = error_chain(&error),
                    "housekeeping failed: trying again at its next time"
                );
                self.failed.increment(1);
                return;
            }
        };
        self.done.increment(1);
        self.removed.increment(report.removed);
        self.seconds.record(took.as_secs_f64());
        for (queue, lost) in report.losses {
            self.count_losses(queue, lost);
        }
    }

    fn count_losses(&mut self, queue: QueueName, lost: Losses) {
        let label = match self.labels.len() < LABELS_MAX || self.labels.contains(&queue) {
            true => queue.to_string(),
            false => "other".to_owned(),
        };
        if label != "other" {
            self.labels.insert(queue);
        }
        let Losses { expired, evicted, dropped } = lost;
        for (reason, count) in [("expired", expired), ("evicted", evicted), ("dropped", dropped)] {
            let lost = counter!(
                "wakeline_queue_messages_lost_total", "queue" => label.clone(), "reason" => reason
            );
            lost.increment(count);
        }
    }
}
