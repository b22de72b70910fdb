//! Stores of orchestrations that break one rule each: the differential run must catch every one.

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
enum Sin {
    /// Commits tell nobody.
    TellsNobody,
    /// Empty claims see nothing coming.
    SeesNothingComing,
    /// Sweeps see nothing coming.
    SweepsNothing,
    /// Every delivery is said to be the first.
    ForgetsAttempts,
    /// Giving back always counts.
    CountsAllAbandons,
    /// Giving back does not delay.
    DelaysNothing,
    /// A lane takes a key twice.
    ForgetsKeys,
    /// An instance is started twice.
    StartsTwice,
    /// Messages to the ended are kept.
    SpeaksToTheEnded,
    /// Cancelled activities run.
    RunsCancelledWork,
    /// Cancelled timers fire.
    FiresCancelledTimers,
    /// What an ended instance left stays.
    ClearsNothing,
    /// A turn sees what its own execution set.
    ShowsTheDelta,
    /// Several status changes of a turn count once.
    CountsStatusOnce,
    /// Dispatchers that wait are never served by a write.
    ServesNoDispatcher,
    /// Workers that wait are never served by a commit.
    ServesNoWorker,
    /// Tags are not looked at.
    IgnoresTags,
    /// Names of activities are not looked at.
    IgnoresNames,
    /// Completions with a stale token are believed.
    BelievesZombies,
    /// Sessions are never kept.
    KeepsNoSession,
    /// Deleting takes one of those named only.
    DeletesByHalves,
    /// Pruning takes one execution too many.
    PrunesTooMuch,
    /// The end of an execution is forgotten where the next one begins.
    ContinuesInPlace,
    /// A pinned capability is forgotten.
    PinsNothing,
    /// Resuming changes nothing.
    ResumesNothing,
    /// What turns emit is forgotten.
    EmitsNothing,
    /// A decision that is carried out again emits again.
    EmitsTwice,
    /// What is emitted is told to nobody.
    TellsNoSender,
}

struct Sinner {
    inner: Arc<MemoryStore>,
    sin: Sin,
}

struct Mutant(Arc<Sinner>);

#[async_trait]
impl StoreUnderTest for Mutant {
    fn store(&self) -> Arc<dyn Store> {
        self.0.inner.clone()
    }

    async fn advance(&self, by: Duration) {
        self.0.inner.advance(by);
    }
}

impl FlowUnderTest for Mutant {
    fn flow(&self) -> Arc<dyn Flow> {
        self.0.clone()
    }

    fn hooks(&self) -> Arc<dyn HookBackend> {
        self.0.inner.clone()
    }
}

impl Sinner {
    fn spoilt(&self, mut envelope: Envelope) -> Envelope {
        match self.sin {
            Sin::ForgetsKeys => envelope.key = None,
            Sin::StartsTwice => envelope.unique = false,
            Sin::SpeaksToTheEnded => envelope.even_if_ended = true,
            _ => {}
        }
        envelope
    }

    fn served(&self, requests: Vec<TurnRequest>) -> Vec<TurnRequest> {
        if self.sin == Sin::ServesNoDispatcher { Vec::new() } else { requests }
    }
}

#[async_trait]
impl FlowStore for Sinner {
    async fn enqueue(
        &self,
        envelopes: Vec<Envelope>,
        requests: Vec<TurnRequest>,
    ) -> Result<EnqueueReply, StoreError> {
        let envelopes = envelopes.into_iter().map(|envelope| self.spoilt(envelope)).collect();
        self.inner.enqueue(envelopes, self.served(requests)).await
    }

    async fn claim_turns(&self, lines: Vec<TurnClaim>) -> Result<Vec<TurnClaimed>, StoreError> {
        let mut claimed = self.inner.claim_turns(lines).await?;
        for line in &mut claimed {
            if self.sin == Sin::SeesNothingComing {
                line.next_due = None;
            }
            for turn in line.turns.iter_mut().flatten() {
                if self.sin == Sin::ForgetsAttempts {
                    turn.attempt = 1;
                }
                if self.sin == Sin::ShowsTheDelta {
                    turn.kv = self.inner.kv(&turn.instance, None).await?;
                }
            }
        }
        Ok(claimed)
    }

    async fn commit_turn(&self, mut commit: TurnCommit) -> Result<TurnReply, StoreError> {
        match self.sin {
            Sin::RunsCancelledWork => commit.cancelled_work.clear(),
            Sin::FiresCancelledTimers => commit.cancelled_messages.clear(),
            Sin::ClearsNothing => commit.clear = false,
            Sin::CountsStatusOnce => commit.status.truncate(1),
            Sin::ServesNoWorker => commit.work_requests.clear(),
            Sin::ContinuesInPlace
                if !matches!(commit.end, wakeline_store::flow::ExecutionEnd::Ended { .. }) =>
            {
                commit.end = wakeline_store::flow::ExecutionEnd::Open;
            }
            Sin::PinsNothing => commit.pinned = None,
            Sin::EmitsNothing => commit.emits.clear(),
            Sin::EmitsTwice => commit.emits.iter_mut().for_each(|emit| emit.event_id = None),
            _ => {}
        }
        commit.turn_requests = self.served(commit.turn_requests);
        let messages = commit.messages.into_iter();
        commit.messages = messages.map(|envelope| self.spoilt(envelope)).collect();
        let mut reply = self.inner.commit_turn(commit).await?;
        if self.sin == Sin::TellsNobody {
            reply.changes.clear();
        }
        if self.sin == Sin::TellsNoSender {
            reply.hook_changes.clear();
        }
        Ok(reply)
    }

