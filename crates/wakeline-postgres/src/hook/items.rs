//! What was leased, as calls return it: endpoints once each, and deliveries that name them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use uuid::Uuid;
use wakeline_core::{
    ApplicationId, AttemptId, DeliveryToken, EndpointId, HookMessageId, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{DeliveryGroup, DeliveryItem, Target, Trigger};

use super::set_aside::Spoilt;
use super::wire::{bytes, bytes_if, json, secrets, small, text, texts};
use crate::rows::{self, Columns, corrupt};

/// The endpoints to which something goes; `None` for those that cannot be read.
#[derive(Default)]
pub(super) struct Targets(HashMap<Uuid, Option<Arc<Target>>>);

impl Targets {
    /// Reads one: endpoint, application, url, headers, keys with their ends, options.
    pub(super) fn read(
        &mut self,
        columns: &mut Columns<'_>,
        now: Timestamp,
        spoilt: &mut Spoilt,
    ) -> Result<(), StoreError> {
        let endpoint: Uuid = columns.take()?;
        let read = target(endpoint, columns, now);
        let target = read.map_err(|error| spoilt.endpoint(endpoint, error)).ok();
        self.0.insert(endpoint, target.map(Arc::new));
        Ok(())
    }

    /// One that was read; `None` if it could not be.
    pub(super) fn get(&mut self, endpoint: Uuid, spoilt: &mut Spoilt) -> Option<Arc<Target>> {
        let missing = || {
            spoilt.endpoint(endpoint, corrupt("endpoint", endpoint.to_string(), "it is missing"));
            None
        };
        self.0.entry(endpoint).or_insert_with(missing).clone()
    }
}

fn target(endpoint: Uuid, columns: &mut Columns<'_>, now: Timestamp) -> Result<Target, StoreError> {
    Ok(Target {
        endpoint: EndpointId(endpoint),
        application: ApplicationId(columns.take()?),
        url: columns.take()?,
        headers: bytes(columns)?,
        secrets: {
            let sealed: Vec<Vec<u8>> = columns.take()?;
            let ends: Vec<Option<SystemTime>> = columns.take()?;
            secrets(sealed, ends, now)
        },
        options: json("options", columns.take()?)?,
    })
}

/// A leased delivery, and where it belongs.
pub(super) struct Leased {
    pub(super) ask: usize,
    pub(super) group: i32,
    pub(super) endpoint: Uuid,
    pub(super) token: DeliveryToken,
    item: Result<DeliveryItem, StoreError>,
}

impl Leased {
    /// Reads one; its columns begin with the ask. What is sent of it may turn out to be unreadable.
    pub(super) fn read(endpoint: Uuid, columns: &mut Columns<'_>) -> Result<Self, StoreError> {
        let ask = super::wire::index(columns.take()?);
        let group = columns.take()?;
        let token =
            DeliveryToken { delivery: columns.take()?, attempt: AttemptId(columns.take()?) };
        Ok(Self { ask, group, endpoint, token, item: item(token, columns) })
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

/// Puts leased deliveries, in the order of their groups, together. One that cannot be read goes to
/// `spoilt`, and with it those behind it in its group, which must not overtake it.
pub(super) fn groups(
    leased: Vec<Leased>,
    targets: &mut Targets,
    spoilt: &mut Spoilt,
) -> Vec<(usize, DeliveryGroup)> {
    let mut groups: Vec<(usize, DeliveryGroup)> = Vec::new();
    let (mut last, mut broken) = (None, None);
    for one in leased {
        let Some(target) = targets.get(one.endpoint, spoilt) else {
            spoilt.behind(one.token);
            continue;
        };
        if broken == Some(one.group) {
            spoilt.behind(one.token);
            continue;
        }
        let item = match one.item {
            Ok(item) => item,
            Err(error) => {
                spoilt.delivery(one.token, error);
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
        groups.push((one.ask, DeliveryGroup { target, items: vec![item] }));
    }
    groups
}

/// When the first of some leases ends.
pub(super) fn first_end<'a>(groups: impl Iterator<Item = &'a DeliveryGroup>) -> Option<Duration> {
    groups.flat_map(|group| group.items.iter().map(|item| item.lease_for)).min()
}
