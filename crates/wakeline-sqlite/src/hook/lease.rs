//! Leases of deliveries: taking them, and ending expired ones.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use wakeline_core::{
    AttemptId, Channel, DeliveryToken, EventId, EventTypeName, HookChange, HookMessageId, Timestamp,
};
use wakeline_store::hook::{DeliveryItem, NewMessage};

use super::attempt::{self, EndedAttempt};
use super::cache::{EndpointConfig, json, uuid};
use super::delivery::{DeliveryLease, DeliveryRow, DeliveryRowState};
use super::lane::EndpointLanes;
use super::sql;
use crate::error::{Res, StoreFault, corrupt};
use crate::session::DbSession;

/// The content of a message that is sent to endpoints.
#[derive(Debug)]
pub(super) struct SentContent {
    id: HookMessageId,
    event_type: EventTypeName,
    event_id: Option<EventId>,
    channels: Vec<Channel>,
    created_at: Timestamp,
    payload: Option<Bytes>,
}

/// The messages of a claim, so that a message for several endpoints is read once.
#[derive(Debug, Default)]
pub(super) struct ClaimMessages(HashMap<i64, Arc<SentContent>>);

impl ClaimMessages {
    /// Adds a message that was just stored, so that it is not read.
    pub(super) fn insert(&mut self, s: &DbSession<'_>, no: i64, new: &NewMessage) {
        let sent = SentContent {
            id: new.id,
            event_type: new.event_type.clone(),
            event_id: new.event_id.clone(),
            channels: new.channels.clone(),
            created_at: s.now,
            payload: Some(new.payload.clone()),
        };
        self.0.insert(no, Arc::new(sent));
    }

    fn get(&mut self, s: &DbSession<'_>, no: i64) -> Res<Arc<SentContent>> {
        if let Some(sent) = self.0.get(&no) {
            return Ok(Arc::clone(sent));
        }
        let sent = Arc::new(read(s, no)?);
        self.0.insert(no, Arc::clone(&sent));
        Ok(sent)
    }
}

fn read(s: &DbSession<'_>, no: i64) -> Res<SentContent> {
    let mut statement = s.conn.prepare_cached(sql!("message_sent"))?;
    let mut rows = statement.query([no])?;
    let row = rows.next()?.ok_or_else(|| corrupt("webhook message", no)("its row is missing"))?;
    let event_type: String = row.get(1)?;
    let event_id: Option<String> = row.get(2)?;
    let channels: Option<String> = row.get(3)?;
    Ok(SentContent {
        id: HookMessageId(uuid("message", row, 0)?),
        event_type: EventTypeName::new(event_type).map_err(corrupt("webhook message", no))?,
        event_id: event_id.map(EventId::new).transpose().map_err(corrupt("webhook message", no))?,
        channels: channels.map_or(Ok(Vec::new()), |text| json("webhook message", no, &text))?,
        created_at: Timestamp(row.get(4)?),
        payload: row.get::<_, Option<Vec<u8>>>(5)?.map(Bytes::from),
    })
}

/// A delivery to lease.
pub(super) struct NewLease<'a> {
    pub(super) delivery: &'a mut DeliveryRow,
    pub(super) config: &'a EndpointConfig,
    /// The id of the attempt.
    pub(super) key: AttemptId,
    /// How long the lease lasts, or `None` for the endpoint's own duration.
    pub(super) span: Option<std::time::Duration>,
}

/// Leases a waiting delivery, or inserts a new one that is leased. If its message is corrupt,
/// nothing is written.
pub(super) fn take(
    s: &mut DbSession<'_>,
    new: NewLease<'_>,
    messages: &mut ClaimMessages,
) -> Res<DeliveryItem> {
    let NewLease { delivery, config, key, span } = new;
    let sent = messages.get(s, delivery.message)?;
    let span = span.unwrap_or_else(|| config.options().lease());
    let lease = DeliveryLease { key, at: s.now.0, until: s.now.plus(span).0 };
    delivery.state = DeliveryRowState::Leased;
    delivery.lease = Some(lease);
    if delivery.is_new() {
        delivery.add(s, config)?;
    } else {
        delivery.write(s, config)?;
    }
    let item = item(s, delivery, lease, &sent);
    s.hint_hook_lease_end(HookChange { what: config.what(), due_in: item.lease_for });
    Ok(item)
}

/// Builds the item of a delivery that is already leased.
pub(super) fn held(
    s: &DbSession<'_>,
    delivery: &DeliveryRow,
    lease: DeliveryLease,
    messages: &mut ClaimMessages,
) -> Res<DeliveryItem> {
    let sent = messages.get(s, delivery.message)?;
    Ok(item(s, delivery, lease, &sent))
}

fn item(
    s: &DbSession<'_>,
    delivery: &DeliveryRow,
    lease: DeliveryLease,
    sent: &SentContent,
) -> DeliveryItem {
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

/// Ends an expired lease: the outcome of the attempt is unknown, and the attempt is counted.
pub(super) fn expire(
    s: &mut DbSession<'_>,
    lanes: &mut EndpointLanes,
    mut delivery: DeliveryRow,
) -> Res<DeliveryRow> {
    let Some(lease) = delivery.lease else {
        return Err(StoreFault::Corrupt {
            what: "delivery",
            id: delivery.no.to_string(),
            source: "its attempt is in progress without a lease".into(),
        });
    };
    let (_, config) = lanes.get(s, delivery.endpoint)?;
    let attempt = EndedAttempt { delivery: &delivery, lease: &lease, config: &config };
    attempt::log_unknown(s, &attempt)?;
    let back = delivery.before_resend;
    delivery.count();
    let attempts_max = config.options().schedule().len() + 1;
    match back {
        _ if delivery.cancelled || config.application_deleted => {
            delivery.end(DeliveryRowState::Cancelled)
        }
        Some(back) => delivery.undo_resend(back),
        None if delivery.scheduled as usize >= attempts_max => {
            delivery.end(DeliveryRowState::Failed)
        }
        None => delivery.wait(lease.until, false),
    }
    delivery.write(s, &config)?;
    Ok(delivery)
}
