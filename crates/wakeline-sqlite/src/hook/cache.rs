//! Cached applications, endpoints and filters, so that messages and claims do not read them again.
//!
//! # Invariants
//! * Whatever writes an endpoint removes it from the cache. The whole cache is cleared when another
//!   process has written.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{OptionalExtension as _, Row};
use serde::de::DeserializeOwned;
use uuid::Uuid;
use wakeline_core::{
    ApplicationId, ApplicationRef, Channel, EndpointId, EndpointOptions, EventPattern,
    EventTypeName, HookChangeKind, Timestamp,
};
use wakeline_store::hook::{DeliveryTarget, DisableReason, EndpointSecret};

use super::sql;
use crate::error::{Res, StoreFault, corrupt};
use crate::session::DbSession;

/// When more endpoints, applications or event types than this are cached, all of that kind are
/// dropped.
const CACHED_MAX: usize = 10_000;

/// The cached rows.
#[derive(Debug, Default)]
pub(crate) struct HookCache {
    applications: HashMap<ApplicationRef, (i64, ApplicationId)>,
    endpoints: HashMap<i64, Arc<EndpointConfig>>,
    matching: HashMap<(i64, EventTypeName), Arc<[i64]>>,
}

impl HookCache {
    /// Drops an endpoint after it was written.
    pub(super) fn forget_endpoint(&mut self, endpoint: i64) {
        self.endpoints.remove(&endpoint);
    }

    /// Drops the cached matches after event type filters were written.
    pub(super) fn forget_filters(&mut self) {
        self.matching.clear();
    }

    /// Drops the applications after one was written.
    pub(super) fn forget_applications(&mut self) {
        self.applications.clear();
    }
}

/// The columns of an endpoint that creating and leasing its deliveries need.
#[derive(Debug)]
pub(super) struct EndpointConfig {
    pub(super) no: i64,
    pub(super) application: i64,
    pub(super) disabled: Option<DisableReason>,
    pub(super) deleted: bool,
    /// Whether its application is deleted, so that no request finds its deliveries.
    pub(super) application_deleted: bool,
    pub(super) event_types: Vec<EventPattern>,
    pub(super) channels: Vec<Channel>,
    /// The target of its deliveries, with all signing keys including expired ones.
    target: Arc<DeliveryTarget>,
}

impl EndpointConfig {
    pub(super) fn id(&self) -> EndpointId {
        self.target.endpoint
    }

    pub(super) fn options(&self) -> &EndpointOptions {
        &self.target.options
    }

    pub(super) fn url(&self) -> &str {
        &self.target.url
    }

    /// Whether it receives messages: it is neither disabled nor deleted.
    pub(super) fn is_on(&self) -> bool {
        self.disabled.is_none() && !self.deleted
    }

    /// The line of waiters that its deliveries belong to.
    pub(super) fn what(&self) -> HookChangeKind {
        if self.options().pull { HookChangeKind::Pull(self.id()) } else { HookChangeKind::Push }
    }

    /// The target that is handed out with a lease, with the signing keys that have not expired.
    pub(super) fn target(&self, now: Timestamp) -> Arc<DeliveryTarget> {
        let signs = |secret: &EndpointSecret| secret.expires_at.is_none_or(|at| at > now);
        if self.target.secrets.iter().all(signs) {
            return Arc::clone(&self.target);
        }
        let mut target = DeliveryTarget::clone(&self.target);
        target.secrets.retain(signs);
        Arc::new(target)
    }

    /// Whether it receives messages with these channels.
    pub(super) fn matches_channels(&self, channels: &[Channel]) -> bool {
        self.channels.is_empty() || self.channels.iter().any(|own| channels.contains(own))
    }

    /// Whether its filters match a message.
    pub(super) fn wants(&self, event_type: &EventTypeName, channels: &[Channel]) -> bool {
        let typed = self.event_types.is_empty()
            || self.event_types.iter().any(|pattern| pattern.matches(event_type));
        typed && self.matches_channels(channels)
    }
}

/// Looks up the number and the id of an application that is not deleted.
pub(super) fn application(
    s: &mut DbSession<'_>,
    which: &ApplicationRef,
) -> Res<Option<(i64, ApplicationId)>> {
    if let Some(found) = s.cache.hook.applications.get(which) {
        return Ok(Some(*found));
    }
    let found = super::application::find(s, which)?.map(|(no, found)| (no, found.id));
    if let Some(found) = found {
        let applications = &mut s.cache.hook.applications;
        if applications.len() >= CACHED_MAX {
            applications.clear();
        }
        applications.insert(which.clone(), found);
    }
    Ok(found)
}

