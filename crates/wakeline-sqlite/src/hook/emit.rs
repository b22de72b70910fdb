//! Stores messages, each with a delivery for every endpoint that wants it, in one commit. Those of
//! a message for very many endpoints are made later: see [`super::fan_out`].
//!
//! # Invariants
//! * An endpoint that cannot be read costs nobody a message: its delivery waits until it can be,
//!   and claims tell of it (trap 46).

use std::sync::Arc;

use bytes::Bytes;
use wakeline_core::{ApplicationId, Channel, HookChange, HookMessageId, HookWhat};
use wakeline_store::hook::{
    DeliveryAsk, EmitOutcome, EmitReply, EventSchema, NewMessage, StoredMessage,
};

use super::claim::{self, Books};
use super::delivery::{Class, Delivery};
use super::key::{self, Earlier, Scope};
use super::known::{self, Config, number, to_json};
use super::slots::Slots;
use super::{application, endpoint, event_type, fan_out, message, sql};
use crate::error::{Res, corrupt};
use crate::session::Session;

/// Stores a message. Asks that come along get deliveries of endpoints for which nothing else
/// waits.
pub(super) fn emit(s: &mut Session<'_>, new: &NewMessage, asks: &[DeliveryAsk]) -> Res<EmitReply> {
    let Some(owner) = owner(s, new)? else { return Ok(refused(EmitOutcome::NoApplication)) };
    if let Some(outcome) = refusal(s, owner.0, new)? {
        return Ok(refused(outcome));
    }
    let first_expiry = number(s, sql!("payload_first"), [])?;
    let no = message::add(s, owner.0, new)?;
    key::remember(s, (Scope::Message, owner.0), new.idempotency.as_ref(), &new.id.to_string())?;
    let message = FanOutMessage { no, channels: &new.channels, only: new.only.is_some() };
    let named = named(s, owner.0, new)?;
    let mut slots = Slots::new(asks);
    let (deliveries, mut changes) = match fan_out::at_once(s, owner.0, &named, &message)? {
        Some(receivers) => {
            let mut books = Books::default();
            books.messages.know(s, no, new);
            deliver(s, (&mut books, &mut slots), receivers, &message)?
        }
        None => {
            let later = u32::try_from(named.len()).unwrap_or(u32::MAX);
            (later, vec![fan_out::add(s, owner.0, &named, &message)?])
        }
    };
    let expires_at = s.now.plus(new.retention).0;
    if first_expiry.is_none_or(|first| expires_at < first) {
        let chores = HookChange { what: HookWhat::Chores, due_in: new.retention };
        s.hint_hook(std::slice::from_ref(&chores));
        changes.push(chores);
    }
    let leased = slots.groups().into_iter().enumerate().filter(|(_, got)| !got.is_empty());
    let outcome = EmitOutcome::Stored(stored(s, owner.1, new), deliveries);
    Ok(EmitReply { outcome, leased: leased.collect(), changes })
}

