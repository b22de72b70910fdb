//! The management functions of the provider over a store.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{
    Capabilities, FlowChange, FlowChangeKind, InstanceId, KvKey, OrchestrationName,
};
use wakeline_store::flow::{
    DeleteInstances, DeleteReport, EarlyMailbox, Envelope, ExecutionDetail, FindUnclaimed,
    FlowDepths, HistoryBatch, InstanceFilter, InstanceState, InstanceStats, KvEntry, ListInstances,
    ListMailboxes, ListedInstances, NewInstance, PendingWork, PruneOptions, PruneReport,
    Suspension, TerminateInstance, Unclaimed, WaitingMessage, Watched,
};

use super::{StoreProvider, failed, token};
use crate::error::{ErrorOrigin, FailureKind, FlowError};
use crate::event::{Event, EventKind, Parent};
use crate::json::Json;
use crate::message::FlowMessage;
use crate::provider::admin::{
    EventPage, MailboxItem, PendingActivity, ProviderAdmin, SeenVersions,
};
use crate::provider::api::{FlowClaimResult, FlowRequest, FlowWaitLine};
use crate::provider::envelope;
use crate::provider::item::ProviderError;

#[async_trait]
impl ProviderAdmin for StoreProvider {
    async fn instance(&self, instance: &InstanceId) -> Result<Watched, ProviderError> {
        self.inner
            .store
            .instance(instance)
            .await
            .map_err(|error| failed("read the instance", error))
    }

    async fn wait(
        &self,
        instance: &InstanceId,
        seen: SeenVersions,
        timeout: Duration,
    ) -> Result<Option<Watched>, ProviderError> {
        let line = FlowWaitLine::Outcome(instance.clone(), seen);
        match self.take(line, FlowRequest::Outcome, Some(timeout)).await? {
            Some(FlowClaimResult::Outcome(watched)) => Ok(Some(watched)),
            _ => Ok(None),
        }
    }

    async fn executions(
        &self,
        instance: &InstanceId,
    ) -> Result<Vec<ExecutionDetail>, ProviderError> {
        self.inner
            .store
            .executions(instance)
            .await
            .map_err(|error| failed("read the instance", error))
    }

    async fn history_page(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
        from_event: u64,
        bytes_max: usize,
    ) -> Result<EventPage, ProviderError> {
        let page = self.inner.store.history(instance, execution, from_event, bytes_max).await;
        let page = page.map_err(|error| failed("read the instance", error))?;
        let mut events = decoded(&page.batches)?;
        // A page begins with a whole turn, which may have begun before the requested event.
        events.retain(|event| event.id >= from_event);
        Ok(EventPage { execution: page.execution, events, next: page.next })
    }

