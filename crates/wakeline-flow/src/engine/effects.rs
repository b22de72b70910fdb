//! The writes that a turn requests from the store, derived from the events that it appended.

use std::collections::HashSet;

use wakeline_core::{Channel, EventTypeName, InstanceId, KvKey, QueueName};

use super::state::{ExecutionFacts, OperationSlotKind};
use crate::error::FlowError;
use crate::event::{Event, EventKind, Parent, Raised};
use crate::json::Json;
use crate::message::{ActivityTask, FlowMessage};

/// A timer to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewTimer {
    /// The event that created the timer.
    pub event: u64,
    /// When it fires, in microseconds since 1970 by the database's clock.
    pub fire_at: i64,
}

/// A message to push to a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuePush {
    /// The event that created the message. Together with the instance, the execution and its
    /// identity it identifies the message.
    pub event: u64,
    /// The name of the queue.
    pub queue: QueueName,
    /// The partition; the default partition if there is none.
    pub partition: Option<String>,
    /// The payload of the message.
    pub payload: Json,
}

/// A webhook message for the endpoints of an application.
#[derive(Debug, Clone, PartialEq)]
pub struct HookEmit {
    /// The event that created the message. Together with the instance, the execution and its
    /// identity it identifies the message.
    pub event: u64,
    /// The id or uid of the application.
    pub application: String,
    /// The type of the message.
    pub event_type: EventTypeName,
    /// The channels of the message.
    pub channels: Vec<Channel>,
    /// The payload of the message.
    pub payload: Json,
}

/// A change of the key-value state.
#[derive(Debug, Clone, PartialEq)]
pub enum KvWrite {
    /// Sets a key to a value.
    Set(KvKey, Json),
    /// Removes the value of a key.
    Clear(KvKey),
    /// Removes all values.
    ClearAll,
}

/// Everything that a turn writes besides its events. Operations that were begun and cancelled in
/// the same turn are not included.
#[derive(Debug, Default)]
pub struct TurnEffects {
    /// Activities to run.
    pub activities: Vec<ActivityTask>,
    /// The scheduling events of activities that are no longer needed.
    pub cancelled_activities: Vec<u64>,
    /// Timers to set.
    pub timers: Vec<NewTimer>,
    /// The creating events of timers that are no longer needed.
    pub cancelled_timers: Vec<u64>,
    /// Instances to start, as [`FlowMessage::StartOrchestration`]; attached children with their
    /// parent.
    pub starts: Vec<FlowMessage>,
    /// Cancellation requests for children whose result is no longer needed, as
    /// [`FlowMessage::CancelInstance`].
    pub cancels: Vec<FlowMessage>,
    /// Whether there are children to close because the instance has ended.
    pub close_children: bool,
    /// Events for other instances, as [`FlowMessage::EventRaised`].
    pub signals: Vec<FlowMessage>,
    /// Messages to push to queues.
    pub pushes: Vec<QueuePush>,
    /// Webhook messages for the endpoints of applications.
    pub emits: Vec<HookEmit>,
    /// Changes of the status text, in order.
    pub status: Vec<Option<String>>,
    /// Changes of the key-value state, in order.
    pub kv: Vec<KvWrite>,
}

/// Whether and how a turn ended the execution.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum TurnEnd {
    /// The execution continues.
    #[default]
    Open,
    /// The code returned a value.
    Completed(Json),
    /// The code returned an error.
    Failed(FlowError),
    /// The execution was cancelled, with this reason.
    Cancelled(String),
    /// The instance continues as a new execution.
    ContinuedAsNew {
        /// The input of the new execution.
        input: Json,
        /// The version of its code; the newest if none is named.
        version: Option<String>,
        /// Events that the code had not taken.
        carried: Vec<Raised>,
        /// The reason of a cancellation request that the code has not seen; it is sent to the new
        /// execution.
        cancel: Option<String>,
    },
}

impl TurnEnd {
    /// Whether the instance has ended.
    pub(super) fn is_final(&self) -> bool {
        !matches!(self, Self::Open | Self::ContinuedAsNew { .. })
    }
}

