//! What a runtime needs of a place to keep orchestrations in.
//!
//! # Where it sits
//! The runtime's dispatchers and clients speak to a [`Provider`]; [`StoreProvider`] is the one over
//! our own stores, which waits without polling. A provider of a user's own only has to implement
//! [`Provider`]: one that cannot wait answers at once, and the dispatchers sleep in between.
//!
//! # Invariants
//! * A fetch without a poll timeout returns at once; with one it may wait so long, not longer.
//! * What is visible at the time of the claim counts, not at the time of the call.
//! * A lock token that is not live can change nothing.

mod admin;
pub(crate) mod envelope;
mod face;
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
use crate::message::WorkItem;

pub use admin::{EventPage, MailboxItem, PendingActivity, ProviderAdmin, Seen};
pub use face::FlowFace;
pub use item::{
    Enqueued, FetchedWork, ItemHistory, OrchestrationAck, OrchestrationItem, ProviderError,
    Session, WorkFilter,
};
pub use store::{HookHints, QueueHints, StoreProvider, StoreProviderOptions};

/// A place to keep orchestrations in.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Its name, for logs.
    fn name(&self) -> &str {
        "unknown"
    }

    /// Whether a fetch waits for its poll timeout if there is nothing.
    fn supports_long_polling(&self) -> bool {
        false
    }

    /// Leases the turn of an instance that has visible messages, with all of them.
    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError>;

    /// The same, but only of instances that need one of these capabilities. A provider that knows
    /// no capabilities fetches any: what the runtime cannot run it gives back for later.
    async fn fetch_orchestration_item_for(
        &self,
        capabilities: &Capabilities,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError> {
        let _ = capabilities;
        self.fetch_orchestration_item(lock_timeout, poll_timeout).await
    }

    /// Commits a turn: all of it, or nothing.
    async fn ack_orchestration_item(&self, ack: OrchestrationAck) -> Result<(), ProviderError>;

    /// Gives a turn back; its messages become visible after the delay.
    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError>;

    /// Holds a turn for so long from now on.
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

    /// The same, of these tags, names and sessions. A provider that knows none of them fetches any:
    /// what the runtime cannot run it gives back for later.
    async fn fetch_work_item_for(
        &self,
        filter: &WorkFilter,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<FetchedWork>, ProviderError> {
        let _ = filter;
        self.fetch_work_item(lock_timeout, poll_timeout).await
    }

    /// Removes an activity and tells its instance, in one commit. A lock that is not held any
    /// more is [`ProviderError::LockLost`].
    async fn ack_work_item(
        &self,
        lock_token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError>;

    /// Holds an activity for so long from now on. Tells how its execution stands; `None` if it is
    /// gone.
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

    /// Gives an activity back after a try that failed; it becomes visible after the delay. A
    /// provider that can tells readers of the error.
    async fn retry_work_item(
        &self,
        lock_token: &str,
        delay: Duration,
        error: &FlowError,
    ) -> Result<(), ProviderError> {
        let _ = error;
        self.abandon_work_item(lock_token, Some(delay), false).await
    }

    /// Sends a message to an instance. Makes no instance.
    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<Enqueued, ProviderError>;

    /// Puts an activity into the queue of work.
    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError>;

    /// The history of an execution, or of the current one.
    async fn read(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
    ) -> Result<Vec<Event>, ProviderError>;

    /// Holds the sessions of these owners for so long from now on, if they were active within
    /// `idle`. Returns how many.
    async fn renew_session_lock(
        &self,
        owners: &[OwnerId],
        extend_for: Duration,
        idle: Duration,
    ) -> Result<u64, ProviderError> {
        let _ = (owners, extend_for, idle);
        Ok(0)
    }

    /// Ends the sessions of these owners now, so that others may claim them. Returns how many.
    async fn release_sessions(&self, owners: &[OwnerId]) -> Result<u64, ProviderError> {
        let _ = owners;
        Ok(0)
    }

    /// Removes sessions that have expired and for which nothing waits. Returns how many.
    async fn cleanup_orphaned_sessions(&self) -> Result<u64, ProviderError> {
        Ok(0)
    }

    /// Waits until what was leased for fetches that were dropped meanwhile is given back.
    async fn settle(&self) {}

    /// Ends all waits, finishes what is under way, tells other processes of it, and lets go of what
    /// the provider holds. Shut runtimes down first.
    async fn close(&self) {
        self.settle().await;
    }

    /// The same place with waiters that are woken in another way; `None` if there is no other way.
    fn rewired(&self, mode: WakeMode, long_poll: LongPollConfig) -> Option<Arc<dyn Provider>> {
        let _ = (mode, long_poll);
        None
    }

    /// Sets the pace at which waiting fetches look for work while hints cannot be relied on. A
    /// runtime sets it to its `dispatcher_idle_sleep`.
    fn set_degraded_poll_interval(&self, interval: Duration) {
        let _ = interval;
    }

    /// Reads and interventions, if the provider has them.
    fn admin(&self) -> Option<&dyn ProviderAdmin> {
        None
    }
}