/// Whether a message fits its event type, as found out before the write that stores it: a check
/// may take long, and must not keep other writes waiting.
#[derive(Debug, Clone)]
pub(crate) struct EmitCheck {
    /// What it was checked against.
    schemas: Option<Bytes>,
    /// Why it does not fit.
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

/// The schemas that a message must fit.
pub(super) fn enforced(s: &Session<'_>, message: &NewMessage) -> Res<Option<Bytes>> {
    let found = event_type::find(s, &message.event_type)?.filter(|found| found.enforced);
    Ok(found.and_then(|found| found.schemas))
}

/// Stores a message along with another write, unless it does not fit its event type. It is checked
/// again only if the event type has changed since.
pub(super) fn along(
    s: &mut Session<'_>,
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

/// The application that there is, or the one that is made.
fn owner(s: &mut Session<'_>, new: &NewMessage) -> Res<Option<(i64, ApplicationId)>> {
    if let Some(found) = known::application(s, &new.application)? {
        return Ok(Some(found));
    }
    let made = new.create_application.as_ref();
    made.map(|application| application::ensure(s, application)).transpose()
}

/// Why a message is not stored: it is there already, or what it names is.
fn refusal(s: &Session<'_>, application: i64, new: &NewMessage) -> Res<Option<EmitOutcome>> {
    let repeated = |no| Ok(Some(EmitOutcome::Repeated(message::read(s, no, false)?)));
    match key::look(s, (Scope::Message, application), new.idempotency.as_ref())? {
        Earlier::Other => return Ok(Some(EmitOutcome::KeyReused)),
        Earlier::Made(id) => {
            let id: HookMessageId = id.parse().map_err(corrupt("idempotency key", &id))?;
            if let Some(no) = message::by_id(s, application, id)? {
                return repeated(no);
            }
        }
        Earlier::Nothing => {}
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

/// A stored message, as far as its deliveries need it.
pub(super) struct FanOutMessage<'a> {
    pub(super) no: i64,
    pub(super) channels: &'a [Channel],
    /// It is for one endpoint, whatever that one wants.
    pub(super) only: bool,
}

/// The endpoints that may get a message.
#[derive(Default)]
pub(super) struct Receivers {
    /// Those that get it, in order of their ids.
    readable: Vec<Arc<Config>>,
    /// Those that cannot be read.
    unread: Vec<i64>,
}

impl Receivers {
    /// Whether one of them is in strict order, or may be.
    pub(super) fn may_be_in_order(&self) -> bool {
        let strict = |config: &Arc<Config>| config.options().fifo.is_some();
        !self.unread.is_empty() || self.readable.iter().any(strict)
    }
}

/// The endpoints whose patterns match a message, or the one that it is for.
fn named(s: &mut Session<'_>, application: i64, new: &NewMessage) -> Res<Arc<[i64]>> {
    match new.only {
        Some(only) => {
            let found = endpoint::any(s, only)?.filter(|(_, owner)| *owner == application);
            Ok(found.into_iter().map(|(no, _)| no).collect())
        }
        None => known::matching(s, application, &new.event_type),
    }
}

/// Those of some endpoints that get a message.
pub(super) fn receivers(
    s: &mut Session<'_>,
    named: &[i64],
    message: &FanOutMessage<'_>,
) -> Res<Receivers> {
    let gets = |config: &Config| match message.only {
        true => !config.deleted,
        false => config.is_on() && config.hears(message.channels),
    };
    let mut receivers = Receivers::default();
    for no in named.iter() {
        match known::endpoint(s, *no) {
            Err(fault) if fault.is_of_a_row() => receivers.unread.push(*no),
            config => receivers.readable.extend(Some(config?).filter(|config| gets(config))),
        }
    }
    receivers.readable.sort_by_key(|config| config.id());
    Ok(receivers)
}

/// Makes the deliveries of a message, and leases some of them. Returns how many there are.
pub(super) fn deliver(
    s: &mut Session<'_>,
    (books, slots): (&mut Books, &mut Slots),
    receivers: Receivers,
    message: &FanOutMessage<'_>,
) -> Res<(u32, Vec<HookChange>)> {
    let Receivers { readable, mut unread } = receivers;
    let mut deliveries = 0;
    for config in &readable {
        match books.lanes.get(s, config.no).map(drop) {
            Err(fault) if fault.is_of_a_row() => unread.push(config.no),
            other => {
                other?;
                let delivery = Delivery::new(s, config, message.no, Class::Fresh);
                claim::give_new(s, books, (delivery, config), slots)?;
                deliveries += 1;
            }
        }
    }
    let mut changes = std::mem::take(&mut books.lanes).finish(s)?;
    for endpoint in unread {
        deliveries += u32::from(for_unread(s, endpoint, message, &mut changes)?);
    }
    Ok((deliveries, changes))
}

/// Makes the delivery of an endpoint that cannot be read, and leads claims to it. False if it
/// would not get the message.
fn for_unread(
    s: &mut Session<'_>,
    endpoint: i64,
    message: &FanOutMessage<'_>,
    changes: &mut Vec<HookChange>,
) -> Res<bool> {
    let params = (endpoint, message.no, s.now.0, to_json(message.channels), message.only);
    if s.conn.prepare_cached(sql!("delivery_add_unread"))?.execute(params)? == 0 {
        return Ok(false);
    }
    s.conn.prepare_cached(sql!("lane_due_unread"))?.execute((endpoint, s.now.0))?;
    let change = HookChange::now(HookWhat::Push);
    s.hint_hook(std::slice::from_ref(&change));
    changes.push(change);
    Ok(true)
}

fn stored(s: &Session<'_>, application: ApplicationId, new: &NewMessage) -> StoredMessage {
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
    use crate::call::Work;
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
        let work = Work::new("test", move |s| {
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
