//! Converts the result of a turn into the ack that the provider commits.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use wakeline_core::{
    ApplicationRef, EventId, HookMessageId, InstanceId, MESSAGE_RETENTION_DEFAULT, MessageId,
    NameError, OrchestrationName, PartitionName, Timestamp, TransactionId, Uid,
};
use wakeline_store::PushItem;
use wakeline_store::flow::{ExecutionEnd, InstanceState, KvChange, StatusChange};
use wakeline_store::hook::NewMessage;

use super::incoming::{Beginning, Incoming};
use crate::capability::capability;
use crate::engine::{Execution, HookEmit, KvWrite, QueuePush, TurnEffects, TurnEnd, TurnResult};
use crate::error::{ErrorOrigin, FailureKind, FlowError};
use crate::event::{Event, EventKind, Parent};
use crate::message::FlowMessage;
use crate::provider::OrchestrationAck;

/// Creates the ack of a turn.
pub(super) fn of(
    incoming: Incoming,
    execution: &Execution,
    result: TurnResult,
) -> Result<OrchestrationAck, NameError> {
    let TurnResult { events, effects, end } = result;
    let mut ack = empty(&incoming, execution.execution());
    if let Some(beginning) = &incoming.beginning {
        let version = execution.version();
        ack.new_instance = Some((beginning.name.clone(), beginning.parent.clone()));
        ack.pinned = Some((capability(&beginning.name, Some(version))?, version.to_owned()));
    }
    ack.history_delta = events;
    let item = &incoming.item;
    let builder = AckBuilder { instance: &item.instance, life: item.life, execution };
    let close_children = effects.close_children;
    builder.effects(&mut ack, effects)?;
    ack.orchestrator_items.extend(incoming.refusals(execution.parent()));
    builder.end(&mut ack, end);
    if close_children {
        let close = FlowMessage::CloseChildren { instance: builder.instance.clone() };
        ack.orchestrator_items.push((close, None));
    }
    Ok(ack)
}

/// Creates the ack of a turn whose messages had no effect.
pub(super) fn without_effect(incoming: Incoming) -> OrchestrationAck {
    let mut ack = empty(&incoming, incoming.item.execution);
    ack.orchestrator_items = incoming.refusals(None);
    ack
}

/// Creates the ack that ends an instance as failed without running its code.
pub(super) fn given_up(
    incoming: Incoming,
    parent: Option<Parent>,
    error: FlowError,
) -> OrchestrationAck {
    let item = &incoming.item;
    let number = incoming.beginning.as_ref().map_or(item.execution, |begun| begun.execution);
    let mut ack = empty(&incoming, number);
    let mut kinds = Vec::new();
    if let Some(beginning) = &incoming.beginning {
        ack.new_instance = Some((beginning.name.clone(), beginning.parent.clone()));
        kinds.push(started(beginning));
    }
    kinds.push(EventKind::Turn { now: item.now.0 });
    kinds.push(EventKind::Failed { error: error.clone() });
    let first = if incoming.beginning.is_some() { 1 } else { item.last_event + 1 };
    let event = |(id, kind)| Event { id, kind, at: None };
    ack.history_delta = (first..).zip(kinds).map(event).collect();
    ack.orchestrator_items = incoming.refusals(parent.as_ref());
    let name = incoming.beginning.as_ref().map(|begun| begun.name.clone()).or(item.name.clone());
    let origin = ErrorOrigin::Child { name, instance: item.instance.clone() };
    let failed = Err(error.clone().with_origin(origin));
    ack.orchestrator_items
        .extend(parent.map(|parent| (FlowMessage::child_done(parent, failed), None)));
    ack.end = ended(InstanceState::Failed, &error);
    ack.clear = true;
    ack
}

fn started(beginning: &Beginning) -> EventKind {
    EventKind::Started {
        name: beginning.name.clone(),
        version: beginning.version.clone().unwrap_or_default(),
        input: beginning.input.clone(),
        parent: beginning.parent.clone(),
        seed: 0,
        carried: beginning.carried.clone(),
    }
}

fn empty(incoming: &Incoming, execution: u64) -> OrchestrationAck {
    OrchestrationAck {
        instance: incoming.item.instance.clone(),
        lock_token: incoming.item.lock_token.clone(),
        execution,
        new_instance: None,
        pinned: None,
        history_delta: Vec::new(),
        worker_items: Vec::new(),
        orchestrator_items: Vec::new(),
        cancelled_activities: Vec::new(),
        cancelled_timers: Vec::new(),
        status: Vec::new(),
        kv: Vec::new(),
        end: ExecutionEnd::Open,
        pushes: Vec::new(),
        emits: Vec::new(),
        clear: false,
    }
}

fn ended(state: InstanceState, error: &FlowError) -> ExecutionEnd {
    let output = serde_json::to_vec(error).expect("an error of texts and numbers is JSON");
    ExecutionEnd::Ended { state, output: Some(Bytes::from(output)) }
}

/// Adds the result of a turn to its ack.
struct AckBuilder<'a> {
    instance: &'a InstanceId,
    life: i64,
    execution: &'a Execution,
}

