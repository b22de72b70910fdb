//! What is known of applications and endpoints, so that messages and claims do not read it again.
//!
//! # Invariants
//! * An endpoint is forgotten by whatever writes it; everything is, when another process wrote.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{OptionalExtension as _, Row};
use serde::de::DeserializeOwned;
use uuid::Uuid;
use wakeline_core::{
    ApplicationId, ApplicationRef, Channel, EndpointId, EndpointOptions, EventPattern,
    EventTypeName, HookWhat, Timestamp,
};
use wakeline_store::hook::{DisableReason, EndpointSecret, Target};

use super::sql;
use crate::error::{Fault, Res, corrupt};
use crate::session::Session;

/// Endpoints, applications or event types beyond this are forgotten, all at once.
const CACHED_MAX: usize = 10_000;

/// What is known of them.
#[derive(Debug, Default)]
pub(crate) struct Known {
    applications: HashMap<ApplicationRef, (i64, ApplicationId)>,
    endpoints: HashMap<i64, Arc<Config>>,
    matching: HashMap<(i64, EventTypeName), Arc<[i64]>>,
}

impl Known {
    /// An endpoint was written.
    pub(super) fn forget_endpoint(&mut self, endpoint: i64) {
        self.endpoints.remove(&endpoint);
    }

    /// Which event types endpoints get was written.
    pub(super) fn forget_filters(&mut self) {
        self.matching.clear();
    }

    /// An application was written.
    pub(super) fn forget_applications(&mut self) {
        self.applications.clear();
    }
}

/// What sending to an endpoint needs to know of it.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) no: i64,
    pub(super) application: i64,
    pub(super) disabled: Option<DisableReason>,
    pub(super) deleted: bool,
    /// Its application is deleted: nothing of it is there for anybody who asks.
    pub(super) gone: bool,
    pub(super) event_types: Vec<EventPattern>,
    pub(super) channels: Vec<Channel>,
    /// With all keys, expired ones too.
    target: Arc<Target>,
}

impl Config {
    pub(super) fn id(&self) -> EndpointId {
        self.target.endpoint
    }

    pub(super) fn options(&self) -> &EndpointOptions {
        &self.target.options
    }

    pub(super) fn url(&self) -> &str {
        &self.target.url
    }

    /// Whether it gets anything at all.
    pub(super) fn is_on(&self) -> bool {
        self.disabled.is_none() && !self.deleted
    }

    /// What waits for its deliveries.
    pub(super) fn what(&self) -> HookWhat {
        if self.options().pull { HookWhat::Pull(self.id()) } else { HookWhat::Push }
    }

    /// The endpoint as a lease has it.
    pub(super) fn target(&self, now: Timestamp) -> Arc<Target> {
        let signs = |secret: &EndpointSecret| secret.expires_at.is_none_or(|at| at > now);
        if self.target.secrets.iter().all(signs) {
            return Arc::clone(&self.target);
        }
        let mut target = Target::clone(&self.target);
        target.secrets.retain(signs);
        Arc::new(target)
    }

    /// Whether its channels meet those of a message.
    pub(super) fn hears(&self, channels: &[Channel]) -> bool {
        self.channels.is_empty() || self.channels.iter().any(|own| channels.contains(own))
    }

    /// Whether its filters let a message through.
    pub(super) fn wants(&self, event_type: &EventTypeName, channels: &[Channel]) -> bool {
        let typed = self.event_types.is_empty()
            || self.event_types.iter().any(|pattern| pattern.matches(event_type));
        typed && self.hears(channels)
    }
}

/// An application that is there: its number and its id.
pub(super) fn application(
    s: &mut Session<'_>,
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

/// An endpoint, deleted or not; it is there as long as something names its number.
pub(super) fn endpoint(s: &mut Session<'_>, no: i64) -> Res<Arc<Config>> {
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

/// The endpoints of an application whose patterns match an event type, in order of their numbers.
pub(super) fn matching(
    s: &mut Session<'_>,
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

fn decode(s: &Session<'_>, no: i64, row: &Row<'_>) -> Res<Config> {
    let disabled: Option<String> = row.get(6)?;
    let target = Target {
        endpoint: EndpointId(uuid("endpoint", row, 0)?),
        application: ApplicationId(uuid("endpoint", row, 1)?),
        url: row.get(3)?,
        headers: Bytes::from(row.get::<_, Vec<u8>>(7)?),
        secrets: secrets(s, no)?,
        options: json("endpoint", no, &row.get::<_, String>(8)?)?,
    };
    Ok(Config {
        no,
        application: row.get(2)?,
        event_types: json("endpoint", no, &row.get::<_, String>(4)?)?,
        channels: json("endpoint", no, &row.get::<_, String>(5)?)?,
        disabled: disabled.map(|text| reason(no, &text)).transpose()?,
        deleted: row.get(9)?,
        gone: row.get(10)?,
        target: Arc::new(target),
    })
}

/// The keys of an endpoint, expired ones too, the current one first.
pub(super) fn secrets(s: &Session<'_>, endpoint: i64) -> Res<Vec<EndpointSecret>> {
    let mut statement = s.conn.prepare_cached(sql!("secret_list"))?;
    let mut rows = statement.query([endpoint])?;
    let mut secrets = Vec::new();
    while let Some(row) = rows.next()? {
        secrets.push(EndpointSecret {
            sealed: Bytes::from(row.get::<_, Vec<u8>>(0)?),
            expires_at: row.get::<_, Option<i64>>(1)?.map(Timestamp),
        });
    }
    Ok(secrets)
}

/// A column with a UUID.
pub(super) fn uuid(what: &'static str, row: &Row<'_>, column: usize) -> Res<Uuid> {
    let bytes: Vec<u8> = row.get(column)?;
    Uuid::from_slice(&bytes).map_err(corrupt(what, format!("{bytes:02x?}")))
}

/// A text of JSON.
pub(super) fn json<T: DeserializeOwned>(
    what: &'static str,
    id: impl std::fmt::Display,
    text: &str,
) -> Res<T> {
    serde_json::from_str(text).map_err(corrupt(what, id))
}

/// JSON of names and numbers.
pub(super) fn to_json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("names and numbers become JSON")
}

/// Why an endpoint is switched off, from its text.
pub(super) fn reason(no: i64, text: &str) -> Result<DisableReason, Fault> {
    match text {
        "asked" => Ok(DisableReason::Asked),
        "gone" => Ok(DisableReason::Gone),
        "failing" => Ok(DisableReason::Failing),
        other => Err(corrupt("endpoint", no)(format!(
            "{other:?} is not a reason for a disabled endpoint"
        ))),
    }
}

/// Its text.
pub(super) fn reason_text(reason: DisableReason) -> &'static str {
    match reason {
        DisableReason::Asked => "asked",
        DisableReason::Gone => "gone",
        DisableReason::Failing => "failing",
    }
}

/// The number that a statement finds.
pub(super) fn number(
    s: &Session<'_>,
    sql: &'static str,
    params: impl rusqlite::Params,
) -> Res<Option<i64>> {
    Ok(s.conn.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?)
}
