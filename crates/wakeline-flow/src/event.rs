//! The events of a history: decisions of the code, and everything that happened to it.
//!
//! # Invariants
//! * Append-only: an event is never changed. New kinds may be added; no kind changes its meaning.
//! * Events are in the order in which the code saw and made them: replaying them one by one
//!   produces the same decisions, whatever the order of wake-ups was.
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
    /// The number of the event in its execution; the first is 1.
    pub id: u64,
    /// The content of the event.
    pub kind: EventKind,
    /// The location in the code at which the decision was made, such as `src/orders.rs:42`. Not
    /// compared on replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// The parent that waits for an instance, and the event that started the child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The instance that waits.
    pub instance: InstanceId,
    /// The execution that waits.
    pub execution: u64,
    /// The event that started the child.
    pub event: u64,
    /// Distinguishes the execution from those of other instances that had the same id; `None` if an
    /// earlier program started the child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

impl Parent {
    /// Whether both are the same event of the same execution. An earlier program wrote no identity;
    /// it is then not compared.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same_identity = match (&self.identity, &other.identity) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        same_identity
            && self.instance == other.instance
            && self.execution == other.execution
            && self.event == other.event
    }
}

/// An event from outside that the code has not taken yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Raised {
    /// The name of the event.
    pub name: String,
    /// The data of the event.
    pub data: Json,
}

/// What happens to a child that has not ended when the orchestration that started it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosePolicy {
    /// It is terminated: it ends at once, and its code does not run again.
    #[default]
    Terminate,
    /// Its cancellation is requested: its code may clean up first.
    RequestCancel,
    /// It continues.
    Abandon,
}

impl ClosePolicy {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The content of an event. The code makes decisions; all other events happen to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The execution began. This is always event 1.
    Started {
        /// The name of the orchestration.
        name: OrchestrationName,
        /// The version of the code that this execution runs.
        version: String,
        /// The input of the execution.
        input: Json,
        /// The parent that waits for the instance, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Parent>,
        /// The seed of random numbers and ids.
        seed: u64,
        /// Events that the previous execution had not taken.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        carried: Vec<Raised>,
    },
    /// A turn began. Until the next one, the code sees this time as the current time.
    Turn {
        /// The database's clock in microseconds since 1970.
        now: i64,
    },

    /// Decision: run an activity.
    ActivityScheduled {
        /// The name of the activity.
        name: String,
        /// The input of the activity.
        input: Json,
        /// Only workers that accept this tag take the activity.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<Tag>,
        /// The session that the activity belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        /// The retry policy.
        #[serde(default, skip_serializing_if = "ActivityPolicy::is_default")]
        policy: ActivityPolicy,
    },
    /// An activity returned a value.
    ActivityCompleted {
        /// The event that scheduled the activity.
        of: u64,
        /// The value that it returned.
        result: Json,
    },
    /// An activity failed, and is not retried.
    ActivityFailed {
        /// The event that scheduled the activity.
        of: u64,
        /// The error that it failed with.
        error: FlowError,
    },
    /// Decision: cancel an activity whose result is no longer needed.
    ActivityCancelled {
        /// The event that scheduled the activity.
        of: u64,
    },

    /// Decision: create a timer.
    TimerCreated {
        /// When the timer fires, in microseconds since 1970 by the database's clock.
        fire_at: i64,
    },
    /// A timer fired.
    TimerFired {
        /// The event that created the timer.
        of: u64,
    },
    /// Decision: cancel a timer.
    TimerCancelled {
        /// The event that created the timer.
        of: u64,
    },

    /// Decision: wait for the next event from outside with this name.
    EventAwaited {
        /// The name of the event.
        name: String,
    },
    /// An event arrived from outside. The oldest open wait for its name takes it; if there is none,
    /// it is buffered for the next wait.
    EventRaised {
        /// The name of the event.
        name: String,
        /// The data of the event.
        data: Json,
    },
    /// Decision: give up a wait. Later events go to the next wait, and so does an event that the
    /// wait had received and the code had not read.
    EventForgone {
        /// The event that began the wait.
        of: u64,
    },

    /// Decision: start another orchestration, and wait for it if `attached` is set.
    ChildStarted {
        /// The instance to start.
        instance: InstanceId,
        /// The name of the orchestration.
        name: OrchestrationName,
        /// The version of its code; the newest if none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// The input of the child.
        input: Json,
        /// Whether the end of the child is reported back.
        attached: bool,
        /// What happens to an attached child when this instance ends.
        #[serde(default, skip_serializing_if = "ClosePolicy::is_default")]
        close_policy: ClosePolicy,
    },
    /// A child returned a value.
    ChildCompleted {
        /// The event that started the child.
        of: u64,
        /// The value that it returned.
        result: Json,
    },
    /// A child failed.
    ChildFailed {
        /// The event that started the child.
        of: u64,
        /// The error that it failed with.
        error: FlowError,
    },
    /// Decision: cancel a child whose result is no longer needed.
    ChildCancelled {
        /// The event that started the child.
        of: u64,
    },

    /// Decision: set or remove the status text.
    StatusSet {
        /// The new text; `None` removes it.
        status: Option<String>,
    },
    /// Decision: set or remove a value of the key-value state.
    KvSet {
        /// The key to set.
        key: KvKey,
        /// The new value; `None` removes it.
        value: Option<Json>,
    },
    /// Decision: remove all values of the key-value state.
    KvCleared,
    /// Decision: push a message to a queue, in the commit of the turn.
    Pushed {
        /// The name of the queue.
        queue: QueueName,
        /// The partition; the default partition if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partition: Option<String>,
        /// The payload of the message.
        payload: Json,
    },
    /// Decision: send a webhook message to the endpoints of an application, in the commit of the
    /// turn.
    Emitted {
        /// The id or uid of the application.
        application: String,
        /// The type of the message.
        event_type: EventTypeName,
        /// The channels of the message.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        channels: Vec<Channel>,
        /// The payload of the message.
        payload: Json,
    },
    /// Decision: send an event to another instance.
    Signalled {
        /// The instance that receives the event.
        instance: InstanceId,
        /// The name of the event.
        name: String,
        /// The data of the event.
        data: Json,
    },

    /// Cancellation of the instance was requested.
    CancelRequested {
        /// The reason that was given.
        reason: String,
    },
    /// Decision: continue as a new execution with an empty history.
    ContinuedAsNew {
        /// The input of the new execution.
        input: Json,
        /// The version of its code; the newest if none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
    },
    /// Decision: the code returned a value.
    Completed {
        /// The value that it returned.
        output: Json,
    },
    /// Decision: the code returned an error, or the execution was cancelled or abandoned.
    Failed {
        /// The error that it ended with.
        error: FlowError,
    },
}

impl EventKind {
    /// Whether the code made this event as a decision; otherwise it happened to the code.
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
