//! Reads and interventions over a store.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{Capabilities, InstanceId, KvKey, OrchestrationName};
use wakeline_store::flow::{
    DeleteInstances, DeleteReport, ExecutionDetail, FindUnclaimed, FlowDepths, HistoryBatch,
    InstanceBirth, InstanceFilter, InstanceState, InstanceStats, KvEntry, ListInstances,
    ListedInstances, PruneOptions, PruneReport, Suspension, TerminateInstance, Unclaimed, Watched,
};

use super::{StoreProvider, failed, token};
use crate::error::{FailureKind, FlowError};
use crate::event::{Event, EventKind, Parent};
use crate::message::WorkItem;
use crate::provider::admin::{EventPage, ProviderAdmin, Seen};
use crate::provider::envelope;
use crate::provider::face::{Ask, Grant, Line};
use crate::provider::item::ProviderError;

#[async_trait]
impl ProviderAdmin for StoreProvider {
    async fn instance(&self, instance: &InstanceId) -> Result<Watched, ProviderError> {
        self.inner.store.instance(instance).await.map_err(|error| failed("read", error))
    }

    async fn wait(
        &self,
        instance: &InstanceId,
        seen: Seen,
        timeout: Duration,
    ) -> Result<Option<Watched>, ProviderError> {
        let line = Line::Outcome(instance.clone(), seen);
        match self.take(line, Ask::Outcome, Some(timeout)).await? {
            Some(Grant::Outcome(watched)) => Ok(Some(watched)),
            _ => Ok(None),
        }
    }

    async fn executions(
        &self,
        instance: &InstanceId,
    ) -> Result<Vec<ExecutionDetail>, ProviderError> {
        self.inner.store.executions(instance).await.map_err(|error| failed("read", error))
    }

    async fn history_page(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
        from_event: u64,
        bytes_max: usize,
    ) -> Result<EventPage, ProviderError> {
        let page = self.inner.store.history(instance, execution, from_event, bytes_max).await;
        let page = page.map_err(|error| failed("read", error))?;
        let mut events = decoded(&page.batches)?;
        // A piece begins with a whole turn, which may have begun before what was asked for.
        events.retain(|event| event.id >= from_event);
        Ok(EventPage { execution: page.execution, events, next: page.next })
    }

    async fn kv(
        &self,
        instance: &InstanceId,
        key: Option<&KvKey>,
    ) -> Result<Vec<KvEntry>, ProviderError> {
        self.inner.store.kv(instance, key).await.map_err(|error| failed("read", error))
    }

    async fn list(&self, filter: ListInstances) -> Result<ListedInstances, ProviderError> {
        self.inner.store.list_instances(filter).await.map_err(|error| failed("list", error))
    }

    async fn tree(&self, instance: &InstanceId) -> Result<Vec<InstanceId>, ProviderError> {
        self.inner.store.tree(instance).await.map_err(|error| failed("read", error))
    }

    async fn stats(&self, instance: &InstanceId) -> Result<Option<InstanceStats>, ProviderError> {
        self.inner.store.stats(instance).await.map_err(|error| failed("read", error))
    }

    async fn depths(&self) -> Result<FlowDepths, ProviderError> {
        self.inner.store.depths().await.map_err(|error| failed("read", error))
    }

    async fn suspend(
        &self,
        instance: &InstanceId,
        suspension: Suspension,
    ) -> Result<bool, ProviderError> {
        let suspended = self.inner.store.suspend(instance, suspension).await;
        suspended.map_err(|error| failed("suspend", error))
    }

    async fn suspend_item(
        &self,
        lock_token: &str,
        suspension: Suspension,
    ) -> Result<(), ProviderError> {
        let suspended = self.inner.store.suspend_turn(token(lock_token)?, suspension).await;
        match suspended.map_err(|error| failed("suspend", error))? {
            true => Ok(()),
            false => Err(ProviderError::LockLost),
        }
    }

    async fn resume(&self, instance: &InstanceId) -> Result<bool, ProviderError> {
        let resumed = self.inner.store.resume(instance).await;
        let (resumed, changes) = resumed.map_err(|error| failed("resume", error))?;
        self.inner.hint(changes);
        Ok(resumed)
    }

