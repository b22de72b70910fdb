//! Mutants of the orchestration store: each breaks one rule, and the differential run must detect
//! it.

mod pass;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{ActivityNames, FlowChange, FlowLine, FlowToken, OwnerId, TagFilter};
use wakeline_store::flow::{
    AbandonOutcome, Completion, CompletionReply, EnqueueReply, Envelope, FlowReader, FlowStore,
    NewWork, RenewOutcome, TurnClaim, TurnClaimed, TurnCommit, TurnReply, TurnRequest, WorkClaim,
    WorkClaimed, WorkOutcome,
};
use wakeline_store::hook::HookBackend;
use wakeline_store::{Store, StoreError};
use wakeline_testkit::conformance::StoreUnderTest;
use wakeline_testkit::flow_conformance::{Flow, FlowUnderTest};
use wakeline_testkit::oracle::MemoryStore;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlowStoreMutation {
    /// Commits report no changes, so waiters are not notified.
    NotifiesNoWaiter,
    /// Claims never report a next due time.
    ReportsNoNextDue,
    /// Sweeps report that no line has anything due.
    FindsNothingInSweeps,
    /// Every delivery is reported as the first attempt.
    ReportsEveryAttemptAsFirst,
    /// An abandon counts as an attempt even if the caller says that it does not.
    CountsUncountedAbandons,
    /// Abandoned turns and work items are available again at once.
    IgnoresAbandonDelay,
    /// A mailbox stores several messages with one key.
    IgnoresKeys,
    /// A unique start is accepted although the instance exists.
    StartsTwice,
    /// Messages to ended instances are stored.
    AcceptsMessagesToEndedInstances,
    /// Cancelled activities are run.
    RunsCancelledWork,
    /// Cancelled timers fire.
    FiresCancelledTimers,
    /// Messages and work of an ended instance are not removed.
    KeepsMessagesOfEndedInstances,
    /// A turn sees the values that its own execution has set.
    ShowsValuesOfCurrentExecution,
    /// Several status changes of one turn count as one.
    CountsStatusOnce,
    /// Writes lease no turn to waiting dispatchers.
    ServesNoWaitingDispatcher,
    /// Commits lease no work to waiting workers.
    ServesNoWaitingWorker,
    /// Workers get activities whatever their tags are.
    IgnoresTags,
    /// Workers get activities whatever their names are.
    IgnoresActivityNames,
    /// Completions with a stale token are accepted.
    AcceptsStaleTokens,
    /// Sessions are not extended.
    KeepsNoSession,
    /// Of two instances to delete only the first is deleted.
    DeletesOnlyFirstInstance,
    /// Pruning removes one execution more than it may.
    PrunesTooMuch,
    /// The end of an execution is lost when the instance continues as new.
    IgnoresContinueAsNew,
    /// A pinned capability is not stored.
    IgnoresPins,
    /// Resuming an instance has no effect.
    IgnoresResume,
    /// Webhook messages that turns emit are lost.
    DropsEmits,
    /// A decision that is replayed emits its message again.
    EmitsTwice,
    /// Emits report no changes, so senders of webhooks are not notified.
    NotifiesNoSender,
}

struct MutantFlowStore {
    inner: Arc<MemoryStore>,
    mutation: FlowStoreMutation,
}

struct MutantFixture(Arc<MutantFlowStore>);

#[async_trait]
impl StoreUnderTest for MutantFixture {
    fn store(&self) -> Arc<dyn Store> {
        self.0.inner.clone()
    }

    async fn advance(&self, by: Duration) {
        self.0.inner.advance(by);
    }
}

impl FlowUnderTest for MutantFixture {
    fn flow(&self) -> Arc<dyn Flow> {
        self.0.clone()
    }

    fn hooks(&self) -> Arc<dyn HookBackend> {
        self.0.inner.clone()
    }
}

impl MutantFlowStore {
    fn mutated(&self, mut envelope: Envelope) -> Envelope {
        match self.mutation {
            FlowStoreMutation::IgnoresKeys => envelope.key = None,
            FlowStoreMutation::StartsTwice => envelope.unique = false,
            FlowStoreMutation::AcceptsMessagesToEndedInstances => envelope.even_if_ended = true,
            _ => {}
        }
        envelope
    }

