//! A store wrapper that reports every change, and can stop responding at one, like a killed
//! process.
//!
//! # Where it sits
//! It wraps any store, below the provider. [`TestEnv`](super::TestEnv) uses it to count transitions
//! and to crash at one; the examples of this crate use it to kill their process.
//!
//! # Invariants
//! * Everything that matters after a crash is reported: messages, leased turns and activities,
//!   commits, completions, items that are given back, and management calls. Reads, renewals and
//!   empty claims are not reported.
//! * After a crash no call returns, and none begins.

mod waiting;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use wakeline_core::{Capabilities, FlowChange, FlowLine, FlowToken, InstanceId, KvKey, OwnerId};
use wakeline_store::flow::{
    AbandonOutcome, Completion, CompletionReply, DeleteInstances, DeleteReport, EnqueueReply,
    Envelope, ExecutionDetail, FindUnclaimed, FlowAdmin, FlowDepths, FlowReader, FlowStore,
    HistoryPage, InstanceFilter, InstanceStats, KvEntry, ListInstances, ListedInstances, NewWork,
    PruneOptions, PruneReport, RenewOutcome, RetriedBatch, RetryPosition, Suspension,
    TerminateInstance, TurnClaim, TurnClaimed, TurnCommit, TurnItem, TurnReply, TurnRequest,
    Unclaimed, Watched, WorkClaim, WorkClaimed, WorkItem,
};
use wakeline_store::{HintFeed, HintSink, StoreAdmin, StoreError, StoreInfo};

use super::call_tracker::CallTracker;

/// A change of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// The number of the transition; the first is 1. The two phases are counted separately.
    pub nth: u64,
    /// Whether the change is about to be made or has been made.
    pub phase: TransitionPhase,
    /// The store call: `enqueue`, `claim_turns`, `commit_turn`, `claim_work`, `complete_work`, ...
    pub call: &'static str,
}

/// The time at which a transition is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransitionPhase {
    /// The change is about to be made. Claims are not reported in this phase, because it is not yet
    /// known whether they find anything.
    Before,
    /// The change has been made and is durable.
    After,
}

/// Whether the simulated process crashes at a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashDecision {
    /// The process continues.
    Continue,
    /// The process crashes: this call and all others never return.
    Crash,
}

/// Called at each transition; decides whether the process crashes there.
pub type TransitionObserver = Arc<dyn Fn(Transition) -> CrashDecision + Send + Sync>;

/// A store whose changes are reported to an observer.
pub struct Transitions<S> {
    inner: S,
    observer: TransitionObserver,
    tracker: Arc<CallTracker>,
}

impl<S> Transitions<S> {
    /// Wraps a store, and reports its changes to the observer.
    pub fn new(inner: S, observer: TransitionObserver) -> Self {
        Self { inner, observer, tracker: Arc::default() }
    }

    pub(super) fn tracker(&self) -> Arc<CallTracker> {
        Arc::clone(&self.tracker)
    }

    async fn reach(&self, phase: TransitionPhase, call: &'static str) {
        let nth = self.tracker.count(phase);
        if !self.tracker.is_crashed()
            && (self.observer)(Transition { nth, phase, call }) == CrashDecision::Crash
        {
            self.tracker.crash();
        }
        self.tracker.hang_if_crashed().await;
    }

    /// Runs a call that changes something.
    async fn write<T>(
        &self,
        call: &'static str,
        run: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let _in_progress = self.tracker.begin();
        self.reach(TransitionPhase::Before, call).await;
        let done = run.await;
        if done.is_ok() {
            self.tracker.progress();
            self.reach(TransitionPhase::After, call).await;
        }
        self.tracker.hang_if_crashed().await;
        done
    }

    /// Runs a call that changes something if it finds something.
    async fn claim<T>(
        &self,
        call: &'static str,
        found: impl FnOnce(&T) -> bool,
        run: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let _in_progress = self.tracker.begin();
        self.tracker.hang_if_crashed().await;
        let claimed = run.await;
        if claimed.as_ref().is_ok_and(found) {
            self.reach(TransitionPhase::After, call).await;
        }
        self.tracker.hang_if_crashed().await;
        claimed
    }

