//! Converts messages and events into the form in which a store keeps them: fields that the store
//! uses for routing, and JSON that it does not read.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{ActivityName, Capability, NameError, Timestamp};
use wakeline_store::flow::{
    Envelope, HistoryBatch, InlineHistory, NewWork, TurnItem, Visible, WorkItem, WorkKey,
};

use super::item::{FetchedWork, ItemHistory, OrchestrationItem, ProviderError};
use crate::capability::capability;
use crate::event::Event;
use crate::message::{ActivityTask, FlowMessage};

/// The visibility of a message that is visible from a time on; `None` is now.
pub(super) fn visible(at: Option<Timestamp>) -> Visible {
    at.map_or(Visible::Now, |at| Visible::At(at.storable()))
}

/// The visibility of a message that is visible after a delay; `None` is no delay.
pub(super) fn delayed(delay: Option<Duration>) -> Visible {
    let delay = delay.filter(|delay| !delay.is_zero()).map(storable);
    delay.map_or(Visible::Now, Visible::After)
}

/// Limits a span to 1,000 years, so that every store can add it to its clock.
pub(super) fn storable(span: Duration) -> Duration {
    span.min(Duration::from_secs(1_000 * 365 * 24 * 3600))
}

/// Creates the envelope of a message to an instance.
///
/// A start without a parent is refused if the instance exists. A start with a parent is delivered
/// even then: the next turn of the instance reports to the parent that the id is in use.
pub(crate) fn envelope(item: &FlowMessage, visible: Visible) -> Result<Envelope, ProviderError> {
    let payload = encode("send the message", item)?;
    let plain = Envelope {
        instance: item.instance().clone(),
        visible,
        payload,
        starts: None,
        parent: None,
        unique: false,
        even_if_ended: false,
        key: None,
    };
    Ok(match item {
        FlowMessage::StartOrchestration { name, version, parent, .. } => Envelope {
            starts: Some(needs(capability(name, version.as_deref()))?),
            parent: parent.as_ref().map(|parent| parent.instance.clone()),
            unique: parent.is_none(),
            even_if_ended: parent.is_some(),
            ..plain
        },
        FlowMessage::ContinueAsNew { name, version, .. } => {
            Envelope { starts: Some(needs(capability(name, version.as_deref()))?), ..plain }
        }
        FlowMessage::TimerFired { execution, event, .. } => {
            Envelope { key: Some((*execution, *event)), ..plain }
        }
        FlowMessage::CloseChildren { .. } => Envelope { even_if_ended: true, ..plain },
        _ => plain,
    })
}

fn needs(capability: Result<Capability, NameError>) -> Result<Capability, ProviderError> {
    capability.map_err(|error| ProviderError::Permanent {
        operation: "send the message",
        source: Box::new(error),
    })
}

/// Creates the form in which a store keeps an activity.
pub(super) fn work(task: &ActivityTask) -> Result<NewWork, ProviderError> {
    Ok(NewWork {
        instance: task.instance.clone(),
        key: WorkKey { execution: task.execution, activity: task.event },
        name: ActivityName::new(&task.name).ok(),
        tag: task.tag.clone(),
        session: task.session.clone(),
        visible: Visible::Now,
        payload: encode("schedule", &FlowMessage::ActivityExecute(task.clone()))?,
    })
}

/// Encodes the events of a turn as one batch; `None` if there are none.
pub(super) fn batch(events: &[Event]) -> Result<Option<HistoryBatch>, ProviderError> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(None) };
    Ok(Some(HistoryBatch { first: first.id, last: last.id, events: encode("ack", events)? }))
}

fn encode<T: serde::Serialize + ?Sized>(
    operation: &'static str,
    value: &T,
) -> Result<Bytes, ProviderError> {
    let text = serde_json::to_vec(value);
    text.map(Bytes::from)
        .map_err(|error| ProviderError::Permanent { operation, source: Box::new(error) })
}

/// Decodes the events of batches.
pub(super) fn events(batches: &[HistoryBatch]) -> Result<Vec<Event>, serde_json::Error> {
    let mut all = Vec::new();
    for batch in batches {
        all.extend(serde_json::from_slice::<Vec<Event>>(&batch.events)?);
    }
    Ok(all)
}

/// Converts a leased turn for the runtime. If something cannot be decoded, the item says so; an
/// error would leave the lease behind.
pub(super) fn orchestration_item(turn: TurnItem) -> OrchestrationItem {
    let mut corrupt = None;
    let history = match &turn.history {
        InlineHistory::TooLong => ItemHistory::Long,
        InlineHistory::Complete(batches) => {
            ItemHistory::Whole(events(batches).unwrap_or_else(|error| {
                corrupt = Some(format!(
                    "the history cannot be decoded: {error}; a newer release may have written it"
                ));
                Vec::new()
            }))
        }
    };
    let mut messages = Vec::with_capacity(turn.messages.len());
    for message in &turn.messages {
        match serde_json::from_slice(&message.payload) {
            Ok(item) => messages.push(item),
            Err(error) => {
                let text = format!(
                    "message {} to the instance cannot be decoded: {error}; a newer release may \
                     have written it",
                    message.seq
                );
                corrupt.get_or_insert(text);
            }
        }
    }
    OrchestrationItem {
        instance: turn.instance,
        name: turn.name,
        parent: turn.parent,
        lock_token: turn.token.to_string(),
        attempt: turn.attempt,
        execution: turn.execution,
        state: turn.state,
        last_event: turn.last_event,
        history,
        corrupt,
        messages,
        kv: turn.kv,
        now: turn.now,
        life: turn.token.lane,
    }
}

/// Converts a leased activity for the runtime.
pub(super) fn fetched(work: WorkItem) -> Result<FetchedWork, ProviderError> {
    let item = serde_json::from_slice(&work.payload).map_err(|error| ProviderError::Permanent {
        operation: "fetch work",
        source: format!(
            "activity {} of instance {} cannot be decoded: {error}; a newer release may have \
             written it",
            work.key.activity, work.instance
        )
        .into(),
    })?;
    Ok(FetchedWork {
        item,
        lock_token: work.token.to_string(),
        attempt: work.attempt,
        state: work.state,
        tag: work.tag,
        session: work.session,
    })
}
