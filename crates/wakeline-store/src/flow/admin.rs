//! Administration of orchestrations: suspending, ending, deleting and pruning instances.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{
    ActivityRoute, Capabilities, Capability, FlowChange, FlowToken, InstanceId, Timestamp,
};

use super::lane::{Envelope, NewInstance};
use super::read::InstanceState;
use super::work::WorkKey;
use crate::error::StoreError;

/// Why an instance is suspended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suspension {
    /// An operator suspended it. Ends by [`FlowAdmin::resume`].
    Operator {
        /// The operator's reason.
        reason: String,
    },
    /// Its code and its history do not match. Ends by [`FlowAdmin::resume`], or when a runtime with
    /// matching capabilities starts ([`FlowAdmin::retry_mismatched`]).
    Mismatch {
        /// A description of the difference.
        reason: String,
    },
}

/// How far the retry of instances that were suspended for a mismatch has come. Stores process them
/// one capability after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPosition {
    /// The store's id of the capability.
    pub capability: i64,
    /// The store's id of the last mailbox that was processed.
    pub lane: i64,
}

/// The result of one batch of a retry.
#[derive(Debug, Default)]
pub struct RetriedBatch {
    /// The number of instances that were resumed.
    pub count: u64,
    /// Changes to publish to the waiters of the resumed instances.
    pub changes: Vec<FlowChange>,
    /// Where the next batch begins; `None` at the end.
    pub next: Option<RetryPosition>,
}

/// Ends an instance without running its code.
#[derive(Debug, Clone)]
pub struct TerminateInstance {
    /// The instance to end.
    pub instance: InstanceId,
    /// The final state of the instance.
    pub state: InstanceState,
    /// The error, as encoded by the runtime.
    pub output: Bytes,
    /// Messages to other instances, such as the parent. Sent only if this call ends the instance.
    pub messages: Vec<Envelope>,
    /// What to record for an instance that is pending. If set, only a pending instance is ended;
    /// otherwise only a running one, because the messages differ between the two.
    pub new_instance: Option<NewInstance>,
}

/// Which instances to delete.
#[derive(Debug, Clone, Default)]
pub struct DeleteInstances {
    /// The instances, each deleted with all its descendants. If `force` is unset and any instance
    /// of these trees has not ended when the call begins, nothing is deleted.
    pub instances: Vec<InstanceId>,
    /// Whether to delete instances that have not ended too, and messages that wait for an instance
    /// that was never started.
    pub force: bool,
}

/// The result of a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeleteReport {
    /// The number of deleted instances.
    pub instances: u64,
    /// The number of deleted executions.
    pub executions: u64,
    /// The number of deleted events.
    pub events: u64,
    /// The number of deleted messages and activities.
    pub messages: u64,
    /// The instances that prevented the deletion because they have not ended; if not empty, nothing
    /// was deleted.
    pub running: Vec<InstanceId>,
    /// The instances that prevented the deletion because their parent is not deleted with them; if
    /// not empty, nothing was deleted.
    pub orphans: Vec<InstanceId>,
    /// Deleted instances that a client may wait for: the caller publishes a hint to its own
    /// waiters.
    pub watched: Vec<InstanceId>,
}

/// Selects ended instances for a bulk operation: by default all, 1,000 in one call.
#[derive(Debug, Clone)]
pub struct InstanceFilter {
    /// Only these instances; `None` for all.
    pub instances: Option<Vec<InstanceId>>,
    /// Only those that ended before this time.
    pub ended_before: Option<Timestamp>,
    /// The maximum number of root instances in one call.
    pub limit: u32,
}

impl Default for InstanceFilter {
    fn default() -> Self {
        Self { instances: None, ended_before: None, limit: 1_000 }
    }
}

/// Which executions of an instance to remove. The current one is always kept.
#[derive(Debug, Clone, Copy, Default)]
pub struct PruneOptions {
    /// The number of newest executions to keep.
    pub keep_last: Option<u32>,
    /// Only those that ended before this time.
    pub ended_before: Option<Timestamp>,
}

/// The result of a pruning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// The number of instances from which something was removed.
    pub instances: u64,
    /// The number of executions that were removed.
    pub executions: u64,
    /// The number of events that were removed.
    pub events: u64,
}

