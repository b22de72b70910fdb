//! Helpers of the rules of webhooks: values with defaults, and accessors.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, BreakerOptions, Channel, DeliveryToken, EndpointId,
    EndpointOptions, EventPattern, EventTypeName, FifoOptions, HookChange, HookLine, HookMessageId,
    IdempotencyKey, MESSAGE_RETENTION_DEFAULT, Timestamp, Uid,
};
use wakeline_store::hook::{
    AttemptRecord, BreakerSample, DeliveryClaim, DeliveryGroup, DeliveryItem, DeliveryRequest,
    DeliveryVerdict, EventType, Idempotency, NewApplication, NewEndpoint, NewMessage, PageOrder,
    PageRequest, SettleDelivery,
};

/// The type of most messages.
pub const PAID: &str = "order.paid";
/// The duration of leases that rules request.
pub const LEASE: Duration = Duration::from_secs(30);
/// The URL of most endpoints.
pub const URL: &str = "https://receiver.example/hook";

/// A duration of seconds.
pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A time that is earlier by a span.
pub fn before(at: Timestamp, span: Duration) -> Timestamp {
    Timestamp(at.0 - i64::try_from(span.as_micros()).expect("a short time"))
}

/// A user's own id.
pub fn uid(text: &str) -> Uid {
    Uid::parse(text).expect("a valid uid")
}

/// The name of an event type.
pub fn event(text: &str) -> EventTypeName {
    EventTypeName::new(text).expect("a valid event type")
}

/// Patterns of event types.
pub fn patterns(texts: &[&str]) -> Vec<EventPattern> {
    texts.iter().map(|text| EventPattern::new(text).expect("a valid pattern")).collect()
}

/// Names of channels.
pub fn channels(texts: &[&str]) -> Vec<Channel> {
    texts.iter().map(|text| Channel::new(text).expect("a valid channel")).collect()
}

/// An idempotency key with the digest of a request.
pub fn key(key: &str, digest: u8) -> Option<Idempotency> {
    let key = IdempotencyKey::new(key).expect("a valid key");
    Some(Idempotency { key, digest: [digest; 32] })
}

/// A new application.
pub fn application(own: Option<&str>) -> NewApplication {
    NewApplication {
        id: ApplicationId::generate(),
        name: own.unwrap_or("nameless").to_owned(),
        uid: own.map(uid),
        rate_limit: None,
        metadata: Bytes::from_static(b"{}"),
    }
}

/// A new event type.
pub fn event_type(name: &str) -> EventType {
    EventType {
        name: event(name),
        description: format!("reports {name}"),
        schemas: None,
        enforced: false,
        archived: false,
        deprecated: false,
        feature_flag: None,
        group_name: None,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
    }
}

/// A new endpoint with these options.
pub fn endpoint(options: EndpointOptions) -> NewEndpoint {
    NewEndpoint {
        id: EndpointId::generate(),
        uid: None,
        url: if options.pull { String::new() } else { URL.to_owned() },
        description: String::new(),
        event_types: Vec::new(),
        channels: Vec::new(),
        disabled: None,
        metadata: Bytes::from_static(b"{}"),
        headers: Bytes::from_static(b"encrypted headers"),
        secret: Bytes::from_static(b"first secret"),
        options,
    }
}

/// Options of an endpoint without limits, breaker and disabling.
pub fn plain() -> EndpointOptions {
    EndpointOptions { breaker: None, disable_after: None, ..EndpointOptions::default() }
}

/// Options of an endpoint whose deliveries are pulled.
pub fn pulled() -> EndpointOptions {
    EndpointOptions { pull: true, ..plain() }
}

/// Options of an endpoint in strict order, with this number of messages per request.
pub fn fifo(batch: u32) -> EndpointOptions {
    EndpointOptions { fifo: Some(FifoOptions { batch }), ..plain() }
}

/// Options of an endpoint with this number of attempts per second.
pub fn rated(rate: u32) -> EndpointOptions {
    EndpointOptions { rate_per_second: Some(rate), ..plain() }
}

/// Options of an endpoint with this number of attempts in flight.
pub fn capped(in_flight_max: u32) -> EndpointOptions {
    EndpointOptions { in_flight_max, ..plain() }
}

