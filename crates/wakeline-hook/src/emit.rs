//! Storing messages, with senders of this node that can begin at once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wakeline_core::{
    ApplicationRef, Channel, EndpointRef, EventId, EventTypeName, HookChange, HookMessageId,
    HookWhat, IdempotencyKey, MESSAGE_RETENTION_DEFAULT,
};
use wakeline_store::hook::{DeliveryAsk, EmitOutcome, NewMessage, newest_schema};
use wakeline_wake::Reservation;

use crate::catalog::{ApplicationIn, check_application, idempotency, new_application};
use crate::error::HookError;
use crate::face::{Ask, Grant, HookFace, SenderGrant, general};
use crate::service::HookService;

/// Most channels of one message.
const CHANNELS_MAX: usize = 5;
/// Most deliveries of a message that are leased with its storing.
const BORN_MAX: usize = 16;

/// A message to store and deliver.
#[derive(Debug, Clone)]
pub struct Emit {
    /// Whose endpoints get it.
    pub application: ApplicationRef,
    /// Makes the application if there is none.
    pub create_application: Option<ApplicationIn>,
    /// What it tells of.
    pub event_type: EventTypeName,
    /// The user's own id; unique within the application.
    pub event_id: Option<EventId>,
    /// Its channels.
    pub channels: Vec<Channel>,
    /// JSON: the exact bytes that are sent.
    pub payload: Bytes,
    /// How long the payload is kept; `None` is 90 days.
    pub retention: Option<Duration>,
    /// Makes repeating it harmless.
    pub idempotency_key: Option<IdempotencyKey>,
}

/// What to send to one endpoint to try it.
#[derive(Debug, Clone)]
pub struct Example {
    /// What it tells of.
    pub event_type: EventTypeName,
    /// JSON to send; `None` takes an example of the type's newest schema.
    pub payload: Option<Bytes>,
    /// Which of the schema's examples; `None` is the first, if there is one.
    pub index: Option<usize>,
}

impl Example {
    /// The first example of an event type.
    pub fn new(event_type: EventTypeName) -> Self {
        Self { event_type, payload: None, index: None }
    }

    /// What is sent, by the newest schema of the type.
    fn payload(&self, schema: Option<&Value>) -> Result<Bytes, HookError> {
        if let Some(payload) = &self.payload {
            return Ok(payload.clone());
        }
        let listed = schema.and_then(|schema| schema.get("examples")).and_then(Value::as_array);
        let example = match (self.index, listed) {
            (Some(index), Some(listed)) if index < listed.len() => listed.get(index),
            (None | Some(0), listed) => {
                let first = listed.and_then(|listed| listed.first());
                first.or_else(|| schema.and_then(|schema| schema.get("example")))
            }
            (Some(index), listed) => {
                let len = listed.map_or(0, Vec::len);
                let reason =
                    format!("is {index}, but the event type has {len} examples, counted from 0");
                return Err(HookError::invalid("exampleIndex", reason));
            }
        };
        let plain = || json!({ "type": self.event_type, "data": { "example": true } });
        Ok(example.cloned().unwrap_or_else(plain).to_string().into())
    }
}

impl Emit {
    /// A message with nothing but what it needs.
    pub fn new(application: ApplicationRef, event_type: EventTypeName, payload: Bytes) -> Self {
        Self {
            application,
            create_application: None,
            event_type,
            event_id: None,
            channels: Vec::new(),
            payload,
            retention: None,
            idempotency_key: None,
        }
    }

    fn check(&self, payload_bytes_max: usize) -> Result<(), HookError> {
        let bytes = self.payload.len();
        if bytes > payload_bytes_max {
            let reason = format!("has {bytes} bytes, more than the limit of {payload_bytes_max}");
            return Err(HookError::invalid("payload", reason));
        }
        if let Err(error) = serde_json::from_slice::<&RawValue>(&self.payload) {
            return Err(HookError::invalid("payload", format!("is not JSON: {error}")));
        }
        if self.channels.len() > CHANNELS_MAX {
            let reason =
                format!("must have at most {CHANNELS_MAX} entries, not {}", self.channels.len());
            return Err(HookError::invalid("channels", reason));
        }
        self.create_application.as_ref().map_or(Ok(()), check_application)
    }

    fn into_message(self) -> NewMessage {
        let idempotency = idempotency(self.idempotency_key.clone(), &Print::of(&self));
        NewMessage {
            id: HookMessageId::generate(),
            application: self.application,
            create_application: self.create_application.map(new_application),
            event_type: self.event_type,
            event_id: self.event_id,
            channels: self.channels,
            payload: self.payload,
            retention: self.retention.unwrap_or(MESSAGE_RETENTION_DEFAULT),
            only: None,
            idempotency,
        }
    }
}

