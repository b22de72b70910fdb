//! The due deliveries of an endpoint, in the order in which claims lease them.

use std::collections::VecDeque;

use super::cache::EndpointConfig;
use super::delivery::{DeliveryClass, DeliveryRow, DeliveryRowState};
use super::slots::RequestSlots;
use super::sql;
use crate::error::Res;
use crate::session::DbSession;

/// The due deliveries of an endpoint, in the order in which they are leased.
#[derive(Default)]
pub(super) struct WaitingDeliveries {
    /// The deliveries that were read of each class, or `None` if the class was not read yet.
    read: [Option<VecDeque<DeliveryRow>>; 4],
}

impl WaitingDeliveries {
    /// The next group that a request can take: one delivery, or, for an endpoint in strict order,
    /// the first delivery with those that are sent together with it.
    pub(super) fn next(
        &mut self,
        s: &DbSession<'_>,
        config: &EndpointConfig,
        slots: &mut RequestSlots,
        wanted: usize,
    ) -> Res<Option<Vec<DeliveryRow>>> {
        if let Some(fifo) = config.options().fifo {
            let group = head(s, config, fifo.batch.max(1))?;
            let fresh = group.first().map(|first| first.class.is_fresh());
            let fits = fresh.is_some_and(|fresh| slots.first(fresh).is_some());
            return Ok(fits.then_some(group));
        }
        let fresh_only = slots.first(false).is_none();
        if fresh_only && slots.first(true).is_none() {
            return Ok(None);
        }
        let mut best: Option<(bool, Option<i64>, i64, DeliveryClass)> = None;
        for class in DeliveryClass::ALL.into_iter().filter(|class| class.is_fresh() || !fresh_only)
        {
            if let Some(first) = self.first(s, config, class, wanted)? {
                let place = (class.is_behind(), first.due_at, first.no, class);
                if best.is_none_or(|best| (place.0, place.1, place.2) < (best.0, best.1, best.2)) {
                    best = Some(place);
                }
            }
        }
        let next = best.and_then(|(.., class)| self.read[class as usize].as_mut()?.pop_front());
        Ok(next.map(|next| vec![next]))
    }

    fn first(
        &mut self,
        s: &DbSession<'_>,
        config: &EndpointConfig,
        class: DeliveryClass,
        wanted: usize,
    ) -> Res<Option<&DeliveryRow>> {
        let read = &mut self.read[class as usize];
        if read.is_none() {
            let limit = i64::try_from(wanted).unwrap_or(i64::MAX);
            let params = (config.no, class as i64, s.now.0, limit);
            *read = Some(DeliveryRow::several(s, sql!("delivery_due"), params)?.into());
        }
        Ok(read.as_ref().and_then(VecDeque::front))
    }
}

/// The first open delivery of an endpoint in strict order, if it is due, with the deliveries right
/// after it that were last attempted together with it, or were never attempted either.
fn head(s: &DbSession<'_>, config: &EndpointConfig, batch: u32) -> Res<Vec<DeliveryRow>> {
    let open = DeliveryRow::several(s, sql!("delivery_in_order"), (config.no, batch))?;
    let Some(attempted_at) = open.first().map(|head| head.attempted_at) else {
        return Ok(Vec::new());
    };
    let goes_now = |delivery: &DeliveryRow| {
        delivery.state == DeliveryRowState::Waiting
            && delivery.due_at.is_some_and(|due| due <= s.now.0)
            && delivery.attempted_at == attempted_at
    };
    Ok(open.into_iter().take_while(goes_now).collect())
}