    fn served(&self, requests: Vec<TurnRequest>) -> Vec<TurnRequest> {
        if self.mutation == FlowStoreMutation::ServesNoWaitingDispatcher {
            Vec::new()
        } else {
            requests
        }
    }
}

#[async_trait]
impl FlowStore for MutantFlowStore {
    async fn enqueue(
        &self,
        envelopes: Vec<Envelope>,
        requests: Vec<TurnRequest>,
    ) -> Result<EnqueueReply, StoreError> {
        let envelopes = envelopes.into_iter().map(|envelope| self.mutated(envelope)).collect();
        self.inner.enqueue(envelopes, self.served(requests)).await
    }

    async fn claim_turns(&self, lines: Vec<TurnClaim>) -> Result<Vec<TurnClaimed>, StoreError> {
        let mut claimed = self.inner.claim_turns(lines).await?;
        for line in &mut claimed {
            if self.mutation == FlowStoreMutation::ReportsNoNextDue {
                line.next_due = None;
            }
            for turn in line.turns.iter_mut().flatten() {
                if self.mutation == FlowStoreMutation::ReportsEveryAttemptAsFirst {
                    turn.attempt = 1;
                }
                if self.mutation == FlowStoreMutation::ShowsValuesOfCurrentExecution {
                    turn.kv = self.inner.kv(&turn.instance, None).await?;
                }
            }
        }
        Ok(claimed)
    }

    async fn commit_turn(&self, mut commit: TurnCommit) -> Result<TurnReply, StoreError> {
        match self.mutation {
            FlowStoreMutation::RunsCancelledWork => commit.cancelled_work.clear(),
            FlowStoreMutation::FiresCancelledTimers => commit.cancelled_messages.clear(),
            FlowStoreMutation::KeepsMessagesOfEndedInstances => commit.clear = false,
            FlowStoreMutation::CountsStatusOnce => commit.status.truncate(1),
            FlowStoreMutation::ServesNoWaitingWorker => commit.work_requests.clear(),
            FlowStoreMutation::IgnoresContinueAsNew
                if !matches!(commit.end, wakeline_store::flow::ExecutionEnd::Ended { .. }) =>
            {
                commit.end = wakeline_store::flow::ExecutionEnd::Open;
            }
            FlowStoreMutation::IgnoresPins => commit.pinned = None,
            FlowStoreMutation::DropsEmits => commit.emits.clear(),
            FlowStoreMutation::EmitsTwice => {
                commit.emits.iter_mut().for_each(|emit| emit.event_id = None)
            }
            _ => {}
        }
        commit.turn_requests = self.served(commit.turn_requests);
        let messages = commit.messages.into_iter();
        commit.messages = messages.map(|envelope| self.mutated(envelope)).collect();
        let mut reply = self.inner.commit_turn(commit).await?;
        if self.mutation == FlowStoreMutation::NotifiesNoWaiter {
            reply.changes.clear();
        }
        if self.mutation == FlowStoreMutation::NotifiesNoSender {
            reply.hook_changes.clear();
        }
        Ok(reply)
    }

    async fn enqueue_work(&self, work: NewWork) -> Result<Vec<FlowChange>, StoreError> {
        self.inner.enqueue_work(work).await
    }

    async fn claim_work(&self, mut lines: Vec<WorkClaim>) -> Result<Vec<WorkClaimed>, StoreError> {
        if self.mutation == FlowStoreMutation::IgnoresTags {
            lines.iter_mut().for_each(|line| line.filter.tags = TagFilter::Any);
        }
        if self.mutation == FlowStoreMutation::IgnoresActivityNames {
            lines.iter_mut().for_each(|line| line.filter.names = ActivityNames::Any);
        }
        self.inner.claim_work(lines).await
    }

    async fn complete_work(
        &self,
        completion: Completion,
        requests: Vec<TurnRequest>,
    ) -> Result<CompletionReply, StoreError> {
        let mut reply = self.inner.complete_work(completion, self.served(requests)).await?;
        if self.mutation == FlowStoreMutation::AcceptsStaleTokens
            && reply.outcome == WorkOutcome::Stale
        {
            reply.outcome = WorkOutcome::Completed(None);
        }
        Ok(reply)
    }

    async fn renew(
        &self,
        tokens: Vec<FlowToken>,
        span: Duration,
    ) -> Result<Vec<RenewOutcome>, StoreError> {
        self.inner.renew(tokens, span).await
    }

