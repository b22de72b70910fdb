//! Runs the store's housekeeping, which removes what has expired.
//!
//! # Where it sits
//! A background loop of each node. The store reports when there is something to do, and lets only
//! one node at a time do it.
//!
//! # Invariants
//! * Nothing is polled: between two runs the loop sleeps until the store's next due time, or until
//!   this node changes a queue. If no queue has time limits, the store is checked once an hour, in
//!   case another node set some and then died.
//! * There is one run at a time, with a pause after it: housekeeping is never urgent.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wakeline_core::{QueueName, error_chain};
use wakeline_store::{Housekeeping, HousekeepingReport, Losses, RunToCompletion, StoreError};

use crate::QueueService;

/// The longest time between two runs.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(3600);
/// The shortest pause between two runs.
const PAUSE: Duration = Duration::from_millis(10);
/// The pause after a failure.
const FAILED_PAUSE: Duration = Duration::from_secs(10);
/// The number of queues that are counted by name; the others are counted together.
const LABELS_MAX: usize = 100;

/// Runs housekeeping for a service.
pub(crate) struct Housekeeper {
    service: QueueService,
    options: Housekeeping,
    metrics: HousekeepingMetrics,
}

impl Housekeeper {
    pub(crate) fn new(service: QueueService, options: Housekeeping) -> Self {
        Self { service, options, metrics: HousekeepingMetrics::new() }
    }

    /// Runs until `shutdown`. A run in progress is completed.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let configured = Arc::clone(self.service.configured());
        while !shutdown.is_cancelled() {
            let began = Instant::now();
            let done = self.run_once().await;
            let pause = pause(&done);
            self.metrics.count(done, began.elapsed());
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = configured.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Runs housekeeping once and publishes its hints, to completion.
    async fn run_once(&self) -> Result<HousekeepingReport, StoreError> {
        let (service, options) = (self.service.clone(), self.options);
        RunToCompletion::new(async move {
            let report = service.store().housekeep(options).await?;
            service.notify(&report.changes);
            service.statistics().housekeeping_done(&report);
            Ok(report)
        })
        .await
    }
}

fn pause(done: &Result<HousekeepingReport, StoreError>) -> Duration {
    match done {
        Ok(report) => {
            report.next_due.unwrap_or(CHECK_INTERVAL_MAX).clamp(PAUSE, CHECK_INTERVAL_MAX)
        }
        Err(_) => FAILED_PAUSE,
    }
}

/// The metrics `wakeline_housekeeping_*`, and the messages that queues lost.
struct HousekeepingMetrics {
    done: Counter,
    failed: Counter,
    removed: Counter,
    seconds: Histogram,
    labels: HashSet<QueueName>,
}

impl HousekeepingMetrics {
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
                    "housekeeping failed: trying again at the next interval"
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
        let known = self.labels.len() < LABELS_MAX || self.labels.contains(&queue);
        let label = if known { queue.to_string() } else { "other".to_owned() };
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