    async fn retry_mismatched(&self, capabilities: Capabilities) -> Result<u64, ProviderError> {
        let retried = self.inner.store.retry_mismatched(capabilities).await;
        let (retried, changes) = retried.map_err(|error| failed("resume", error))?;
        self.inner.hint(changes);
        Ok(retried)
    }

    async fn unclaimed(&self, find: FindUnclaimed) -> Result<Vec<Unclaimed>, ProviderError> {
        self.inner.store.unclaimed(find).await.map_err(|error| failed("read", error))
    }

    async fn terminate(
        &self,
        instance: &InstanceId,
        error: FlowError,
    ) -> Result<bool, ProviderError> {
        let start = self.pending_start(instance).await?;
        let parent = match &start {
            Some(start) => start.parent.clone(),
            None => self.parent_of(instance).await?,
        };
        let messages = match parent {
            Some(Parent { instance, execution, event }) => {
                let result = Err(error.clone());
                let done = WorkItem::ChildDone { instance, execution, event, result };
                vec![envelope::envelope(&done, envelope::delayed(None))?]
            }
            None => Vec::new(),
        };
        let output = serde_json::to_vec(&error).map(Bytes::from).map_err(|error| {
            ProviderError::Permanent { operation: "terminate", source: Box::new(error) }
        })?;
        let state = match error.kind {
            FailureKind::Terminated => InstanceState::Terminated,
            _ => InstanceState::Failed,
        };
        let instance = instance.clone();
        let birth = start.map(PendingStart::birth);
        let command = TerminateInstance { instance, state, output, messages, birth };
        let ended = self.inner.store.terminate(command).await;
        let (ended, changes) = ended.map_err(|error| failed("terminate", error))?;
        self.inner.hint(changes);
        Ok(ended)
    }

    async fn delete(&self, command: DeleteInstances) -> Result<DeleteReport, ProviderError> {
        self.inner.store.delete_instances(command).await.map_err(|error| failed("delete", error))
    }

    async fn delete_matching(&self, filter: InstanceFilter) -> Result<DeleteReport, ProviderError> {
        self.inner.store.delete_matching(filter).await.map_err(|error| failed("delete", error))
    }

    async fn prune(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, ProviderError> {
        self.inner.store.prune(filter, options).await.map_err(|error| failed("prune", error))
    }
}

/// What the start of a pending instance says.
struct PendingStart {
    name: OrchestrationName,
    parent: Option<Parent>,
}

impl PendingStart {
    fn birth(self) -> InstanceBirth {
        let parent = self.parent.map(|parent| (parent.instance, parent.event));
        InstanceBirth { name: self.name, parent }
    }
}

impl StoreProvider {
    /// The start of an instance that waits for its first turn.
    async fn pending_start(
        &self,
        instance: &InstanceId,
    ) -> Result<Option<PendingStart>, ProviderError> {
        let payload = self.inner.store.pending_start(instance).await;
        let Some(payload) = payload.map_err(|error| failed("read", error))? else {
            return Ok(None);
        };
        match serde_json::from_slice(&payload) {
            Ok(WorkItem::StartOrchestration { name, parent, .. }) => {
                Ok(Some(PendingStart { name, parent }))
            }
            Ok(_) => Ok(None),
            Err(error) => {
                Err(ProviderError::Permanent { operation: "read", source: Box::new(error) })
            }
        }
    }

    /// Who waits for the instance, by the first event of its current execution.
    async fn parent_of(&self, instance: &InstanceId) -> Result<Option<Parent>, ProviderError> {
        let page = self.inner.store.history(instance, None, 1, 1).await;
        let page = page.map_err(|error| failed("read", error))?;
        let events = decoded(&page.batches)?;
        Ok(events.into_iter().find_map(|event| match event.kind {
            EventKind::Started { parent, .. } => parent,
            _ => None,
        }))
    }
}

fn decoded(batches: &[HistoryBatch]) -> Result<Vec<Event>, ProviderError> {
    envelope::events(batches)
        .map_err(|error| ProviderError::Permanent { operation: "read", source: Box::new(error) })
}
