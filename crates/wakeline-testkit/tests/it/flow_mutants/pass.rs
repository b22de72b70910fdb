//! Reads and administration of the flow mutants, which are passed to the oracle except for a few
//! mutated calls.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{Capabilities, FlowChange, FlowToken, InstanceId, KvKey};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    AbandonOutcome, DeleteInstances, DeleteReport, EarlyMailbox, ExecutionDetail, FindUnclaimed,
    FlowAdmin, FlowDepths, FlowReader, HistoryPage, InstanceFilter, InstanceStats, KvEntry,
    ListInstances, ListMailboxes, ListedInstances, MailboxReader, PendingWork, PruneOptions,
    PruneReport, RetriedBatch, RetryPosition, Suspension, TerminateInstance, Unclaimed,
    WaitingMessage, Watched, WorkRetries,
};

use super::{FlowStoreMutation, MutantFlowStore};

#[async_trait]
impl FlowReader for MutantFlowStore {
    async fn instance(&self, instance: &InstanceId) -> Result<Watched, StoreError> {
        self.inner.instance(instance).await
    }

    async fn waiting_starts(&self, instance: &InstanceId) -> Result<Vec<Bytes>, StoreError> {
        self.inner.waiting_starts(instance).await
    }

    async fn watch(&self, instances: Vec<InstanceId>) -> Result<Vec<Watched>, StoreError> {
        self.inner.watch(instances).await
    }

    async fn history(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
        from_event: u64,
        bytes_max: usize,
    ) -> Result<HistoryPage, StoreError> {
        self.inner.history(instance, execution, from_event, bytes_max).await
    }

    async fn executions(&self, instance: &InstanceId) -> Result<Vec<ExecutionDetail>, StoreError> {
        self.inner.executions(instance).await
    }

    async fn kv(
        &self,
        instance: &InstanceId,
        key: Option<&KvKey>,
    ) -> Result<Vec<KvEntry>, StoreError> {
        self.inner.kv(instance, key).await
    }

    async fn list_instances(&self, filter: ListInstances) -> Result<ListedInstances, StoreError> {
        self.inner.list_instances(filter).await
    }

    async fn tree(&self, instance: &InstanceId) -> Result<Vec<InstanceId>, StoreError> {
        self.inner.tree(instance).await
    }

    async fn stats(&self, instance: &InstanceId) -> Result<Option<InstanceStats>, StoreError> {
        self.inner.stats(instance).await
    }

    async fn depths(&self) -> Result<FlowDepths, StoreError> {
        self.inner.depths().await
    }
}

#[async_trait]
impl FlowAdmin for MutantFlowStore {
    async fn suspend(
        &self,
        instance: &InstanceId,
        suspension: Suspension,
    ) -> Result<bool, StoreError> {
        self.inner.suspend(instance, suspension).await
    }

    async fn suspend_turn(
        &self,
        token: FlowToken,
        suspension: Suspension,
    ) -> Result<bool, StoreError> {
        self.inner.suspend_turn(token, suspension).await
    }

    async fn resume(&self, instance: &InstanceId) -> Result<(bool, Vec<FlowChange>), StoreError> {
        if self.mutation == FlowStoreMutation::IgnoresResume {
            return Ok((true, Vec::new()));
        }
        self.inner.resume(instance).await
    }

    async fn retry_mismatched(
        &self,
        capabilities: Capabilities,
        after: Option<RetryPosition>,
    ) -> Result<RetriedBatch, StoreError> {
        self.inner.retry_mismatched(capabilities, after).await
    }

    async fn terminate(
        &self,
        command: TerminateInstance,
    ) -> Result<(bool, Vec<FlowChange>), StoreError> {
        self.inner.terminate(command).await
    }

    async fn delete_instances(
        &self,
        mut command: DeleteInstances,
    ) -> Result<DeleteReport, StoreError> {
        if self.mutation == FlowStoreMutation::DeletesOnlyFirstInstance
            && command.instances.len() == 2
        {
            command.instances.truncate(1);
        }
        self.inner.delete_instances(command).await
    }

    async fn delete_matching(&self, filter: InstanceFilter) -> Result<DeleteReport, StoreError> {
        self.inner.delete_matching(filter).await
    }

    async fn unclaimed(&self, find: FindUnclaimed) -> Result<Vec<Unclaimed>, StoreError> {
        self.inner.unclaimed(find).await
    }

    async fn prune(
        &self,
        filter: InstanceFilter,
        mut options: PruneOptions,
    ) -> Result<PruneReport, StoreError> {
        if self.mutation == FlowStoreMutation::PrunesTooMuch {
            options.keep_last = options.keep_last.map(|keep| keep.saturating_sub(1));
        }
        self.inner.prune(filter, options).await
    }

    async fn clear_deleted(&self) -> Result<Option<Duration>, StoreError> {
        self.inner.clear_deleted().await
    }
}

#[async_trait]
impl WorkRetries for MutantFlowStore {
    async fn retry_work(
        &self,
        token: FlowToken,
        delay: Duration,
        error: String,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError> {
        self.inner.retry_work(token, delay, error).await
    }

    async fn pending_work(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<PendingWork>, StoreError> {
        self.inner.pending_work(instance, limit).await
    }
}

#[async_trait]
impl MailboxReader for MutantFlowStore {
    async fn early_mailboxes(&self, list: ListMailboxes) -> Result<Vec<EarlyMailbox>, StoreError> {
        self.inner.early_mailboxes(list).await
    }

    async fn waiting_messages(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<WaitingMessage>, StoreError> {
        self.inner.waiting_messages(instance, limit).await
    }
}
