//! What a history consists of: decisions of the code, and what happened to it.
//!
//! # Invariants
//! * Append-only: an event is never changed. New kinds may come, none is given another meaning.
//! * Events stand in the order in which the code saw and made them: replaying them one by one
//!   gives the same decisions again, whatever the order of waking was.
//! * A decision is compared with its replay without its location.

use serde::{Deserialize, Serialize};
use wakeline_core::{
    Channel, EventTypeName, InstanceId, KvKey, OrchestrationName, QueueName, SessionId, Tag,
};

use crate::error::FlowError;
use crate::json::Json;
use crate::retry::ActivityPolicy;

/// One entry of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number in the execution; the first is 1.
    pub id: u64,
    /// What it says.
    pub kind: EventKind,
    /// Where in the code the decision was made: `src/orders.rs:42`. Not compared on replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// Who waits for an instance, and under which of its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The waiting instance.
    pub instance: InstanceId,
    /// Its execution.
    pub execution: u64,
    /// The event that started the child.
    pub event: u64,
    /// Tells the execution from those of other lives of the instance; nothing if an earlier
    /// program started the child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

impl Parent {
    /// Whether both are the same event of the same execution. If an earlier program wrote one of
    /// them, it has no identity, and the rest decides.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same_life = match (&self.identity, &other.identity) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        same_life
            && self.instance == other.instance
            && self.execution == other.execution
            && self.event == other.event
    }
}

/// An event from outside that no code has taken yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Raised {
    /// Its name.
    pub name: String,
    /// What it carries.
    pub data: Json,
}

/// What becomes of a child that has not ended when the orchestration that started it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosePolicy {
    /// It is terminated: it ends at once, without its code.
    #[default]
    Terminate,
    /// It is asked to cancel: its code may clean up first.
    RequestCancel,
    /// It goes on.
    Abandon,
}

impl ClosePolicy {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What an event says. Decisions are made by the code; the rest happens to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The execution began. Always event 1.
    Started {
        /// The orchestration.
        name: OrchestrationName,
        /// The version of its code that this execution runs.
        version: String,
        /// Its input.
        input: Json,
        /// Who waits for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Parent>,
        /// Where random numbers and ids come from.
        seed: u64,
        /// Events that the execution before had not taken.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        carried: Vec<Raised>,
    },
    /// A turn began, at this time by the database's clock in microseconds since 1970. What the
    /// code calls "now" until the next one.
    Turn {
        /// The time.
        now: i64,
    },

    /// Decision: run an activity.
    ActivityScheduled {
        /// The activity.
        name: String,
        /// Its input.
        input: Json,
        /// Which workers take it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<Tag>,
        /// The session that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        /// How it is retried.
        #[serde(default, skip_serializing_if = "ActivityPolicy::is_default")]
        policy: ActivityPolicy,
    },
    /// An activity returned.
    ActivityCompleted {
        /// The event that scheduled it.
        of: u64,
        /// What it returned.
        result: Json,
    },
    /// An activity failed for good.
    ActivityFailed {
        /// The event that scheduled it.
        of: u64,
        /// Why.
        error: FlowError,
    },
    /// Decision: an activity is not wanted any more.
    ActivityCancelled {
        /// The event that scheduled it.
        of: u64,
    },

    /// Decision: wait until a time, in microseconds since 1970 by the database's clock.
    TimerCreated {
        /// The time.
        fire_at: i64,
    },
    /// A timer's time came.
    TimerFired {
        /// The event that made it.
        of: u64,
    },
    /// Decision: a timer is not wanted any more.
    TimerCancelled {
        /// The event that made it.
        of: u64,
    },

    /// Decision: take the next event of a name from outside.
    EventAwaited {
        /// The name.
        name: String,
    },
    /// An event came from outside. The oldest open wait of its name takes it; without one it is
    /// kept for the next.
    EventRaised {
        /// The name.
        name: String,
        /// What it carries.
        data: Json,
    },
    /// Decision: a wait is given up. What comes later goes to the next one, and so does what the
    /// wait had been given and the code had not looked at.
    EventForgone {
        /// The event that began the wait.
        of: u64,
    },

    /// Decision: start another orchestration, and wait for it if `attached`.
    ChildStarted {
        /// The instance to start.
        instance: InstanceId,
        /// The orchestration.
        name: OrchestrationName,
        /// The version of its code; the newest if none is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// Its input.
        input: Json,
        /// Whether its end is reported back.
        attached: bool,
        /// What becomes of an attached child when this instance ends.
        #[serde(default, skip_serializing_if = "ClosePolicy::is_default")]
        close_policy: ClosePolicy,
    },
    /// A child returned.
    ChildCompleted {
        /// The event that started it.
        of: u64,
        /// What it returned.
        result: Json,
    },
    /// A child failed.
    ChildFailed {
        /// The event that started it.
        of: u64,
        /// Why.
        error: FlowError,
    },
    /// Decision: a child is not wanted any more; it is cancelled.
    ChildCancelled {
        /// The event that started it.
        of: u64,
    },

    /// Decision: the status text, or none.
    StatusSet {
        /// The text.
        status: Option<String>,
    },
    /// Decision: a value of the key-value state, or none.
    KvSet {
        /// The key.
        key: KvKey,
        /// The value.
        value: Option<Json>,
    },
    /// Decision: no key has a value.
    KvCleared,
    /// Decision: a message to a queue, in the turn's own commit.
    Pushed {
        /// The queue.
        queue: QueueName,
        /// The partition.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partition: Option<String>,
        /// The payload.
        payload: Json,
    },
    /// Decision: a message to the endpoints of an application, in the turn's own commit.
    Emitted {
        /// The application, by its id or by its user's own.
        application: String,
        /// What it tells of.
        event_type: EventTypeName,
        /// Its channels.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        channels: Vec<Channel>,
        /// The payload.
        payload: Json,
    },
    /// Decision: an event to another instance.
    Signalled {
        /// The instance.
        instance: InstanceId,
        /// The event's name.
        name: String,
        /// What it carries.
        data: Json,
    },

    /// Somebody asked for the instance to end.
    CancelRequested {
        /// Why.
        reason: String,
    },
    /// Decision: go on as a new execution with an empty history.
    ContinuedAsNew {
        /// Its input.
        input: Json,
        /// The version of its code; the newest if none is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
    },
    /// Decision: the code returned.
    Completed {
        /// What.
        output: Json,
    },
    /// Decision: the code failed, or was given up, or was cancelled.
    Failed {
        /// Why.
        error: FlowError,
    },
}

impl EventKind {
    /// Whether the code made it; otherwise it happened to the code.
    pub fn is_decision(&self) -> bool {
        !matches!(
            self,
            Self::Started { .. }
                | Self::Turn { .. }
                | Self::ActivityCompleted { .. }
                | Self::ActivityFailed { .. }
                | Self::TimerFired { .. }
                | Self::EventRaised { .. }
                | Self::ChildCompleted { .. }
                | Self::ChildFailed { .. }
                | Self::CancelRequested { .. }
        )
    }
}
