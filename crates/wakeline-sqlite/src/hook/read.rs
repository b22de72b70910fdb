//! Reads messages, deliveries, attempts and their statistics.

use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, EndpointId, HookMessageId, MessageRef, Timestamp,
};
use wakeline_store::hook::{
    Attempt, AttemptFilter, AttemptOutcome, Delivery, DeliveryState, EndpointStats,
    HookMessageFilter, HookPage, PageRequest, StoredMessage,
};

use super::cache::{self, to_json};
use super::delivery::{DeliveryRow, DeliveryRowState};
use super::lane::EndpointLane;
use super::page::IndexWalk;
use super::{attempt, delivery, endpoint, message, sql};
use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// Reads a message.
pub(super) fn message(
    s: &mut DbSession<'_>,
    application: &ApplicationRef,
    which: &MessageRef,
    with_content: bool,
) -> Res<Option<StoredMessage>> {
    let found = message::find(s, application, which)?;
    found.map(|(no, _)| message::read(s, no, with_content)).transpose()
}

fn nothing<T>() -> HookPage<T> {
    HookPage { items: Vec::new(), done: true }
}

/// Lists the messages of an application by id.
pub(super) fn messages(
    s: &mut DbSession<'_>,
    application: ApplicationId,
    filter: &HookMessageFilter,
    page: &PageRequest<HookMessageId>,
) -> Res<HookPage<StoredMessage>> {
    let Some((application, _)) = cache::application(s, &ApplicationRef::Id(application))? else {
        return Ok(nothing());
    };
    let endpoint = match filter.endpoint {
        Some(id) => match endpoint::any(s, id)? {
            Some((no, _)) => Some(no),
            None => return Ok(nothing()),
        },
        None => None,
    };
    let walk = IndexWalk::ids(page, |id| id.0);
    let sql = walk.pick(sql!("message_list_up"), sql!("message_list_down"));
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((
        application,
        &walk.bound,
        filter.channel.as_ref().map(|channel| channel.as_str()),
        (!filter.event_types.is_empty()).then(|| to_json(&filter.event_types)),
        filter.before.map_or(i64::MAX, |at| at.0),
        filter.after.map_or(i64::MIN, |at| at.0),
        endpoint,
        walk.rows,
    ))?;
    walk.read(&mut rows, |row| message::read(s, row.get(0)?, filter.with_content))
}

/// The state of a delivery as readers see it.
pub(super) fn state(s: &mut DbSession<'_>, delivery: &DeliveryRow) -> Res<DeliveryState> {
    Ok(match delivery.state {
        DeliveryRowState::Leased => DeliveryState::InFlight,
        DeliveryRowState::Delivered => DeliveryState::Delivered,
        DeliveryRowState::Failed => DeliveryState::Failed,
        DeliveryRowState::Cancelled => DeliveryState::Cancelled,
        // Its endpoint is deleted, and background work will cancel it.
        DeliveryRowState::Waiting if cache::endpoint(s, delivery.endpoint)?.deleted => {
            DeliveryState::Cancelled
        }
        DeliveryRowState::Waiting if is_throttled(s, delivery)? => DeliveryState::Throttled,
        DeliveryRowState::Waiting if delivery.attempts == 0 => DeliveryState::Pending,
        DeliveryRowState::Waiting => DeliveryState::Retrying,
    })
}

fn is_throttled(s: &mut DbSession<'_>, delivery: &DeliveryRow) -> Res<bool> {
    if delivery.due_at.is_some_and(|due| due > s.now.0) {
        return Ok(false);
    }
    let config = cache::endpoint(s, delivery.endpoint)?;
    Ok(!config.is_on() || EndpointLane::read(s, delivery.endpoint)?.is_held_back(&config, s.now))
}

/// When a waiting delivery is attempted next: not before rate limit, throttle and breaker allow it,
/// and at no known time while its endpoint is disabled.
fn next_attempt(s: &mut DbSession<'_>, delivery: &DeliveryRow) -> Res<Option<Timestamp>> {
    let Some(due) = delivery.due_at.filter(|_| delivery.state == DeliveryRowState::Waiting) else {
        return Ok(None);
    };
    let config = cache::endpoint(s, delivery.endpoint)?;
    let gate = EndpointLane::read(s, delivery.endpoint)?.gate(&config);
    let held = if gate > s.now.0 { gate } else { due };
    Ok(config.is_on().then_some(Timestamp(due.max(held))))
}

fn shown(s: &mut DbSession<'_>, delivery: &DeliveryRow, message: HookMessageId) -> Res<Delivery> {
    Ok(Delivery {
        message,
        endpoint: cache::endpoint(s, delivery.endpoint)?.id(),
        state: state(s, delivery)?,
        attempts: delivery.attempts,
        next_attempt_at: next_attempt(s, delivery)?,
        created_at: delivery.created_at,
        updated_at: delivery.updated_at,
    })
}