impl AckBuilder<'_> {
    fn effects(&self, ack: &mut OrchestrationAck, effects: TurnEffects) -> Result<(), NameError> {
        ack.worker_items = effects.activities;
        ack.cancelled_activities = effects.cancelled_activities;
        ack.cancelled_timers = effects.cancelled_timers;
        for timer in effects.timers {
            let fired = FlowMessage::TimerFired {
                instance: self.instance.clone(),
                execution: self.execution.execution(),
                event: timer.event,
                fire_at: timer.fire_at,
            };
            ack.orchestrator_items.push((fired, Some(Timestamp(timer.fire_at))));
        }
        let now = effects.starts.into_iter().chain(effects.signals).chain(effects.cancels);
        ack.orchestrator_items.extend(now.map(|item| (item, None)));
        ack.status = effects.status.into_iter().map(status).collect();
        ack.kv = effects.kv.into_iter().map(kv).collect();
        let pushes: Result<_, _> = effects.pushes.into_iter().map(|push| self.push(push)).collect();
        ack.pushes = pushes?;
        let emits: Result<_, _> = effects.emits.into_iter().map(|emit| self.emit(emit)).collect();
        ack.emits = emits?;
        Ok(())
    }

    /// Creates a message to a queue. Its transaction id contains the decision, so that the message
    /// is stored once, and the identity of the execution, so that another instance with the same id
    /// sends other messages.
    fn push(&self, push: QueuePush) -> Result<PushItem, NameError> {
        let (number, identity) = (self.execution.execution(), self.execution.identity());
        let decision = format!("{}/{number}/{}/{identity}", self.instance, push.event);
        let transaction_id = TransactionId::new(&decision).or_else(|_| {
            let digest = Sha256::digest(decision.as_bytes());
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            TransactionId::new(&hex)
        })?;
        Ok(PushItem {
            queue: push.queue,
            partition: match push.partition {
                Some(name) => PartitionName::new(name)?,
                None => PartitionName::default_partition(),
            },
            id: MessageId::generate(),
            transaction_id,
            trace_id: None,
            payload: Bytes::copy_from_slice(push.payload.as_str().as_bytes()),
            producer: None,
        })
    }

    /// Creates a webhook message. Its event id contains the decision, so that the message is stored
    /// once, and the `life` of the instance rather than its id, which can be used again.
    fn emit(&self, emit: HookEmit) -> Result<NewMessage, NameError> {
        let decision = format!("flow.{}.{}.{}", self.life, self.execution.execution(), emit.event);
        Ok(NewMessage {
            id: HookMessageId::generate(),
            application: match ApplicationRef::parse(&emit.application) {
                Ok(application) => application,
                Err(_) => ApplicationRef::Own(Uid::new(&emit.application)?),
            },
            create_application: None,
            event_type: emit.event_type,
            event_id: Some(EventId::new(decision)?),
            channels: emit.channels,
            payload: Bytes::copy_from_slice(emit.payload.as_str().as_bytes()),
            retention: MESSAGE_RETENTION_DEFAULT,
            only: None,
            idempotency: None,
        })
    }

    fn end(&self, ack: &mut OrchestrationAck, end: TurnEnd) {
        let parent = self.execution.parent().cloned();
        let (end, result) = match end {
            TurnEnd::Open => return,
            TurnEnd::Completed(output) => {
                let text = Bytes::copy_from_slice(output.as_str().as_bytes());
                let state = InstanceState::Completed;
                (ExecutionEnd::Ended { state, output: Some(text) }, Ok(output))
            }
            TurnEnd::Failed(error) => (ended(InstanceState::Failed, &error), Err(error)),
            TurnEnd::Cancelled(reason) => {
                let error = FlowError::new(FailureKind::Cancelled, reason);
                (ended(InstanceState::Cancelled, &error), Err(error))
            }
            TurnEnd::ContinuedAsNew { input, version, carried, cancel } => {
                let output = Some(Bytes::copy_from_slice(input.as_str().as_bytes()));
                ack.end = ExecutionEnd::ContinuedAsNew { output };
                let next = FlowMessage::ContinueAsNew {
                    instance: self.instance.clone(),
                    execution: self.execution.execution() + 1,
                    name: self.name(),
                    not_before: version.is_none().then(|| self.execution.version().to_owned()),
                    version,
                    input,
                    parent,
                    carried,
                };
                ack.orchestrator_items.push((next, None));
                let cancel = cancel.map(|reason| FlowMessage::CancelInstance {
                    instance: self.instance.clone(),
                    reason,
                    parent: None,
                });
                ack.orchestrator_items.extend(cancel.map(|item| (item, None)));
                return;
            }
        };
        ack.end = end;
        let origin =
            || ErrorOrigin::Child { name: Some(self.name()), instance: self.instance.clone() };
        let result = result.map_err(|error| error.with_origin(origin()));
        ack.orchestrator_items
            .extend(parent.map(|parent| (FlowMessage::child_done(parent, result), None)));
    }

    fn name(&self) -> OrchestrationName {
        self.execution.name().clone()
    }
}

fn status(text: Option<String>) -> StatusChange {
    text.map_or(StatusChange::Clear, |text| StatusChange::Set(printable(text)))
}

/// Replaces NUL characters, which not every store can keep.
pub(super) fn printable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text }
}

fn kv(write: KvWrite) -> KvChange {
    match write {
        KvWrite::Set(key, value) => {
            KvChange::Set(key, Bytes::copy_from_slice(value.as_str().as_bytes()))
        }
        KvWrite::Clear(key) => KvChange::Clear(key),
        KvWrite::ClearAll => KvChange::ClearAll,
    }
}
