//! The provider in the store's own terms: leased turns and activities, commits, envelopes.
//!
//! # Where it sits
//! [`StoreProvider`] translates events and messages of our runtime into these calls; an adapter for
//! another runtime, with events of its own, calls them directly. Either way writes serve waiters of
//! this process in their own commit.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{FlowChange, FlowToken, FlowWhat, InstanceId};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    AbandonOutcome, Completion, EnqueueOutcome, Envelope, FlowBackend, InstanceState, NewWork,
    RenewOutcome, TurnCommit, TurnItem, TurnOutcome, TurnRequest, Visible, WorkItem, WorkOutcome,
    WorkRequest,
};
use wakeline_wake::{Patience, TakeError, Taken};

use super::reserved::turn_grant;
use super::{PAGE_BYTES, StoreProvider, failed, turn};
use crate::event::Event;
use crate::provider::envelope::{self, storable};
use crate::provider::face::{Ask, Grant, Line};
use crate::provider::item::ProviderError;
use crate::provider::trace::Trace;

impl StoreProvider {
    /// The store, for reads and interventions.
    pub fn store(&self) -> &Arc<dyn FlowBackend> {
        &self.inner.store
    }

    /// Leases a turn; waits for one so long, if there is none.
    pub async fn take_turn(
        &self,
        request: TurnRequest,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<TurnItem>, ProviderError> {
        let line = Line::Turns(request.capabilities.clone());
        let ask = |trace| Ask::Turn(request, trace);
        match self.fetch(line, ask, poll_timeout).await? {
            Some(Grant::Turn(turn, _)) => Ok(Some(*turn)),
            _ => Ok(None),
        }
    }

    /// Leases an activity; waits for one so long, if there is none.
    pub async fn take_work(
        &self,
        request: WorkRequest,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<WorkItem>, ProviderError> {
        let owner = request.session.as_ref().map(|session| session.owner.clone());
        let line = Line::Work { filter: request.filter.clone(), owner };
        let ask = |trace| Ask::Work(request, trace);
        match self.fetch(line, ask, poll_timeout).await? {
            Some(Grant::Work(work, _)) => Ok(Some(*work)),
            _ => Ok(None),
        }
    }

    /// Commits a turn. The requests in it are filled in here.
    pub async fn commit_turn(&self, commit: TurnCommit) -> Result<TurnOutcome, ProviderError> {
        self.to_the_end("ack", turn::commit(Arc::clone(&self.inner), commit)).await
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
            turns.serve(reply.turns, turn_grant);
            inner.hint(reply.changes);
            Ok(reply.outcomes.first().copied().unwrap_or(EnqueueOutcome::Queued))
        };
        self.to_the_end("send the message", write).await
    }

    /// Puts an activity into the queue of work, outside of a turn.
    pub async fn schedule(&self, work: NewWork) -> Result<(), ProviderError> {
        let changes = self.inner.store.enqueue_work(work).await;
        self.inner.hint(changes.map_err(|error| failed("enqueue work", error))?);
        Ok(())
    }

    /// Removes a leased activity and tells its instance.
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
            turns.serve(reply.turns, turn_grant);
            inner.hint(reply.changes);
            Ok(reply.outcome)
        };
        self.to_the_end("complete the activity", write).await
    }

    /// Gives a turn or an activity back.
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
        given: Result<(AbandonOutcome, Vec<FlowChange>), StoreError>,
    ) -> Result<(), ProviderError> {
        let (outcome, changes) = given.map_err(|error| failed("give work back", error))?;
        self.inner.hint(changes);
        match outcome {
            AbandonOutcome::Abandoned => Ok(()),
            AbandonOutcome::Stale => Err(ProviderError::LockLost),
        }
    }

    /// Holds a turn or an activity for so long from now on.
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

    /// Takes something that has to be given back if the caller goes away meanwhile.
    async fn fetch(
        &self,
        line: Line,
        ask: impl FnOnce(Trace) -> Ask,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<Grant>, ProviderError> {
        let (fetch, trace) = self.inner.traces.fetch();
        let taken = self.take(line, ask(trace), poll_timeout).await;
        if let Ok(Some(grant)) = &taken {
            fetch.handed_over();
            self.note_lease(grant);
        }
        taken
    }

    /// Has those who wait here look again when a lease ends that was just taken.
    fn note_lease(&self, grant: &Grant) {
        let (what, lease) = match grant {
            Grant::Turn(turn, _) => {
                let Some(capability) = turn.capability.clone() else { return };
                (FlowWhat::Turn(capability), turn.lease_for)
            }
            Grant::Work(work, _) => (FlowWhat::Work(work.route()), work.lease_for),
            Grant::Outcome(_) => return,
        };
        let ends = self.inner.lease_ends.news(what, lease);
        self.inner.hint(ends.into_iter().collect());
    }

    /// Takes something, within a time.
    pub(super) async fn take(
        &self,
        line: Line,
        ask: Ask,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<Grant>, ProviderError> {
        let patience = poll_timeout.map_or(Patience::Now, Patience::Wait);
        match self.inner.hub.take(line, ask, patience).await {
            Ok(Taken::Granted(grant)) => Ok(Some(grant)),
            Ok(Taken::Empty) => Ok(None),
            Ok(Taken::Drained) => Err(ProviderError::Closed),
            Err(TakeError::Claim(error)) => Err(failed("fetch", error)),
            Err(error @ TakeError::TooMany { .. }) => {
                let source = error.to_string().into();
                Err(ProviderError::Retryable { operation: "fetch", source })
            }
        }
    }

    /// All events of an execution, page by page.
    pub(super) async fn whole_history(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
    ) -> Result<Vec<Event>, ProviderError> {
        let (mut execution, mut from, mut all) = (execution, 1, Vec::new());
        loop {
            let page = self.inner.store.history(instance, execution, from, PAGE_BYTES).await;
            let page = page.map_err(|error| failed("read the instance", error))?;
            // The first page may have chosen the execution: the others stay with it.
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
