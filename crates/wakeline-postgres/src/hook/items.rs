//! Reads leased deliveries as calls return them: each endpoint once, and deliveries that refer to
//! endpoints.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use uuid::Uuid;
use wakeline_core::{
    ApplicationId, AttemptId, DeliveryToken, EndpointId, HookMessageId, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{DeliveryGroup, DeliveryItem, DeliveryTarget, Trigger};

use super::quarantine::Quarantine;
use super::wire::{bytes, bytes_if, json, secrets, small, text, texts};
use crate::rows::{self, Columns, corrupt};

/// The endpoints of the leased deliveries; `None` for those that are corrupt.
#[derive(Default)]
pub(super) struct Targets(HashMap<Uuid, Option<Arc<DeliveryTarget>>>);

impl Targets {
    /// Reads an endpoint: its id, application, URL, headers, keys with their ends, and options.
    pub(super) fn read(
        &mut self,
        columns: &mut Columns<'_>,
        now: Timestamp,
        quarantine: &mut Quarantine,
    ) -> Result<(), StoreError> {
        let endpoint: Uuid = columns.take()?;
        let read = target(endpoint, columns, now);
        let target = read.map_err(|error| quarantine.endpoint(endpoint, error)).ok();
        self.0.insert(endpoint, target.map(Arc::new));
        Ok(())
    }

    /// Returns an endpoint that was read; `None` if it is corrupt.
    pub(super) fn get(
        &mut self,
        endpoint: Uuid,
        quarantine: &mut Quarantine,
    ) -> Option<Arc<DeliveryTarget>> {
        let missing = || {
            quarantine
                .endpoint(endpoint, corrupt("endpoint", endpoint.to_string(), "it is missing"));
            None
        };
        self.0.entry(endpoint).or_insert_with(missing).clone()
    }
}

fn target(
    endpoint: Uuid,
    columns: &mut Columns<'_>,
    now: Timestamp,
) -> Result<DeliveryTarget, StoreError> {
    Ok(DeliveryTarget {
        endpoint: EndpointId(endpoint),
        application: ApplicationId(columns.take()?),
        url: columns.take()?,
        headers: bytes(columns)?,
        secrets: {
            let encrypted: Vec<Vec<u8>> = columns.take()?;
            let ends: Vec<Option<SystemTime>> = columns.take()?;
            secrets(encrypted, ends, now)
        },
        options: json("options", columns.take()?)?,
    })
}

/// A leased delivery, with the number of its request, its group and its endpoint.
pub(super) struct LeasedDelivery {
    pub(super) request: usize,
    pub(super) group: i32,
    pub(super) endpoint: Uuid,
    pub(super) token: DeliveryToken,
    item: Result<DeliveryItem, StoreError>,
}

impl LeasedDelivery {
    /// Reads one; its columns begin with the request. What is sent of it may turn out to be
    /// unreadable.
    pub(super) fn read(endpoint: Uuid, columns: &mut Columns<'_>) -> Result<Self, StoreError> {
        let request = super::wire::index(columns.take()?);
        let group = columns.take()?;
        let token =
            DeliveryToken { delivery: columns.take()?, attempt: AttemptId(columns.take()?) };
        Ok(Self { request, group, endpoint, token, item: item(token, columns) })
    }
}

fn item(token: DeliveryToken, columns: &mut Columns<'_>) -> Result<DeliveryItem, StoreError> {
    let attempt_no = small(columns.take()?);
    let scheduled_no = small(columns.take()?);
    let manual: bool = columns.take()?;
    Ok(DeliveryItem {
        token,
        attempt_no,
        scheduled_no,
        trigger: if manual { Trigger::Manual } else { Trigger::Scheduled },
        message: HookMessageId(columns.take()?),
        event_type: text("event type", columns.take()?)?,
        event_id: columns.name_if("event id")?,
        channels: texts("channel", columns.take()?)?,
        created_at: columns.moment()?,
        payload: bytes_if(columns)?,
        now: columns.moment()?,
        lease_for: rows::span(columns.take()?),
    })
}

/// Groups leased deliveries, which are in the order of their groups. A corrupt one is added to
/// `quarantine`, together with the later ones of its group, which must not overtake it.
pub(super) fn groups(
    leased: Vec<LeasedDelivery>,
    targets: &mut Targets,
    quarantine: &mut Quarantine,
) -> Vec<(usize, DeliveryGroup)> {
    let mut groups: Vec<(usize, DeliveryGroup)> = Vec::new();
    let (mut last, mut broken) = (None, None);
    for one in leased {
        let Some(target) = targets.get(one.endpoint, quarantine) else {
            quarantine.behind(one.token);
            continue;
        };
        if broken == Some(one.group) {
            quarantine.behind(one.token);
            continue;
        }
        let item = match one.item {
            Ok(item) => item,
            Err(error) => {
                quarantine.delivery(one.token, error);
                broken = Some(one.group);
                continue;
            }
        };
        if last == Some(one.group) {
            let (_, group) = groups.last_mut().expect("it has begun");
            group.items.push(item);
            continue;
        }
        last = Some(one.group);
        groups.push((one.request, DeliveryGroup { target, items: vec![item] }));
    }
    groups
}

/// Returns the time until the first of some leases ends.
pub(super) fn first_end<'a>(groups: impl Iterator<Item = &'a DeliveryGroup>) -> Option<Duration> {
    groups.flat_map(|group| group.items.iter().map(|item| item.lease_for)).min()
}
