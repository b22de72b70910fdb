//! Reads and writes endpoints, including the columns that claims use.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakeline_core::{
    ApplicationId, ApplicationRef, Channel, EndpointId, EndpointOptions, EndpointRef, EventPattern,
    HookChange,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Created, Endpoint, EndpointSecret, EndpointUpdate, HookPage, Idempotency, NewEndpoint,
    PageRequest, RotateOutcome, Rotation, UpdateOutcome,
};

use super::catalog::{digests, limit, page, place, vanished};
use super::wire::{self, bytes, json, micros, moment_if, plain, texts};
use super::{HookCore, sql};
use crate::access::Act;
use crate::rows::{self, Columns};

const ENDPOINT: &str = "endpoint";

/// The options of an endpoint as they are stored.
struct OptionsForm {
    text: String,
    pull: bool,
    /// The numbers in the order of the table's columns.
    numbers: Vec<Option<i64>>,
}

impl OptionsForm {
    fn new(options: &EndpointOptions) -> Self {
        let whole = |number: u32| Some(i64::from(number));
        let attempts = i64::try_from(options.schedule().len()).expect("a schedule is short") + 1;
        let breaker = options.breaker.as_ref();
        Self {
            text: serde_json::to_string(options).expect("options always have a JSON form"),
            pull: options.pull,
            numbers: vec![
                options.fifo.map(|fifo| i64::from(fifo.batch.clamp(1, 1_000_000))),
                options.rate_per_second.map(i64::from),
                whole(options.in_flight_max),
                breaker.and_then(|breaker| whole(breaker.failures)),
                breaker.map(|breaker| micros(breaker.open_for)),
                breaker.and_then(|breaker| whole(breaker.probes)),
                options.disable_after.map(micros),
                Some(attempts),
                Some(micros(options.lease())),
            ],
        }
    }
}

fn patterns(patterns: &[EventPattern]) -> Vec<&str> {
    patterns.iter().map(EventPattern::as_str).collect()
}

fn channels(channels: &[Channel]) -> Vec<&str> {
    channels.iter().map(Channel::as_str).collect()
}

fn endpoint(row: &Row) -> Result<Endpoint, StoreError> {
    let mut columns = Columns::new(ENDPOINT, row);
    Ok(Endpoint {
        id: EndpointId(columns.take()?),
        application: ApplicationId(columns.take()?),
        uid: columns.name_if("uid")?,
        url: columns.take()?,
        description: columns.take()?,
        event_types: texts("event pattern", columns.take()?)?,
        channels: texts("channel", columns.take()?)?,
        disabled: columns.take::<Option<i16>>()?.map(wire::disabled),
        metadata: bytes(&mut columns)?,
        headers: bytes(&mut columns)?,
        options: json("options", columns.take()?)?,
        version: wire::count(columns.take()?),
        created_at: columns.moment()?,
        updated_at: columns.moment()?,
        failing_since: moment_if(&mut columns)?,
        paused_for: columns.take::<Option<i64>>()?.map(rows::span),
    })
}

impl HookCore {
    pub(super) async fn endpoint(
        &self,
        application: &ApplicationRef,
        which: &EndpointRef,
    ) -> Result<Option<Endpoint>, StoreError> {
        let ((app, app_uid), (id, own)) = (wire::application(application), wire::endpoint(which));
        let params: &[&(dyn ToSql + Sync)] = &[&app, &app_uid, &id, &own];
        let rows = self.general(ENDPOINT, &self.sql.endpoint, params).await?;
        rows.first().map(endpoint).transpose()
    }

    /// Reads an endpoint that was just written.
    async fn written_endpoint(
        &self,
        application: &ApplicationRef,
        id: EndpointId,
    ) -> Result<Option<Endpoint>, StoreError> {
        let found = self.endpoint(application, &EndpointRef::Id(id)).await;
        found.map_err(StoreError::after_write)
    }

    pub(super) async fn endpoints(
        &self,
        application: &ApplicationRef,
        request: PageRequest<EndpointId>,
    ) -> Result<Option<HookPage<Endpoint>>, StoreError> {
        let Some(application) = self.application(application).await? else { return Ok(None) };
        let up = sql::goes_up(&request);
        let after = place(up, request.after.map(|id| id.0));
        let params: &[&(dyn ToSql + Sync)] = &[&application.id.0, &after, &limit(&request)];
        let rows = self.general("endpoints", self.sql.endpoints.way(up), params).await?;
        let items = rows.iter().map(endpoint).collect::<Result<_, _>>()?;
        Ok(Some(page(&request, items)))
    }

