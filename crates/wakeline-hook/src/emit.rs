//! Storing messages. Deliveries may be leased on insert to senders of this node, which then begin
//! without a claim of their own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wakeline_core::{
    ApplicationRef, Channel, EndpointRef, EventId, EventTypeName, HookChange, HookChangeKind,
    HookMessageId, IdempotencyKey, MESSAGE_RETENTION_DEFAULT,
};
use wakeline_store::hook::{DeliveryRequest, EmitOutcome, NewMessage, newest_schema};
use wakeline_wake::Reservation;

use crate::api::{HookApi, HookClaimResult, HookRequest, SenderClaimResult, general};
use crate::catalog::{ApplicationIn, check_application, idempotency, new_application};
use crate::error::HookError;
use crate::service::HookService;

/// The maximum number of channels of one message.
const CHANNELS_MAX: usize = 5;
/// The maximum number of deliveries of a message that are leased on insert.
const LEASED_ON_INSERT_MAX: usize = 16;

/// A message to store and deliver.
#[derive(Debug, Clone)]
pub struct Emit {
    /// The application whose endpoints receive the message.
    pub application: ApplicationRef,
    /// The application to create if it does not exist.
    pub create_application: Option<ApplicationIn>,
    /// The event type of the message.
    pub event_type: EventTypeName,
    /// The user's own id; unique within the application.
    pub event_id: Option<EventId>,
    /// The channels that the message is sent on.
    pub channels: Vec<Channel>,
    /// The payload as JSON, sent byte for byte.
    pub payload: Bytes,
    /// How long the payload is kept; `None` means 90 days.
    pub retention: Option<Duration>,
    /// Makes repeating the request harmless.
    pub idempotency_key: Option<IdempotencyKey>,
}

/// An example message to send to one endpoint, to try it out.
#[derive(Debug, Clone)]
pub struct Example {
    /// The event type of the message.
    pub event_type: EventTypeName,
    /// The payload as JSON; `None` uses an example of the type's newest schema.
    pub payload: Option<Bytes>,
    /// The index among the schema's examples; `None` means the first one, if there is any.
    pub index: Option<usize>,
}

impl Example {
    /// The first example of an event type.
    pub fn new(event_type: EventTypeName) -> Self {
        Self { event_type, payload: None, index: None }
    }

    /// The payload to send, given the newest schema of the event type.
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
    /// A message with the required fields only.
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
        let idempotency = idempotency(self.idempotency_key.clone(), &EmitContent::of(&self));
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

/// The content of a request to store a message, from which its idempotency digest is computed.
#[derive(Serialize)]
struct EmitContent<'a> {
    event_type: &'a EventTypeName,
    event_id: &'a Option<EventId>,
    channels: &'a [Channel],
    retention: Option<Duration>,
    payload: &'a [u8],
}

impl<'a> EmitContent<'a> {
    fn of(emit: &'a Emit) -> Self {
        let Emit { event_type, event_id, channels, retention, payload, .. } = emit;
        Self { event_type, event_id, channels, retention: *retention, payload }
    }
}

impl HookService {
    /// Stores a message durably, with a delivery for every endpoint that subscribes to it.
    pub async fn emit(&self, emit: Emit) -> Result<EmitOutcome, HookError> {
        let message = self.prepare(emit).await?;
        self.store_message(message).await
    }

    /// Validates a message as [`HookService::emit`] does, and returns it for a transaction that
    /// stores it together with other writes.
    pub async fn prepare(&self, emit: Emit) -> Result<NewMessage, HookError> {
        emit.check(self.inner.payload_bytes_max)?;
        self.event_types().check(self.store().as_ref(), &emit.event_type, &emit.payload).await?;
        Ok(emit.into_message())
    }

    /// Sends an example of an event type to one endpoint. `None` if the endpoint does not exist.
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
        let leases_on_insert = self.uses_hints();
        self.run_to_completion(async move {
            let push = HookChange::now(HookChangeKind::Push);
            let mut waiting = if leases_on_insert { hub.reserve(&push, 1) } else { Vec::new() };
            let requests = waiting.iter().filter_map(delivery_request).collect();
            let reply = store.emit(message, requests).await?;
            for (_, groups) in reply.leased {
                // Only one request was passed, so deliveries were leased to at most one sender.
                match waiting.pop() {
                    Some(sender) => {
                        let result =
                            SenderClaimResult::new(&shares, general_slots(&sender), groups);
                        sender.serve(HookClaimResult::Calls(result));
                    }
                    None => tracing::error!(
                        "deliveries were leased, but no sender is left to send them: they are sent \
                         after their leases end"
                    ),
                }
            }
            Ok((reply.outcome, reply.changes))
        })
        .await
    }
}

/// The deliveries that a waiting sender can take, limited to what one message is likely to need.
fn delivery_request(waiting: &Reservation<HookApi>) -> Option<DeliveryRequest> {
    let HookRequest::Deliveries(request) = waiting.request() else { return None };
    let most = request.attempts.len().min(LEASED_ON_INSERT_MAX);
    let attempts = request.attempts[..most].to_vec();
    Some(DeliveryRequest { attempts, fresh_only: 0, lease: request.lease })
}

/// The number of general slots that a waiting sender holds.
fn general_slots(waiting: &Reservation<HookApi>) -> usize {
    match waiting.request() {
        HookRequest::Deliveries(request) => general(request),
        HookRequest::Background => 0,
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
    fn an_example_is_chosen_by_index_and_replaced_by_a_given_payload() {
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
