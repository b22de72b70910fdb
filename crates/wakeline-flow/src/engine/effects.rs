//! What a turn asks the store for, drawn from the events that it appended.

use std::collections::HashSet;

use wakeline_core::{Channel, EventTypeName, InstanceId, KvKey, QueueName};

use super::state::{About, SlotKind};
use crate::error::FlowError;
use crate::event::{Event, EventKind, Parent, Raised};
use crate::json::Json;
use crate::message::{ActivityTask, WorkItem};

/// A timer to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewTimer {
    /// The event that made it.
    pub event: u64,
    /// When it fires, in microseconds since 1970 by the database's clock.
    pub fire_at: i64,
}

/// A message for a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuePush {
    /// The event that made it; with the instance, the execution and its identity it identifies the
    /// message.
    pub event: u64,
    /// The queue.
    pub queue: QueueName,
    /// The partition.
    pub partition: Option<String>,
    /// The payload.
    pub payload: Json,
}

/// A message for the endpoints of an application.
#[derive(Debug, Clone, PartialEq)]
pub struct HookEmit {
    /// The event that made it; with the instance's life and the execution it identifies the
    /// message.
    pub event: u64,
    /// The application, by its id or by its user's own.
    pub application: String,
    /// What it tells of.
    pub event_type: EventTypeName,
    /// Its channels.
    pub channels: Vec<Channel>,
    /// The payload.
    pub payload: Json,
}

/// A change of the key-value state.
#[derive(Debug, Clone, PartialEq)]
pub enum KvWrite {
    /// The key has this value now.
    Set(KvKey, Json),
    /// The key has no value now.
    Clear(KvKey),
    /// No key has a value now.
    ClearAll,
}

/// What a turn asks for besides its events. What was begun and given up in the same turn is not
/// in it.
#[derive(Debug, Default)]
pub struct Effects {
    /// Activities to run.
    pub activities: Vec<ActivityTask>,
    /// Events that scheduled activities which are not wanted any more.
    pub cancelled_activities: Vec<u64>,
    /// Timers to set.
    pub timers: Vec<NewTimer>,
    /// Events that made timers which are not wanted any more.
    pub cancelled_timers: Vec<u64>,
    /// Instances to start: [`WorkItem::StartOrchestration`], attached ones with their parent.
    pub starts: Vec<WorkItem>,
    /// Requests to children that nobody waits for any more: [`WorkItem::CancelInstance`].
    pub cancels: Vec<WorkItem>,
    /// Whether children are left that have to be closed, because the instance has ended.
    pub close_children: bool,
    /// Events for other instances: [`WorkItem::EventRaised`].
    pub signals: Vec<WorkItem>,
    /// Messages for queues.
    pub pushes: Vec<QueuePush>,
    /// Messages for the endpoints of applications.
    pub emits: Vec<HookEmit>,
    /// Changes of the status text, in order.
    pub status: Vec<Option<String>>,
    /// Changes of the key-value state, in order.
    pub kv: Vec<KvWrite>,
}

/// How a turn left the execution.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum End {
    /// It goes on.
    #[default]
    Open,
    /// The code returned.
    Completed(Json),
    /// The code failed.
    Failed(FlowError),
    /// It was cancelled.
    Cancelled(String),
    /// It goes on as a new execution.
    ContinuedAsNew {
        /// Its input.
        input: Json,
        /// The version of its code; the newest if none is named.
        version: Option<String>,
        /// Events that nobody has taken.
        carried: Vec<Raised>,
        /// A request to cancel that the code has not seen: to be sent to the new execution.
        cancel: Option<String>,
    },
}

impl End {
    /// Whether the instance has ended.
    pub(super) fn is_final(&self) -> bool {
        !matches!(self, Self::Open | Self::ContinuedAsNew { .. })
    }
}

impl Effects {
    /// Draws the effects from a turn's events and from what was given up during it.
    pub(crate) fn of(about: &About, events: &[Event], given_up: Vec<(u64, SlotKind)>) -> Self {
        let mut effects = Self::default();
        let given_up: Vec<_> =
            given_up.into_iter().filter(|(_, kind)| !kind.is_abandoned()).collect();
        let gone: HashSet<u64> = given_up.iter().map(|(id, _)| *id).collect();
        for event in events.iter().filter(|event| !gone.contains(&event.id)) {
            effects.add(about, event);
        }
        let first = events.first().map_or(u64::MAX, |event| event.id);
        for (id, kind) in given_up.into_iter().filter(|(id, _)| *id < first) {
            match kind {
                SlotKind::Activity => effects.cancelled_activities.push(id),
                SlotKind::Timer => effects.cancelled_timers.push(id),
                SlotKind::Child { instance, .. } => {
                    effects.cancels.push(cancel(about, id, instance))
                }
                SlotKind::Wait { .. } => {}
            }
        }
        effects
    }

    fn add(&mut self, about: &About, event: &Event) {
        match &event.kind {
            EventKind::ActivityScheduled { .. } => self.activities.extend(task(about, event)),
            EventKind::TimerCreated { fire_at } => {
                self.timers.push(NewTimer { event: event.id, fire_at: *fire_at });
            }
            EventKind::ChildStarted { .. } => self.starts.extend(start(about, event)),
            EventKind::Signalled { instance, name, data } => {
                self.signals.push(WorkItem::EventRaised {
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

fn task(about: &About, event: &Event) -> Option<ActivityTask> {
    let EventKind::ActivityScheduled { name, input, tag, session, policy } = &event.kind else {
        return None;
    };
    Some(ActivityTask {
        instance: about.instance.clone(),
        execution: about.execution,
        event: event.id,
        identity: Some(about.identity()),
        orchestration: about.name.clone(),
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

fn start(about: &About, event: &Event) -> Option<WorkItem> {
    let EventKind::ChildStarted { instance, name, version, input, attached, .. } = &event.kind
    else {
        return None;
    };
    let parent = attached.then(|| parent_of(about, event.id));
    Some(WorkItem::StartOrchestration {
        instance: instance.clone(),
        name: name.clone(),
        version: version.clone(),
        input: input.clone(),
        parent,
    })
}

fn cancel(about: &About, event: u64, instance: InstanceId) -> WorkItem {
    let reason = format!("the parent {} no longer waits for this instance", about.instance);
    WorkItem::CancelInstance { instance, reason, parent: Some(parent_of(about, event)) }
}

/// Whom a child belongs to that was started by an event of this execution.
fn parent_of(about: &About, event: u64) -> Parent {
    Parent {
        instance: about.instance.clone(),
        execution: about.execution,
        event,
        identity: Some(about.identity()),
    }
}