    /// Runs a call that is not reported.
    async fn plain<T>(&self, run: impl Future<Output = T>) -> T {
        let _in_progress = self.tracker.begin();
        self.tracker.hang_if_crashed().await;
        let done = run.await;
        self.tracker.hang_if_crashed().await;
        done
    }

    fn leased(&self, turns: &[(usize, TurnItem)], work: &[(usize, WorkItem)]) {
        let turns = turns.iter().map(|(_, turn)| turn.token);
        self.tracker.hold(turns.chain(work.iter().map(|(_, work)| work.token)));
    }
}

#[async_trait]
impl<S: FlowStore> FlowStore for Transitions<S> {
    async fn enqueue(
        &self,
        envelopes: Vec<Envelope>,
        requests: Vec<TurnRequest>,
    ) -> Result<EnqueueReply, StoreError> {
        let reply = self.write("enqueue", self.inner.enqueue(envelopes, requests)).await?;
        self.leased(&reply.turns, &[]);
        Ok(reply)
    }

    async fn claim_turns(&self, lines: Vec<TurnClaim>) -> Result<Vec<TurnClaimed>, StoreError> {
        let found =
            |lines: &Vec<TurnClaimed>| lines.iter().any(|l| l.turns.iter().any(Option::is_some));
        let lines = self.claim("claim_turns", found, self.inner.claim_turns(lines)).await?;
        let turns = lines.iter().flat_map(|line| &line.turns).flatten();
        self.tracker.hold(turns.map(|turn| turn.token));
        Ok(lines)
    }

    async fn commit_turn(&self, commit: TurnCommit) -> Result<TurnReply, StoreError> {
        let token = commit.token;
        let reply = self.write("commit_turn", self.inner.commit_turn(commit)).await?;
        self.tracker.release(token);
        self.leased(&reply.turns, &reply.work);
        Ok(reply)
    }

    async fn enqueue_work(&self, work: NewWork) -> Result<Vec<FlowChange>, StoreError> {
        self.write("enqueue_work", self.inner.enqueue_work(work)).await
    }

    async fn claim_work(&self, lines: Vec<WorkClaim>) -> Result<Vec<WorkClaimed>, StoreError> {
        let found =
            |lines: &Vec<WorkClaimed>| lines.iter().any(|l| l.work.iter().any(Option::is_some));
        let lines = self.claim("claim_work", found, self.inner.claim_work(lines)).await?;
        let work = lines.iter().flat_map(|line| &line.work).flatten();
        self.tracker.hold(work.map(|work| work.token));
        Ok(lines)
    }

    async fn complete_work(
        &self,
        completion: Completion,
        requests: Vec<TurnRequest>,
    ) -> Result<CompletionReply, StoreError> {
        let token = completion.token;
        let run = self.inner.complete_work(completion, requests);
        let reply = self.write("complete_work", run).await?;
        self.tracker.release(token);
        self.leased(&reply.turns, &[]);
        Ok(reply)
    }

    async fn renew(
        &self,
        tokens: Vec<FlowToken>,
        span: Duration,
    ) -> Result<Vec<RenewOutcome>, StoreError> {
        self.plain(self.inner.renew(tokens, span)).await
    }

    async fn abandon(
        &self,
        token: FlowToken,
        delay: Duration,
        uncounted: bool,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError> {
        let run = self.inner.abandon(token, delay, uncounted);
        let abandoned = if uncounted && !delay.is_zero() {
            // The item cannot be run here. It comes back repeatedly, which is not counted as
            // progress.
            self.claim("abandon", |_| true, run).await?
        } else {
            self.write("abandon", run).await?
        };
        self.tracker.release(token);
        Ok(abandoned)
    }

    async fn keep_sessions(
        &self,
        owners: Vec<OwnerId>,
        span: Duration,
        idle: Duration,
    ) -> Result<u64, StoreError> {
        self.plain(self.inner.keep_sessions(owners, span, idle)).await
    }

    async fn sweep_flow(&self, lines: Vec<FlowLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        self.plain(self.inner.sweep_flow(lines)).await
    }
}

#[async_trait]
impl<S: FlowReader> FlowReader for Transitions<S> {
    async fn instance(&self, instance: &InstanceId) -> Result<Watched, StoreError> {
        self.plain(self.inner.instance(instance)).await
    }

