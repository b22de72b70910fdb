//! Reads and interventions, for clients and operators.

use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{Capabilities, InstanceId, KvKey, Timestamp};
use wakeline_store::flow::{
    DeleteInstances, DeleteReport, EarlyMailbox, ExecutionDetail, FindUnclaimed, FlowDepths,
    InstanceFilter, InstanceStats, KvEntry, ListInstances, ListMailboxes, ListedInstances,
    PruneOptions, PruneReport, Suspension, Unclaimed, Watched,
};

use super::item::ProviderError;
use crate::error::FlowError;
use crate::event::{Event, Parent};
use crate::json::Json;

/// What a waiter has seen already. Without any, it waits for the end of the instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seen {
    /// Wakes it when the status has a greater version.
    pub status_version: Option<u64>,
    /// Wakes it when the key-value state has a greater version.
    pub kv_version: Option<u64>,
}

/// A piece of a history.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EventPage {
    /// The execution; 0 if there is none.
    pub execution: u64,
    /// Its events, in order.
    pub events: Vec<Event>,
    /// Where to read on; `None` if this was the last piece.
    pub next: Option<u64>,
}

/// An activity that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingActivity {
    /// The execution that scheduled it.
    pub execution: u64,
    /// The event that scheduled it.
    pub event: u64,
    /// Its name.
    pub name: String,
    /// How often it was tried, a running try included.
    pub attempts: u32,
    /// Whether a worker runs it now.
    pub running: bool,
    /// Why its last try failed; it is tried again.
    pub last_error: Option<String>,
    /// When it is tried again, if it waits for that.
    pub next_try_at: Option<Timestamp>,
}

/// A message that waits for an instance, also for one that was never started.
#[derive(Debug, Clone, PartialEq)]
pub struct MailboxItem {
    /// What it is: `start`, `event`, `cancel`, `activity_done`, `child_done`, `timer`,
    /// `continue_as_new` or `close_children`; `unknown` if this release cannot read it.
    pub kind: &'static str,
    /// Of a start the orchestration, of an event its name.
    pub name: Option<String>,
    /// Of a start its input, of an event what it carries, of a cancellation the reason.
    pub data: Option<Json>,
    /// When it can be delivered: most often when it arrived.
    pub visible_at: Timestamp,
}

/// Reads and interventions.
#[async_trait]
pub trait ProviderAdmin: Send + Sync {
    /// An instance as it stands.
    async fn instance(&self, instance: &InstanceId) -> Result<Watched, ProviderError>;

    /// Waits until the instance has ended, is missing, or has something newer than what was seen;
    /// `None` if that did not happen in time.
    async fn wait(
        &self,
        instance: &InstanceId,
        seen: Seen,
        timeout: Duration,
    ) -> Result<Option<Watched>, ProviderError>;

    /// The executions of an instance, oldest first.
    async fn executions(
        &self,
        instance: &InstanceId,
    ) -> Result<Vec<ExecutionDetail>, ProviderError>;

    /// A piece of the history of an execution (the current one if `None`) from an event on, about
    /// so many bytes long; and where the next piece begins.
    async fn history_page(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
        from_event: u64,
        bytes_max: usize,
    ) -> Result<EventPage, ProviderError>;

    /// Activities of an instance that have not ended, oldest first; at most so many.
    async fn pending_activities(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<PendingActivity>, ProviderError>;

    /// Ids under which messages wait and that were never started, in their order. A provider that
    /// does not know finds none.
    async fn early_mailboxes(
        &self,
        list: ListMailboxes,
    ) -> Result<Vec<EarlyMailbox>, ProviderError> {
        let _ = list;
        Ok(Vec::new())
    }

    /// Messages that wait for an instance, or under an id that was never started, in order; at
    /// most so many. A provider that does not know finds none.
    async fn mailbox(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<MailboxItem>, ProviderError> {
        let _ = (instance, limit);
        Ok(Vec::new())
    }

    /// The key-value state, ordered by key; of one key if it is named.
    async fn kv(
        &self,
        instance: &InstanceId,
        key: Option<&KvKey>,
    ) -> Result<Vec<KvEntry>, ProviderError>;

    /// A page of instances, newest first.
    async fn list(&self, filter: ListInstances) -> Result<ListedInstances, ProviderError>;

    /// An instance and all below it, parents before children.
    async fn tree(&self, instance: &InstanceId) -> Result<Vec<InstanceId>, ProviderError>;

    /// How much an instance holds.
    async fn stats(&self, instance: &InstanceId) -> Result<Option<InstanceStats>, ProviderError>;

    /// How much waits in all.
    async fn depths(&self) -> Result<FlowDepths, ProviderError>;

    /// Holds an instance back. False if it does not exist, has ended, or is held back already.
    async fn suspend(
        &self,
        instance: &InstanceId,
        suspension: Suspension,
    ) -> Result<bool, ProviderError>;

    /// The same by the holder of its turn.
    async fn suspend_item(
        &self,
        lock_token: &str,
        suspension: Suspension,
    ) -> Result<(), ProviderError>;

    /// Lets it go on. False if it was not held back.
    async fn resume(&self, instance: &InstanceId) -> Result<bool, ProviderError>;

    /// Lets those go on that were held back because other code did not fit. Returns how many.
    async fn retry_mismatched(&self, capabilities: Capabilities) -> Result<u64, ProviderError>;

    /// Turns and activities that could be claimed for a while, and that no worker claimed. A
    /// provider that does not know finds none.
    async fn unclaimed(&self, find: FindUnclaimed) -> Result<Vec<Unclaimed>, ProviderError> {
        let _ = find;
        Ok(Vec::new())
    }

    /// Ends an instance without its code, and tells its parent: as terminated, or as failed if the
    /// error is of another kind. Its children are closed by the next turn, by their policies. With
    /// `child_of` only if that event started it. False if it does not run.
    async fn terminate(
        &self,
        instance: &InstanceId,
        error: FlowError,
        child_of: Option<&Parent>,
    ) -> Result<bool, ProviderError>;

    /// Whether that event started it. False if it does not exist.
    async fn is_child_of(
        &self,
        instance: &InstanceId,
        parent: &Parent,
    ) -> Result<bool, ProviderError>;

    /// Deletes instances with all below them.
    async fn delete(&self, command: DeleteInstances) -> Result<DeleteReport, ProviderError>;

    /// Deletes ended instances that have no parent, with all below them.
    async fn delete_matching(&self, filter: InstanceFilter) -> Result<DeleteReport, ProviderError>;

    /// Goes on with deletions that their callers did not finish, by a piece. Returns when to call
    /// again; `None` if nothing is left. A provider that finishes them itself has nothing left.
    async fn clear_deleted(&self) -> Result<Option<Duration>, ProviderError> {
        Ok(None)
    }

    /// Removes old executions.
    async fn prune(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, ProviderError>;
}