    async fn pending_activities(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<PendingActivity>, ProviderError> {
        let work = self.inner.store.pending_work(instance, limit).await;
        let work = work.map_err(|error| failed("read", error))?;
        Ok(work.into_iter().filter_map(pending).collect())
    }

    async fn early_mailboxes(
        &self,
        list: ListMailboxes,
    ) -> Result<Vec<EarlyMailbox>, ProviderError> {
        let listed = self.inner.store.early_mailboxes(list).await;
        listed.map_err(|error| failed("list mailboxes", error))
    }

    async fn mailbox(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<MailboxItem>, ProviderError> {
        let waiting = self.inner.store.waiting_messages(instance, limit).await;
        let waiting = waiting.map_err(|error| failed("read the mailbox", error))?;
        Ok(waiting.into_iter().map(mailbox_item).collect())
    }

    async fn kv(
        &self,
        instance: &InstanceId,
        key: Option<&KvKey>,
    ) -> Result<Vec<KvEntry>, ProviderError> {
        self.inner.store.kv(instance, key).await.map_err(|error| failed("read the instance", error))
    }

    async fn list(&self, filter: ListInstances) -> Result<ListedInstances, ProviderError> {
        self.inner
            .store
            .list_instances(filter)
            .await
            .map_err(|error| failed("list instances", error))
    }

    async fn tree(&self, instance: &InstanceId) -> Result<Vec<InstanceId>, ProviderError> {
        self.inner.store.tree(instance).await.map_err(|error| failed("read the instance", error))
    }

    async fn stats(&self, instance: &InstanceId) -> Result<Option<InstanceStats>, ProviderError> {
        self.inner.store.stats(instance).await.map_err(|error| failed("read the instance", error))
    }

    async fn depths(&self) -> Result<FlowDepths, ProviderError> {
        self.inner.store.depths().await.map_err(|error| failed("read the instance", error))
    }

    async fn suspend(
        &self,
        instance: &InstanceId,
        suspension: Suspension,
    ) -> Result<bool, ProviderError> {
        let suspended = self.inner.store.suspend(instance, suspension).await;
        suspended.map_err(|error| failed("suspend the instance", error))
    }

    async fn suspend_item(
        &self,
        lock_token: &str,
        suspension: Suspension,
    ) -> Result<(), ProviderError> {
        let suspended = self.inner.store.suspend_turn(token(lock_token)?, suspension).await;
        let suspended = suspended.map_err(|error| failed("suspend the instance", error))?;
        if suspended { Ok(()) } else { Err(ProviderError::LockLost) }
    }

    async fn resume(&self, instance: &InstanceId) -> Result<bool, ProviderError> {
        let resumed = self.inner.store.resume(instance).await;
        let (resumed, changes) = resumed.map_err(|error| failed("resume the instance", error))?;
        self.inner.hint(changes);
        Ok(resumed)
    }

    async fn retry_mismatched(&self, capabilities: Capabilities) -> Result<u64, ProviderError> {
        let (mut retried, mut place) = (0, None);
        loop {
            let batch = self.inner.store.retry_mismatched(capabilities.clone(), place).await;
            let batch = batch.map_err(|error| failed("resume the instance", error))?;
            // Published before the next batch, which may fail.
            self.inner.hint(batch.changes);
            retried += batch.count;
            place = batch.next;
            if place.is_none() {
                return Ok(retried);
            }
        }
    }

    async fn unclaimed(&self, find: FindUnclaimed) -> Result<Vec<Unclaimed>, ProviderError> {
        self.inner.store.unclaimed(find).await.map_err(|error| failed("read", error))
    }

    async fn terminate(
        &self,
        instance: &InstanceId,
        error: FlowError,
        child_of: Option<&Parent>,
    ) -> Result<bool, ProviderError> {
        let state = match error.kind {
            FailureKind::Terminated => InstanceState::Terminated,
            _ => InstanceState::Failed,
        };
        let output = serde_json::to_vec(&error).map(Bytes::from).map_err(|error| {
            ProviderError::Permanent {
                operation: "terminate the instance",
                source: Box::new(error),
            }
        })?;
        loop {
            let starts = self.waiting_starts(instance).await?;
            let begun = self.origin(instance).await?;
            // There is no instance. The store is not called to end a running one: it would end one
            // that begins after these reads, whose parent and children are not known here.
            let Some(origin) = begun.as_ref().or(starts.first()) else { return Ok(false) };
            if child_of.is_some_and(|parent| !origin.is_child_of(parent)) {
                return Ok(false);
            }
            let name = Some(origin.name.clone());
            let child = ErrorOrigin::Child { name, instance: instance.clone() };
            let parents = begun.iter().chain(&starts).filter_map(|origin| origin.parent.clone());
            let mut messages = child_ends(parents, &error.clone().with_origin(child))?;
            if begun.is_some() {
                let close = FlowMessage::CloseChildren { instance: instance.clone() };
                messages.push(envelope::envelope(&close, envelope::delayed(None))?);
            }
            let pending = begun.is_none();
            let command = TerminateInstance {
                instance: instance.clone(),
                state,
                output: output.clone(),
                messages,
                new_instance: starts
                    .into_iter()
                    .next()
                    .filter(|_| pending)
                    .map(Origin::new_instance),
            };
            let ended = self.inner.store.terminate(command).await;
            let (ended, changes) =
                ended.map_err(|error| failed("terminate the instance", error))?;
            self.inner.hint(changes);
            // Its first turn may have been committed in between, and may have started children.
            if ended || !pending || self.origin(instance).await?.is_none() {
                return Ok(ended);
            }
        }
    }

    async fn is_child_of(
        &self,
        instance: &InstanceId,
        parent: &Parent,
    ) -> Result<bool, ProviderError> {
        let starts = self.waiting_starts(instance).await?;
        let begun = self.origin(instance).await?;
        let origin = begun.as_ref().or(starts.first());
        Ok(origin.is_some_and(|origin| origin.is_child_of(parent)))
    }

    async fn delete(&self, command: DeleteInstances) -> Result<DeleteReport, ProviderError> {
        let deleted = self.inner.store.delete_instances(command).await;
        let report = deleted.map_err(|error| failed("delete instances", error))?;
        let gone = report.watched.iter().cloned().map(FlowChangeKind::Outcome);
        self.inner.hint(gone.map(FlowChange::now).collect());
        Ok(report)
    }

    async fn delete_matching(&self, filter: InstanceFilter) -> Result<DeleteReport, ProviderError> {
        self.inner
            .store
            .delete_matching(filter)
            .await
            .map_err(|error| failed("delete instances", error))
    }

    async fn clear_deleted(&self) -> Result<Option<Duration>, ProviderError> {
        let cleared = self.inner.store.clear_deleted().await;
        cleared.map_err(|error| failed("resume deletions", error))
    }

    async fn prune(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, ProviderError> {
        self.inner
            .store
            .prune(filter, options)
            .await
            .map_err(|error| failed("prune instances", error))
    }
}

/// Converts a waiting activity for readers; `None` if this runtime did not schedule it.
fn pending(work: PendingWork) -> Option<PendingActivity> {
    let Ok(FlowMessage::ActivityExecute(task)) = serde_json::from_slice(&work.payload) else {
        return None;
    };
    Some(PendingActivity {
        execution: work.key.execution,
        event: work.key.activity,
        name: task.name,
        attempts: work.attempts,
        running: work.leased,
        last_error: work.last_error,
        next_try_at: work.next_at,
    })
}

/// Converts a waiting message for readers.
fn mailbox_item(message: WaitingMessage) -> MailboxItem {
    let (kind, name, data) = match serde_json::from_slice(&message.payload) {
        Ok(FlowMessage::StartOrchestration { name, input, .. }) => {
            ("start", Some(name.to_string()), Some(input))
        }
        Ok(FlowMessage::ContinueAsNew { name, input, .. }) => {
            ("continue_as_new", Some(name.to_string()), Some(input))
        }
        Ok(FlowMessage::EventRaised { name, data, .. }) => ("event", Some(name), Some(data)),
        Ok(FlowMessage::CancelInstance { reason, .. }) => ("cancel", None, Json::of(&reason).ok()),
        Ok(FlowMessage::ActivityDone { .. }) => ("activity_done", None, None),
        Ok(FlowMessage::ChildDone { .. }) => ("child_done", None, None),
        Ok(FlowMessage::TimerFired { .. }) => ("timer", None, None),
        Ok(FlowMessage::CloseChildren { .. }) => ("close_children", None, None),
        Ok(FlowMessage::ActivityExecute(_)) | Err(_) => ("unknown", None, None),
    };
    MailboxItem { kind, name, data, visible_at: message.visible_at }
}

/// The orchestration that an instance was started with, and its parent.
struct Origin {
    name: OrchestrationName,
    parent: Option<Parent>,
}

impl Origin {
    fn is_child_of(&self, parent: &Parent) -> bool {
        self.parent.as_ref().is_some_and(|own| own.is_same(parent))
    }

    fn new_instance(self) -> NewInstance {
        let parent = self.parent.map(|parent| (parent.instance, parent.event));
        NewInstance { name: self.name, parent }
    }
}

/// Returns the messages that report the end of a terminated instance to its parents, one for each.
fn child_ends(
    parents: impl Iterator<Item = Parent>,
    error: &FlowError,
) -> Result<Vec<Envelope>, ProviderError> {
    let (mut known, mut messages) = (Vec::new(), Vec::new());
    for parent in parents {
        if known.contains(&parent) {
            continue;
        }
        known.push(parent.clone());
        let done = FlowMessage::child_done(parent, Err(error.clone()));
        messages.push(envelope::envelope(&done, envelope::delayed(None))?);
    }
    Ok(messages)
}

impl StoreProvider {
    /// Reads the start messages in the mailbox of an instance. A pending instance begins with the
    /// first one; the others are for an id that is in use.
    async fn waiting_starts(&self, instance: &InstanceId) -> Result<Vec<Origin>, ProviderError> {
        let payloads = self.inner.store.waiting_starts(instance).await;
        let mut starts = Vec::new();
        for payload in payloads.map_err(|error| failed("read the instance", error))? {
            match serde_json::from_slice(&payload) {
                Ok(FlowMessage::StartOrchestration { name, parent, .. }) => {
                    starts.push(Origin { name, parent });
                }
                Ok(_) => {}
                Err(error) => {
                    let source = Box::new(error);
                    return Err(ProviderError::Permanent {
                        operation: "read the instance",
                        source,
                    });
                }
            }
        }
        Ok(starts)
    }

    /// Reads the origin from the first event of the current execution; `None` before the first
    /// turn.
    async fn origin(&self, instance: &InstanceId) -> Result<Option<Origin>, ProviderError> {
        let page = self.inner.store.history(instance, None, 1, 1).await;
        let page = page.map_err(|error| failed("read the instance", error))?;
        let events = decoded(&page.batches)?;
        Ok(events.into_iter().find_map(|event| match event.kind {
            EventKind::Started { name, parent, .. } => Some(Origin { name, parent }),
            _ => None,
        }))
    }
}

fn decoded(batches: &[HistoryBatch]) -> Result<Vec<Event>, ProviderError> {
    envelope::events(batches).map_err(|error| ProviderError::Permanent {
        operation: "read the instance",
        source: Box::new(error),
    })
}