/// Selects unclaimed work.
#[derive(Debug, Clone)]
pub struct FindUnclaimed {
    /// Only of these instances; `None` for all.
    pub instances: Option<Vec<InstanceId>>,
    /// Only what could have been claimed for at least this long.
    pub waited_min: Duration,
    /// The maximum number of items, per instance if instances are named.
    pub limit: u32,
}

/// A turn or an activity that could be claimed, and that no worker has claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unclaimed {
    /// The instance that it belongs to.
    pub instance: InstanceId,
    /// What a worker needs in order to claim it.
    pub what: UnclaimedWork,
    /// Since when it could be claimed.
    pub since: Timestamp,
}

/// What an [`Unclaimed`] is waiting for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnclaimedWork {
    /// A worker with this orchestration.
    Turn(Capability),
    /// A worker with this activity.
    Work(WorkKey, ActivityRoute),
}

impl fmt::Display for UnclaimedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let route = match self {
            Self::Turn(capability) => {
                return write!(f, "no worker has claimed orchestration `{capability}`");
            }
            Self::Work(_, route) => route,
        };
        match &route.name {
            Some(name) => write!(f, "no worker has claimed activity `{name}`")?,
            None => f.write_str("no worker has claimed an activity")?,
        }
        match &route.tag {
            Some(tag) => write!(f, " with tag `{tag}`"),
            None => Ok(()),
        }
    }
}

/// Administration of orchestrations.
#[async_trait]
pub trait FlowAdmin: Send + Sync {
    /// Suspends an instance: its mailbox is not claimed until it is resumed. Returns false if it
    /// does not exist, has ended, or is suspended already.
    async fn suspend(
        &self,
        instance: &InstanceId,
        suspension: Suspension,
    ) -> Result<bool, StoreError>;

    /// Like [`FlowAdmin::suspend`], but called by the holder of a turn, which is given back without
    /// counting the attempt. Returns false if the lease was no longer held.
    async fn suspend_turn(
        &self,
        token: FlowToken,
        suspension: Suspension,
    ) -> Result<bool, StoreError>;

    /// Ends a suspension. Returns false if there was none.
    async fn resume(&self, instance: &InstanceId) -> Result<(bool, Vec<FlowChange>), StoreError>;

    /// Resumes instances with these capabilities that were suspended for a mismatch: one batch
    /// after a position, in one transaction. The caller publishes the changes before it calls
    /// again.
    async fn retry_mismatched(
        &self,
        capabilities: Capabilities,
        after: Option<RetryPosition>,
    ) -> Result<RetriedBatch, StoreError>;

    /// Turns and activities that could have been claimed for a while but were not, longest wait
    /// first. The usual cause is that no worker has their code.
    async fn unclaimed(&self, find: FindUnclaimed) -> Result<Vec<Unclaimed>, StoreError>;

    /// Ends an instance without running its code, and removes its lease, messages and activities.
    /// Returns false if it does not exist or has ended, or if it is pending and the command is for
    /// a running one, or the reverse.
    async fn terminate(
        &self,
        command: TerminateInstance,
    ) -> Result<(bool, Vec<FlowChange>), StoreError>;

    /// Deletes instances with all their descendants; unknown ones are skipped. The named instances
    /// become invisible with the first of several short transactions, and the call continues until
    /// nothing is left. If it is interrupted, [`FlowAdmin::clear_deleted`] removes the rest.
    async fn delete_instances(&self, command: DeleteInstances) -> Result<DeleteReport, StoreError>;

    /// Deletes ended instances that have no parent, with all their descendants. Those with a
    /// descendant that has not ended are skipped.
    async fn delete_matching(&self, filter: InstanceFilter) -> Result<DeleteReport, StoreError>;

    /// Removes old executions of instances.
    async fn prune(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, StoreError>;

    /// Continues deletions and prunings that were interrupted, one batch in a short transaction.
    /// Returns when to call again: zero if there is more to do now, `None` if nothing is left.
    async fn clear_deleted(&self) -> Result<Option<Duration>, StoreError>;
}
