//! The management functions of a provider, for clients and operators.

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

/// The versions that a waiter has already seen. Without any, it waits for the end of the instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SeenVersions {
    /// The wait ends when the status text has a greater version.
    pub status_version: Option<u64>,
    /// The wait ends when the key-value state has a greater version.
    pub kv_version: Option<u64>,
}

/// A page of a history.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EventPage {
    /// The number of the execution; 0 if there is none.
    pub execution: u64,
    /// The events in order.
    pub events: Vec<Event>,
    /// The first event of the next page; `None` if this is the last page.
    pub next: Option<u64>,
}

/// An activity that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingActivity {
    /// The execution that scheduled it.
    pub execution: u64,
    /// The event that scheduled it.
    pub event: u64,
    /// The name of the activity.
    pub name: String,
    /// The number of attempts, including a running one.
    pub attempts: u32,
    /// Whether a worker is running it.
    pub running: bool,
    /// The error of the last attempt, if it failed; the activity is retried.
    pub last_error: Option<String>,
    /// The time of the next attempt, if the activity waits for one.
    pub next_try_at: Option<Timestamp>,
}

/// A message that waits for an instance, or for an id that was never started.
#[derive(Debug, Clone, PartialEq)]
pub struct MailboxItem {
    /// The kind of the message: `start`, `event`, `cancel`, `activity_done`, `child_done`, `timer`,
    /// `continue_as_new` or `close_children`; `unknown` if this release cannot read it.
    pub kind: &'static str,
    /// The name of the orchestration for a start, or of the event.
    pub name: Option<String>,
    /// The input of a start, the data of an event, or the reason of a cancellation.
    pub data: Option<Json>,
    /// When the message can be delivered: usually when it arrived.
    pub visible_at: Timestamp,
}

/// Management functions: reading, suspending, terminating and deleting instances.
#[async_trait]
pub trait ProviderAdmin: Send + Sync {
    /// Returns the current state of an instance.
    async fn instance(&self, instance: &InstanceId) -> Result<Watched, ProviderError>;

    /// Waits until the instance has ended, is missing, or has newer versions than those seen.
    /// Returns `None` if the timeout expires first.
    async fn wait(
        &self,
        instance: &InstanceId,
        seen: SeenVersions,
        timeout: Duration,
    ) -> Result<Option<Watched>, ProviderError>;

    /// Returns the executions of an instance, oldest first.
    async fn executions(
        &self,
        instance: &InstanceId,
    ) -> Result<Vec<ExecutionDetail>, ProviderError>;

    /// Returns a page of the history of an execution (of the current one if `None`) that begins at
    /// an event and has about `bytes_max` bytes.
    async fn history_page(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
        from_event: u64,
        bytes_max: usize,
    ) -> Result<EventPage, ProviderError>;

    /// Returns at most `limit` activities of an instance that have not ended, oldest first.
    async fn pending_activities(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<PendingActivity>, ProviderError>;

    /// Lists ids that were never started but have messages waiting, in the order of the ids. A
    /// provider that does not support this returns none.
    async fn early_mailboxes(
        &self,
        list: ListMailboxes,
    ) -> Result<Vec<EarlyMailbox>, ProviderError> {
        let _ = list;
        Ok(Vec::new())
    }

    /// Returns at most `limit` messages, in order, that wait for an instance or for an id that was
    /// never started. A provider that does not support this returns none.
    async fn mailbox(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<MailboxItem>, ProviderError> {
        let _ = (instance, limit);
        Ok(Vec::new())
    }

    /// Returns the key-value state ordered by key, or the value of one key.
    async fn kv(
        &self,
        instance: &InstanceId,
        key: Option<&KvKey>,
    ) -> Result<Vec<KvEntry>, ProviderError>;

    /// Returns a page of instances, newest first.
    async fn list(&self, filter: ListInstances) -> Result<ListedInstances, ProviderError>;

    /// Returns an instance and all its descendants, parents before children.
    async fn tree(&self, instance: &InstanceId) -> Result<Vec<InstanceId>, ProviderError>;

    /// Returns how many events, messages, activities and values an instance has.
    async fn stats(&self, instance: &InstanceId) -> Result<Option<InstanceStats>, ProviderError>;

    /// Returns how many messages and activities wait in the whole store.
    async fn depths(&self) -> Result<FlowDepths, ProviderError>;

    /// Suspends an instance. Returns false if it does not exist, has ended, or is already
    /// suspended.
    async fn suspend(
        &self,
        instance: &InstanceId,
        suspension: Suspension,
    ) -> Result<bool, ProviderError>;

    /// Suspends the instance whose turn the caller holds.
    async fn suspend_item(
        &self,
        lock_token: &str,
        suspension: Suspension,
    ) -> Result<(), ProviderError>;

    /// Resumes a suspended instance. Returns false if it was not suspended.
    async fn resume(&self, instance: &InstanceId) -> Result<bool, ProviderError>;

    /// Resumes the instances that need one of these capabilities and were suspended because other
    /// code did not match their history. Returns the number of instances.
    async fn retry_mismatched(&self, capabilities: Capabilities) -> Result<u64, ProviderError>;

    /// Returns turns and activities that have been claimable for a while and that no worker has
    /// claimed. A provider that does not support this returns none.
    async fn unclaimed(&self, find: FindUnclaimed) -> Result<Vec<Unclaimed>, ProviderError> {
        let _ = find;
        Ok(Vec::new())
    }

    /// Ends an instance without running its code, and reports the end to its parent. The state is
    /// terminated, or failed if the error is of another kind. The next turn closes the children
    /// according to their policies. With `child_of`, nothing happens unless that event started the
    /// instance. Returns false if the instance is not running.
    async fn terminate(
        &self,
        instance: &InstanceId,
        error: FlowError,
        child_of: Option<&Parent>,
    ) -> Result<bool, ProviderError>;

    /// Whether this event started the instance. Returns false if the instance does not exist.
    async fn is_child_of(
        &self,
        instance: &InstanceId,
        parent: &Parent,
    ) -> Result<bool, ProviderError>;

    /// Deletes instances with all their descendants.
    async fn delete(&self, command: DeleteInstances) -> Result<DeleteReport, ProviderError>;

    /// Deletes ended instances that have no parent, with all their descendants.
    async fn delete_matching(&self, filter: InstanceFilter) -> Result<DeleteReport, ProviderError>;

    /// Continues deletions that their callers did not finish, by one batch. Returns when to call
    /// again; `None` if nothing is left. A provider that finishes deletions itself returns `None`.
    async fn clear_deleted(&self) -> Result<Option<Duration>, ProviderError> {
        Ok(None)
    }

    /// Deletes old executions of the instances that match.
    async fn prune(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, ProviderError>;
}