/// Options of an endpoint whose breaker pauses it for 60 seconds.
pub fn breaking(failures: u32, probes: u32) -> EndpointOptions {
    let breaker = BreakerOptions { failures, open_for: secs(60), probes };
    EndpointOptions { breaker: Some(breaker), ..plain() }
}

/// Options of an endpoint with retry waits of these numbers of seconds.
pub fn scheduled(waits: &[u64]) -> EndpointOptions {
    EndpointOptions { schedule: Some(waits.iter().map(|wait| secs(*wait)).collect()), ..plain() }
}

/// A message of type [`PAID`].
pub fn message(application: ApplicationId) -> NewMessage {
    NewMessage {
        id: HookMessageId::generate(),
        application: ApplicationRef::Id(application),
        create_application: None,
        event_type: event(PAID),
        event_id: None,
        channels: Vec::new(),
        payload: Bytes::from_static(br#"{"paid":true}"#),
        retention: MESSAGE_RETENTION_DEFAULT,
        only: None,
        idempotency: None,
    }
}

/// The request of one waiter with this number of attempts.
pub fn request(attempts: usize) -> DeliveryRequest {
    let attempts = (0..attempts).map(|_| AttemptId::generate()).collect();
    DeliveryRequest { attempts, fresh_only: 0, lease: Some(LEASE) }
}

/// The request of one waiter with this number of attempts, some of them reserved for first
/// attempts.
pub fn request_fresh(attempts: usize, fresh_only: u32) -> DeliveryRequest {
    DeliveryRequest { fresh_only, ..request(attempts) }
}

/// A claim of deliveries that are sent.
pub fn push(requests: Vec<DeliveryRequest>) -> DeliveryClaim {
    DeliveryClaim::new(HookLine::Push, requests)
}

/// A claim of the deliveries that an endpoint's owner fetches.
pub fn pull(endpoint: EndpointId, requests: Vec<DeliveryRequest>) -> DeliveryClaim {
    DeliveryClaim::new(HookLine::Pull(endpoint), requests)
}

/// All deliveries of some groups.
pub fn items(groups: &[DeliveryGroup]) -> Vec<DeliveryItem> {
    groups.iter().flat_map(|group| group.items.clone()).collect()
}

/// The messages of some deliveries.
pub fn messages_of(items: &[DeliveryItem]) -> Vec<HookMessageId> {
    items.iter().map(|item| item.message).collect()
}

/// The log record of an attempt that was answered with a status.
pub fn record(status: Option<u16>) -> AttemptRecord {
    AttemptRecord {
        began_ago: Duration::from_millis(250),
        took: Duration::from_millis(200),
        status,
        response: Bytes::from_static(b"answer"),
        error: status.is_none().then(|| "connection refused".to_owned()),
        url: URL.to_owned(),
    }
}

/// The end of an attempt, without a sample for the breaker.
pub fn end(token: DeliveryToken, verdict: DeliveryVerdict) -> SettleDelivery {
    let status = match verdict {
        DeliveryVerdict::Delivered => Some(200),
        DeliveryVerdict::Retry(_) => Some(500),
        DeliveryVerdict::Failed => None,
    };
    SettleDelivery {
        token,
        record: record(status),
        verdict,
        sample: BreakerSample::None,
        throttle: None,
        gone: false,
        announce: Vec::new(),
        announce_disabled: None,
    }
}

/// The end of a successful attempt, which the breaker of its endpoint counts.
pub fn success(token: DeliveryToken) -> SettleDelivery {
    SettleDelivery { sample: BreakerSample::Success, ..end(token, DeliveryVerdict::Delivered) }
}

/// The end of a failed attempt, which the breaker of its endpoint counts and which is retried at
/// once.
pub fn failure(token: DeliveryToken) -> SettleDelivery {
    let verdict = DeliveryVerdict::Retry(Duration::ZERO);
    SettleDelivery { sample: BreakerSample::Failure, ..end(token, verdict) }
}

/// The first page with this number of items.
pub fn first<K>(limit: u32) -> PageRequest<K> {
    PageRequest { limit, after: None, order: PageOrder::Ascending, backwards: false }
}

/// The earliest time at which a line is due, by the changes that concern it.
pub fn earliest_due(changes: &[HookChange], line: &HookLine) -> Option<Duration> {
    let concerned = changes.iter().filter(|change| change.line().as_ref() == Some(line));
    concerned.map(|change| change.due_in).min()
}
