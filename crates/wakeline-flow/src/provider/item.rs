//! The types that are passed to and returned by a provider.

use std::time::Duration;

use wakeline_core::{
    ActivityFilter, Capability, InstanceId, OrchestrationName, OwnerId, SessionId, Tag, TagFilter,
    Timestamp,
};
use wakeline_store::flow::{ExecutionEnd, InstanceState, KvChange, KvEntry, StatusChange};
use wakeline_store::hook::NewMessage;
use wakeline_store::{BoxError, PushItem, TimeLimit};

use crate::event::{Event, Parent};
use crate::message::{ActivityTask, FlowMessage};

/// The reason why a provider failed, by what the caller can do next.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The caller may try again later; the outcome of the call may be unknown.
    #[error("cannot {operation} at the moment: try again")]
    Retryable {
        /// The operation that failed, as a verb: "read the instance".
        operation: &'static str,
        /// The underlying error.
        #[source]
        source: BoxError,
    },
    /// Trying again will not help.
    #[error("cannot {operation}, and trying again will not help")]
    Permanent {
        /// The operation that failed, as a verb: "read the instance".
        operation: &'static str,
        /// The underlying error.
        #[source]
        source: BoxError,
    },
    /// The lock is no longer held: another worker may have the item, or the lease was revoked.
    #[error("the lease is no longer held: another worker may have the item by now")]
    LockLost,
    /// The provider is shutting down.
    #[error("the provider is shutting down and accepts no more calls")]
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
    /// The instance that the turn belongs to.
    pub instance: InstanceId,
    /// The name of the orchestration; `None` before the first turn.
    pub name: Option<OrchestrationName>,
    /// The parent instance that waits for this one, and the event that it waits for.
    pub parent: Option<(InstanceId, u64)>,
    /// The token that proves the lease.
    pub lock_token: String,
    /// The highest number of deliveries among its messages, this time included.
    pub attempt: u32,
    /// The current execution; 0 before the first turn.
    pub execution: u64,
    /// The state of the current execution; `None` before the first turn.
    pub state: Option<InstanceState>,
    /// The last event of the execution; 0 if it has none.
    pub last_event: u64,
    /// The history of the execution.
    pub history: ItemHistory,
    /// The reason why the history or a message could not be decoded, if that happened.
    pub corrupt: Option<String>,
    /// Visible messages, in order of arrival.
    pub messages: Vec<FlowMessage>,
    /// The key-value state at the start of the execution.
    pub kv: Vec<KvEntry>,
    /// The provider's clock at the fetch.
    pub now: Timestamp,
    /// Distinguishes this instance from others that had or will have the same id: an instance that
    /// is deleted and started again gets another value. What a runtime keeps in memory is valid
    /// only for the same value.
    pub life: i64,
}

/// The history of a turn's execution.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemHistory {
    /// The complete history.
    Whole(Vec<Event>),
    /// The history is long: read it unless the execution is in memory.
    Long,
}

/// Everything that a turn did.
#[derive(Debug, Clone)]
pub struct OrchestrationAck {
    /// The instance that the turn belongs to.
    pub instance: InstanceId,
    /// The token that proves the lease.
    pub lock_token: String,
    /// The execution that the other fields refer to.
    pub execution: u64,
    /// The orchestration's name and the parent, if this was the first turn of the instance.
    pub new_instance: Option<(OrchestrationName, Option<Parent>)>,
    /// The capability that the execution requires from now on, and the version to show to readers.
    pub pinned: Option<(Capability, String)>,
    /// New events.
    pub history_delta: Vec<Event>,
    /// Activities to run.
    pub worker_items: Vec<ActivityTask>,
    /// Messages to send, each with the time at which it becomes visible; `None` is now.
    pub orchestrator_items: Vec<(FlowMessage, Option<Timestamp>)>,
    /// Activities to cancel, by the event that scheduled them.
    pub cancelled_activities: Vec<u64>,
    /// Timers to cancel, by the event that created them.
    pub cancelled_timers: Vec<u64>,
    /// Changes of the status text, in order.
    pub status: Vec<StatusChange>,
    /// Changes of the key-value state, in order.
    pub kv: Vec<KvChange>,
    /// The state of the execution after the turn.
    pub end: ExecutionEnd,
    /// Messages to push to queues.
    pub pushes: Vec<PushItem>,
    /// Webhook messages for the endpoints of applications.
    pub emits: Vec<NewMessage>,
    /// Whether to remove everything that waits for the instance, including activities.
    pub clear: bool,
}

/// A leased activity.
#[derive(Debug, Clone)]
pub struct FetchedWork {
    /// The work to do; normally [`FlowMessage::ActivityExecute`].
    pub item: FlowMessage,
    /// The token that proves the lease.
    pub lock_token: String,
    /// The number of times that it was fetched, this time included.
    pub attempt: u32,
    /// The state of the execution that scheduled it; `None` if the execution no longer exists.
    pub state: Option<InstanceState>,
    /// The tag of the activity.
    pub tag: Option<Tag>,
    /// The session that the activity belongs to.
    pub session: Option<SessionId>,
}

/// The activities that a worker accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkFilter {
    /// The accepted tags and names.
    pub activities: ActivityFilter,
    /// The owner for which sessions are claimed; `None` accepts only activities without a session.
    pub session: Option<SessionLock>,
}

/// The owner for which sessions are claimed, and the length of the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLock {
    /// The owner of the sessions.
    pub owner: OwnerId,
    /// How long a claimed session belongs to the owner without renewal.
    pub lock_timeout: Duration,
}

impl Default for WorkFilter {
    fn default() -> Self {
        Self { activities: ActivityFilter::of_tags(TagFilter::untagged()), session: None }
    }
}

/// The outcome of enqueueing a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// The message was stored and will be delivered.
    Queued,
    /// Only for a start: the instance exists or is waiting to be started.
    Exists,
    /// The instance has ended.
    Ended,
}