/// Reads an endpoint, deleted or not. Its row exists as long as another row refers to its number.
pub(super) fn endpoint(s: &mut DbSession<'_>, no: i64) -> Res<Arc<EndpointConfig>> {
    if let Some(config) = s.cache.hook.endpoints.get(&no) {
        return Ok(Arc::clone(config));
    }
    let mut statement = s.conn.prepare_cached(sql!("endpoint_config"))?;
    let mut rows = statement.query([no])?;
    let row = rows.next()?.ok_or_else(|| corrupt("endpoint", no)("its row is missing"))?;
    let config = Arc::new(decode(s, no, row)?);
    let endpoints = &mut s.cache.hook.endpoints;
    if endpoints.len() >= CACHED_MAX {
        endpoints.clear();
    }
    endpoints.insert(no, Arc::clone(&config));
    Ok(config)
}

/// The endpoints of an application whose patterns match an event type, ordered by number.
pub(super) fn matching(
    s: &mut DbSession<'_>,
    application: i64,
    event_type: &EventTypeName,
) -> Res<Arc<[i64]>> {
    let key = (application, event_type.clone());
    if let Some(found) = s.cache.hook.matching.get(&key) {
        return Ok(Arc::clone(found));
    }
    let mut statement = s.conn.prepare_cached(sql!("filter_match"))?;
    let mut endpoints = BTreeSet::new();
    for pattern in event_type.patterns() {
        let mut rows = statement.query((application, &pattern))?;
        while let Some(row) = rows.next()? {
            endpoints.insert(row.get::<_, i64>(0)?);
        }
    }
    let found: Arc<[i64]> = endpoints.into_iter().collect();
    let matching = &mut s.cache.hook.matching;
    if matching.len() >= CACHED_MAX {
        matching.clear();
    }
    matching.insert(key, Arc::clone(&found));
    Ok(found)
}

fn decode(s: &DbSession<'_>, no: i64, row: &Row<'_>) -> Res<EndpointConfig> {
    let disabled: Option<String> = row.get(6)?;
    let target = DeliveryTarget {
        endpoint: EndpointId(uuid("endpoint", row, 0)?),
        application: ApplicationId(uuid("endpoint", row, 1)?),
        url: row.get(3)?,
        headers: Bytes::from(row.get::<_, Vec<u8>>(7)?),
        secrets: secrets(s, no)?,
        options: json("endpoint", no, &row.get::<_, String>(8)?)?,
    };
    Ok(EndpointConfig {
        no,
        application: row.get(2)?,
        event_types: json("endpoint", no, &row.get::<_, String>(4)?)?,
        channels: json("endpoint", no, &row.get::<_, String>(5)?)?,
        disabled: disabled.map(|text| reason(no, &text)).transpose()?,
        deleted: row.get(9)?,
        application_deleted: row.get(10)?,
        target: Arc::new(target),
    })
}

/// The signing keys of an endpoint including expired ones, the current one first.
pub(super) fn secrets(s: &DbSession<'_>, endpoint: i64) -> Res<Vec<EndpointSecret>> {
    let mut statement = s.conn.prepare_cached(sql!("secret_list"))?;
    let mut rows = statement.query([endpoint])?;
    let mut secrets = Vec::new();
    while let Some(row) = rows.next()? {
        secrets.push(EndpointSecret {
            encrypted: Bytes::from(row.get::<_, Vec<u8>>(0)?),
            expires_at: row.get::<_, Option<i64>>(1)?.map(Timestamp),
        });
    }
    Ok(secrets)
}

/// Decodes a column that contains a UUID.
pub(super) fn uuid(what: &'static str, row: &Row<'_>, column: usize) -> Res<Uuid> {
    let bytes: Vec<u8> = row.get(column)?;
    Uuid::from_slice(&bytes).map_err(corrupt(what, format!("{bytes:02x?}")))
}

/// Decodes JSON.
pub(super) fn json<T: DeserializeOwned>(
    what: &'static str,
    id: impl std::fmt::Display,
    text: &str,
) -> Res<T> {
    serde_json::from_str(text).map_err(corrupt(what, id))
}

/// Encodes names and numbers as JSON.
pub(super) fn to_json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("names and numbers become JSON")
}

/// Decodes the reason why an endpoint is disabled.
pub(super) fn reason(no: i64, text: &str) -> Result<DisableReason, StoreFault> {
    match text {
        "asked" => Ok(DisableReason::Requested),
        "gone" => Ok(DisableReason::Gone),
        "failing" => Ok(DisableReason::Failing),
        other => Err(corrupt("endpoint", no)(format!(
            "{other:?} is not a reason for a disabled endpoint"
        ))),
    }
}

/// Encodes the reason why an endpoint is disabled.
pub(super) fn reason_text(reason: DisableReason) -> &'static str {
    match reason {
        DisableReason::Requested => "asked",
        DisableReason::Gone => "gone",
        DisableReason::Failing => "failing",
    }
}

/// The number that a statement finds, if it finds a row.
pub(super) fn number(
    s: &DbSession<'_>,
    sql: &'static str,
    params: impl rusqlite::Params,
) -> Res<Option<i64>> {
    Ok(s.conn.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?)
}
