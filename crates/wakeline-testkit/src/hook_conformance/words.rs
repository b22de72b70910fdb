//! Words in which the rules of webhooks are told.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, BreakerOptions, Channel, DeliveryToken, EndpointId,
    EndpointOptions, EventPattern, EventTypeName, FifoOptions, HookChange, HookLine, HookMessageId,
    IdempotencyKey, MESSAGE_RETENTION_DEFAULT, Timestamp, Uid,
};
use wakeline_store::hook::{
    AttemptRecord, BreakerSample, DeliveryAsk, DeliveryClaim, DeliveryGroup, DeliveryItem,
    DeliveryVerdict, EventType, Idempotency, NewApplication, NewEndpoint, NewMessage, PageOrder,
    PageRequest, SettleDelivery,
};

/// The type of most messages.
pub const PAID: &str = "order.paid";
/// How long leases last that rules ask for.
pub const LEASE: Duration = Duration::from_secs(30);
/// Where most endpoints are.
pub const URL: &str = "https://receiver.example/hook";

/// So many seconds.
pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A moment so much before another.
pub fn before(at: Timestamp, span: Duration) -> Timestamp {
    Timestamp(at.0 - i64::try_from(span.as_micros()).expect("a short time"))
}

/// A user's own id.
pub fn uid(text: &str) -> Uid {
    Uid::parse(text).expect("a valid uid")
}

/// An event type's name.
pub fn event(text: &str) -> EventTypeName {
    EventTypeName::new(text).expect("a valid event type")
}

/// Patterns of event types.
pub fn patterns(texts: &[&str]) -> Vec<EventPattern> {
    texts.iter().map(|text| EventPattern::new(text).expect("a valid pattern")).collect()
}

/// Channels.
pub fn channels(texts: &[&str]) -> Vec<Channel> {
    texts.iter().map(|text| Channel::new(text).expect("a valid channel")).collect()
}

/// A request's key, and a print of what it asks for.
pub fn key(key: &str, print: u8) -> Option<Idempotency> {
    let key = IdempotencyKey::new(key).expect("a valid key");
    Some(Idempotency { key, print: [print; 32] })
}

/// An application to make.
pub fn application(own: Option<&str>) -> NewApplication {
    NewApplication {
        id: ApplicationId::generate(),
        name: own.unwrap_or("nameless").to_owned(),
        uid: own.map(uid),
        rate_limit: None,
        metadata: Bytes::from_static(b"{}"),
    }
}

/// An event type to make.
pub fn event_type(name: &str) -> EventType {
    EventType {
        name: event(name),
        description: format!("tells of {name}"),
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

/// An endpoint to make, with these options.
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
        headers: Bytes::from_static(b"sealed headers"),
        secret: Bytes::from_static(b"first secret"),
        options,
    }
}

/// Options that hold nothing back.
pub fn plain() -> EndpointOptions {
    EndpointOptions { breaker: None, disable_after: None, ..EndpointOptions::default() }
}

/// Options of an endpoint whose owner fetches.
pub fn pulled() -> EndpointOptions {
    EndpointOptions { pull: true, ..plain() }
}

/// Options of an endpoint in order, with so many messages a request.
pub fn fifo(batch: u32) -> EndpointOptions {
    EndpointOptions { fifo: Some(FifoOptions { batch }), ..plain() }
}

/// Options of an endpoint with so many attempts a second.
pub fn rated(rate: u32) -> EndpointOptions {
    EndpointOptions { rate_per_second: Some(rate), ..plain() }
}

/// Options of an endpoint with so many attempts under way.
pub fn capped(in_flight_max: u32) -> EndpointOptions {
    EndpointOptions { in_flight_max, ..plain() }
}

/// Options of an endpoint that pauses for 60 seconds.
pub fn breaking(failures: u32, probes: u32) -> EndpointOptions {
    let breaker = BreakerOptions { failures, open_for: secs(60), probes };
    EndpointOptions { breaker: Some(breaker), ..plain() }
}

/// Options of an endpoint with waits of so many seconds.
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

/// One waiter with so many attempts.
pub fn ask(attempts: usize) -> DeliveryAsk {
    let attempts = (0..attempts).map(|_| AttemptId::generate()).collect();
    DeliveryAsk { attempts, fresh_only: 0, lease: Some(LEASE) }
}

/// One waiter with so many attempts, some for first ones only.
pub fn ask_fresh(attempts: usize, fresh_only: u32) -> DeliveryAsk {
    DeliveryAsk { fresh_only, ..ask(attempts) }
}

/// Waiters of what is sent.
pub fn push(asks: Vec<DeliveryAsk>) -> DeliveryClaim {
    DeliveryClaim::new(HookLine::Push, asks)
}

/// Waiters of what an endpoint's owner fetches.
pub fn pull(endpoint: EndpointId, asks: Vec<DeliveryAsk>) -> DeliveryClaim {
    DeliveryClaim::new(HookLine::Pull(endpoint), asks)
}

/// All deliveries of groups.
pub fn items(groups: &[DeliveryGroup]) -> Vec<DeliveryItem> {
    groups.iter().flat_map(|group| group.items.clone()).collect()
}

/// The messages of deliveries.
pub fn messages_of(items: &[DeliveryItem]) -> Vec<HookMessageId> {
    items.iter().map(|item| item.message).collect()
}

/// What is kept of an attempt that was answered with a status.
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

/// The end of an attempt, which says nothing about its endpoint.
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

/// The end of an attempt that worked, which its endpoint's breaker counts.
pub fn success(token: DeliveryToken) -> SettleDelivery {
    SettleDelivery { sample: BreakerSample::Success, ..end(token, DeliveryVerdict::Delivered) }
}

/// The end of an attempt that failed, which its endpoint's breaker counts; tried again at once.
pub fn failure(token: DeliveryToken) -> SettleDelivery {
    let verdict = DeliveryVerdict::Retry(Duration::ZERO);
    SettleDelivery { sample: BreakerSample::Failure, ..end(token, verdict) }
}

/// The first page, of so many.
pub fn first<K>(limit: u32) -> PageRequest<K> {
    PageRequest { limit, after: None, order: PageOrder::Ascending, backwards: false }
}

/// When a line is told that it has something.
pub fn told(changes: &[HookChange], line: &HookLine) -> Option<Duration> {
    let concerned = changes.iter().filter(|change| change.line().as_ref() == Some(line));
    concerned.map(|change| change.due_in).min()
}
