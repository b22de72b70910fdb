//! Stores messages, each with a delivery for every endpoint that receives it, in one commit. The
//! deliveries of a message for very many endpoints are created later: see [`super::fan_out`].
//!
//! # Invariants
//! * A corrupt endpoint loses no message: its delivery is stored and waits until the endpoint is
//!   repaired, and claims report the corrupt row.

use std::sync::Arc;

use bytes::Bytes;
use wakeline_core::{ApplicationId, Channel, HookChange, HookChangeKind, HookMessageId};
use wakeline_store::hook::{
    DeliveryRequest, EmitOutcome, EmitReply, EventSchema, NewMessage, StoredMessage,
};

use super::cache::{self, EndpointConfig, number, to_json};
use super::claim::{self, HookClaimState};
use super::delivery::{DeliveryClass, DeliveryRow};
use super::key::{self, EarlierRequest, IdempotencyKeyScope, IdempotencyScope};
use super::{application, endpoint, event_type, fan_out, message, sql};
use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// Stores a message. Piggybacked requests are leased deliveries for endpoints that have no other
/// waiting deliveries.
pub(super) fn emit(
    s: &mut DbSession<'_>,
    new: &NewMessage,
    requests: &[DeliveryRequest],
) -> Res<EmitReply> {
    let Some(owner) = owner(s, new)? else { return Ok(refused(EmitOutcome::NoApplication)) };
    if let Some(outcome) = refusal(s, owner.0, new)? {
        return Ok(refused(outcome));
    }
    let first_expiry = number(s, sql!("payload_first"), [])?;
    let no = message::add(s, owner.0, new)?;
    let scope = IdempotencyKeyScope::new(IdempotencyScope::Message, owner.0);
    key::remember(s, scope, new.idempotency.as_ref(), &new.id.to_string())?;
    let message = FanOutMessage { no, channels: &new.channels, only: new.only.is_some() };
    let named = named(s, owner.0, new)?;
    let mut state = HookClaimState::new(requests);
    let (deliveries, mut changes) = match fan_out::at_once(s, owner.0, &named, &message)? {
        Some(receivers) => {
            state.messages.insert(s, no, new);
            deliver(s, &mut state, receivers, &message)?
        }
        None => {
            let later = u32::try_from(named.len()).unwrap_or(u32::MAX);
            (later, vec![fan_out::add(s, owner.0, &named, &message)?])
        }
    };
    let expires_at = s.now.plus(new.retention).0;
    if first_expiry.is_none_or(|first| expires_at < first) {
        let background = HookChange { what: HookChangeKind::Background, due_in: new.retention };
        s.hint_hook(std::slice::from_ref(&background));
        changes.push(background);
    }
    let leased = state.slots.groups().into_iter().enumerate().filter(|(_, got)| !got.is_empty());
    let outcome = EmitOutcome::Stored(stored(s, owner.1, new), deliveries);
    Ok(EmitReply { outcome, leased: leased.collect(), changes })
}

/// The result of checking a message against its event type before the write that stores it. The
/// check can take long, and must not delay other writes.
#[derive(Debug, Clone)]
pub(crate) struct EmitCheck {
    /// The schemas that it was checked against.
    schemas: Option<Bytes>,
    /// Why the message is refused, or `None` if it is valid.
    refusal: Option<String>,
}

impl EmitCheck {
    pub(super) fn new(message: &NewMessage, schemas: Option<Bytes>) -> Self {
        let refusal = schemas.as_ref().and_then(|schemas| {
            EventSchema::refusal(&message.event_type, schemas, &message.payload)
        });
        Self { schemas, refusal }
    }
}

/// The schemas against which a message is checked, if its event type enforces them.
pub(super) fn enforced(s: &DbSession<'_>, message: &NewMessage) -> Res<Option<Bytes>> {
    let found = event_type::find(s, &message.event_type)?.filter(|found| found.enforced);
    Ok(found.and_then(|found| found.schemas))
}

/// Stores a message in the commit of another command, unless it is invalid for its event type. It
/// is checked again only if the event type has changed since the check.
pub(super) fn emit_checked(
    s: &mut DbSession<'_>,
    new: &NewMessage,
    check: Option<EmitCheck>,
) -> Res<EmitReply> {
    let schemas = enforced(s, new)?;
    let check = check.filter(|check| check.schemas == schemas);
    let check = check.unwrap_or_else(|| EmitCheck::new(new, schemas));
    match check.refusal {
        Some(reason) => Ok(refused(EmitOutcome::Refused(reason))),
        None => emit(s, new, &[]),
    }
}

