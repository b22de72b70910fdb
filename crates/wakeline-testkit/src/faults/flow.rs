//! Calls of orchestrations, with planned faults, and mutations of writes.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{Capabilities, FlowChange, FlowLine, FlowToken, InstanceId, KvKey, OwnerId};
use wakeline_store::flow::{
    AbandonOutcome, Completion, CompletionReply, DeleteInstances, DeleteReport, EarlyMailbox,
    EnqueueReply, Envelope, ExecutionDetail, FindUnclaimed, FlowAdmin, FlowDepths, FlowReader,
    FlowStore, HistoryPage, InstanceFilter, InstanceStats, KvEntry, ListInstances, ListMailboxes,
    ListedInstances, MailboxReader, NewWork, PendingWork, PruneOptions, PruneReport, RenewOutcome,
    RetriedBatch, RetryPosition, Suspension, TerminateInstance, TurnClaim, TurnClaimed, TurnCommit,
    TurnReply, TurnRequest, Unclaimed, WaitingMessage, Watched, WorkClaim, WorkClaimed,
    WorkRetries,
};
use wakeline_store::{Backend, StoreError};

use super::FaultingStore;

/// A write of orchestrations before it reaches the store.
pub enum FlowWrite<'a> {
    /// Messages: starts, events and cancellations.
    Enqueue(&'a mut Vec<Envelope>),
    /// The commit of a turn.
    Commit(&'a mut TurnCommit),
    /// The result of an activity.
    Complete(&'a mut Completion),
    /// The termination of an instance.
    Terminate(&'a mut TerminateInstance),
}

/// Changes a write; a test must detect the resulting defect.
pub type FlowMutation = Box<dyn Fn(FlowWrite<'_>) + Send + Sync>;

impl FaultingStore {
    /// Applies a mutation to all writes of orchestrations from now on.
    pub fn mutate(&self, mutation: FlowMutation) {
        *self.mutation.lock() = Some(mutation);
    }

    fn mutated(&self, write: FlowWrite<'_>) {
        if let Some(mutation) = &*self.mutation.lock() {
            mutation(write);
        }
    }
}

passes! { FlowStore:
    fn enqueue(envelopes: Vec<Envelope>, requests: Vec<TurnRequest>) -> EnqueueReply
        as Enqueue(envelopes);
    fn claim_turns(lines: Vec<TurnClaim>) -> Vec<TurnClaimed>;
    fn commit_turn(commit: TurnCommit) -> TurnReply as Commit(commit);
    fn enqueue_work(work: NewWork) -> Vec<FlowChange>;
    fn claim_work(lines: Vec<WorkClaim>) -> Vec<WorkClaimed>;
    fn complete_work(completion: Completion, requests: Vec<TurnRequest>) -> CompletionReply
        as Complete(completion);
    fn renew(tokens: Vec<FlowToken>, span: Duration) -> Vec<RenewOutcome>;
    fn abandon(
        token: FlowToken,
        delay: Duration,
        uncounted: bool,
    ) -> (AbandonOutcome, Vec<FlowChange>);
    fn keep_sessions(owners: Vec<OwnerId>, span: Duration, idle: Duration) -> u64;
    fn sweep_flow(lines: Vec<FlowLine>) -> Vec<Option<Duration>>;
}

passes! { FlowReader:
    fn instance(instance: &InstanceId) -> Watched;
    fn waiting_starts(instance: &InstanceId) -> Vec<Bytes>;
    fn watch(instances: Vec<InstanceId>) -> Vec<Watched>;
    fn history(
        instance: &InstanceId,
        execution: Option<u64>,
        from_event: u64,
        bytes_max: usize,
    ) -> HistoryPage;
    fn executions(instance: &InstanceId) -> Vec<ExecutionDetail>;
    fn kv(instance: &InstanceId, key: Option<&KvKey>) -> Vec<KvEntry>;
    fn list_instances(filter: ListInstances) -> ListedInstances;
    fn tree(instance: &InstanceId) -> Vec<InstanceId>;
    fn stats(instance: &InstanceId) -> Option<InstanceStats>;
    fn depths() -> FlowDepths;
}

passes! { WorkRetries:
    fn retry_work(
        token: FlowToken,
        delay: Duration,
        error: String,
    ) -> (AbandonOutcome, Vec<FlowChange>);
    fn pending_work(instance: &InstanceId, limit: u32) -> Vec<PendingWork>;
}

passes! { MailboxReader:
    fn early_mailboxes(list: ListMailboxes) -> Vec<EarlyMailbox>;
    fn waiting_messages(instance: &InstanceId, limit: u32) -> Vec<WaitingMessage>;
}

passes! { FlowAdmin:
    fn suspend(instance: &InstanceId, suspension: Suspension) -> bool;
    fn suspend_turn(token: FlowToken, suspension: Suspension) -> bool;
    fn resume(instance: &InstanceId) -> (bool, Vec<FlowChange>);
    fn retry_mismatched(capabilities: Capabilities, after: Option<RetryPosition>) -> RetriedBatch;
    fn unclaimed(find: FindUnclaimed) -> Vec<Unclaimed>;
    fn terminate(command: TerminateInstance) -> (bool, Vec<FlowChange>) as Terminate(command);
    fn delete_instances(command: DeleteInstances) -> DeleteReport;
    fn delete_matching(filter: InstanceFilter) -> DeleteReport;
    fn prune(filter: InstanceFilter, options: PruneOptions) -> PruneReport;
    fn clear_deleted() -> Option<Duration>;
}
