//! `HookReader` on PostgreSQL: queries on a connection for general use.

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, EndpointId, EventTypeName, HookMessageId, MessageRef,
    Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Attempt, AttemptFilter, AttemptOutcome, Delivery, DeliveryState, EndpointStats,
    HookMessageFilter, HookPage, HookReader, PageRequest, StoredMessage, Trigger,
};

use super::catalog::{limit, page, place};
use super::sql;
use super::wire::{self, bytes_if, count, moment_if, small};
use crate::PostgresStore;
use crate::rows::{self, Columns};

const MESSAGE: &str = "message";
const DELIVERY: &str = "delivery";
const ATTEMPT: &str = "attempt";
const STATS: &str = "endpoint stats";

pub(super) fn names(types: &[EventTypeName]) -> Vec<&str> {
    types.iter().map(EventTypeName::as_str).collect()
}

/// All states, in the order of their numbers.
pub(super) const STATES: [DeliveryState; 7] = [
    DeliveryState::Pending,
    DeliveryState::InFlight,
    DeliveryState::Retrying,
    DeliveryState::Throttled,
    DeliveryState::Delivered,
    DeliveryState::Failed,
    DeliveryState::Cancelled,
];

fn message(row: &Row) -> Result<StoredMessage, StoreError> {
    let mut columns = Columns::new(MESSAGE, row);
    Ok(StoredMessage {
        id: HookMessageId(columns.take()?),
        application: ApplicationId(columns.take()?),
        event_type: wire::text("event type", columns.take()?)?,
        event_id: columns.name_if("event id")?,
        channels: wire::texts("channel", columns.take()?)?,
        created_at: columns.moment()?,
        payload: bytes_if(&mut columns)?,
    })
}

fn delivery(columns: &mut Columns<'_>) -> Result<Delivery, StoreError> {
    let (message, endpoint) = (HookMessageId(columns.take()?), EndpointId(columns.take()?));
    let state: i16 = columns.take()?;
    let state = usize::try_from(state).ok().and_then(|state| STATES.get(state));
    Ok(Delivery {
        message,
        endpoint,
        state: *state.ok_or_else(|| {
            rows::corrupt(DELIVERY, message.to_string(), "its state is not known")
        })?,
        attempts: small(columns.take()?),
        next_attempt_at: moment_if(columns)?,
        created_at: columns.moment()?,
        updated_at: columns.moment()?,
    })
}

fn attempt(row: &Row) -> Result<Attempt, StoreError> {
    let mut columns = Columns::new(ATTEMPT, row);
    Ok(Attempt {
        id: AttemptId(columns.take()?),
        message: HookMessageId(columns.take()?),
        endpoint: EndpointId(columns.take()?),
        attempt_no: small(columns.take()?),
        outcome: match columns.take::<i16>()? {
            1 => AttemptOutcome::Succeeded,
            2 => AttemptOutcome::Failed,
            _ => AttemptOutcome::Unknown,
        },
        trigger: if columns.take()? { Trigger::Manual } else { Trigger::Scheduled },
        began_at: columns.moment()?,
        took: std::time::Duration::from_micros(count(columns.take()?)),
        status: columns.take::<Option<i32>>()?.and_then(|status| u16::try_from(status).ok()),
        response: bytes_if(&mut columns)?,
        error: columns.take()?,
        url: columns.take()?,
    })
}

#[async_trait]
impl HookReader for PostgresStore {
    async fn message(
        &self,
        application: &ApplicationRef,
        which: &MessageRef,
        with_content: bool,
    ) -> Result<Option<StoredMessage>, StoreError> {
        let core = &self.hook.core;
        let ((app, app_uid), (id, own)) = (wire::application(application), wire::message(which));
        let params: &[&(dyn ToSql + Sync)] = &[&app, &app_uid, &id, &own, &with_content];
        let rows = core.general(MESSAGE, &core.sql.message, params).await?;
        rows.first().map(message).transpose()
    }

    async fn messages(
        &self,
        application: ApplicationId,
        filter: HookMessageFilter,
        request: PageRequest<HookMessageId>,
    ) -> Result<HookPage<StoredMessage>, StoreError> {
        let core = &self.hook.core;
        let up = sql::goes_up(&request);
        let params: &[&(dyn ToSql + Sync)] = &[
            &application.0,
            &place(up, request.after.map(|id| id.0)),
            &limit(&request),
            &filter.channel.as_ref().map(|channel| channel.as_str()),
            &names(&filter.event_types),
            &filter.before.map(rows::system_time),
            &filter.after.map(rows::system_time),
            &filter.endpoint.map(|endpoint| endpoint.0),
            &filter.with_content,
        ];
        let rows = core.general("messages", core.sql.messages.way(up), params).await?;
        let items = rows.iter().map(message).collect::<Result<_, _>>()?;
        Ok(page(&request, items))
    }

