//! The provider's functions in the terms of the store: leased turns and activities, commits and
//! envelopes.
//!
//! # Where it sits
//! [`StoreProvider`] translates the events and messages of our runtime into these calls; an adapter
//! for another runtime with its own events calls them directly. In both cases a write serves
//! waiters of this process in its own commit.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{FlowChange, FlowChangeKind, FlowToken, InstanceId};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    AbandonOutcome, Completion, EnqueueOutcome, Envelope, FlowBackend, InstanceState, NewWork,
    RenewOutcome, TurnCommit, TurnItem, TurnOutcome, TurnRequest, Visible, WorkItem, WorkOutcome,
    WorkRequest,
};
use wakeline_wake::{Patience, TakeError, TakeOutcome};

use super::reserved::turn_result;
use super::{PAGE_BYTES, StoreProvider, failed, turn};
use crate::event::Event;
use crate::provider::api::{FlowClaimResult, FlowRequest, FlowWaitLine};
use crate::provider::envelope::{self, storable};
use crate::provider::item::ProviderError;
use crate::provider::trace::FetchTrace;

impl StoreProvider {
    /// The store, for reads and management.
    pub fn store(&self) -> &Arc<dyn FlowBackend> {
        &self.inner.store
    }

    /// Leases a turn. If there is none, waits for one until the poll timeout.
    pub async fn take_turn(
        &self,
        request: TurnRequest,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<TurnItem>, ProviderError> {
        let line = FlowWaitLine::Turns(request.capabilities.clone());
        let request = |trace| FlowRequest::Turn(request, trace);
        match self.fetch(line, request, poll_timeout).await? {
            Some(FlowClaimResult::Turn(turn, _)) => Ok(Some(*turn)),
            _ => Ok(None),
        }
    }

    /// Leases an activity. If there is none, waits for one until the poll timeout.
    pub async fn take_work(
        &self,
        request: WorkRequest,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<WorkItem>, ProviderError> {
        let owner = request.session.as_ref().map(|session| session.owner.clone());
        let line = FlowWaitLine::Work { filter: request.filter.clone(), owner };
        let request = |trace| FlowRequest::Work(request, trace);
        match self.fetch(line, request, poll_timeout).await? {
            Some(FlowClaimResult::Work(work, _)) => Ok(Some(*work)),
            _ => Ok(None),
        }
    }

    /// Commits a turn. The requests in it are replaced by those of waiters of this process.
    pub async fn commit_turn(&self, commit: TurnCommit) -> Result<TurnOutcome, ProviderError> {
        self.run_to_completion("ack", turn::commit(Arc::clone(&self.inner), commit)).await
    }

    /// Sends a message to an instance.
    pub async fn send(&self, envelope: Envelope) -> Result<EnqueueOutcome, ProviderError> {
        let inner = Arc::clone(&self.inner);
        let write = async move {
            let due_now = matches!(envelope.visible, Visible::Now);
            let turns = inner.reserve_turns(usize::from(due_now));
            let requests = turns.requests.clone();
            let reply = match inner.store.enqueue(vec![envelope], requests).await {
                Ok(reply) => reply,
                Err(error) => {
                    let held = !turns.requests.is_empty();
                    drop(turns);
                    if held {
                        inner.hub.everything();
                    }
                    return Err(failed("send the message", error));
                }
            };
            turns.serve(reply.turns, turn_result);
            inner.hint(reply.changes);
            Ok(reply.outcomes.first().copied().unwrap_or(EnqueueOutcome::Queued))
        };
        self.run_to_completion("send the message", write).await
    }

    /// Enqueues an activity outside of a turn.
    pub async fn schedule(&self, work: NewWork) -> Result<(), ProviderError> {
        let changes = self.inner.store.enqueue_work(work).await;
        self.inner.hint(changes.map_err(|error| failed("enqueue work", error))?);
        Ok(())
    }

    /// Removes a leased activity and sends its completion to the instance.
    pub async fn complete(&self, completion: Completion) -> Result<WorkOutcome, ProviderError> {
        let inner = Arc::clone(&self.inner);
        let write = async move {
            let turns = inner.reserve_turns(usize::from(completion.message.is_some()));
            let requests = turns.requests.clone();
            let reply = match inner.store.complete_work(completion, requests).await {
                Ok(reply) => reply,
                Err(error) => {
                    let held = !turns.requests.is_empty();
                    drop(turns);
                    if held {
                        inner.hub.everything();
                    }
                    return Err(failed("complete the activity", error));
                }
            };
            turns.serve(reply.turns, turn_result);
            inner.hint(reply.changes);
            Ok(reply.outcome)
        };
        self.run_to_completion("complete the activity", write).await
    }

    /// Gives a turn or an activity back. If `uncounted` is set, the attempt is not counted.
    pub async fn give_back(
        &self,
        token: FlowToken,
        delay: Duration,
        uncounted: bool,
    ) -> Result<(), ProviderError> {
        self.given_back(self.inner.store.abandon(token, storable(delay), uncounted).await)
    }

    pub(super) fn given_back(
        &self,
        abandoned: Result<(AbandonOutcome, Vec<FlowChange>), StoreError>,
    ) -> Result<(), ProviderError> {
        let (outcome, changes) =
            abandoned.map_err(|error| failed("release the lease of an activity", error))?;
        self.inner.hint(changes);
        match outcome {
            AbandonOutcome::Abandoned => Ok(()),
            AbandonOutcome::Stale => Err(ProviderError::LockLost),
        }
    }

    /// Extends the lease of a turn or an activity so that it ends `span` from now. Returns the
    /// state of the execution.
    pub async fn hold(
        &self,
        token: FlowToken,
        span: Duration,
    ) -> Result<Option<InstanceState>, ProviderError> {
        let outcomes = self.inner.store.renew(vec![token], span).await;
        let outcomes = outcomes.map_err(|error| failed("renew the lease", error))?;
        match outcomes.first() {
            Some(RenewOutcome::Renewed(state)) => Ok(*state),
            _ => Err(ProviderError::LockLost),
        }
    }

    /// Leases something, and makes sure that it is given back if the caller goes away meanwhile.
    async fn fetch(
        &self,
        line: FlowWaitLine,
        request: impl FnOnce(FetchTrace) -> FlowRequest,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<FlowClaimResult>, ProviderError> {
        let (fetch, trace) = self.inner.traces.fetch();
        let taken = self.take(line, request(trace), poll_timeout).await;
        if let Ok(Some(claimed)) = &taken {
            fetch.handed_over();
            self.note_lease(claimed);
        }
        taken
    }

    /// Makes the waiters of this process look again when the lease that was just taken ends.
    fn note_lease(&self, claimed: &FlowClaimResult) {
        let (what, lease) = match claimed {
            FlowClaimResult::Turn(turn, _) => {
                let Some(capability) = turn.capability.clone() else { return };
                (FlowChangeKind::Turn(capability), turn.lease_for)
            }
            FlowClaimResult::Work(work, _) => (FlowChangeKind::Work(work.route()), work.lease_for),
            FlowClaimResult::Outcome(_) => return,
        };
        let ends = self.inner.lease_ends.news(what, lease);
        self.inner.hint(ends.into_iter().collect());
    }

    /// Makes a request to the hub and waits for its result, at most until the poll timeout.
    pub(super) async fn take(
        &self,
        line: FlowWaitLine,
        request: FlowRequest,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<FlowClaimResult>, ProviderError> {
        let patience = poll_timeout.map_or(Patience::Now, Patience::Wait);
        match self.inner.hub.take(line, request, patience).await {
            Ok(TakeOutcome::Claimed(result)) => Ok(Some(result)),
            Ok(TakeOutcome::Empty) => Ok(None),
            Ok(TakeOutcome::Drained) => Err(ProviderError::Closed),
            Err(TakeError::Claim(error)) => Err(failed("fetch work", error)),
            Err(error @ TakeError::TooMany { .. }) => {
                let source = error.to_string().into();
                Err(ProviderError::Retryable { operation: "fetch", source })
            }
        }
    }

    /// Reads all events of an execution, page by page.
    pub(super) async fn whole_history(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
    ) -> Result<Vec<Event>, ProviderError> {
        let (mut execution, mut from, mut all) = (execution, 1, Vec::new());
        loop {
            let page = self.inner.store.history(instance, execution, from, PAGE_BYTES).await;
            let page = page.map_err(|error| failed("read the instance", error))?;
            // If the caller named no execution, the first page decides which one is read.
            execution = Some(page.execution);
            let events = envelope::events(&page.batches).map_err(|error| {
                ProviderError::Permanent { operation: "read the instance", source: Box::new(error) }
            })?;
            all.extend(events);
            match page.next {
                Some(next) => from = next,
                None => return Ok(all),
            }
        }
    }
}
