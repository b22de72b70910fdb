//! The loop of a dispatcher: fetch, run, again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use wakeline_core::{Capabilities, error_chain};

use super::activity::ActivityRunner;
use super::renewal;
use super::slots::{Fetching, Slot, Slots};
use super::turn::TurnRunner;
use super::{SETTLE_TIME, Shared};
use crate::message::WorkItem;
use crate::provider::{FetchedWork, OrchestrationItem, ProviderError, WorkFilter};

/// The longest sleep after failures in a row. It bounds how long work waits after an outage.
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// What a dispatcher fetches and runs.
#[async_trait]
pub(super) trait Source: Send + Sync {
    /// What it fetches.
    type Item: Send;

    async fn fetch(
        &self,
        shared: &Shared,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<Self::Item>, ProviderError>;

    /// Renews the lease of an item that waits for a slot. Ends if it is lost.
    async fn hold(&self, shared: &Arc<Shared>, item: &Self::Item);

    /// Gives an item back that will not be run.
    async fn give_back(&self, shared: &Shared, item: Self::Item);

    /// Runs an item. The slot is for its code: it is free again before what came of it is
    /// committed.
    async fn run(&self, item: Self::Item, slot: Slot<'_>);
}

/// Turns of instances.
pub(super) struct Turns {
    pub(super) runner: Arc<TurnRunner>,
    pub(super) capabilities: Capabilities,
}

#[async_trait]
impl Source for Turns {
    type Item = OrchestrationItem;

    async fn fetch(
        &self,
        shared: &Shared,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError> {
        let lock_timeout = shared.options.orchestrator_lock_timeout;
        let provider = &shared.provider;
        provider.fetch_orchestration_item_for(&self.capabilities, lock_timeout, poll_timeout).await
    }

    async fn hold(&self, shared: &Arc<Shared>, item: &OrchestrationItem) {
        renewal::renew_turn(shared, &item.lock_token).await;
    }

    async fn give_back(&self, shared: &Shared, item: OrchestrationItem) {
        let given = shared.provider.abandon_orchestration_item(&item.lock_token, None, true).await;
        given.unwrap_or_else(|error| {
            tracing::debug!(
                error = error_chain(&error),
                "a turn could not be given back: it is free when its lease ends"
            )
        });
    }

    async fn run(&self, item: OrchestrationItem, slot: Slot<'_>) {
        self.runner.run(item, slot).await;
    }
}

/// Activities.
pub(super) struct Activities {
    pub(super) runner: Arc<ActivityRunner>,
    pub(super) filter: WorkFilter,
}

#[async_trait]
impl Source for Activities {
    type Item = FetchedWork;

    async fn fetch(
        &self,
        shared: &Shared,
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

    async fn hold(&self, shared: &Arc<Shared>, item: &FetchedWork) {
        let WorkItem::ActivityExecute(task) = &item.item else {
            return std::future::pending().await;
        };
        let first = shared.options.worker_lock_timeout / 3;
        renewal::renew_activity(shared, task, &item.lock_token, first).await;
    }

    async fn give_back(&self, shared: &Shared, item: FetchedWork) {
        let given = shared.provider.abandon_work_item(&item.lock_token, None, true).await;
        given.unwrap_or_else(|error| {
            tracing::debug!(
                error = error_chain(&error),
                "an activity could not be given back: it is free when its lease ends"
            )
        });
    }

    async fn run(&self, item: FetchedWork, slot: Slot<'_>) {
        self.runner.run(item, slot).await;
    }
}

/// Runs a dispatcher until the runtime closes. A fetch under way is dropped then: the provider
/// gives back what it may have leased.
pub(super) async fn dispatch<S: Source>(shared: Arc<Shared>, slots: Arc<Slots>, source: S) {
    let (options, poll_timeout) = (&shared.options, shared.poll_timeout());
    let mut failures = 0;
    let mut kept = None;
    while !shared.closing.is_cancelled() {
        let fetching = match kept.take() {
            Some(fetching) => fetching,
            None => tokio::select! {
                biased;
                () = shared.closing.cancelled() => return,
                fetching = slots.fetch() => fetching,
            },
        };
        let (began, wait) = (Instant::now(), fetching.patience(poll_timeout));
        let fetched = tokio::select! {
            biased;
            () = shared.closing.cancelled() => return,
            fetched = source.fetch(&shared, wait) => fetched,
        };
        let sleep = match fetched {
            Ok(Some(item)) => {
                failures = 0;
                let _at_hand = slots.at_hand();
                run(&shared, &source, item, fetching).await;
                continue;
            }
            // It waited as long as it was told to; the next wait may begin.
            Ok(None) if wait.is_some_and(|wait| began.elapsed() >= wait) => {
                failures = 0;
                kept = fetching.in_vain();
                continue;
            }
            Ok(None) => options.dispatcher_idle_sleep,
            Err(ProviderError::Closed) => return,
            Err(error) => {
                failures += 1;
                tracing::warn!(
                    error = error_chain(&error),
                    failures,
                    "cannot fetch work: trying again"
                );
                backoff(options.dispatcher_idle_sleep, failures)
            }
        };
        let Some(fetching) = fetching.in_vain() else { continue };
        tokio::select! {
            () = shared.closing.cancelled() => return,
            () = tokio::time::sleep(sleep) => {}
        }
        // Kept while it sleeps, and after: nobody else fetches in its place, and it knows how often
        // it has failed.
        kept = Some(fetching);
    }
}

/// Runs what was fetched, when it may: more may be fetched than runs at once.
async fn run<S: Source>(shared: &Arc<Shared>, source: &S, item: S::Item, fetching: Fetching<'_>) {
    let slots = fetching.slots();
    let running = tokio::select! {
        biased;
        running = slots.run() => running,
        () = shared.closing.cancelled() => return source.give_back(shared, item).await,
        () = slots.late() => {
            // First the right to fetch: what goes back must not come here again.
            fetching.was_late();
            return source.give_back(shared, item).await;
        }
        () = source.hold(shared, &item) => return,
    };
    tokio::select! {
        () = source.run(item, fetching.running(running)) => {}
        // A store that does not answer must not keep a runtime that was dropped in memory.
        () = overdue(shared) => tracing::warn!("what was under way is left to its lease"),
    }
}

/// Waits until the runtime was stopped, and what ran has had its time to end.
async fn overdue(shared: &Shared) {
    shared.cancelling.cancelled().await;
    tokio::time::sleep(shared.options.cancellation_grace + SETTLE_TIME).await;
}

fn backoff(first: Duration, failures: u32) -> Duration {
    first.saturating_mul(1 << (failures - 1).min(10)).min(BACKOFF_MAX)
}
