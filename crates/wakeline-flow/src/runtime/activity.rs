//! One try of an activity: run it, renew its lease, tell its instance or try again later.
//!
//! # Invariants
//! * Failures are retried by giving the activity back with a delay: no turn, no history.
//! * A try that was lost because the store was away is none of the user's.
//! * An activity that nobody wants any more is cancelled, given a grace, and then dropped; its
//!   result goes nowhere, because its lease is gone.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use wakeline_core::error_chain;
use wakeline_store::flow::InstanceState;

use super::Shared;
use super::renewal::renew_activity;
use super::repeats::Repeats;
use super::slots::Slot;
use crate::activity::ActivityContext;
use crate::error::{ErrorOrigin, FailureKind, FlowError};
use crate::json::Json;
use crate::message::{ActivityTask, WorkItem};
use crate::provider::{FetchedWork, ProviderError};
use crate::registry::ActivityCode;

/// How long an activity that nothing here can run waits before it is offered again.
const LATER: Duration = Duration::from_secs(5);

/// Runs activities.
pub(super) struct ActivityRunner {
    shared: Arc<Shared>,
}

/// How a try ended.
enum Tried {
    /// By itself.
    Done(Result<Json, FlowError>),
    /// Nobody wants it any more.
    Unwanted,
    /// The runtime shuts down.
    Interrupted,
}

impl ActivityRunner {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Runs one try and settles it.
    pub(super) async fn run(&self, work: FetchedWork, slot: Slot<'_>) {
        let FetchedWork { item, lock_token, attempt, state, session, .. } = work;
        let _in_session = session.is_some().then(|| self.shared.sessions.enter());
        let WorkItem::ActivityExecute(task) = item else {
            tracing::error!(
                instance = %item.instance(),
                "a work item that is not an activity was skipped; this is a defect: report it"
            );
            return;
        };
        let settled = if state.is_none_or(InstanceState::is_ended) {
            // Its instance has ended or is gone: nobody is there to be told.
            self.shared.provider.ack_work_item(&lock_token, None).await
        } else {
            self.run_wanted(&task, &lock_token, attempt, slot).await
        };
        match settled {
            Ok(()) => {}
            Err(ProviderError::LockLost) => {
                tracing::debug!(
                    instance = %task.instance, activity = task.name,
                    "an activity lost its lease; its result is not counted"
                );
            }
            Err(error) => tracing::warn!(
                instance = %task.instance, activity = task.name,
                error = error_chain(&error),
                "an activity could not be settled; it will be tried again"
            ),
        }
    }

    async fn run_wanted(
        &self,
        task: &ActivityTask,
        lock_token: &str,
        attempt: u32,
        slot: Slot<'_>,
    ) -> Result<(), ProviderError> {
        let provider = &self.shared.provider;
        let Some(code) = self.shared.registry.activity(&task.name) else {
            tracing::warn!(
                instance = %task.instance, activity = task.name,
                "no code is registered here for this activity: it is left to another worker"
            );
            return provider.abandon_work_item(lock_token, Some(LATER), true).await;
        };
        let lost_tries = &self.shared.lost_tries;
        let tries_max = task.policy.attempts_max.max(1);
        let lost = lost_tries.before(task, lock_token);
        if attempt.saturating_sub(lost) > tries_max.saturating_add(self.shared.options.attempts_max)
        {
            let words = "the activity was given up: every attempt ended without a result, because \
                the process that ran it crashed, hung or lost its lease; see the logs of workers";
            let error = FlowError {
                attempts: Some(attempt - 1),
                ..FlowError::new(FailureKind::Poison, words)
            };
            let error = error.with_origin(origin(task, attempt - 1));
            return self.complete(task, lock_token, Err(error)).await;
        }
        let tried = self.attempt(&code, task, lock_token, attempt).await;
        // The next one runs while this one is settled: many settle in one transaction.
        drop(slot);
        // Another try may have been found to be lost while this one ran.
        let counted = attempt.saturating_sub(lost_tries.before(task, lock_token));
        match tried {
            Tried::Done(Err(error)) if counted < tries_max && may_retry(&error) => {
                let delay = task.policy.backoff.delay(counted);
                tracing::debug!(
                    instance = %task.instance, activity = task.name, attempt, ?delay,
                    error = error_chain(&error),
                    "an activity failed and will be tried again"
                );
                provider.retry_work_item(lock_token, delay, &error).await
            }
            Tried::Done(result) => {
                let failed = |error| {
                    FlowError { attempts: Some(attempt), ..error }
                        .with_origin(origin(task, attempt))
                };
                self.complete(task, lock_token, result.map_err(failed)).await
            }
            Tried::Unwanted => Ok(()),
            Tried::Interrupted => provider.abandon_work_item(lock_token, None, true).await,
        }
    }

