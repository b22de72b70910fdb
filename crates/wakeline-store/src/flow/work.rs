//! Activities: units of work that workers lease.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    ActivityFilter, ActivityName, ActivityRoute, FlowChange, FlowToken, InstanceId, OwnerId,
    SessionId, Tag, Timestamp,
};

use super::lane::{EnqueueOutcome, Envelope, TurnItem, Visible};
use super::read::InstanceState;
use crate::error::StoreError;

/// Identifies an activity of an instance by its execution and the event that scheduled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkKey {
    /// The number of the execution.
    pub execution: u64,
    /// The number of the event that scheduled the activity.
    pub activity: u64,
}

/// An activity to schedule.
#[derive(Debug, Clone)]
pub struct NewWork {
    /// The instance that the activity belongs to. In a turn's commit it is the committing instance.
    pub instance: InstanceId,
    /// The activity's key. If an activity with this key exists, it is left unchanged.
    pub key: WorkKey,
    /// The activity name that a worker must have registered; `None` means that any worker can take
    /// it.
    pub name: Option<ActivityName>,
    /// Restricts the activity to workers that serve this tag.
    pub tag: Option<Tag>,
    /// The session that the activity belongs to.
    pub session: Option<SessionId>,
    /// When the activity can be claimed.
    pub visible: Visible,
    /// The activity's input as encoded by the runtime.
    pub payload: Bytes,
}

/// A worker that can take an activity.
#[derive(Debug, Clone)]
pub struct WorkRequest {
    /// Becomes the key of the token, as in [`super::TurnRequest`].
    pub key: Uuid,
    /// How long the lease lasts.
    pub lease: Duration,
    /// Which activities the worker takes.
    pub filter: ActivityFilter,
    /// The sessions that it may claim; `None` means only activities without a session.
    pub session: Option<SessionClaim>,
}

/// The owner that claims sessions, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionClaim {
    /// The owner that the sessions are claimed for.
    pub owner: OwnerId,
    /// How long a claimed session belongs to the owner.
    pub lease: Duration,
}

/// The claim of all waiting workers of one line.
#[derive(Debug, Clone)]
pub struct WorkClaim {
    /// Which activities they take; applies to all of them, regardless of the single requests.
    pub filter: ActivityFilter,
    /// The sessions they may claim; applies to all of them, regardless of the single requests.
    pub session: Option<SessionClaim>,
    /// The workers, in order of arrival.
    pub requests: Vec<WorkRequest>,
    /// Whether to report when the next activity is due even if every request is served.
    pub further: bool,
}

/// The result of a claim of activities in one line.
#[derive(Debug, Clone, Default)]
pub struct WorkClaimed {
    /// One entry per request, in order.
    pub work: Vec<Option<WorkItem>>,
    /// Time until the line's next activity, if a request got none or `further` was set. Possibly
    /// early, never late.
    pub next_due: Option<Duration>,
}

/// A leased activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkItem {
    /// The fencing token that proves the lease.
    pub token: FlowToken,
    /// How often the activity was claimed, this time included.
    pub attempt: u32,
    /// The instance that the activity belongs to.
    pub instance: InstanceId,
    /// The activity's key within the instance.
    pub key: WorkKey,
    /// The activity's name, if it was given one.
    pub name: Option<ActivityName>,
    /// The tag that it was scheduled with.
    pub tag: Option<Tag>,
    /// The session that it belongs to.
    pub session: Option<SessionId>,
    /// The activity's input as encoded by the runtime.
    pub payload: Bytes,
    /// The state of the execution that scheduled it; `None` if the instance no longer exists.
    pub state: Option<InstanceState>,
    /// How long the lease lasts.
    pub lease_for: Duration,
}

impl NewWork {
    /// The tag and name that decide which workers can take it.
    pub fn route(&self) -> ActivityRoute {
        ActivityRoute { tag: self.tag.clone(), name: self.name.clone() }
    }
}

impl WorkItem {
    /// The tag and name that decide which workers can take it.
    pub fn route(&self) -> ActivityRoute {
        ActivityRoute { tag: self.tag.clone(), name: self.name.clone() }
    }
}

/// The completion of an activity.
#[derive(Debug, Clone)]
pub struct Completion {
    /// The fencing token that proves the lease; a stale one changes nothing.
    pub token: FlowToken,
    /// The message to send to the instance, if any.
    pub message: Option<Envelope>,
}

/// The outcome of completing an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkOutcome {
    /// The activity was removed, and the message to its instance has this outcome.
    Completed(Option<EnqueueOutcome>),
    /// The lease has expired or was ended, or the activity was cancelled; nothing changed.
    Stale,
}

/// The result of a completion call.
#[derive(Debug, Clone)]
pub struct CompletionReply {
    /// The outcome of the completion.
    pub outcome: WorkOutcome,
    /// Turns that were leased to the requests passed with the call, with the requests' indices.
    pub turns: Vec<(usize, TurnItem)>,
    /// Changes to publish to the waiters of this process.
    pub changes: Vec<FlowChange>,
}

/// The outcome of renewing a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewOutcome {
    /// The lease was extended. For activities, the state of the execution; `None` if the instance
    /// is gone.
    Renewed(Option<InstanceState>),
    /// The lease has expired or was ended, or the activity was cancelled.
    Stale,
}

/// The outcome of giving back a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbandonOutcome {
    /// The item is available again.
    Abandoned,
    /// The lease was no longer held; nothing changed. An expired lease still counts as held until
    /// another worker claims the item.
    Stale,
}

/// An activity that has not completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingWork {
    /// The activity's key within the instance.
    pub key: WorkKey,
    /// How often it was claimed, the current lease included.
    pub attempts: u32,
    /// Whether a worker currently holds it.
    pub leased: bool,
    /// When it can be claimed, if that is in the future.
    pub next_at: Option<Timestamp>,
    /// The error of its last attempt, as passed to [`WorkRetries::retry_work`].
    pub last_error: Option<String>,
    /// The activity's input as encoded by the runtime.
    pub payload: Bytes,
}

/// Retries of activities.
#[async_trait]
pub trait WorkRetries: Send + Sync {
    /// Gives back an activity after a failed attempt, as [`super::FlowStore::abandon`] does, and
    /// records the error.
    async fn retry_work(
        &self,
        token: FlowToken,
        delay: Duration,
        error: String,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError>;

    /// Activities of an instance that have not completed, oldest first.
    async fn pending_work(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<PendingWork>, StoreError>;
}
