//! Converts work items and events to the form in which the store keeps them: routing fields and
//! JSON.

use std::time::Duration;

use bytes::Bytes;
use duroxide::Event;
use duroxide::providers::{KvEntry, ProviderError, WorkItem};
use serde::Serialize;
use wakeline_core::{Capability, Timestamp};
use wakeline_store::flow::{
    Envelope, HistoryBatch, KvEntry as StoredKv, NewWork, Visible, WorkKey,
};

use crate::error::permanent;
use crate::names;
use crate::versions::unpinned;

/// Converts a time of duroxide, which is in milliseconds.
pub(crate) fn timestamp(ms: u64) -> Timestamp {
    Timestamp(i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000))
}

/// Converts a time of the store to milliseconds.
pub(crate) fn millis(at: Timestamp) -> u64 {
    u64::try_from(at.0 / 1_000).unwrap_or(0)
}

/// The visibility of a message with this delay.
pub(crate) fn delayed(delay: Option<Duration>) -> Visible {
    delay.filter(|delay| !delay.is_zero()).map_or(Visible::Now, Visible::After)
}

/// The visibility of a message of a turn: timers become visible when they fire.
pub(crate) fn due(item: &WorkItem) -> Visible {
    match item {
        WorkItem::TimerFired { fire_at_ms, .. } => Visible::At(timestamp(*fire_at_ms)),
        _ => Visible::Now,
    }
}

/// The instance that receives a work item; `None` if it is for workers.
fn receiver(item: &WorkItem) -> Option<&str> {
    match item {
        WorkItem::StartOrchestration { instance, .. }
        | WorkItem::ActivityCompleted { instance, .. }
        | WorkItem::ActivityFailed { instance, .. }
        | WorkItem::TimerFired { instance, .. }
        | WorkItem::ExternalRaised { instance, .. }
        | WorkItem::CancelInstance { instance, .. }
        | WorkItem::ContinueAsNew { instance, .. }
        | WorkItem::QueueMessage { instance, .. } => Some(instance),
        WorkItem::SubOrchCompleted { parent_instance, .. }
        | WorkItem::SubOrchFailed { parent_instance, .. } => Some(parent_instance),
        WorkItem::ActivityExecute { .. } => None,
    }
}

/// Whether the item makes a new mailbox claimable. This is the case for items that start an
/// instance, and for queue messages, which are fetched and dropped if there is no instance. Other
/// items wait for a start.
fn makes_claimable(item: &WorkItem) -> bool {
    matches!(
        item,
        WorkItem::StartOrchestration { .. }
            | WorkItem::ContinueAsNew { .. }
            | WorkItem::QueueMessage { .. }
    )
}

/// Creates the envelope of a message to an instance.
pub(crate) fn envelope(
    operation: &'static str,
    item: &WorkItem,
    visible: Visible,
) -> Result<Envelope, ProviderError> {
    let receiver = receiver(item)
        .ok_or_else(|| permanent(operation, "activities go to workers, not to orchestrators"))?;
    Ok(Envelope {
        instance: names::instance(operation, receiver)?,
        visible,
        payload: encode(operation, item)?,
        starts: makes_claimable(item).then(unpinned),
        parent: None,
        unique: false,
        even_if_ended: true,
        key: None,
    })
}

/// Creates the envelope of a message that a turn sends. A message to the instance itself keeps the
/// capability that it needs.
pub(crate) fn envelope_within(
    operation: &'static str,
    item: &WorkItem,
    own: &wakeline_core::InstanceId,
    needs: &Capability,
) -> Result<Envelope, ProviderError> {
    let mut envelope = envelope(operation, item, due(item))?;
    if envelope.instance == *own && envelope.starts.is_some() {
        envelope.starts = Some(needs.clone());
    }
    Ok(envelope)
}

