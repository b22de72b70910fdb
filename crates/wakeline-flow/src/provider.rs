//! The interface between the runtime and the store that keeps orchestrations.
//!
//! # Where it sits
//! The runtime's dispatchers and clients call a [`Provider`]. [`StoreProvider`] is the
//! implementation over our own stores, which waits without polling. A user's own provider only has
//! to implement [`Provider`]: if it cannot wait, it returns at once, and the dispatchers sleep
//! between fetches.
//!
//! # Invariants
//! * A fetch without a poll timeout returns at once; with one it waits for at most that time.
//! * A fetch considers what is visible at the time of the claim, not at the time of the call.
//! * A lock token whose lease has ended cannot change anything.

mod admin;
mod api;
pub(crate) mod envelope;
mod item;
mod store;
mod trace;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{Capabilities, InstanceId, OwnerId};
use wakeline_store::flow::InstanceState;
use wakeline_wake::{LongPollConfig, WakeMode};

use crate::error::FlowError;
use crate::event::Event;
use crate::message::FlowMessage;

pub use admin::{EventPage, MailboxItem, PendingActivity, ProviderAdmin, SeenVersions};
pub use api::FlowApi;
pub use item::{
    Enqueued, FetchedWork, ItemHistory, OrchestrationAck, OrchestrationItem, ProviderError,
    SessionLock, WorkFilter,
};
pub use store::{HookHints, QueueHints, StoreProvider, StoreProviderOptions};

/// Stores orchestrations and their messages, and leases turns and activities to runtimes.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The name of the provider, for logs.
    fn name(&self) -> &str {
        "unknown"
    }

    /// Whether a fetch that finds nothing waits until its poll timeout.
    fn supports_long_polling(&self) -> bool {
        false
    }

    /// Leases the turn of an instance that has visible messages, and returns all of them.
    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError>;

    /// Leases a turn as [`Self::fetch_orchestration_item`] does, but only of an instance that needs
    /// one of these capabilities. A provider that does not support capabilities may return any
    /// instance: the runtime gives back what it cannot run.
    async fn fetch_orchestration_item_for(
        &self,
        capabilities: &Capabilities,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError> {
        let _ = capabilities;
        self.fetch_orchestration_item(lock_timeout, poll_timeout).await
    }

    /// Commits a turn completely, or not at all.
    async fn ack_orchestration_item(&self, ack: OrchestrationAck) -> Result<(), ProviderError>;

    /// Gives a turn back; its messages become visible after the delay.
    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError>;

    /// Extends the lease of a turn so that it ends `extend_for` from now.
    async fn renew_orchestration_item_lock(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError>;

    /// Leases the oldest activity that has no tag and no session.
    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<FetchedWork>, ProviderError>;

    /// Leases an activity that the filter accepts by tag, name and session. A provider that does
    /// not support filters may return any activity: the runtime gives back what it cannot run.
    async fn fetch_work_item_for(
        &self,
        filter: &WorkFilter,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<FetchedWork>, ProviderError> {
        let _ = filter;
        self.fetch_work_item(lock_timeout, poll_timeout).await
    }

    /// Removes an activity and sends its completion to the instance, in one commit. Fails with
    /// [`ProviderError::LockLost`] if the lock is no longer held.
    async fn ack_work_item(
        &self,
        lock_token: &str,
        completion: Option<FlowMessage>,
    ) -> Result<(), ProviderError>;

    /// Extends the lease of an activity so that it ends `extend_for` from now. Returns the state of
    /// the execution that scheduled it; `None` if the execution no longer exists.
    async fn renew_work_item_lock(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<Option<InstanceState>, ProviderError>;

    /// Gives an activity back; it becomes visible after the delay.
    async fn abandon_work_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError>;

    /// Gives an activity back after a failed attempt; it becomes visible after the delay. A
    /// provider that supports it shows the error to readers.
    async fn retry_work_item(
        &self,
        lock_token: &str,
        delay: Duration,
        error: &FlowError,
    ) -> Result<(), ProviderError> {
        let _ = error;
        self.abandon_work_item(lock_token, Some(delay), false).await
    }

    /// Sends a message to an instance. Does not create the instance: its first turn does.
    async fn enqueue_for_orchestrator(
        &self,
        item: FlowMessage,
        delay: Option<Duration>,
    ) -> Result<Enqueued, ProviderError>;

    /// Enqueues an activity for workers.
    async fn enqueue_for_worker(&self, item: FlowMessage) -> Result<(), ProviderError>;

    /// Returns the history of an execution; of the current one if none is given.
    async fn read(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
    ) -> Result<Vec<Event>, ProviderError>;

    /// Extends the leases of the sessions of these owners that were active within `idle`, so that
    /// they end `extend_for` from now. Returns the number of sessions.
    async fn renew_session_lock(
        &self,
        owners: &[OwnerId],
        extend_for: Duration,
        idle: Duration,
    ) -> Result<u64, ProviderError> {
        let _ = (owners, extend_for, idle);
        Ok(0)
    }

    /// Ends the sessions of these owners now, so that others may claim them. Returns the number of
    /// sessions.
    async fn release_sessions(&self, owners: &[OwnerId]) -> Result<u64, ProviderError> {
        let _ = owners;
        Ok(0)
    }

    /// Removes sessions that have expired and have no waiting activities. Returns the number of
    /// sessions.
    async fn cleanup_orphaned_sessions(&self) -> Result<u64, ProviderError> {
        Ok(0)
    }

    /// Waits until everything that was leased for dropped fetches has been given back.
    async fn settle(&self) {}

    /// Ends all waits, finishes writes in progress, notifies other processes of them, and releases
    /// everything that the provider holds. Shut runtimes down first.
    async fn close(&self) {
        self.settle().await;
    }

    /// Returns a provider over the same store whose waiters are woken in another way; `None` if
    /// this provider supports only one way.
    fn rewired(&self, mode: WakeMode, long_poll: LongPollConfig) -> Option<Arc<dyn Provider>> {
        let _ = (mode, long_poll);
        None
    }

    /// Sets the interval at which waiting fetches look for work while hints are unreliable. A
    /// runtime sets it to its `dispatcher_idle_sleep`.
    fn set_degraded_poll_interval(&self, interval: Duration) {
        let _ = interval;
    }

    /// The management functions, if the provider has them.
    fn admin(&self) -> Option<&dyn ProviderAdmin> {
        None
    }
}