impl TurnEffects {
    /// Derives the effects from the events of a turn and the operations cancelled during it.
    pub(crate) fn of(
        facts: &ExecutionFacts,
        events: &[Event],
        given_up: Vec<(u64, OperationSlotKind)>,
    ) -> Self {
        let mut effects = Self::default();
        let given_up: Vec<_> =
            given_up.into_iter().filter(|(_, kind)| !kind.is_abandoned()).collect();
        let gone: HashSet<u64> = given_up.iter().map(|(id, _)| *id).collect();
        for event in events.iter().filter(|event| !gone.contains(&event.id)) {
            effects.add(facts, event);
        }
        let first = events.first().map_or(u64::MAX, |event| event.id);
        for (id, kind) in given_up.into_iter().filter(|(id, _)| *id < first) {
            match kind {
                OperationSlotKind::Activity => effects.cancelled_activities.push(id),
                OperationSlotKind::Timer => effects.cancelled_timers.push(id),
                OperationSlotKind::Child { instance, .. } => {
                    effects.cancels.push(cancel(facts, id, instance))
                }
                OperationSlotKind::Wait { .. } => {}
            }
        }
        effects
    }

    fn add(&mut self, facts: &ExecutionFacts, event: &Event) {
        match &event.kind {
            EventKind::ActivityScheduled { .. } => self.activities.extend(task(facts, event)),
            EventKind::TimerCreated { fire_at } => {
                self.timers.push(NewTimer { event: event.id, fire_at: *fire_at });
            }
            EventKind::ChildStarted { .. } => self.starts.extend(start(facts, event)),
            EventKind::Signalled { instance, name, data } => {
                self.signals.push(FlowMessage::EventRaised {
                    instance: instance.clone(),
                    name: name.clone(),
                    data: data.clone(),
                });
            }
            EventKind::Pushed { queue, partition, payload } => self.pushes.push(QueuePush {
                event: event.id,
                queue: queue.clone(),
                partition: partition.clone(),
                payload: payload.clone(),
            }),
            EventKind::Emitted { .. } => self.emits.extend(emit(event)),
            EventKind::StatusSet { status } => self.status.push(status.clone()),
            EventKind::KvSet { key, value } => self.kv.push(match value {
                Some(value) => KvWrite::Set(key.clone(), value.clone()),
                None => KvWrite::Clear(key.clone()),
            }),
            EventKind::KvCleared => self.kv.push(KvWrite::ClearAll),
            _ => {}
        }
    }
}

fn task(facts: &ExecutionFacts, event: &Event) -> Option<ActivityTask> {
    let EventKind::ActivityScheduled { name, input, tag, session, policy } = &event.kind else {
        return None;
    };
    Some(ActivityTask {
        instance: facts.instance.clone(),
        execution: facts.execution,
        event: event.id,
        identity: Some(facts.identity()),
        orchestration: facts.name.clone(),
        name: name.clone(),
        input: input.clone(),
        tag: tag.clone(),
        session: session.clone(),
        policy: policy.clone(),
    })
}

fn emit(event: &Event) -> Option<HookEmit> {
    let EventKind::Emitted { application, event_type, channels, payload } = &event.kind else {
        return None;
    };
    Some(HookEmit {
        event: event.id,
        application: application.clone(),
        event_type: event_type.clone(),
        channels: channels.clone(),
        payload: payload.clone(),
    })
}

fn start(facts: &ExecutionFacts, event: &Event) -> Option<FlowMessage> {
    let EventKind::ChildStarted { instance, name, version, input, attached, .. } = &event.kind
    else {
        return None;
    };
    let parent = attached.then(|| parent_of(facts, event.id));
    Some(FlowMessage::StartOrchestration {
        instance: instance.clone(),
        name: name.clone(),
        version: version.clone(),
        input: input.clone(),
        parent,
    })
}

fn cancel(facts: &ExecutionFacts, event: u64, instance: InstanceId) -> FlowMessage {
    let reason = format!("the parent {} no longer waits for this instance", facts.instance);
    FlowMessage::CancelInstance { instance, reason, parent: Some(parent_of(facts, event)) }
}

/// Returns the parent of a child that was started by this event.
fn parent_of(facts: &ExecutionFacts, event: u64) -> Parent {
    Parent {
        instance: facts.instance.clone(),
        execution: facts.execution,
        event,
        identity: Some(facts.identity()),
    }
}
