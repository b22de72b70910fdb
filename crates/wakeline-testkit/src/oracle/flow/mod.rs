//! The rules of `docs/reference/flow.md`, followed literally.
//!
//! # Where it sits
//! A part of [`MemoryStore`] with the same clock and the same lock, so that a message which a turn
//! pushes is in its queue at once.
//!
//! # Invariants
//! * Each section of the rules has one module. What a rule leaves open is decided in one place, in
//!   the simplest way.

mod admin;
mod commit;
mod lanes;
mod read;
mod state;
mod work;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{
    ActivityFilter, Capabilities, FlowChange, FlowLine, FlowToken, InstanceId, KvKey, OwnerId,
    Timestamp,
};
use wakeline_store::flow::{
    AbandonOutcome, Completion, CompletionReply, DeleteInstances, DeleteReport, EarlyMailbox,
    EnqueueReply, Envelope, ExecutionDetail, FindUnclaimed, FlowAdmin, FlowDepths, FlowReader,
    FlowStore, HistoryPage, InstanceFilter, InstanceStats, KvEntry, ListInstances, ListMailboxes,
    ListedInstances, MailboxReader, NewWork, PendingWork, PruneOptions, PruneReport, RenewOutcome,
    RetriedBatch, RetryPosition, Suspension, TerminateInstance, TurnClaim, TurnClaimed, TurnCommit,
    TurnItem, TurnReply, TurnRequest, Unclaimed, WaitingMessage, Watched, WorkClaim, WorkClaimed,
    WorkKey, WorkRetries,
};
use wakeline_store::{Consequence, StoreError};

pub(super) use state::OracleFlow;
use work::OracleWorkLine;

use super::MemoryStore;
use super::state::OracleState;

impl MemoryStore {
    /// Returns how often each workflow operation was called, by the method's name.
    pub fn flow_calls(&self) -> BTreeMap<&'static str, u64> {
        self.state.lock().flow_calls.clone()
    }

    /// Returns how often a commit of a turn was requested.
    pub fn commits(&self) -> u64 {
        self.flow_calls().get("commit_turn").copied().unwrap_or(0)
    }

    /// Returns the time until something next changes by the clock alone: a message, a timer or a
    /// delivery becomes due, a lease or a session ends, an endpoint is no longer held back. What is
    /// due already does not count, so a test that advances the clock by this time makes progress.
    pub fn next_due(&self) -> Option<Duration> {
        let state = self.state.lock();
        let now = self.now();
        let due_times = state.flow.moments().into_iter().chain(state.hook.moments());
        let next = due_times.chain(state.queue_moments(now)).filter(|at| *at > now).min();
        next.map(|at| now.until(at))
    }

    /// Leases the turn of one instance, even if another one would come first. A comparison with
    /// another store needs this where the rules leave the order open. Returns `None` if the turn is
    /// not claimable.
    pub fn claim_turn_of(&self, instance: &InstanceId, request: &TurnRequest) -> Option<TurnItem> {
        let (mut state, now) = (self.state.lock(), self.now());
        state.flow.claim_turn_of(instance, request, now)
    }

    /// Returns the id of an instance's mailbox, which its tokens carry.
    pub(crate) fn lane_of(&self, instance: &InstanceId) -> Option<i64> {
        self.state.lock().flow.names.get(instance).copied()
    }

    /// Returns the instances whose turn a dispatcher could get now.
    pub(crate) fn claimable(&self, capabilities: &Capabilities) -> Vec<InstanceId> {
        self.state.lock().flow.claimable(capabilities, self.now())
    }

    /// Returns whether an activity waits or runs.
    pub(crate) fn has_work(&self, instance: &InstanceId, key: WorkKey) -> bool {
        let state = self.state.lock();
        let mailbox = state.flow.names.get(instance);
        mailbox.is_some_and(|mailbox| {
            state.flow.work.values().any(|work| work.lane == *mailbox && work.key == key)
        })
    }

    /// Returns the activity that a worker would get next.
    pub(crate) fn first_work(
        &self,
        filter: &ActivityFilter,
        owner: Option<&OwnerId>,
    ) -> Option<(InstanceId, WorkKey)> {
        let state = self.state.lock();
        state.flow.first_work(OracleWorkLine { filter, owner }, self.now())
    }

    fn flow<T>(
        &self,
        operation: &'static str,
        call: impl FnOnce(&mut OracleState, Timestamp) -> T,
    ) -> T {
        let mut state = self.state.lock();
        *state.flow_calls.entry(operation).or_default() += 1;
        call(&mut state, self.now())
    }

    /// Like `flow`, for an administrative write: also records the caller's audit action.
    fn flow_act<T: Consequence>(
        &self,
        operation: &'static str,
        call: impl FnOnce(&mut OracleState, Timestamp) -> T,
    ) -> T {
        self.recorded(|state, now| {
            *state.flow_calls.entry(operation).or_default() += 1;
            call(state, now)
        })
    }
}