    async fn attempt(
        &self,
        code: &Arc<ActivityCode>,
        task: &ActivityTask,
        lock_token: &str,
        attempt: u32,
    ) -> Tried {
        let (unwanted, lease) = (CancellationToken::new(), self.shared.options.worker_lock_timeout);
        let context = ActivityContext::new(task, attempt, unwanted.clone())
            .with_states(self.shared.registry.states());
        let (code, input) = (Arc::clone(code), task.input.clone());
        let span = tracing::info_span!(
            "activity", name = task.name, instance = %task.instance, attempt
        );
        let body = async move { code.run(context, input).await };
        // Its own task: a try that blocks or is dropped late does not hold the dispatcher.
        let mut running = tokio::spawn(tracing::Instrument::instrument(body, span));
        let limit = async {
            match task.policy.attempt_timeout_ms {
                Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };
        let tried = tokio::select! {
            done = &mut running => return Tried::Done(done.unwrap_or_else(|error| {
                Err(FlowError::new(FailureKind::Panic, error.to_string()))
            })),
            () = renew_activity(&self.shared, task, lock_token, lease / 3) => {
                Tried::Unwanted
            }
            () = limit => {
                let words = format!(
                    "the attempt took longer than its limit of {} ms",
                    task.policy.attempt_timeout_ms.unwrap_or_default()
                );
                Tried::Done(Err(FlowError::new(FailureKind::Timeout, words)))
            }
            () = self.shared.cancelling.cancelled() => Tried::Interrupted,
        };
        unwanted.cancel();
        let grace = self.shared.options.cancellation_grace;
        if tokio::time::timeout(grace, &mut running).await.is_err() {
            tracing::warn!(
                instance = %task.instance, activity = task.name,
                "a cancelled activity did not return within its grace and is dropped"
            );
            running.abort();
        }
        tried
    }

    /// Tells the instance. The activity is done: if the provider fails, its result is offered again
    /// for as long as the lease lives, which is renewed meanwhile.
    async fn complete(
        &self,
        task: &ActivityTask,
        lock_token: &str,
        result: Result<Json, FlowError>,
    ) -> Result<(), ProviderError> {
        let done = WorkItem::activity_done(task, result);
        let lease = self.shared.options.worker_lock_timeout;
        let offers = async {
            let mut repeats = Repeats::default();
            loop {
                match self.shared.provider.ack_work_item(lock_token, Some(done.clone())).await {
                    Err(error @ ProviderError::Retryable { .. }) => {
                        log(task, &repeats, &error);
                        repeats.pause().await;
                    }
                    Ok(()) => {
                        self.shared.lost_tries.forget(task);
                        return Ok(());
                    }
                    ended => return ended,
                }
            }
        };
        tokio::select! {
            biased;
            ended = offers => ended,
            () = renew_activity(&self.shared, task, lock_token, lease / 10) => {
                Err(ProviderError::LockLost)
            }
            () = self.shared.cancelling.cancelled() => Err(ProviderError::Closed),
        }
    }
}

fn log(task: &ActivityTask, repeats: &Repeats, error: &ProviderError) {
    let (instance, activity) = (&task.instance, &task.name);
    let (attempts, error) = (repeats.so_far() + 1, error_chain(error));
    if repeats.is_notable() {
        tracing::warn!(
            %instance, activity, attempts, error,
            "the result of an activity could not be stored yet"
        );
    } else {
        tracing::debug!(%instance, activity, attempts, error, "a completion is repeated");
    }
}

fn origin(task: &ActivityTask, attempt: u32) -> ErrorOrigin {
    ErrorOrigin::Activity { name: task.name.clone(), instance: task.instance.clone(), attempt }
}

fn may_retry(error: &FlowError) -> bool {
    !matches!(error.kind, FailureKind::Permanent | FailureKind::Codec | FailureKind::Cancelled)
}
