//! The loop of a dispatcher: it fetches an item, runs it, and begins again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use wakeline_core::{Capabilities, error_chain};

use super::activity::ActivityRunner;
use super::renewal;
use super::slots::{FetchPermit, RunSlot, RunSlots};
use super::turn::TurnRunner;
use super::{RuntimeShared, SETTLE_TIME};
use crate::message::FlowMessage;
use crate::provider::{FetchedWork, OrchestrationItem, ProviderError, WorkFilter};

/// The longest sleep after failures in a row. It bounds how long work waits after an outage.
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// The kind of items that a dispatcher fetches and runs.
#[async_trait]
pub(super) trait WorkSource: Send + Sync {
    /// A fetched item.
    type Item: Send;

    /// Fetches an item, and waits for one until the poll timeout.
    async fn fetch(
        &self,
        shared: &RuntimeShared,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<Self::Item>, ProviderError>;

    /// Renews the lease of an item that waits for a slot. Returns if the lease is lost.
    async fn hold(&self, shared: &Arc<RuntimeShared>, item: &Self::Item);

    /// Gives back an item that will not be run.
    async fn give_back(&self, shared: &RuntimeShared, item: Self::Item);

    /// Runs an item and commits the result. The slot is released when the code has ended, before
    /// the commit.
    async fn run(&self, item: Self::Item, slot: RunSlot<'_>);
}

/// Turns of instances.
pub(super) struct Turns {
    pub(super) runner: Arc<TurnRunner>,
    pub(super) capabilities: Capabilities,
}

#[async_trait]
impl WorkSource for Turns {
    type Item = OrchestrationItem;

    async fn fetch(
        &self,
        shared: &RuntimeShared,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError> {
        let lock_timeout = shared.options.orchestrator_lock_timeout;
        let provider = &shared.provider;
        provider.fetch_orchestration_item_for(&self.capabilities, lock_timeout, poll_timeout).await
    }

    async fn hold(&self, shared: &Arc<RuntimeShared>, item: &OrchestrationItem) {
        renewal::renew_turn(shared, &item.lock_token).await;
    }

    async fn give_back(&self, shared: &RuntimeShared, item: OrchestrationItem) {
        let abandoned =
            shared.provider.abandon_orchestration_item(&item.lock_token, None, true).await;
        abandoned.unwrap_or_else(|error| {
            tracing::debug!(
                error = error_chain(&error),
                "could not release the lease of a turn: it will expire"
            )
        });
    }

    async fn run(&self, item: OrchestrationItem, slot: RunSlot<'_>) {
        self.runner.run(item, slot).await;
    }
}

/// Activities for workers.
pub(super) struct Activities {
    pub(super) runner: Arc<ActivityRunner>,
    pub(super) filter: WorkFilter,
}

#[async_trait]
impl WorkSource for Activities {
    type Item = FetchedWork;

    async fn fetch(
        &self,
        shared: &RuntimeShared,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<FetchedWork>, ProviderError> {
        let lock_timeout = shared.options.worker_lock_timeout;
        let filter = &self.filter;
        let work = shared.provider.fetch_work_item_for(filter, lock_timeout, poll_timeout).await;
        if let Ok(Some(FetchedWork { session: Some(_), .. })) = &work {
            shared.sessions.fetched();
        }
        work
    }

    async fn hold(&self, shared: &Arc<RuntimeShared>, item: &FetchedWork) {
        let FlowMessage::ActivityExecute(task) = &item.item else {
            return std::future::pending().await;
        };
        let first = shared.options.worker_lock_timeout / 3;
        renewal::renew_activity(shared, task, &item.lock_token, first).await;
    }

    async fn give_back(&self, shared: &RuntimeShared, item: FetchedWork) {
        let abandoned = shared.provider.abandon_work_item(&item.lock_token, None, true).await;
        abandoned.unwrap_or_else(|error| {
            tracing::debug!(
                error = error_chain(&error),
                "could not release the lease of an activity: it will expire"
            )
        });
    }

    async fn run(&self, item: FetchedWork, slot: RunSlot<'_>) {
        self.runner.run(item, slot).await;
    }
}

/// Runs a dispatcher until the runtime closes. A fetch in progress is then dropped, and the
/// provider gives back what it may have leased.
pub(super) async fn dispatch<S: WorkSource>(
    shared: Arc<RuntimeShared>,
    slots: Arc<RunSlots>,
    source: S,
) {
    let (options, poll_timeout) = (&shared.options, shared.poll_timeout());
    let mut failures = 0;
    let mut kept = None;
    while !shared.closing.is_cancelled() {
        let permit = match kept.take() {
            Some(permit) => permit,
            None => tokio::select! {
                biased;
                () = shared.closing.cancelled() => return,
                permit = slots.fetch() => permit,
            },
        };
        let (began, wait) = (Instant::now(), permit.patience(poll_timeout));
        let fetched = tokio::select! {
            biased;
            () = shared.closing.cancelled() => return,
            fetched = source.fetch(&shared, wait) => fetched,
        };
        let sleep = match fetched {
            Ok(Some(item)) => {
                failures = 0;
                let _in_flight = slots.in_flight();
                run(&shared, &source, item, permit).await;
                continue;
            }
            // The fetch waited until its poll timeout; the next one may begin at once.
            Ok(None) if wait.is_some_and(|wait| began.elapsed() >= wait) => {
                failures = 0;
                kept = permit.found_nothing();
                continue;
            }
            Ok(None) => options.dispatcher_idle_sleep,
            Err(ProviderError::Closed) => return,
            Err(error) => {
                failures += 1;
                tracing::warn!(
                    error = error_chain(&error),
                    failures,
                    "could not fetch work; will try again"
                );
                backoff(options.dispatcher_idle_sleep, failures)
            }
        };
        let Some(permit) = permit.found_nothing() else { continue };
        tokio::select! {
            () = shared.closing.cancelled() => return,
            () = tokio::time::sleep(sleep) => {}
        }
        // The permit is kept during the sleep and afterwards: no other dispatcher fetches in its
        // place, and this one counts its failures.
        kept = Some(permit);
    }
}

/// Runs a fetched item as soon as there is a slot: more may be fetched than run at the same time.
async fn run<S: WorkSource>(
    shared: &Arc<RuntimeShared>,
    source: &S,
    item: S::Item,
    permit: FetchPermit<'_>,
) {
    let slots = permit.slots();
    let running = tokio::select! {
        biased;
        running = slots.run() => running,
        () = shared.closing.cancelled() => return source.give_back(shared, item).await,
        () = slots.late() => {
            // The permit is dropped first, so that the item is not fetched here again.
            permit.was_late();
            return source.give_back(shared, item).await;
        }
        () = source.hold(shared, &item) => return,
    };
    tokio::select! {
        () = source.run(item, permit.running(running)) => {}
        // A store that does not answer must not keep a runtime that was dropped in memory.
        () = overdue(shared) => {
            tracing::warn!(
                "the result of a turn or an activity could not be stored before the shutdown: its \
                 lease will expire"
            )
        }
    }
}

/// Waits until the runtime was stopped and running items have had time to end.
async fn overdue(shared: &RuntimeShared) {
    shared.cancelling.cancelled().await;
    tokio::time::sleep(shared.options.cancellation_grace + SETTLE_TIME).await;
}

fn backoff(first: Duration, failures: u32) -> Duration {
    first.saturating_mul(1 << (failures - 1).min(10)).min(BACKOFF_MAX)
}
