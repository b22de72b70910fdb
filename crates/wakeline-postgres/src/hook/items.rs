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

use super::wire::{bytes, bytes_if, json, secrets, small, text, texts};
use crate::rows::{self, Columns, corrupt};

/// The endpoints to which something goes.
#[derive(Default)]
pub(super) struct Targets(HashMap<Uuid, Arc<Target>>);

impl Targets {
    /// Reads one: endpoint, application, url, headers, keys with their ends, options.
    pub(super) fn read(
        &mut self,
        columns: &mut Columns<'_>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let endpoint: Uuid = columns.take()?;
        let target = Target {
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
        };
        self.0.insert(endpoint, Arc::new(target));
        Ok(())
    }

    /// One that was read.
    pub(super) fn get(&self, endpoint: Uuid) -> Result<Arc<Target>, StoreError> {
        let missing = || corrupt("endpoint", endpoint.to_string(), "a delivery without it");
        self.0.get(&endpoint).cloned().ok_or_else(missing)
    }
}

/// A leased delivery, and where it belongs.
pub(super) struct Leased {
    pub(super) ask: usize,
    pub(super) group: i32,
    pub(super) endpoint: Uuid,
    pub(super) item: DeliveryItem,
}

impl Leased {
    /// Reads one; its columns begin with the ask.
    pub(super) fn read(endpoint: Uuid, columns: &mut Columns<'_>) -> Result<Self, StoreError> {
        let ask = super::wire::index(columns.take()?);
        let group = columns.take()?;
        let token =
            DeliveryToken { delivery: columns.take()?, attempt: AttemptId(columns.take()?) };
        let attempt_no = small(columns.take()?);
        let scheduled_no = small(columns.take()?);
        let manual: bool = columns.take()?;
        let item = DeliveryItem {
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
        };
        Ok(Self { ask, group, endpoint, item })
    }
}

/// Puts leased deliveries, in the order of their groups, together.
pub(super) fn groups(
    leased: Vec<Leased>,
    targets: &Targets,
) -> Result<Vec<(usize, DeliveryGroup)>, StoreError> {
    let mut groups: Vec<(usize, DeliveryGroup)> = Vec::new();
    let mut last = None;
    for one in leased {
        if last == Some(one.group) {
            let (_, group) = groups.last_mut().expect("it has begun");
            group.items.push(one.item);
            continue;
        }
        last = Some(one.group);
        let target = targets.get(one.endpoint)?;
        groups.push((one.ask, DeliveryGroup { target, items: vec![one.item] }));
    }
    Ok(groups)
}

/// When the first of some leases ends.
pub(super) fn first_end<'a>(groups: impl Iterator<Item = &'a DeliveryGroup>) -> Option<Duration> {
    groups.flat_map(|group| group.items.iter().map(|item| item.lease_for)).min()
}