    async fn deliveries(
        &self,
        application: ApplicationId,
        message: HookMessageId,
        request: PageRequest<EndpointId>,
    ) -> Result<HookPage<Delivery>, StoreError> {
        let core = &self.hook.core;
        let up = sql::goes_up(&request);
        let after = place(up, request.after.map(|id| id.0));
        let params: &[&(dyn ToSql + Sync)] =
            &[&application.0, &message.0, &after, &limit(&request)];
        let rows = core.general("deliveries", core.sql.deliveries.way(up), params).await?;
        let read = |row| delivery(&mut Columns::new(DELIVERY, row));
        let items = rows.iter().map(read).collect::<Result<_, _>>()?;
        Ok(page(&request, items))
    }

    async fn deliveries_to(
        &self,
        endpoint: EndpointId,
        messages: Vec<HookMessageId>,
    ) -> Result<Vec<Option<Delivery>>, StoreError> {
        let core = &self.hook.core;
        let ids: Vec<_> = messages.iter().map(|message| message.0).collect();
        let rows = core.general(DELIVERY, &core.sql.deliveries_to, &[&endpoint.0, &ids]).await?;
        let mut found: Vec<Option<Delivery>> = messages.iter().map(|_| None).collect();
        for row in &rows {
            let mut columns = Columns::new(DELIVERY, row);
            let ord: i64 = columns.take()?;
            let ord = usize::try_from(ord - 1).expect("counted from 1");
            found[ord] = Some(delivery(&mut columns)?);
        }
        Ok(found)
    }

    async fn attempts(
        &self,
        application: ApplicationId,
        filter: AttemptFilter,
        request: PageRequest<AttemptId>,
    ) -> Result<HookPage<Attempt>, StoreError> {
        let core = &self.hook.core;
        let up = sql::goes_up(&request);
        let outcomes: &[i16] = match filter.outcome {
            None => &[],
            Some(AttemptOutcome::Succeeded) => &[1],
            Some(AttemptOutcome::Failed) => &[2, 3],
            Some(AttemptOutcome::Unknown) => &[3],
        };
        let params: &[&(dyn ToSql + Sync)] = &[
            &application.0,
            &place(up, request.after.map(|id| id.0)),
            &limit(&request),
            &filter.message.map(|message| message.0),
            &filter.endpoint.map(|endpoint| endpoint.0),
            &outcomes,
            &filter.status_class.map(i32::from),
            &filter.channel.as_ref().map(|channel| channel.as_str()),
            &names(&filter.event_types),
            &filter.before.map(rows::system_time),
            &filter.after.map(rows::system_time),
            &filter.with_content,
        ];
        let rows = core.general("attempts", core.sql.attempts.way(up), params).await?;
        let items = rows.iter().map(attempt).collect::<Result<_, _>>()?;
        Ok(page(&request, items))
    }

    async fn attempt(
        &self,
        application: ApplicationId,
        id: AttemptId,
    ) -> Result<Option<Attempt>, StoreError> {
        let core = &self.hook.core;
        let rows = core.general(ATTEMPT, &core.sql.attempt, &[&application.0, &id.0]).await?;
        rows.first().map(attempt).transpose()
    }

    async fn endpoint_stats(
        &self,
        application: ApplicationId,
        endpoint: EndpointId,
        since: Option<Timestamp>,
    ) -> Result<EndpointStats, StoreError> {
        let core = &self.hook.core;
        let params: &[&(dyn ToSql + Sync)] =
            &[&application.0, &endpoint.0, &since.map(rows::system_time)];
        let rows = core.general(STATS, &core.sql.stats, params).await?;
        let Some(row) = rows.first() else { return Ok(EndpointStats::default()) };
        let mut columns = Columns::new(STATS, row);
        Ok(EndpointStats {
            delivered: count(columns.take()?),
            waiting: count(columns.take()?),
            in_flight: count(columns.take()?),
            failed: count(columns.take()?),
            cancelled: count(columns.take()?),
        })
    }
}
