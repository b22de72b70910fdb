//! A store that tells of every change it is asked for, and can fall silent at one, as a killed
//! process does.
//!
//! # Where it sits
//! Around any store, below the provider. [`TestEnv`](super::TestEnv) counts and stops by it; the
//! examples of this crate kill themselves by it.
//!
//! # Invariants
//! * What changes something for whoever comes after a crash is told of: messages, leased turns and
//!   activities, commits, completions, what is given back, interventions. Reads, renewals and
//!   claims that found nothing are not.
//! * Once dead, no call comes back, and none begins.

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
    PruneOptions, PruneReport, RenewOutcome, RetriedPiece, RetryPlace, Suspension,
    TerminateInstance, TurnClaim, TurnClaimed, TurnCommit, TurnItem, TurnReply, TurnRequest,
    Unclaimed, Watched, WorkClaim, WorkClaimed, WorkItem,
};
use wakeline_store::{HintFeed, HintSink, StoreAdmin, StoreError, StoreInfo};

use super::pulse::Pulse;

/// A change that a store is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// Its number; the first is 1. Changes that are about to happen are counted apart from those
    /// that have happened.
    pub nth: u64,
    /// Whether it has happened.
    pub moment: Moment,
    /// The call: `enqueue`, `claim_turns`, `commit_turn`, `claim_work`, `complete_work`, ...
    pub call: &'static str,
}

/// When a transition is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// It is about to happen. Claims are not told of before: whether one finds anything is not
    /// known.
    Before,
    /// It has happened: what it wrote is durable.
    After,
}

/// What becomes of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    GoOn,
    /// It is dead: this call and all others never come back.
    Die,
}

/// Is told of each transition, and decides.
pub type Witness = Arc<dyn Fn(Transition) -> Fate + Send + Sync>;

/// A store whose changes are told of.
pub struct Transitions<S> {
    inner: S,
    witness: Witness,
    pulse: Arc<Pulse>,
}

impl<S> Transitions<S> {
    /// Tells a witness of all changes of a store.
    pub fn new(inner: S, witness: Witness) -> Self {
        Self { inner, witness, pulse: Arc::default() }
    }

    pub(super) fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.pulse)
    }

    async fn reach(&self, moment: Moment, call: &'static str) {
        let nth = self.pulse.count(moment);
        if !self.pulse.is_dead() && (self.witness)(Transition { nth, moment, call }) == Fate::Die {
            self.pulse.die();
        }
        self.pulse.hang_if_dead().await;
    }

    /// A call that changes something.
    async fn write<T>(
        &self,
        call: &'static str,
        run: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let _under_way = self.pulse.begin();
        self.reach(Moment::Before, call).await;
        let done = run.await;
        if done.is_ok() {
            self.pulse.progress();
            self.reach(Moment::After, call).await;
        }
        self.pulse.hang_if_dead().await;
        done
    }

    /// A call that changes something if it finds something.
    async fn claim<T>(
        &self,
        call: &'static str,
        found: impl FnOnce(&T) -> bool,
        run: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let _under_way = self.pulse.begin();
        self.pulse.hang_if_dead().await;
        let claimed = run.await;
        if claimed.as_ref().is_ok_and(found) {
            self.reach(Moment::After, call).await;
        }
        self.pulse.hang_if_dead().await;
        claimed
    }

    /// A call that changes nothing of interest.
    async fn plain<T>(&self, run: impl Future<Output = T>) -> T {
        let _under_way = self.pulse.begin();
        self.pulse.hang_if_dead().await;
        let done = run.await;
        self.pulse.hang_if_dead().await;
        done
    }

    fn leased(&self, turns: &[(usize, TurnItem)], work: &[(usize, WorkItem)]) {
        let turns = turns.iter().map(|(_, turn)| turn.token);
        self.pulse.hold(turns.chain(work.iter().map(|(_, work)| work.token)));
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
        self.pulse.hold(turns.map(|turn| turn.token));
        Ok(lines)
    }

    async fn commit_turn(&self, commit: TurnCommit) -> Result<TurnReply, StoreError> {
        let token = commit.token;
        let reply = self.write("commit_turn", self.inner.commit_turn(commit)).await?;
        self.pulse.let_go(token);
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
        self.pulse.hold(work.map(|work| work.token));
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
        self.pulse.let_go(token);
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
        let given = if uncounted && !delay.is_zero() {
            // Nothing here can run it: that it comes back again and again is no progress.
            self.claim("abandon", |_| true, run).await?
        } else {
            self.write("abandon", run).await?
        };
        self.pulse.let_go(token);
        Ok(given)
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
        self.pulse.let_go(token);
        Ok(held)
    }

    async fn resume(&self, instance: &InstanceId) -> Result<(bool, Vec<FlowChange>), StoreError> {
        self.write("resume", self.inner.resume(instance)).await
    }

    async fn retry_mismatched(
        &self,
        capabilities: Capabilities,
        after: Option<RetryPlace>,
    ) -> Result<RetriedPiece, StoreError> {
        let found = |piece: &RetriedPiece| piece.count > 0;
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

    async fn tend(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken) {
        self.inner.tend(sink, shutdown).await;
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
