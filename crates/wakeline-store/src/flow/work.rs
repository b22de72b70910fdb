//! Activities: envelopes that workers lease.

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

/// Identifies an activity of an instance: the execution, and the event that scheduled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkKey {
    /// The execution.
    pub execution: u64,
    /// The event that scheduled it.
    pub activity: u64,
}

/// An activity to run.
#[derive(Debug, Clone)]
pub struct NewWork {
    /// Whose. In a turn's commit it is the committing instance.
    pub instance: InstanceId,
    /// Which. One that is there already is left as it is.
    pub key: WorkKey,
    /// What workers must know to run it; without, any worker takes it.
    pub name: Option<ActivityName>,
    /// Which workers take it.
    pub tag: Option<Tag>,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// When it can be claimed.
    pub visible: Visible,
    /// What the runtime put in.
    pub payload: Bytes,
}

/// One worker that can take an activity.
#[derive(Debug, Clone)]
pub struct WorkRequest {
    /// Becomes the key of the token; like that of a turn.
    pub key: Uuid,
    /// How long the lease lasts.
    pub lease: Duration,
    /// Which activities it takes.
    pub filter: ActivityFilter,
    /// The sessions it may claim; without, only activities without a session.
    pub session: Option<SessionClaim>,
}

/// On whose behalf sessions are claimed, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionClaim {
    /// The owner.
    pub owner: OwnerId,
    /// How long a claimed session is the owner's.
    pub lease: Duration,
}

/// The workers of one line.
#[derive(Debug, Clone)]
pub struct WorkClaim {
    /// Which activities they take: the same for all of them, whatever the requests say.
    pub filter: ActivityFilter,
    /// The sessions they may claim: the same for all of them, whatever the requests say.
    pub session: Option<SessionClaim>,
    /// The workers, in order of arrival.
    pub requests: Vec<WorkRequest>,
    /// Whether to say what is next even if every request is served.
    pub further: bool,
}

/// What a claim found in one line.
#[derive(Debug, Clone, Default)]
pub struct WorkClaimed {
    /// One per request, in order.
    pub work: Vec<Option<WorkItem>>,
    /// If a request went without, or the claim was to look further: time until the line's next
    /// activity. Possibly early, never late.
    pub next_due: Option<Duration>,
}

/// A leased activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkItem {
    /// Proves the lease.
    pub token: FlowToken,
    /// How often it was taken, this time included.
    pub attempt: u32,
    /// Whose.
    pub instance: InstanceId,
    /// Which.
    pub key: WorkKey,
    /// Its name, if the store knows it.
    pub name: Option<ActivityName>,
    /// Its tag.
    pub tag: Option<Tag>,
    /// Its session.
    pub session: Option<SessionId>,
    /// What the runtime put in.
    pub payload: Bytes,
    /// How the execution that scheduled it stands; `None` if there is no such instance.
    pub state: Option<InstanceState>,
    /// How long the lease lasts.
    pub lease_for: Duration,
}

impl NewWork {
    /// Which workers it is for.
    pub fn route(&self) -> ActivityRoute {
        ActivityRoute { tag: self.tag.clone(), name: self.name.clone() }
    }
}

impl WorkItem {
    /// Which workers it is for.
    pub fn route(&self) -> ActivityRoute {
        ActivityRoute { tag: self.tag.clone(), name: self.name.clone() }
    }
}

/// The end of an activity.
#[derive(Debug, Clone)]
pub struct Completion {
    /// Proves the lease; a stale one changes nothing.
    pub token: FlowToken,
    /// What to tell its instance, if anything.
    pub message: Option<Envelope>,
}

/// How the completion of an activity ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkOutcome {
    /// The activity is gone, and its instance told.
    Completed(Option<EnqueueOutcome>),
    /// The lease has expired or was ended, or the activity was taken back; nothing changed.
    Stale,
}

/// Answer to a completion.
#[derive(Debug, Clone)]
pub struct CompletionReply {
    /// How it ended.
    pub outcome: WorkOutcome,
    /// Turns that were leased to the requests that came along, with the requests' indices.
    pub turns: Vec<(usize, TurnItem)>,
    /// What the caller tells its own waiters.
    pub changes: Vec<FlowChange>,
}

/// How a renewal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewOutcome {
    /// The lease goes on. How the execution stands, for activities: `None` if the instance is
    /// gone.
    Renewed(Option<InstanceState>),
    /// The lease has expired or was ended, or the activity was taken back.
    Stale,
}

/// How giving back ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbandonOutcome {
    /// It is available again.
    Abandoned,
    /// The lease was not held any more (an expired one that nobody else took still counts as
    /// held); nothing changed.
    Stale,
}

/// An activity that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingWork {
    /// Which.
    pub key: WorkKey,
    /// How often it was taken, the present lease included.
    pub attempts: u32,
    /// Whether a worker has it now.
    pub leased: bool,
    /// When it can be taken, if that is later.
    pub next_at: Option<Timestamp>,
    /// Why its last try failed, as [`WorkRetries::retry_work`] was told.
    pub last_error: Option<String>,
    /// What the runtime put in.
    pub payload: Bytes,
}

/// Activities that are tried again.
#[async_trait]
pub trait WorkRetries: Send + Sync {
    /// Gives an activity back after a try that failed, as [`super::FlowStore::abandon`] does, and
    /// notes why.
    async fn retry_work(
        &self,
        token: FlowToken,
        delay: Duration,
        error: String,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError>;

    /// Activities of an instance that have not ended, oldest first.
    async fn pending_work(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<PendingWork>, StoreError>;
}