    pub(super) async fn create_endpoint(
        &self,
        application: &ApplicationRef,
        new: NewEndpoint,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Endpoint>, StoreError> {
        plain("url", &new.url)?;
        plain("description", &new.description)?;
        let (app, app_uid) = wire::application(application);
        let (key, digest) = digests(idempotency.as_ref());
        let options = OptionsForm::new(&new.options);
        let params: &[&(dyn ToSql + Sync)] = &[
            &app,
            &app_uid,
            &new.id.0,
            &new.uid.as_ref().map(|uid| uid.as_str()),
            &new.url,
            &new.description,
            &patterns(&new.event_types),
            &channels(&new.channels),
            &new.disabled.map(wire::disabled_code),
            &new.metadata.as_ref(),
            &new.headers.as_ref(),
            &new.secret.as_ref(),
            &options.text,
            &options.pull,
            &options.numbers,
            &key,
            &digest,
        ];
        let rows = self.act(ENDPOINT, &self.sql.endpoint_create, params, Act::coded).await?;
        let Some(row) = rows.first() else { return Err(vanished(ENDPOINT)) };
        let mut columns = Columns::new(ENDPOINT, row);
        let code: i16 = columns.take()?;
        match code {
            3 => return Ok(Created::KeyReused),
            4 => return Ok(Created::NoApplication),
            _ => {}
        }
        let id = columns.take::<Option<Uuid>>()?.ok_or_else(|| vanished(ENDPOINT))?;
        let found = self.written_endpoint(application, EndpointId(id)).await?;
        let found = found.ok_or_else(|| vanished(ENDPOINT))?;
        Ok(match code {
            0 => Created::New(found),
            1 => Created::Repeated(found),
            _ => Created::Taken(found),
        })
    }

    pub(super) async fn update_endpoint(
        &self,
        application: &ApplicationRef,
        which: &EndpointRef,
        update: EndpointUpdate,
    ) -> Result<(UpdateOutcome<Endpoint>, Vec<HookChange>), StoreError> {
        for (field, text) in [("url", &update.url), ("description", &update.description)] {
            text.as_ref().map_or(Ok(()), |text| plain(field, text))?;
        }
        let ((app, app_uid), (id, own)) = (wire::application(application), wire::endpoint(which));
        let options = update.options.as_ref().map(OptionsForm::new);
        let uid = update.uid.as_ref().and_then(Option::as_ref);
        let params: &[&(dyn ToSql + Sync)] = &[
            &app,
            &app_uid,
            &id,
            &own,
            &update.uid.is_some(),
            &uid.map(|uid| uid.as_str()),
            &update.url,
            &update.description,
            &update.event_types.as_deref().map(patterns),
            &update.channels.as_deref().map(channels),
            &update.disabled,
            &update.metadata.as_deref(),
            &update.headers.as_deref(),
            &options.as_ref().map(|options| options.text.as_str()),
            &options.as_ref().map(|options| options.pull),
            &options.as_ref().map(|options| &options.numbers),
            &update.expected_version.map(|version| i64::try_from(version).unwrap_or(i64::MAX)),
        ];
        let rows = self.naming(ENDPOINT, &self.sql.endpoint_update, params).await?;
        let Some(row) = rows.first() else { return Ok((UpdateOutcome::Missing, Vec::new())) };
        let mut columns = Columns::new(ENDPOINT, row);
        match columns.take::<i16>()? {
            0 => {}
            1 => return Ok((UpdateOutcome::Missing, Vec::new())),
            2 => return Ok((UpdateOutcome::Taken, Vec::new())),
            _ => return Ok((UpdateOutcome::Stale, Vec::new())),
        }
        let (id, pull): (Uuid, bool) = (columns.take()?, columns.take()?);
        let due: Option<i64> = columns.take()?;
        let changes: Vec<HookChange> =
            due.map(|due| wire::change(id, pull, due)).into_iter().collect();
        self.notify(&changes);
        let found = self.written_endpoint(application, EndpointId(id)).await?;
        Ok((found.map_or(UpdateOutcome::Missing, UpdateOutcome::Updated), changes))
    }

    /// Deletes an endpoint. Returns whether it existed, and whether background work has to continue
    /// the deletion.
    pub(super) async fn delete_endpoint(
        &self,
        application: &ApplicationRef,
        which: &EndpointRef,
    ) -> Result<(bool, bool), StoreError> {
        let ((app, app_uid), (id, own)) = (wire::application(application), wire::endpoint(which));
        let params: &[&(dyn ToSql + Sync)] = &[&app, &app_uid, &id, &own];
        let rows = self.act(ENDPOINT, &self.sql.endpoint_delete, params, Act::said).await?;
        let Some(row) = rows.first() else { return Ok((false, false)) };
        let mut columns = Columns::new(ENDPOINT, row);
        Ok((columns.take()?, columns.take()?))
    }

    pub(super) async fn secrets(
        &self,
        application: &ApplicationRef,
        which: &EndpointRef,
    ) -> Result<Vec<EndpointSecret>, StoreError> {
        let ((app, app_uid), (id, own)) = (wire::application(application), wire::endpoint(which));
        let params: &[&(dyn ToSql + Sync)] = &[&app, &app_uid, &id, &own];
        let rows = self.general(ENDPOINT, &self.sql.secrets, params).await?;
        let secret = |row: &Row| {
            let mut columns = Columns::new(ENDPOINT, row);
            let encrypted = bytes(&mut columns)?;
            Ok(EndpointSecret { encrypted, expires_at: moment_if(&mut columns)? })
        };
        rows.iter().map(secret).collect()
    }

    pub(super) async fn rotate(
        &self,
        application: &ApplicationRef,
        which: &EndpointRef,
        rotation: Rotation,
    ) -> Result<RotateOutcome, StoreError> {
        let ((app, app_uid), (id, own)) = (wire::application(application), wire::endpoint(which));
        let params: &[&(dyn ToSql + Sync)] = &[
            &app,
            &app_uid,
            &id,
            &own,
            &rotation.encrypted.as_ref(),
            &micros(rotation.grace),
            &i64::from(rotation.old_max),
        ];
        let rows = self.act(ENDPOINT, &self.sql.secret_rotate, params, Act::coded).await?;
        let code = rows.first().map(|row| Columns::new(ENDPOINT, row).take::<i16>()).transpose()?;
        Ok(match code {
            Some(0) => RotateOutcome::Rotated,
            Some(2) => RotateOutcome::TooMany,
            _ => RotateOutcome::Missing,
        })
    }
}