    async fn enqueue_work(&self, work: NewWork) -> Result<Vec<FlowChange>, StoreError> {
        self.inner.enqueue_work(work).await
    }

    async fn claim_work(&self, mut lines: Vec<WorkClaim>) -> Result<Vec<WorkClaimed>, StoreError> {
        if self.sin == Sin::IgnoresTags {
            lines.iter_mut().for_each(|line| line.filter.tags = TagFilter::Any);
        }
        if self.sin == Sin::IgnoresNames {
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
        if self.sin == Sin::BelievesZombies && reply.outcome == WorkOutcome::Stale {
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
        let uncounted = uncounted && self.sin != Sin::CountsAllAbandons;
        let delay = if self.sin == Sin::DelaysNothing { Duration::ZERO } else { delay };
        self.inner.abandon(token, delay, uncounted).await
    }

    async fn keep_sessions(
        &self,
        owners: Vec<OwnerId>,
        span: Duration,
        idle: Duration,
    ) -> Result<u64, StoreError> {
        if self.sin == Sin::KeepsNoSession && !owners.is_empty() {
            return Ok(0);
        }
        self.inner.keep_sessions(owners, span, idle).await
    }

    async fn sweep_flow(&self, lines: Vec<FlowLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        if self.sin == Sin::SweepsNothing {
            return Ok(vec![None; lines.len()]);
        }
        self.inner.sweep_flow(lines).await
    }
}

fn is_caught(sin: Sin) {
    let run = || {
        wakeline_testkit::flow_differential::run_at_least(20_000, async || {
            Mutant(Arc::new(Sinner { inner: Arc::new(MemoryStore::new()), sin }))
        });
    };
    let caught = catch_unwind(AssertUnwindSafe(run)).expect_err("a broken store must be caught");
    let text = caught.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.contains("WAKELINE_SEED="), "{sin:?} is caught as: {text}");
    assert!(text.contains("smallest sequence"), "{sin:?} is caught as: {text}");
}

/// One test per sin, so that they run side by side.
macro_rules! each_is_caught {
    ($($name:ident: $sin:ident,)*) => {
        $(
            #[test]
            fn $name() {
                is_caught(Sin::$sin);
            }
        )*
    };
}

each_is_caught! {
    a_store_that_tells_nobody_is_caught: TellsNobody,
    a_store_that_sees_nothing_coming_is_caught: SeesNothingComing,
    a_store_that_sweeps_nothing_is_caught: SweepsNothing,
    a_store_that_forgets_attempts_is_caught: ForgetsAttempts,
    a_store_that_counts_all_abandons_is_caught: CountsAllAbandons,
    a_store_that_delays_nothing_is_caught: DelaysNothing,
    a_store_that_forgets_keys_is_caught: ForgetsKeys,
    a_store_that_starts_twice_is_caught: StartsTwice,
    a_store_that_speaks_to_the_ended_is_caught: SpeaksToTheEnded,
    a_store_that_runs_cancelled_work_is_caught: RunsCancelledWork,
    a_store_that_fires_cancelled_timers_is_caught: FiresCancelledTimers,
    a_store_that_clears_nothing_is_caught: ClearsNothing,
    a_store_that_shows_the_delta_is_caught: ShowsTheDelta,
    a_store_that_counts_status_once_is_caught: CountsStatusOnce,
    a_store_that_serves_no_dispatcher_is_caught: ServesNoDispatcher,
    a_store_that_serves_no_worker_is_caught: ServesNoWorker,
    a_store_that_ignores_tags_is_caught: IgnoresTags,
    a_store_that_ignores_names_of_activities_is_caught: IgnoresNames,
    a_store_that_believes_zombies_is_caught: BelievesZombies,
    a_store_that_keeps_no_session_is_caught: KeepsNoSession,
    a_store_that_deletes_by_halves_is_caught: DeletesByHalves,
    a_store_that_prunes_too_much_is_caught: PrunesTooMuch,
    a_store_that_continues_in_place_is_caught: ContinuesInPlace,
    a_store_that_pins_nothing_is_caught: PinsNothing,
    a_store_that_resumes_nothing_is_caught: ResumesNothing,
    a_store_that_emits_nothing_is_caught: EmitsNothing,
    a_store_that_emits_twice_is_caught: EmitsTwice,
    a_store_that_tells_no_sender_is_caught: TellsNoSender,
}