/// All that a message asks for, to tell two requests apart.
#[derive(Serialize)]
struct Print<'a> {
    event_type: &'a EventTypeName,
    event_id: &'a Option<EventId>,
    channels: &'a [Channel],
    retention: Option<Duration>,
    payload: &'a [u8],
}

impl<'a> Print<'a> {
    fn of(emit: &'a Emit) -> Self {
        let Emit { event_type, event_id, channels, retention, payload, .. } = emit;
        Self { event_type, event_id, channels, retention: *retention, payload }
    }
}

impl HookService {
    /// Stores a message durably, with a delivery for every endpoint that wants it.
    pub async fn emit(&self, emit: Emit) -> Result<EmitOutcome, HookError> {
        let message = self.prepare(emit).await?;
        self.store_message(message).await
    }

    /// A message that [`HookService::emit`] would store, for a transaction that stores it along
    /// with other things. Refused for the same reasons.
    pub async fn prepare(&self, emit: Emit) -> Result<NewMessage, HookError> {
        emit.check(self.inner.payload_bytes_max)?;
        self.event_types().check(self.store().as_ref(), &emit.event_type, &emit.payload).await?;
        Ok(emit.into_message())
    }

    /// Sends an example of an event type to one endpoint. `None` if there is no such endpoint.
    pub async fn send_example(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        example: Example,
    ) -> Result<Option<EmitOutcome>, HookError> {
        let Some(found) = self.store().endpoint(application, endpoint).await? else {
            return Ok(None);
        };
        let known = self.store().event_type(&example.event_type).await?;
        let schemas = known.and_then(|known| known.schemas);
        let schema = schemas.map(|schemas| newest_schema(&schemas)).transpose()?.flatten();
        let payload = example.payload(schema.as_ref())?;
        let emit = Emit::new(application.clone(), example.event_type, payload);
        emit.check(self.inner.payload_bytes_max)?;
        let message = NewMessage { only: Some(found.id), ..emit.into_message() };
        self.store_message(message).await.map(Some)
    }

    async fn store_message(&self, message: NewMessage) -> Result<EmitOutcome, HookError> {
        let (store, hub) = (self.shared_store(), self.hub().clone());
        let shares = Arc::clone(&self.inner.shares);
        let born = self.uses_hints();
        self.to_the_end(async move {
            let push = HookChange::now(HookWhat::Push);
            let mut waiting = if born { hub.reserve(&push, 1) } else { Vec::new() };
            let asks = waiting.iter().filter_map(ask_of).collect();
            let reply = store.emit(message, asks).await?;
            for (_, groups) in reply.leased {
                // One sender was asked for, so one can have been given something.
                match waiting.pop() {
                    Some(sender) => {
                        let slots = slots_of(&sender);
                        let grant = SenderGrant::new(&shares, slots, groups);
                        sender.serve(Grant::Calls(grant));
                    }
                    None => tracing::error!(
                        "deliveries were leased without a sender: they are sent after their \
                         leases end"
                    ),
                }
            }
            Ok((reply.outcome, reply.changes))
        })
        .await
    }
}

/// What a parked sender can take, no more than one message is likely to need.
fn ask_of(waiting: &Reservation<HookFace>) -> Option<DeliveryAsk> {
    let Ask::Deliveries(ask) = waiting.ask() else { return None };
    let most = ask.attempts.len().min(BORN_MAX);
    Some(DeliveryAsk { attempts: ask.attempts[..most].to_vec(), fresh_only: 0, lease: ask.lease })
}

/// How many slots for anything a parked sender has.
fn slots_of(waiting: &Reservation<HookFace>) -> usize {
    match waiting.ask() {
        Ask::Deliveries(ask) => general(ask),
        Ask::Chores => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(example: Example, schema: Option<Value>) -> Option<String> {
        let payload = example.payload(schema.as_ref()).ok()?;
        Some(String::from_utf8(payload.to_vec()).expect("JSON is text"))
    }

    #[test]
    fn an_example_is_the_one_that_was_asked_for() {
        let kind = || Example::new(EventTypeName::new("a.b").expect("valid"));
        let nth = |index| Example { index: Some(index), ..kind() };
        let schema = || Some(json!({"examples": [{"n": 1}, {"n": 2}], "example": {"n": 3}}));
        assert_eq!(payload(kind(), schema()).as_deref(), Some(r#"{"n":1}"#));
        assert_eq!(payload(nth(1), schema()).as_deref(), Some(r#"{"n":2}"#));
        assert_eq!(payload(nth(2), schema()), None);
        let single = Some(json!({"example": {"n": 3}}));
        assert_eq!(payload(kind(), single).as_deref(), Some(r#"{"n":3}"#));
        assert!(payload(nth(0), None).is_some_and(|made| made.contains("a.b")));
        assert_eq!(payload(nth(1), None), None);
        let own = Example { payload: Some(Bytes::from_static(b"{ }")), ..nth(7) };
        assert_eq!(payload(own, schema()).as_deref(), Some("{ }"));
    }
}