impl OracleFlow {
    /// Returns every time at which something changes by the clock alone.
    fn moments(&self) -> Vec<Timestamp> {
        let mailboxes = self.lanes.values().flat_map(|mailbox| {
            let messages = mailbox.messages.values().map(|message| message.visible_at);
            messages.chain(mailbox.lease.map(|lease| lease.until))
        });
        let work = self.work.values().flat_map(|work| {
            [Some(work.visible_at), work.lease.map(|lease| lease.until)].into_iter().flatten()
        });
        let sessions = self.sessions.values().map(|session| session.until);
        mailboxes.chain(work).chain(sessions).collect()
    }

    fn sweep(&self, line: &FlowLine, now: Timestamp) -> Option<Duration> {
        match line {
            FlowLine::Turns(capabilities) => self.next_turn(capabilities, now),
            FlowLine::Work { filter, owner } => {
                self.next_work(OracleWorkLine { filter, owner: owner.as_ref() }, now)
            }
            FlowLine::Outcome(name) => {
                let ended = self.lane(name).is_some_and(|mailbox| mailbox.has_ended());
                ended.then_some(Duration::ZERO)
            }
        }
    }
}

#[async_trait]
impl FlowStore for MemoryStore {
    async fn enqueue(
        &self,
        envelopes: Vec<Envelope>,
        requests: Vec<TurnRequest>,
    ) -> Result<EnqueueReply, StoreError> {
        Ok(self.flow_act("enqueue", |state, now| state.flow.enqueue(envelopes, &requests, now)))
    }

    async fn claim_turns(&self, lines: Vec<TurnClaim>) -> Result<Vec<TurnClaimed>, StoreError> {
        Ok(self.flow("claim_turns", |state, now| state.flow.claim_turns(lines, now)))
    }

    async fn commit_turn(&self, commit: TurnCommit) -> Result<TurnReply, StoreError> {
        self.flow("commit_turn", |state, now| state.commit_turn(commit, now))
    }

    async fn enqueue_work(&self, work: NewWork) -> Result<Vec<FlowChange>, StoreError> {
        Ok(self.flow("enqueue_work", |state, now| state.flow.enqueue_work(work, now)))
    }

    async fn claim_work(&self, lines: Vec<WorkClaim>) -> Result<Vec<WorkClaimed>, StoreError> {
        Ok(self.flow("claim_work", |state, now| state.flow.claim_work(lines, now)))
    }

    async fn complete_work(
        &self,
        completion: Completion,
        requests: Vec<TurnRequest>,
    ) -> Result<CompletionReply, StoreError> {
        Ok(self.flow("complete_work", |state, now| {
            state.flow.complete_work(completion, &requests, now)
        }))
    }

    async fn renew(
        &self,
        tokens: Vec<FlowToken>,
        span: Duration,
    ) -> Result<Vec<RenewOutcome>, StoreError> {
        Ok(self.flow("renew", |state, now| {
            tokens.into_iter().map(|token| state.flow.renew(token, span, now)).collect()
        }))
    }

    async fn abandon(
        &self,
        token: FlowToken,
        delay: Duration,
        uncounted: bool,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError> {
        Ok(self.flow("abandon", |state, now| state.flow.abandon(token, delay, uncounted, now)))
    }

    async fn keep_sessions(
        &self,
        owners: Vec<OwnerId>,
        span: Duration,
        idle: Duration,
    ) -> Result<u64, StoreError> {
        Ok(self
            .flow("keep_sessions", |state, now| state.flow.keep_sessions(&owners, span, idle, now)))
    }

    async fn sweep_flow(&self, lines: Vec<FlowLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        Ok(self.flow("sweep_flow", |state, now| {
            lines.iter().map(|line| state.flow.sweep(line, now)).collect()
        }))
    }
}

#[async_trait]
impl FlowReader for MemoryStore {
    async fn instance(&self, instance: &InstanceId) -> Result<Watched, StoreError> {
        Ok(self.flow("instance", |state, _| state.flow.watched(instance)))
    }

    async fn waiting_starts(&self, instance: &InstanceId) -> Result<Vec<Bytes>, StoreError> {
        Ok(self.flow("waiting_starts", |state, _| state.flow.waiting_starts(instance)))
    }

    async fn watch(&self, instances: Vec<InstanceId>) -> Result<Vec<Watched>, StoreError> {
        Ok(self.flow("watch", |state, _| {
            for instance in &instances {
                state.flow.note_watched(instance);
            }
            instances.iter().map(|instance| state.flow.watched(instance)).collect()
        }))
    }

