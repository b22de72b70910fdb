//! Runs one attempt of an activity: renews the lease while it runs, and then sends the completion
//! to the instance or schedules another attempt.
//!
//! # Invariants
//! * A failed attempt is retried by giving the activity back with a delay, without a turn and
//!   without history events.
//! * An attempt that was lost because the store was unavailable does not count.
//! * An activity whose result is no longer needed is cancelled, given a grace period, and then
//!   dropped; its result is discarded, because its lease has ended.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use wakeline_core::error_chain;
use wakeline_store::flow::InstanceState;

use super::RuntimeShared;
use super::renewal::renew_activity;
use super::retry_pauses::RetryPauses;
use super::slots::RunSlot;
use crate::activity::ActivityContext;
use crate::error::{ErrorOrigin, FailureKind, FlowError};
use crate::json::Json;
use crate::message::{ActivityTask, FlowMessage};
use crate::provider::{FetchedWork, ProviderError};
use crate::registry::ActivityCode;

/// How long an activity waits before it can be fetched again, if this process has no code for it.
const UNREGISTERED_DELAY: Duration = Duration::from_secs(5);

/// Runs activities.
pub(super) struct ActivityRunner {
    shared: Arc<RuntimeShared>,
}

/// How an attempt ended.
enum ActivityOutcome {
    /// The code returned, panicked or exceeded its time limit.
    Done(Result<Json, FlowError>),
    /// The result is no longer needed, or the lease was lost.
    Unwanted,
    /// The runtime was shut down.
    Interrupted,
}

impl ActivityRunner {
    pub(super) fn new(shared: Arc<RuntimeShared>) -> Self {
        Self { shared }
    }

    /// Runs one attempt and settles it, or only removes an activity whose result is not needed.
    pub(super) async fn run(&self, work: FetchedWork, slot: RunSlot<'_>) {
        let FetchedWork { item, lock_token, attempt, state, session, .. } = work;
        let _in_session = session.is_some().then(|| self.shared.sessions.enter());
        let FlowMessage::ActivityExecute(task) = item else {
            tracing::error!(
                instance = %item.instance(),
                "a work item that is not an activity was skipped; this is a defect: report it"
            );
            return;
        };
        let settled = if state.is_none_or(InstanceState::is_ended) {
            // The instance has ended or was deleted, so nothing waits for the completion.
            self.shared.provider.ack_work_item(&lock_token, None).await
        } else {
            self.run_and_settle(&task, &lock_token, attempt, slot).await
        };
        match settled {
            Ok(()) => {}
            Err(ProviderError::LockLost) => {
                tracing::debug!(
                    instance = %task.instance, activity = task.name,
                    "an activity lost its lease; its result is discarded"
                );
            }
            Err(error) => tracing::warn!(
                instance = %task.instance, activity = task.name,
                error = error_chain(&error),
                "an activity could not be settled; will try again"
            ),
        }
    }

    /// Runs one attempt of an activity whose result is needed, and settles it.
    async fn run_and_settle(
        &self,
        task: &ActivityTask,
        lock_token: &str,
        attempt: u32,
        slot: RunSlot<'_>,
    ) -> Result<(), ProviderError> {
        let provider = &self.shared.provider;
        let Some(code) = self.shared.registry.activity(&task.name) else {
            tracing::warn!(
                instance = %task.instance, activity = task.name,
                "this process has no code for an activity: another worker must run it"
            );
            let ignore_attempt = true;
            return provider
                .abandon_work_item(lock_token, Some(UNREGISTERED_DELAY), ignore_attempt)
                .await;
        };
        let lost_attempts = &self.shared.lost_attempts;
        let attempts_max = task.policy.attempts_max.max(1);
        let lost = lost_attempts.others(task, lock_token);
        // The policy limits the attempts that return a failure. Attempts that end without a result
        // have a limit of their own, which is in the options of the runtime.
        if attempt.saturating_sub(lost)
            > attempts_max.saturating_add(self.shared.options.attempts_max)
        {
            let message = "the activity was given up: every attempt ended without a result, \
                because the process that ran it crashed, hung or lost its lease; see the logs of \
                workers";
            let error = FlowError {
                attempts: Some(attempt - 1),
                ..FlowError::new(FailureKind::Poison, message)
            };
            let error = error.with_origin(origin(task, attempt - 1));
            return self.complete(task, lock_token, Err(error)).await;
        }
        let outcome = self.attempt(&code, task, lock_token, attempt).await;
        // The next activity runs while this one is settled: many are settled in one transaction.
        drop(slot);
        // Read again: while this attempt ran, an earlier one of this process may have been recorded
        // as lost.
        let counted = attempt.saturating_sub(lost_attempts.others(task, lock_token));
        match outcome {
            ActivityOutcome::Done(Err(error)) if counted < attempts_max && may_retry(&error) => {
                let delay = task.policy.backoff.delay(counted);
                tracing::debug!(
                    instance = %task.instance, activity = task.name, attempt, ?delay,
                    error = error_chain(&error),
                    "an activity failed; will try again"
                );
                provider.retry_work_item(lock_token, delay, &error).await
            }
            ActivityOutcome::Done(result) => {
                let with_attempt = |error| {
                    FlowError { attempts: Some(attempt), ..error }
                        .with_origin(origin(task, attempt))
                };
                self.complete(task, lock_token, result.map_err(with_attempt)).await
            }
            ActivityOutcome::Unwanted => Ok(()),
            ActivityOutcome::Interrupted => {
                let ignore_attempt = true;
                provider.abandon_work_item(lock_token, None, ignore_attempt).await
            }
        }
    }

