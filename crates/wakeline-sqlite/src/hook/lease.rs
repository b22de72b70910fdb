//! Leases: the attempt that a delivery is held for, and how it ends by itself.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use wakeline_core::{
    AttemptId, Channel, DeliveryToken, EventId, EventTypeName, HookChange, HookMessageId, Timestamp,
};
use wakeline_store::hook::{DeliveryItem, NewMessage};

use super::attempt;
use super::delivery::{Delivery, Lease, State};
use super::known::{Config, json, uuid};
use super::lane::Lanes;
use super::sql;
use crate::error::{Fault, Res, corrupt};
use crate::session::Session;

/// What is sent of a message.
#[derive(Debug)]
pub(super) struct Sent {
    id: HookMessageId,
    event_type: EventTypeName,
    event_id: Option<EventId>,
    channels: Vec<Channel>,
    created_at: Timestamp,
    payload: Option<Bytes>,
}

/// The messages of a claim: those that go to several endpoints are read once.
#[derive(Debug, Default)]
pub(super) struct Messages(HashMap<i64, Arc<Sent>>);

impl Messages {
    /// A message that was just stored need not be read.
    pub(super) fn know(&mut self, s: &Session<'_>, no: i64, new: &NewMessage) {
        let sent = Sent {
            id: new.id,
            event_type: new.event_type.clone(),
            event_id: new.event_id.clone(),
            channels: new.channels.clone(),
            created_at: s.now,
            payload: Some(new.payload.clone()),
        };
        self.0.insert(no, Arc::new(sent));
    }

    fn get(&mut self, s: &Session<'_>, no: i64) -> Res<Arc<Sent>> {
        if let Some(sent) = self.0.get(&no) {
            return Ok(Arc::clone(sent));
        }
        let sent = Arc::new(read(s, no)?);
        self.0.insert(no, Arc::clone(&sent));
        Ok(sent)
    }
}

fn read(s: &Session<'_>, no: i64) -> Res<Sent> {
    let mut statement = s.conn.prepare_cached(sql!("message_sent"))?;
    let mut rows = statement.query([no])?;
    let row = rows.next()?.ok_or_else(|| corrupt("webhook message", no)("its row is missing"))?;
    let event_type: String = row.get(1)?;
    let event_id: Option<String> = row.get(2)?;
    let channels: Option<String> = row.get(3)?;
    Ok(Sent {
        id: HookMessageId(uuid("message", row, 0)?),
        event_type: EventTypeName::new(event_type).map_err(corrupt("webhook message", no))?,
        event_id: event_id.map(EventId::new).transpose().map_err(corrupt("webhook message", no))?,
        channels: channels.map_or(Ok(Vec::new()), |text| json("webhook message", no, &text))?,
        created_at: Timestamp(row.get(4)?),
        payload: row.get::<_, Option<Vec<u8>>>(5)?.map(Bytes::from),
    })
}

/// Leases a delivery that waits, or adds a new one leased. Nothing is written if its message
/// cannot be read.
pub(super) fn take(
    s: &mut Session<'_>,
    (delivery, config): (&mut Delivery, &Config),
    (key, span): (AttemptId, Option<std::time::Duration>),
    messages: &mut Messages,
) -> Res<DeliveryItem> {
    let sent = messages.get(s, delivery.message)?;
    let span = span.unwrap_or_else(|| config.options().lease());
    let lease = Lease { key, at: s.now.0, until: s.now.plus(span).0 };
    delivery.state = State::Leased;
    delivery.lease = Some(lease);
    match delivery.is_new() {
        true => delivery.add(s, config)?,
        false => delivery.write(s, config)?,
    }
    let item = item(s, delivery, lease, &sent);
    s.hint_hook_lease_end(HookChange { what: config.what(), due_in: item.lease_for });
    Ok(item)
}

/// A delivery that is leased already, as its holder gets it.
pub(super) fn held(
    s: &Session<'_>,
    delivery: &Delivery,
    lease: Lease,
    messages: &mut Messages,
) -> Res<DeliveryItem> {
    let sent = messages.get(s, delivery.message)?;
    Ok(item(s, delivery, lease, &sent))
}

fn item(s: &Session<'_>, delivery: &Delivery, lease: Lease, sent: &Sent) -> DeliveryItem {
    DeliveryItem {
        token: DeliveryToken { delivery: delivery.no, attempt: lease.key },
        attempt_no: delivery.attempt_no(),
        scheduled_no: delivery.scheduled_no(),
        trigger: delivery.trigger(),
        message: sent.id,
        event_type: sent.event_type.clone(),
        event_id: sent.event_id.clone(),
        channels: sent.channels.clone(),
        created_at: sent.created_at,
        payload: sent.payload.clone(),
        now: s.now,
        lease_for: s.now.until(Timestamp(lease.until)),
    }
}

/// Ends a lease that has expired: the attempt is unknown, and counted.
pub(super) fn expire(
    s: &mut Session<'_>,
    lanes: &mut Lanes,
    mut delivery: Delivery,
) -> Res<Delivery> {
    let Some(lease) = delivery.lease else {
        return Err(Fault::Corrupt {
            what: "delivery",
            id: delivery.no.to_string(),
            source: "it is under way without a lease".into(),
        });
    };
    let (_, config) = lanes.get(s, delivery.endpoint)?;
    attempt::log_unknown(s, (&delivery, &lease), &config)?;
    let back = delivery.back;
    delivery.count();
    let attempts_max = config.options().schedule().len() + 1;
    match back {
        _ if delivery.cancelled || config.gone => delivery.end(State::Cancelled),
        Some(back) => delivery.go_back(back),
        None if delivery.scheduled as usize >= attempts_max => delivery.end(State::Failed),
        None => delivery.wait(lease.until, false),
    }
    delivery.write(s, &config)?;
    Ok(delivery)
}