    async fn history(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
        from_event: u64,
        bytes_max: usize,
    ) -> Result<HistoryPage, StoreError> {
        Ok(self.flow("history", |state, _| {
            state.flow.history(instance, execution, from_event, bytes_max)
        }))
    }

    async fn executions(&self, instance: &InstanceId) -> Result<Vec<ExecutionDetail>, StoreError> {
        Ok(self.flow("executions", |state, _| state.flow.executions(instance)))
    }

    async fn kv(
        &self,
        instance: &InstanceId,
        key: Option<&KvKey>,
    ) -> Result<Vec<KvEntry>, StoreError> {
        Ok(self.flow("kv", |state, _| state.flow.kv(instance, key)))
    }

    async fn list_instances(&self, filter: ListInstances) -> Result<ListedInstances, StoreError> {
        Ok(self.flow("list_instances", |state, _| state.flow.list(&filter)))
    }

    async fn tree(&self, instance: &InstanceId) -> Result<Vec<InstanceId>, StoreError> {
        Ok(self.flow("tree", |state, _| state.flow.tree(instance)))
    }

    async fn stats(&self, instance: &InstanceId) -> Result<Option<InstanceStats>, StoreError> {
        Ok(self.flow("stats", |state, _| state.flow.stats(instance)))
    }

    async fn depths(&self) -> Result<FlowDepths, StoreError> {
        Ok(self.flow("depths", |state, now| state.flow.depths(now)))
    }
}

#[async_trait]
impl FlowAdmin for MemoryStore {
    async fn suspend(
        &self,
        instance: &InstanceId,
        suspension: Suspension,
    ) -> Result<bool, StoreError> {
        Ok(self.flow_act("suspend", |state, now| state.flow.suspend(instance, suspension, now)))
    }

    async fn suspend_turn(
        &self,
        token: FlowToken,
        suspension: Suspension,
    ) -> Result<bool, StoreError> {
        Ok(self.flow("suspend_turn", |state, now| state.flow.suspend_turn(token, suspension, now)))
    }

    async fn resume(&self, instance: &InstanceId) -> Result<(bool, Vec<FlowChange>), StoreError> {
        Ok(self.flow_act("resume", |state, now| state.flow.resume(instance, now)))
    }

    async fn retry_mismatched(
        &self,
        capabilities: Capabilities,
        after: Option<RetryPosition>,
    ) -> Result<RetriedBatch, StoreError> {
        Ok(self.flow("retry_mismatched", |state, now| {
            state.flow.retry_mismatched(&capabilities, after, now)
        }))
    }

    async fn terminate(
        &self,
        command: TerminateInstance,
    ) -> Result<(bool, Vec<FlowChange>), StoreError> {
        Ok(self.flow_act("terminate", |state, now| state.flow.terminate(command, now)))
    }

    async fn delete_instances(&self, command: DeleteInstances) -> Result<DeleteReport, StoreError> {
        Ok(self.flow_act("delete_instances", |state, _| state.flow.delete(&command)))
    }

    async fn delete_matching(&self, filter: InstanceFilter) -> Result<DeleteReport, StoreError> {
        Ok(self.flow_act("delete_matching", |state, _| state.flow.delete_matching(&filter)))
    }

    async fn unclaimed(&self, find: FindUnclaimed) -> Result<Vec<Unclaimed>, StoreError> {
        Ok(self.flow("unclaimed", |state, now| state.flow.unclaimed(&find, now)))
    }

    async fn prune(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, StoreError> {
        Ok(self.flow_act("prune", |state, _| state.flow.prune(&filter, options)))
    }

    async fn clear_deleted(&self) -> Result<Option<Duration>, StoreError> {
        Ok(None)
    }
}

#[async_trait]
impl WorkRetries for MemoryStore {
    async fn retry_work(
        &self,
        token: FlowToken,
        delay: Duration,
        error: String,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError> {
        Ok(self.flow("retry_work", |state, now| state.flow.retry_work(token, delay, error, now)))
    }

    async fn pending_work(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<PendingWork>, StoreError> {
        Ok(self.flow("pending_work", |state, now| state.flow.pending_work(instance, limit, now)))
    }
}

#[async_trait]
impl MailboxReader for MemoryStore {
    async fn early_mailboxes(&self, list: ListMailboxes) -> Result<Vec<EarlyMailbox>, StoreError> {
        Ok(self.flow("early_mailboxes", |state, _| state.flow.early_mailboxes(&list)))
    }

    async fn waiting_messages(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<WaitingMessage>, StoreError> {
        Ok(self.flow("waiting_messages", |state, _| state.flow.waiting_messages(instance, limit)))
    }
}
