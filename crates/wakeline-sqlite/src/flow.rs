//! Durable orchestrations: each operation is one command for the writer, or one read.

mod admin;
mod claim_outcome;
mod commit;
mod delete;
mod erase;
mod instance;
mod kv;
mod lane;
mod lease;
mod line;
mod list;
mod mailbox;
mod message;
mod names;
mod read;
mod retries;
mod session;
mod turn;
mod unclaimed;
mod work;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{
    Capabilities, FlowChange, FlowLine, FlowToken, InstanceId, KvKey, OwnerId, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    AbandonOutcome, Completion, CompletionReply, DeleteInstances, DeleteReport, EnqueueReply,
    Envelope, ExecutionDetail, FindUnclaimed, FlowAdmin, FlowDepths, FlowReader, FlowStore,
    HistoryPage, InstanceFilter, InstanceStats, KvEntry, ListInstances, ListedInstances, NewWork,
    PruneOptions, PruneReport, RenewOutcome, RetriedBatch, RetryPosition, Suspension,
    TerminateInstance, TurnClaim, TurnClaimed, TurnCommit, TurnReply, TurnRequest, Unclaimed,
    Watched, WorkClaim, WorkClaimed,
};

pub(crate) use names::NameCache;

use crate::SqliteStore;
use crate::command::WriteCommand;
use crate::error::Res;
use crate::hook;
use crate::session::DbSession;

#[async_trait]
impl FlowStore for SqliteStore {
    async fn enqueue(
        &self,
        envelopes: Vec<Envelope>,
        requests: Vec<TurnRequest>,
    ) -> Result<EnqueueReply, StoreError> {
        let bytes = message::bytes(&envelopes);
        let work =
            WriteCommand::new("enqueue", move |s| enqueue(s, &envelopes, &requests)).recorded();
        self.write(work.growing(bytes)).await
    }

    async fn claim_turns(&self, lines: Vec<TurnClaim>) -> Result<Vec<TurnClaimed>, StoreError> {
        let lines = Arc::new(lines);
        let same = Arc::clone(&lines);
        let work = WriteCommand::new("claim_turns", move |s| turn::claim(s, &lines));
        let found = self.write(work.peeking(move |s| turn::peek(s, &same))).await?;
        found.answer("claim_turns")
    }

    async fn commit_turn(&self, commit: TurnCommit) -> Result<TurnReply, StoreError> {
        let bytes = commit::bytes(&commit);
        let checks = hook::check_emits(self, &commit.emits).await?;
        let work = WriteCommand::new("commit_turn", move |s| {
            s.emit_checks.clone_from(&checks);
            commit::commit(s, &commit)
        });
        self.write(work.growing(bytes)).await
    }

    async fn enqueue_work(&self, work: NewWork) -> Result<Vec<FlowChange>, StoreError> {
        let bytes = work.payload.len();
        self.write(
            WriteCommand::new("enqueue_work", move |s| work::enqueue(s, &work)).growing(bytes),
        )
        .await
    }

    async fn claim_work(&self, lines: Vec<WorkClaim>) -> Result<Vec<WorkClaimed>, StoreError> {
        let lines = Arc::new(lines);
        let same = Arc::clone(&lines);
        let work = WriteCommand::new("claim_work", move |s| line::claim(s, &lines));
        let found = self.write(work.peeking(move |s| line::peek(s, &same))).await?;
        found.answer("claim_work")
    }

    async fn complete_work(
        &self,
        completion: Completion,
        requests: Vec<TurnRequest>,
    ) -> Result<CompletionReply, StoreError> {
        let work = move |s: &mut DbSession<'_>| work::complete(s, &completion, &requests);
        self.write(WriteCommand::new("complete_work", work)).await
    }

    async fn renew(
        &self,
        tokens: Vec<FlowToken>,
        span: Duration,
    ) -> Result<Vec<RenewOutcome>, StoreError> {
        self.write(WriteCommand::new("renew", move |s| lease::renew(s, &tokens, span))).await
    }

    async fn abandon(
        &self,
        token: FlowToken,
        delay: Duration,
        uncounted: bool,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError> {
        let options = lease::AbandonOptions { delay, uncounted };
        self.write(WriteCommand::new("abandon", move |s| lease::abandon(s, token, options))).await
    }

    async fn keep_sessions(
        &self,
        owners: Vec<OwnerId>,
        span: Duration,
        idle: Duration,
    ) -> Result<u64, StoreError> {
        self.write(WriteCommand::new("keep_sessions", move |s| {
            if owners.is_empty() {
                return session::tidy(s);
            }
            if span.is_zero() {
                return session::end(s, &owners);
            }
            let idle = i64::try_from(idle.as_micros()).unwrap_or(i64::MAX);
            session::keep(s, &owners, s.now.plus(span).0, s.now.0.saturating_sub(idle))
        }))
        .await
    }

    async fn sweep_flow(&self, lines: Vec<FlowLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        self.tidy();
        self.read("sweep_flow", move |s| sweep(s, &lines)).await
    }
}

#[async_trait]
impl FlowReader for SqliteStore {
    async fn instance(&self, instance: &InstanceId) -> Result<Watched, StoreError> {
        let instance = instance.clone();
        self.read("instance", move |s| read::instance(s, &instance)).await
    }

    async fn waiting_starts(&self, instance: &InstanceId) -> Result<Vec<Bytes>, StoreError> {
        let instance = instance.clone();
        self.read("waiting_starts", move |s| read::waiting_starts(s, &instance)).await
    }

    async fn watch(&self, instances: Vec<InstanceId>) -> Result<Vec<Watched>, StoreError> {
        let instances = Arc::new(instances);
        let same = Arc::clone(&instances);
        let work = WriteCommand::new("watch", move |s| read::watch(s, &instances));
        self.write(work.peeking(move |s| read::peek(s, &same))).await
    }