fn refused(outcome: EmitOutcome) -> EmitReply {
    EmitReply { outcome, leased: Vec::new(), changes: Vec::new() }
}

/// The application of a message. It is created if the message says so.
fn owner(s: &mut DbSession<'_>, new: &NewMessage) -> Res<Option<(i64, ApplicationId)>> {
    if let Some(found) = cache::application(s, &new.application)? {
        return Ok(Some(found));
    }
    let made = new.create_application.as_ref();
    made.map(|application| application::ensure(s, application)).transpose()
}

/// Why a message is not stored: it, or another message with its event id or idempotency key,
/// exists.
fn refusal(s: &DbSession<'_>, application: i64, new: &NewMessage) -> Res<Option<EmitOutcome>> {
    let repeated = |no| Ok(Some(EmitOutcome::Repeated(message::read(s, no, false)?)));
    let scope = IdempotencyKeyScope::new(IdempotencyScope::Message, application);
    match key::look(s, scope, new.idempotency.as_ref())? {
        EarlierRequest::Other => return Ok(Some(EmitOutcome::KeyReused)),
        EarlierRequest::Made(id) => {
            let id: HookMessageId = id.parse().map_err(corrupt("idempotency key", &id))?;
            if let Some(no) = message::by_id(s, application, id)? {
                return repeated(no);
            }
        }
        EarlierRequest::Nothing => {}
    }
    if let Some(no) = message::by_id(s, application, new.id)? {
        return repeated(no);
    }
    let Some(event_id) = &new.event_id else { return Ok(None) };
    match message::by_event(s, application, event_id)? {
        Some(no) => Ok(Some(EmitOutcome::Taken(message::read(s, no, false)?))),
        None => Ok(None),
    }
}

/// The part of a stored message that creating its deliveries needs.
pub(super) struct FanOutMessage<'a> {
    pub(super) no: i64,
    pub(super) channels: &'a [Channel],
    /// Whether the message is for one endpoint only, regardless of that endpoint's filters.
    pub(super) only: bool,
}

/// The endpoints that receive a message.
#[derive(Default)]
pub(super) struct Receivers {
    /// The endpoints that receive it, ordered by id.
    readable: Vec<Arc<EndpointConfig>>,
    /// The endpoints with corrupt rows.
    corrupt_endpoints: Vec<i64>,
}

impl Receivers {
    /// Whether one of the endpoints is in strict order, or may be.
    pub(super) fn may_be_in_order(&self) -> bool {
        let strict = |config: &Arc<EndpointConfig>| config.options().fifo.is_some();
        !self.corrupt_endpoints.is_empty() || self.readable.iter().any(strict)
    }
}

/// The endpoints whose patterns match a message, or the only one that it is for.
fn named(s: &mut DbSession<'_>, application: i64, new: &NewMessage) -> Res<Arc<[i64]>> {
    match new.only {
        Some(only) => {
            let found = endpoint::any(s, only)?.filter(|(_, owner)| *owner == application);
            Ok(found.into_iter().map(|(no, _)| no).collect())
        }
        None => cache::matching(s, application, &new.event_type),
    }
}

/// Selects the endpoints that receive a message.
pub(super) fn receivers(
    s: &mut DbSession<'_>,
    named: &[i64],
    message: &FanOutMessage<'_>,
) -> Res<Receivers> {
    let gets = |config: &EndpointConfig| {
        if message.only {
            !config.deleted
        } else {
            config.is_on() && config.matches_channels(message.channels)
        }
    };
    let mut receivers = Receivers::default();
    for no in named.iter() {
        match cache::endpoint(s, *no) {
            Err(fault) if fault.is_corrupt_row() => receivers.corrupt_endpoints.push(*no),
            config => receivers.readable.extend(Some(config?).filter(|config| gets(config))),
        }
    }
    receivers.readable.sort_by_key(|config| config.id());
    Ok(receivers)
}