/// Converts an activity.
pub(crate) fn work(operation: &'static str, item: &WorkItem) -> Result<NewWork, ProviderError> {
    let WorkItem::ActivityExecute { instance, execution_id, id, session_id, tag, .. } = item else {
        return Err(permanent(operation, "only activities go to workers"));
    };
    let tag = tag.as_deref().map(|tag| names::tag(operation, tag)).transpose()?;
    let session = session_id.as_deref().map(|id| names::session(operation, id)).transpose()?;
    Ok(NewWork {
        instance: names::instance(operation, instance)?,
        key: WorkKey { execution: *execution_id, activity: *id },
        name: None,
        tag,
        session,
        visible: Visible::Now,
        payload: encode(operation, item)?,
    })
}

/// Encodes the events of a turn as one batch that follows `last_event`; `None` if there are none.
///
/// The batch begins right after `last_event`, even if its first event has a greater number:
/// duroxide may skip numbers, and the store does not read a batch.
pub(crate) fn batch(
    operation: &'static str,
    events: &[Event],
    last_event: u64,
) -> Result<Option<HistoryBatch>, ProviderError> {
    let mut last = last_event;
    for event in events {
        if event.event_id <= last {
            let id = event.event_id;
            return Err(permanent(
                operation,
                format!("duplicate event {id}: the history already has event {last}"),
            ));
        }
        last = event.event_id;
    }
    if events.is_empty() {
        return Ok(None);
    }
    Ok(Some(HistoryBatch { first: last_event + 1, last, events: encode(operation, events)? }))
}

/// Decodes the events of batches.
pub(crate) fn events(batches: &[HistoryBatch]) -> Result<Vec<Event>, serde_json::Error> {
    let mut all = Vec::new();
    for batch in batches {
        all.extend(serde_json::from_slice::<Vec<Event>>(&batch.events)?);
    }
    Ok(all)
}

fn encode<T: Serialize + ?Sized>(
    operation: &'static str,
    value: &T,
) -> Result<Bytes, ProviderError> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| permanent(operation, error))
}

/// Encodes a value with the time of its event, because the time of the store is that of the commit.
pub(crate) fn value(text: &str, updated_at_ms: u64) -> Bytes {
    let mut bytes = Vec::with_capacity(8 + text.len());
    bytes.extend_from_slice(&updated_at_ms.to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    Bytes::from(bytes)
}

/// Decodes an entry of the key-value state, and returns it with its key.
pub(crate) fn kv_entry(
    operation: &'static str,
    entry: StoredKv,
) -> Result<(String, KvEntry), ProviderError> {
    let key = names::unescape(entry.key.as_str());
    let invalid = || permanent(operation, format!("the value of {key} cannot be decoded"));
    let (at, text) = entry.value.split_first_chunk::<8>().ok_or_else(invalid)?;
    let value = String::from_utf8(text.to_vec()).map_err(|_| invalid())?;
    Ok((key, KvEntry { value, last_updated_at_ms: u64::from_be_bytes(*at) }))
}

#[cfg(test)]
mod tests {
    use duroxide::EventKind;

    use super::*;

    fn event(id: u64) -> Event {
        Event::with_event_id(id, "i", 1, None, EventKind::KeyValuesCleared)
    }

    #[test]
    fn a_batch_follows_the_last_event_and_may_skip_numbers() {
        let batch = batch("ack", &[event(7), event(9)], 3).expect("in order").expect("not empty");
        assert_eq!((batch.first, batch.last), (4, 9));
        let ids: Vec<_> = events(&[batch]).expect("decodes").iter().map(|e| e.event_id).collect();
        assert_eq!(ids, [7, 9]);
    }

    #[test]
    fn a_duplicate_event_is_refused() {
        for (ids, last) in [(vec![3], 3), (vec![4, 4], 3), (vec![1], 3)] {
            let events: Vec<_> = ids.into_iter().map(event).collect();
            assert!(batch("ack", &events, last).is_err());
        }
    }
}