    async fn waiting_starts(&self, instance: &InstanceId) -> Result<Vec<Bytes>, StoreError> {
        self.plain(self.inner.waiting_starts(instance)).await
    }

    async fn watch(&self, instances: Vec<InstanceId>) -> Result<Vec<Watched>, StoreError> {
        self.plain(self.inner.watch(instances)).await
    }

    async fn history(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
        from_event: u64,
        bytes_max: usize,
    ) -> Result<HistoryPage, StoreError> {
        self.plain(self.inner.history(instance, execution, from_event, bytes_max)).await
    }

    async fn executions(&self, instance: &InstanceId) -> Result<Vec<ExecutionDetail>, StoreError> {
        self.plain(self.inner.executions(instance)).await
    }

    async fn kv(
        &self,
        instance: &InstanceId,
        key: Option<&KvKey>,
    ) -> Result<Vec<KvEntry>, StoreError> {
        self.plain(self.inner.kv(instance, key)).await
    }

    async fn list_instances(&self, filter: ListInstances) -> Result<ListedInstances, StoreError> {
        self.plain(self.inner.list_instances(filter)).await
    }

    async fn tree(&self, instance: &InstanceId) -> Result<Vec<InstanceId>, StoreError> {
        self.plain(self.inner.tree(instance)).await
    }

    async fn stats(&self, instance: &InstanceId) -> Result<Option<InstanceStats>, StoreError> {
        self.plain(self.inner.stats(instance)).await
    }

    async fn depths(&self) -> Result<FlowDepths, StoreError> {
        self.plain(self.inner.depths()).await
    }
}

#[async_trait]
impl<S: FlowAdmin> FlowAdmin for Transitions<S> {
    async fn suspend(
        &self,
        instance: &InstanceId,
        suspension: Suspension,
    ) -> Result<bool, StoreError> {
        self.write("suspend", self.inner.suspend(instance, suspension)).await
    }

    async fn suspend_turn(
        &self,
        token: FlowToken,
        suspension: Suspension,
    ) -> Result<bool, StoreError> {
        let held = self.write("suspend_turn", self.inner.suspend_turn(token, suspension)).await?;
        self.tracker.release(token);
        Ok(held)
    }

    async fn resume(&self, instance: &InstanceId) -> Result<(bool, Vec<FlowChange>), StoreError> {
        self.write("resume", self.inner.resume(instance)).await
    }

    async fn retry_mismatched(
        &self,
        capabilities: Capabilities,
        after: Option<RetryPosition>,
    ) -> Result<RetriedBatch, StoreError> {
        let found = |batch: &RetriedBatch| batch.count > 0;
        let retried = self.inner.retry_mismatched(capabilities, after);
        self.claim("retry_mismatched", found, retried).await
    }

    async fn terminate(
        &self,
        command: TerminateInstance,
    ) -> Result<(bool, Vec<FlowChange>), StoreError> {
        self.write("terminate", self.inner.terminate(command)).await
    }

    async fn delete_instances(&self, command: DeleteInstances) -> Result<DeleteReport, StoreError> {
        self.write("delete_instances", self.inner.delete_instances(command)).await
    }

    async fn delete_matching(&self, filter: InstanceFilter) -> Result<DeleteReport, StoreError> {
        self.write("delete_matching", self.inner.delete_matching(filter)).await
    }

    async fn unclaimed(&self, find: FindUnclaimed) -> Result<Vec<Unclaimed>, StoreError> {
        self.plain(self.inner.unclaimed(find)).await
    }

    async fn prune(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, StoreError> {
        self.write("prune", self.inner.prune(filter, options)).await
    }

    async fn clear_deleted(&self) -> Result<Option<Duration>, StoreError> {
        let left = |due: &Option<Duration>| due.is_some();
        self.claim("clear_deleted", left, self.inner.clear_deleted()).await
    }
}

#[async_trait]
impl<S: HintFeed> HintFeed for Transitions<S> {
    async fn feed(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken) {
        self.inner.feed(sink, shutdown).await;
    }

    async fn feed_poll_only(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken) {
        self.inner.feed_poll_only(sink, shutdown).await;
    }
}

#[async_trait]
impl<S: StoreAdmin> StoreAdmin for Transitions<S> {
    fn info(&self) -> StoreInfo {
        self.inner.info()
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.inner.ping().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