    async fn attempt(
        &self,
        code: &Arc<ActivityCode>,
        task: &ActivityTask,
        lock_token: &str,
        attempt: u32,
    ) -> ActivityOutcome {
        let cancellation = CancellationToken::new();
        let lease_duration = self.shared.options.worker_lock_timeout;
        let context = ActivityContext::new(task, attempt, cancellation.clone())
            .with_states(self.shared.registry.states());
        let (code, input) = (Arc::clone(code), task.input.clone());
        let span = tracing::info_span!(
            "activity", name = task.name, instance = %task.instance, attempt
        );
        let body = async move { code.run(context, input).await };
        // The code runs in a task of its own, so that it does not occupy the dispatcher if it
        // blocks, or if dropping it takes long.
        let mut running = tokio::spawn(tracing::Instrument::instrument(body, span));
        let limit = async {
            match task.policy.attempt_timeout_ms {
                Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            done = &mut running => return ActivityOutcome::Done(done.unwrap_or_else(|error| {
                Err(FlowError::new(FailureKind::Panic, error.to_string()))
            })),
            () = renew_activity(&self.shared, task, lock_token, lease_duration / 3) => {
                ActivityOutcome::Unwanted
            }
            () = limit => {
                let message = format!(
                    "the attempt took longer than its limit of {} ms",
                    task.policy.attempt_timeout_ms.unwrap_or_default()
                );
                ActivityOutcome::Done(Err(FlowError::new(FailureKind::Timeout, message)))
            }
            () = self.shared.cancelling.cancelled() => ActivityOutcome::Interrupted,
        };
        cancellation.cancel();
        let grace = self.shared.options.cancellation_grace;
        if tokio::time::timeout(grace, &mut running).await.is_err() {
            tracing::warn!(
                instance = %task.instance, activity = task.name,
                "a cancelled activity did not return within its grace period: its task was aborted"
            );
            running.abort();
        }
        outcome
    }

    /// Sends the completion to the instance. If the provider fails, repeats this until the lease is
    /// lost, and renews the lease meanwhile.
    async fn complete(
        &self,
        task: &ActivityTask,
        lock_token: &str,
        result: Result<Json, FlowError>,
    ) -> Result<(), ProviderError> {
        let done = FlowMessage::activity_done(task, result);
        let lease_duration = self.shared.options.worker_lock_timeout;
        let send = async {
            let mut retry_pauses = RetryPauses::default();
            loop {
                match self.shared.provider.ack_work_item(lock_token, Some(done.clone())).await {
                    Err(error @ ProviderError::Retryable { .. }) => {
                        log_retry(task, &retry_pauses, &error);
                        retry_pauses.pause().await;
                    }
                    Ok(()) => {
                        self.shared.lost_attempts.forget(task);
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        tokio::select! {
            biased;
            result = send => result,
            // The first renewal is early, because the run may have used up a third of the lease.
            () = renew_activity(&self.shared, task, lock_token, lease_duration / 10) => {
                Err(ProviderError::LockLost)
            }
            () = self.shared.cancelling.cancelled() => Err(ProviderError::Closed),
        }
    }
}

fn log_retry(task: &ActivityTask, retry_pauses: &RetryPauses, error: &ProviderError) {
    let (instance, activity) = (&task.instance, &task.name);
    let (attempts, error) = (retry_pauses.count() + 1, error_chain(error));
    if retry_pauses.should_warn() {
        tracing::warn!(
            %instance, activity, attempts, error,
            "could not store the result of an activity: trying again"
        );
    } else {
        tracing::debug!(
            %instance, activity, attempts, error,
            "could not store the result of an activity: trying again"
        );
    }
}

fn origin(task: &ActivityTask, attempt: u32) -> ErrorOrigin {
    ErrorOrigin::Activity { name: task.name.clone(), instance: task.instance.clone(), attempt }
}

fn may_retry(error: &FlowError) -> bool {
    !matches!(error.kind, FailureKind::Permanent | FailureKind::Codec | FailureKind::Cancelled)
}