/// Lists the deliveries of a message by endpoint.
pub(super) fn deliveries(
    s: &mut DbSession<'_>,
    application: ApplicationId,
    message: HookMessageId,
    page: &PageRequest<EndpointId>,
) -> Res<HookPage<Delivery>> {
    let application = ApplicationRef::Id(application);
    let Some((no, _)) = message::find(s, &application, &MessageRef::Id(message))? else {
        return Ok(nothing());
    };
    let walk = IndexWalk::ids(page, |id| id.0);
    let sql = walk.pick(sql!("delivery_list_up"), sql!("delivery_list_down"));
    let conn = s.conn;
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query((no, &walk.bound, walk.rows))?;
    walk.read(&mut rows, |row| shown(s, &delivery::decode(row)?, message))
}

/// Reads the deliveries of some messages for one endpoint.
pub(super) fn deliveries_to(
    s: &mut DbSession<'_>,
    endpoint: EndpointId,
    messages: &[HookMessageId],
) -> Res<Vec<Option<Delivery>>> {
    let found = endpoint::any(s, endpoint)?;
    let config = found.map(|(no, _)| cache::endpoint(s, no)).transpose()?;
    let config = config.filter(|config| !config.application_deleted);
    let mut answers = Vec::with_capacity(messages.len());
    for id in messages {
        let mut answer = None;
        if let Some(config) = &config
            && let Some(message) = message::by_id(s, config.application, *id)?
            && let Some(delivery) = DeliveryRow::of(s, message, config.no)?
        {
            answer = Some(shown(s, &delivery, *id)?);
        }
        answers.push(answer);
    }
    Ok(answers)
}

/// The statements, for both directions, that read the fewest attempts.
fn attempt_list(filter: &AttemptFilter) -> (&'static str, &'static str) {
    if filter.message.is_some() {
        (sql!("attempt_list_message_up"), sql!("attempt_list_message_down"))
    } else if filter.endpoint.is_some() {
        (sql!("attempt_list_endpoint_up"), sql!("attempt_list_endpoint_down"))
    } else {
        (sql!("attempt_list_up"), sql!("attempt_list_down"))
    }
}

/// Lists the attempts of an application by id.
pub(super) fn attempts(
    s: &mut DbSession<'_>,
    application: ApplicationId,
    filter: &AttemptFilter,
    page: &PageRequest<AttemptId>,
) -> Res<HookPage<Attempt>> {
    let Some((application, _)) = cache::application(s, &ApplicationRef::Id(application))? else {
        return Ok(nothing());
    };
    let message = match filter.message {
        Some(id) => match message::by_id(s, application, id)? {
            Some(no) => Some(no),
            None => return Ok(nothing()),
        },
        None => None,
    };
    let endpoint = match filter.endpoint {
        Some(id) => match endpoint::any(s, id)? {
            Some((no, _)) => Some(no),
            None => return Ok(nothing()),
        },
        None => None,
    };
    let outcome = filter.outcome.map(|outcome| match outcome {
        AttemptOutcome::Succeeded => "succeeded",
        AttemptOutcome::Failed => "failed unknown",
        AttemptOutcome::Unknown => "unknown",
    });
    let walk = IndexWalk::ids(page, |id| id.0);
    let (up, down) = attempt_list(filter);
    let mut statement = s.conn.prepare_cached(walk.pick(up, down))?;
    let mut rows = statement.query((
        application,
        &walk.bound,
        message,
        endpoint,
        outcome,
        filter.status_class,
        filter.channel.as_ref().map(|channel| channel.as_str()),
        (!filter.event_types.is_empty()).then(|| to_json(&filter.event_types)),
        filter.before.map_or(i64::MAX, |at| at.0),
        filter.after.map_or(i64::MIN, |at| at.0),
        filter.with_content,
        walk.rows,
    ))?;
    walk.read(&mut rows, attempt::decode)
}

/// Reads one attempt.
pub(super) fn attempt(
    s: &mut DbSession<'_>,
    application: ApplicationId,
    id: AttemptId,
) -> Res<Option<Attempt>> {
    let Some((application, _)) = cache::application(s, &ApplicationRef::Id(application))? else {
        return Ok(None);
    };
    let mut statement = s.conn.prepare_cached(sql!("attempt_read"))?;
    let mut rows = statement.query((application, id.0.into_bytes()))?;
    rows.next()?.map(attempt::decode).transpose()
}

/// Counts the deliveries of an endpoint by state.
pub(super) fn stats(
    s: &mut DbSession<'_>,
    application: ApplicationId,
    endpoint: EndpointId,
    since: Option<Timestamp>,
) -> Res<EndpointStats> {
    let mut stats = EndpointStats::default();
    let owner = cache::application(s, &ApplicationRef::Id(application))?;
    let found = endpoint::any(s, endpoint)?;
    let Some((no, _)) = found.filter(|(_, of)| owner.is_some_and(|(owner, _)| owner == *of)) else {
        return Ok(stats);
    };
    let mut statement = s.conn.prepare_cached(sql!("delivery_stats"))?;
    let mut rows = statement.query((no, since.map_or(i64::MIN, |at| at.0)))?;
    while let Some(row) = rows.next()? {
        let state: String = row.get(0)?;
        let count: i64 = row.get(1)?;
        let count = u64::try_from(count).map_err(corrupt("endpoint", no))?;
        match state.as_str() {
            "delivered" => stats.delivered = count,
            "waiting" => stats.waiting = count,
            "leased" => stats.in_flight = count,
            "failed" => stats.failed = count,
            _ => stats.cancelled = count,
        }
    }
    Ok(stats)
}