    async fn abandon(
        &self,
        token: FlowToken,
        delay: Duration,
        uncounted: bool,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError> {
        let uncounted = uncounted && self.mutation != FlowStoreMutation::CountsUncountedAbandons;
        let delay = if self.mutation == FlowStoreMutation::IgnoresAbandonDelay {
            Duration::ZERO
        } else {
            delay
        };
        self.inner.abandon(token, delay, uncounted).await
    }

    async fn keep_sessions(
        &self,
        owners: Vec<OwnerId>,
        span: Duration,
        idle: Duration,
    ) -> Result<u64, StoreError> {
        if self.mutation == FlowStoreMutation::KeepsNoSession && !owners.is_empty() {
            return Ok(0);
        }
        self.inner.keep_sessions(owners, span, idle).await
    }

    async fn sweep_flow(&self, lines: Vec<FlowLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        if self.mutation == FlowStoreMutation::FindsNothingInSweeps {
            return Ok(vec![None; lines.len()]);
        }
        self.inner.sweep_flow(lines).await
    }
}

fn is_caught(mutation: FlowStoreMutation) {
    let run = || {
        wakeline_testkit::flow_differential::run_at_least(20_000, async || {
            MutantFixture(Arc::new(MutantFlowStore {
                inner: Arc::new(MemoryStore::new()),
                mutation,
            }))
        });
    };
    let caught = catch_unwind(AssertUnwindSafe(run)).expect_err("a broken store must be caught");
    let text = caught.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.contains("WAKELINE_SEED="), "{mutation:?} is caught as: {text}");
    assert!(text.contains("smallest sequence"), "{mutation:?} is caught as: {text}");
}

/// One test for each mutation, so that they run in parallel.
macro_rules! each_is_caught {
    ($($name:ident: $mutation:ident,)*) => {
        $(
            #[test]
            fn $name() {
                is_caught(FlowStoreMutation::$mutation);
            }
        )*
    };
}

each_is_caught! {
    a_store_that_notifies_no_waiter_is_caught: NotifiesNoWaiter,
    a_store_that_reports_no_next_due_is_caught: ReportsNoNextDue,
    a_store_that_finds_nothing_in_sweeps_is_caught: FindsNothingInSweeps,
    a_store_that_reports_every_attempt_as_first_is_caught: ReportsEveryAttemptAsFirst,
    a_store_that_counts_uncounted_abandons_is_caught: CountsUncountedAbandons,
    a_store_that_ignores_abandon_delay_is_caught: IgnoresAbandonDelay,
    a_store_that_ignores_keys_is_caught: IgnoresKeys,
    a_store_that_starts_twice_is_caught: StartsTwice,
    a_store_that_accepts_messages_to_ended_instances_is_caught: AcceptsMessagesToEndedInstances,
    a_store_that_runs_cancelled_work_is_caught: RunsCancelledWork,
    a_store_that_fires_cancelled_timers_is_caught: FiresCancelledTimers,
    a_store_that_keeps_messages_of_ended_instances_is_caught: KeepsMessagesOfEndedInstances,
    a_store_that_shows_values_of_current_execution_is_caught: ShowsValuesOfCurrentExecution,
    a_store_that_counts_status_once_is_caught: CountsStatusOnce,
    a_store_that_serves_no_waiting_dispatcher_is_caught: ServesNoWaitingDispatcher,
    a_store_that_serves_no_waiting_worker_is_caught: ServesNoWaitingWorker,
    a_store_that_ignores_tags_is_caught: IgnoresTags,
    a_store_that_ignores_activity_names_is_caught: IgnoresActivityNames,
    a_store_that_accepts_stale_tokens_is_caught: AcceptsStaleTokens,
    a_store_that_keeps_no_session_is_caught: KeepsNoSession,
    a_store_that_deletes_only_first_instance_is_caught: DeletesOnlyFirstInstance,
    a_store_that_prunes_too_much_is_caught: PrunesTooMuch,
    a_store_that_ignores_continue_as_new_is_caught: IgnoresContinueAsNew,
    a_store_that_ignores_pins_is_caught: IgnoresPins,
    a_store_that_ignores_resume_is_caught: IgnoresResume,
    a_store_that_drops_emits_is_caught: DropsEmits,
    a_store_that_emits_twice_is_caught: EmitsTwice,
    a_store_that_notifies_no_sender_is_caught: NotifiesNoSender,
}