/// Creates the deliveries of a message, and leases some of them to requests. Returns their number.
pub(super) fn deliver(
    s: &mut DbSession<'_>,
    state: &mut HookClaimState,
    receivers: Receivers,
    message: &FanOutMessage<'_>,
) -> Res<(u32, Vec<HookChange>)> {
    let Receivers { readable, mut corrupt_endpoints } = receivers;
    let mut deliveries = 0;
    for config in &readable {
        match state.lanes.get(s, config.no).map(drop) {
            Err(fault) if fault.is_corrupt_row() => corrupt_endpoints.push(config.no),
            other => {
                other?;
                let delivery = DeliveryRow::new(s, config, message.no, DeliveryClass::Fresh);
                claim::add_delivery(s, state, delivery, config)?;
                deliveries += 1;
            }
        }
    }
    let mut changes = std::mem::take(&mut state.lanes).finish(s)?;
    for endpoint in corrupt_endpoints {
        deliveries += u32::from(add_for_corrupt_endpoint(s, endpoint, message, &mut changes)?);
    }
    Ok((deliveries, changes))
}

/// Creates the delivery for a corrupt endpoint, and makes the endpoint due so that claims report
/// it. Returns false if its readable columns show that it does not receive the message.
fn add_for_corrupt_endpoint(
    s: &mut DbSession<'_>,
    endpoint: i64,
    message: &FanOutMessage<'_>,
    changes: &mut Vec<HookChange>,
) -> Res<bool> {
    let params = (endpoint, message.no, s.now.0, to_json(message.channels), message.only);
    if s.conn.prepare_cached(sql!("delivery_add_corrupt"))?.execute(params)? == 0 {
        return Ok(false);
    }
    s.conn.prepare_cached(sql!("lane_due_corrupt"))?.execute((endpoint, s.now.0))?;
    let change = HookChange::now(HookChangeKind::Push);
    s.hint_hook(std::slice::from_ref(&change));
    changes.push(change);
    Ok(true)
}

fn stored(s: &DbSession<'_>, application: ApplicationId, new: &NewMessage) -> StoredMessage {
    StoredMessage {
        id: new.id,
        application,
        event_type: new.event_type.clone(),
        event_id: new.event_id.clone(),
        channels: new.channels.clone(),
        payload: None,
        created_at: s.now,
    }
}

#[cfg(test)]
mod tests {
    use wakeline_core::{ApplicationRef, EventTypeName, Timestamp};
    use wakeline_store::hook::EventType;

    use super::*;
    use crate::command::WriteCommand;
    use crate::hook::emit_all;
    use crate::{SqliteOptions, SqliteStore};

    fn event_type(schemas: &'static str) -> EventType {
        EventType {
            name: EventTypeName::new("a.b").expect("valid"),
            description: String::new(),
            schemas: Some(Bytes::from_static(schemas.as_bytes())),
            enforced: true,
            archived: false,
            deprecated: false,
            feature_flag: None,
            group_name: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        }
    }

    #[tokio::test]
    async fn the_writer_checks_a_schema_only_if_it_changed_after_the_check() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = SqliteOptions::new(folder.path().join("w.db"));
        let store = SqliteStore::open(options).await.expect("opened");
        let message = NewMessage {
            id: HookMessageId::generate(),
            application: ApplicationRef::Id(ApplicationId::generate()),
            create_application: None,
            event_type: EventTypeName::new("a.b").expect("valid"),
            event_id: None,
            channels: Vec::new(),
            payload: Bytes::from_static(b"7"),
            retention: std::time::Duration::from_secs(60),
            only: None,
            idempotency: None,
        };
        let work = WriteCommand::new("test", move |s| {
            let (text, object) = (r#"{"1":{"type":"string"}}"#, r#"{"1":{"type":"object"}}"#);
            let check = EmitCheck {
                schemas: Some(Bytes::from_static(text.as_bytes())),
                refusal: Some("checked before".to_owned()),
            };
            let mut reasons = Vec::new();
            for schemas in [text, object] {
                event_type::put(s, &event_type(schemas))?;
                s.emit_checks = vec![check.clone()];
                let (outcomes, _) = emit_all(s, std::slice::from_ref(&message))?;
                reasons.extend(outcomes);
            }
            Ok(reasons)
        });
        let outcomes = store.write(work).await.expect("written");
        let [EmitOutcome::Refused(before), EmitOutcome::Refused(after)] = &outcomes[..] else {
            panic!("{outcomes:?}")
        };
        assert_eq!(before, "checked before");
        assert!(after.contains("object"), "{after}");
    }
}
