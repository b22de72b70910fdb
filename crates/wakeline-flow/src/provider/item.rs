//! What goes in and out of a provider.

use std::time::Duration;

use wakeline_core::{
    ActivityFilter, Capability, InstanceId, OrchestrationName, OwnerId, SessionId, Tag, TagFilter,
    Timestamp,
};
use wakeline_store::flow::{ExecutionEnd, InstanceState, KvChange, KvEntry, StatusChange};
use wakeline_store::hook::NewMessage;
use wakeline_store::{BoxError, PushItem, TimeLimit};

use crate::event::{Event, Parent};
use crate::message::{ActivityTask, WorkItem};

/// Why a provider failed, by what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Try again later; the outcome may be unknown.
    #[error("cannot {operation} at the moment: try again")]
    Retryable {
        /// The operation that failed, as a verb: "read the instance".
        operation: &'static str,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// Trying again will not help.
    #[error("cannot {operation}, and trying again will not help")]
    Permanent {
        /// The operation that failed, as a verb: "read the instance".
        operation: &'static str,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// The lock is not held any more: somebody else may work on it, or it was taken back.
    #[error("the lease is no longer held: another worker may have the item by now")]
    LockLost,
    /// The provider is shutting down.
    #[error("the provider is shutting down: no call is possible any more")]
    Closed,
}

impl ProviderError {
    /// Whether the call took longer than the store allows ([`TimeLimit`]), while others may be fast
    /// enough.
    pub fn exceeded_time_limit(&self) -> bool {
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            if error.is::<TimeLimit>() {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

/// A leased turn.
#[derive(Debug, Clone)]
pub struct OrchestrationItem {
    /// Whose turn.
    pub instance: InstanceId,
    /// The orchestration; `None` before its first turn.
    pub name: Option<OrchestrationName>,
    /// Who waits for it, and for which event.
    pub parent: Option<(InstanceId, u64)>,
    /// Proves the lease.
    pub lock_token: String,
    /// How often its messages were taken at most, this time included.
    pub attempt: u32,
    /// The current execution; 0 before the first turn.
    pub execution: u64,
    /// How it stands; `None` before the first turn.
    pub state: Option<InstanceState>,
    /// The last event of the execution; 0 if it has none.
    pub last_event: u64,
    /// Its history.
    pub history: ItemHistory,
    /// Why its history or a message could not be decoded.
    pub corrupt: Option<String>,
    /// Visible messages, in order of arrival.
    pub messages: Vec<WorkItem>,
    /// The key-value state as of the start of the execution.
    pub kv: Vec<KvEntry>,
    /// The provider's clock at the fetch.
    pub now: Timestamp,
    /// Identifies this life of the instance: one that is deleted and made anew under the same id
    /// has another. What a runtime remembers is valid only for the same one.
    pub life: i64,
}

/// The history of an item.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemHistory {
    /// All of it.
    Whole(Vec<Event>),
    /// It is long: to be read if it is not remembered.
    Long,
}

/// Everything that a turn did.
#[derive(Debug, Clone)]
pub struct OrchestrationAck {
    /// Whose turn.
    pub instance: InstanceId,
    /// Proves the lease.
    pub lock_token: String,
    /// The execution that the rest is about.
    pub execution: u64,
    /// Name and parent, if this was the first turn of the instance.
    pub birth: Option<(OrchestrationName, Option<Parent>)>,
    /// What the execution needs from now on, with the version for readers.
    pub pinned: Option<(Capability, String)>,
    /// New events.
    pub history_delta: Vec<Event>,
    /// Activities to run.
    pub worker_items: Vec<ActivityTask>,
    /// Messages to send, with the time from which they are visible, if that is later than now.
    pub orchestrator_items: Vec<(WorkItem, Option<Timestamp>)>,
    /// Activities to take back, by the event that scheduled them.
    pub cancelled_activities: Vec<u64>,
    /// Timers to take back, by the event that made them.
    pub cancelled_timers: Vec<u64>,
    /// Changes of the status text, in order.
    pub status: Vec<StatusChange>,
    /// Changes of the key-value state, in order.
    pub kv: Vec<KvChange>,
    /// How the execution stands afterwards.
    pub end: ExecutionEnd,
    /// Messages to queues.
    pub pushes: Vec<PushItem>,
    /// Messages to endpoints of applications.
    pub emits: Vec<NewMessage>,
    /// Removes everything that waits for the instance, activities included.
    pub clear: bool,
}

/// A leased activity.
#[derive(Debug, Clone)]
pub struct FetchedWork {
    /// What to do; normally [`WorkItem::ActivityExecute`].
    pub item: WorkItem,
    /// Proves the lease.
    pub lock_token: String,
    /// How often it was taken, this time included.
    pub attempt: u32,
    /// How the execution that scheduled it stands; `None` if it is gone.
    pub state: Option<InstanceState>,
    /// Its tag.
    pub tag: Option<Tag>,
    /// Its session.
    pub session: Option<SessionId>,
}

/// Which activities a worker takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkFilter {
    /// By tag and by name.
    pub activities: ActivityFilter,
    /// By session; without, only activities without one.
    pub session: Option<Session>,
}

/// On whose behalf sessions are claimed, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The owner.
    pub owner: OwnerId,
    /// How long a claimed session is the owner's.
    pub lock_timeout: Duration,
}

impl Default for WorkFilter {
    fn default() -> Self {
        Self { activities: ActivityFilter::of_tags(TagFilter::untagged()), session: None }
    }
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// It will be delivered.
    Queued,
    /// A start only: the instance exists, or waits to be started.
    Exists,
    /// The instance has ended.
    Ended,
}
