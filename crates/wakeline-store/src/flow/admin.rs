//! Interventions: holding back, ending, deleting, pruning.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{
    ActivityRoute, Capabilities, Capability, FlowChange, FlowToken, InstanceId, Timestamp,
};

use super::lane::{Envelope, InstanceBirth};
use super::read::InstanceState;
use super::work::WorkKey;
use crate::error::StoreError;

/// Why an instance is held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suspension {
    /// Somebody asked for it. Ends by [`FlowAdmin::resume`].
    Operator {
        /// Why, in words.
        reason: String,
    },
    /// Its code and its history do not agree. Ends by [`FlowAdmin::resume`], or when a runtime
    /// with fitting capabilities starts ([`FlowAdmin::retry_mismatched`]).
    Mismatch {
        /// The difference, in words.
        reason: String,
    },
}

/// How far the instances that were suspended for a mismatch have been retried: stores go through
/// them capability by capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPlace {
    /// The store's number of the capability.
    pub capability: i64,
    /// The last lane.
    pub lane: i64,
}

/// A piece of a retry.
#[derive(Debug, Default)]
pub struct RetriedPiece {
    /// How many instances go on.
    pub count: u64,
    /// What their waiters are told.
    pub changes: Vec<FlowChange>,
    /// Where there may be more; `None` at the end.
    pub next: Option<RetryPlace>,
}

/// Ends an instance without its code.
#[derive(Debug, Clone)]
pub struct TerminateInstance {
    /// Which.
    pub instance: InstanceId,
    /// How it ends.
    pub state: InstanceState,
    /// The error, as the runtime encoded it.
    pub output: Bytes,
    /// What others are told: the parent, say. Sent only if the instance is ended by this.
    pub messages: Vec<Envelope>,
    /// What is recorded of an instance that is pending. With it, only a pending one is ended;
    /// without it, only one that runs: what others are told depends on which it is.
    pub birth: Option<InstanceBirth>,
}

/// Which instances to delete.
#[derive(Debug, Clone, Default)]
pub struct DeleteInstances {
    /// These, each with all below it. All or none: with `force` unset, if one of the tree has not
    /// ended when the call begins nothing is deleted.
    pub instances: Vec<InstanceId>,
    /// Whether instances that have not ended are deleted too, and messages that wait for one that
    /// was never started.
    pub force: bool,
}

/// What was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeleteReport {
    /// Instances.
    pub instances: u64,
    /// Executions.
    pub executions: u64,
    /// Events.
    pub events: u64,
    /// Messages and activities.
    pub messages: u64,
    /// Not empty if nothing was deleted: those that have not ended.
    pub running: Vec<InstanceId>,
    /// Not empty if nothing was deleted: those whose parent is not deleted with them.
    pub orphans: Vec<InstanceId>,
    /// Deleted ones that somebody may wait for: the caller gives a hint to its own waiters.
    pub watched: Vec<InstanceId>,
}

/// Which ended instances a bulk operation takes. By default all, 1,000 in one call.
#[derive(Debug, Clone)]
pub struct InstanceFilter {
    /// Only these; `None` for all.
    pub instances: Option<Vec<InstanceId>>,
    /// Only those that ended before.
    pub ended_before: Option<Timestamp>,
    /// At most so many roots in one call.
    pub limit: u32,
}

impl Default for InstanceFilter {
    fn default() -> Self {
        Self { instances: None, ended_before: None, limit: 1_000 }
    }
}

/// Which executions of an instance go. The current one always stays.
#[derive(Debug, Clone, Copy, Default)]
pub struct PruneOptions {
    /// So many of the newest stay.
    pub keep_last: Option<u32>,
    /// Only those that ended before.
    pub ended_before: Option<Timestamp>,
}

/// What was pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// Instances of which something went.
    pub instances: u64,
    /// Executions that went.
    pub executions: u64,
    /// Events that went.
    pub events: u64,
}

/// Which unclaimed work to find.
#[derive(Debug, Clone)]
pub struct FindUnclaimed {
    /// Only of these instances; `None` for all.
    pub instances: Option<Vec<InstanceId>>,
    /// Only what could have been claimed for at least so long.
    pub waited_min: Duration,
    /// At most so much; of named instances, of each of them.
    pub limit: u32,
}

/// A turn or an activity that could be claimed, and that no worker has claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unclaimed {
    /// Whose.
    pub instance: InstanceId,
    /// What workers need to have.
    pub what: UnclaimedWhat,
    /// Since when it could be claimed.
    pub since: Timestamp,
}

/// What an [`Unclaimed`] waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnclaimedWhat {
    /// A worker with this orchestration.
    Turn(Capability),
    /// A worker with this activity.
    Work(WorkKey, ActivityRoute),
}

impl fmt::Display for UnclaimedWhat {
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

/// Interventions into orchestrations.
#[async_trait]
pub trait FlowAdmin: Send + Sync {
    /// Holds an instance back: its lane is claimed by nobody until it is resumed. False if it
    /// does not exist, has ended, or is held back already.
    async fn suspend(
        &self,
        instance: &InstanceId,
        suspension: Suspension,
    ) -> Result<bool, StoreError>;

    /// The same by the holder of a turn, which is given back uncounted. False if the lease was
    /// not held any more.
    async fn suspend_turn(
        &self,
        token: FlowToken,
        suspension: Suspension,
    ) -> Result<bool, StoreError>;

    /// Ends a suspension. False if there was none.
    async fn resume(&self, instance: &InstanceId) -> Result<(bool, Vec<FlowChange>), StoreError>;

    /// Ends the suspensions for a mismatch of instances with these capabilities: a piece of those
    /// behind a place, in one transaction. The caller tells the waiters before it goes on.
    async fn retry_mismatched(
        &self,
        capabilities: Capabilities,
        after: Option<RetryPlace>,
    ) -> Result<RetriedPiece, StoreError>;

    /// Turns and activities that could be claimed for a while, and that nobody claimed; longest
    /// first. Most often no worker has their code.
    async fn unclaimed(&self, find: FindUnclaimed) -> Result<Vec<Unclaimed>, StoreError>;

    /// Ends an instance without its code: its lease, messages and activities go. False if it did
    /// not exist or had ended, or is pending and the command is for one that runs, or the reverse.
    async fn terminate(
        &self,
        command: TerminateInstance,
    ) -> Result<(bool, Vec<FlowChange>), StoreError>;

    /// Deletes instances with all below them. Unknown ones are passed over. What was named is gone
    /// for everybody who asks with the first of several short transactions; the call goes on until
    /// nothing is left. If it ends before, the rest goes by [`FlowAdmin::clear_deleted`].
    async fn delete_instances(&self, command: DeleteInstances) -> Result<DeleteReport, StoreError>;

    /// Deletes ended instances that have no parent, with all below them; those with a descendant
    /// that has not ended are passed over.
    async fn delete_matching(&self, filter: InstanceFilter) -> Result<DeleteReport, StoreError>;

    /// Removes old executions of instances.
    async fn prune(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, StoreError>;

    /// Goes on with deletions and prunings that their callers did not finish, by a piece in a short
    /// transaction. Returns when to call again: zero if there is more to do now, `None` if nothing
    /// is left.
    async fn clear_deleted(&self) -> Result<Option<Duration>, StoreError>;
}