    async fn history(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
        from_event: u64,
        bytes_max: usize,
    ) -> Result<HistoryPage, StoreError> {
        let instance = instance.clone();
        let piece = read::HistoryRange { execution, from_event, bytes_max };
        self.read("history", move |s| read::history(s, &instance, &piece)).await
    }

    async fn executions(&self, instance: &InstanceId) -> Result<Vec<ExecutionDetail>, StoreError> {
        let instance = instance.clone();
        self.read("executions", move |s| read::executions(s, &instance)).await
    }

    async fn kv(
        &self,
        instance: &InstanceId,
        key: Option<&KvKey>,
    ) -> Result<Vec<KvEntry>, StoreError> {
        let (instance, key) = (instance.clone(), key.cloned());
        self.read("kv", move |s| read::kv(s, &instance, key.as_ref())).await
    }

    async fn list_instances(&self, filter: ListInstances) -> Result<ListedInstances, StoreError> {
        self.read("list_instances", move |s| list::list(s, &filter)).await
    }

    async fn tree(&self, instance: &InstanceId) -> Result<Vec<InstanceId>, StoreError> {
        let instance = instance.clone();
        self.read("tree", move |s| read::tree(s, &instance)).await
    }

    async fn stats(&self, instance: &InstanceId) -> Result<Option<InstanceStats>, StoreError> {
        let instance = instance.clone();
        self.read("stats", move |s| read::stats(s, &instance)).await
    }

    async fn depths(&self) -> Result<FlowDepths, StoreError> {
        self.read("depths", |s| read::depths(s)).await
    }
}

#[async_trait]
impl FlowAdmin for SqliteStore {
    async fn suspend(
        &self,
        instance: &InstanceId,
        suspension: Suspension,
    ) -> Result<bool, StoreError> {
        let instance = instance.clone();
        self.write(
            WriteCommand::new("suspend", move |s| admin::suspend(s, &instance, &suspension))
                .recorded(),
        )
        .await
    }

    async fn suspend_turn(
        &self,
        token: FlowToken,
        suspension: Suspension,
    ) -> Result<bool, StoreError> {
        let work = move |s: &mut DbSession<'_>| admin::suspend_turn(s, token, &suspension);
        self.write(WriteCommand::new("suspend_turn", work)).await
    }

    async fn resume(&self, instance: &InstanceId) -> Result<(bool, Vec<FlowChange>), StoreError> {
        let instance = instance.clone();
        self.write(WriteCommand::new("resume", move |s| admin::resume(s, &instance)).recorded())
            .await
    }

    async fn retry_mismatched(
        &self,
        capabilities: Capabilities,
        after: Option<RetryPosition>,
    ) -> Result<RetriedBatch, StoreError> {
        let work = move |s: &mut DbSession<'_>| admin::retry_mismatched(s, &capabilities, after);
        self.write(WriteCommand::new("retry_mismatched", work)).await
    }

    async fn terminate(
        &self,
        command: TerminateInstance,
    ) -> Result<(bool, Vec<FlowChange>), StoreError> {
        self.write(
            WriteCommand::new("terminate", move |s| admin::terminate(s, &command)).recorded(),
        )
        .await
    }

    async fn delete_instances(&self, command: DeleteInstances) -> Result<DeleteReport, StoreError> {
        self.delete(command).await
    }

    async fn delete_matching(&self, filter: InstanceFilter) -> Result<DeleteReport, StoreError> {
        self.delete_ended(filter).await
    }

    async fn unclaimed(&self, find: FindUnclaimed) -> Result<Vec<Unclaimed>, StoreError> {
        self.read("unclaimed", move |s| unclaimed::find(s, &find)).await
    }

    async fn prune(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, StoreError> {
        self.prune_executions(filter, options).await
    }

    async fn clear_deleted(&self) -> Result<Option<Duration>, StoreError> {
        let work = WriteCommand::new("clear_deleted", erase::clear_deleted);
        self.write(work.peeking(|s| erase::peek_deleted(s))).await
    }
}

/// Approximate size of messages on disk.
pub(crate) fn bytes(envelopes: &[Envelope]) -> usize {
    message::bytes(envelopes)
}

/// Adds messages to lanes, and leases the turns that this makes available to the requests.
pub(crate) fn enqueue(
    s: &mut DbSession<'_>,
    envelopes: &[Envelope],
    requests: &[TurnRequest],
) -> Res<EnqueueReply> {
    let mut lanes = lane::InstanceLanes::default();
    let mut outcomes = Vec::with_capacity(envelopes.len());
    for envelope in envelopes {
        outcomes.push(message::store(s, &mut lanes, envelope)?);
    }
    let opened = lanes.finish(s)?;
    let (turns, changes) = turn::lease_on_insert(s, opened, requests)?;
    Ok(EnqueueReply { outcomes, turns, changes })
}

/// When each line has something to claim next. Reads only.
fn sweep(s: &mut DbSession<'_>, lines: &[FlowLine]) -> Res<Vec<Option<Duration>>> {
    let mut answers = Vec::with_capacity(lines.len());
    for line in lines {
        let due = match line {
            FlowLine::Turns(capabilities) => turn::line_due(s, capabilities)?,
            FlowLine::Work { filter, owner } => line::line_due(s, filter, owner.as_ref())?,
            FlowLine::Outcome(instance) => {
                let state = lane::InstanceLane::named(s, instance)?.and_then(|lane| lane.state);
                state.filter(|state| state.is_ended()).map(|_| s.now.0)
            }
        };
        answers.push(due.map(|due| s.now.until(Timestamp(due))));
    }
    Ok(answers)
}
