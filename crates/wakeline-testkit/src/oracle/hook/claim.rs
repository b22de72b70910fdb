//! Claiming: rules 1 to 10, and what is born leased.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use wakeline_core::{ApplicationId, AttemptId, DeliveryToken, EndpointId, HookLine, Timestamp};
use wakeline_store::hook::{
    ApplicationLimit, Attempt, AttemptOutcome, DeliveryAsk, DeliveryClaim, DeliveryClaimed,
    DeliveryGroup, DeliveryItem, Target, Trigger,
};

use super::gate::Sight;
use super::state::{End, Hook, Lease, Plan, Row, Spot, Stage};

/// The attempts that asks have left.
#[derive(Debug)]
pub(super) struct Slots<'a> {
    asks: Vec<Slot<'a>>,
}

#[derive(Debug)]
struct Slot<'a> {
    ask: &'a DeliveryAsk,
    ids: VecDeque<AttemptId>,
    fresh_only: usize,
}

impl<'a> Slots<'a> {
    pub(super) fn new(asks: &'a [DeliveryAsk]) -> Self {
        let slot = |ask: &'a DeliveryAsk| {
            let ids: VecDeque<_> = ask.attempts.iter().copied().collect();
            let fresh_only = usize::try_from(ask.fresh_only).expect("fits").min(ids.len());
            Slot { ask, ids, fresh_only }
        };
        Self { asks: asks.iter().map(slot).collect() }
    }

    fn left(&self) -> usize {
        self.asks.iter().map(|slot| slot.ids.len()).sum()
    }

    /// Whether all that is left is for first attempts.
    fn fresh_only(&self) -> bool {
        self.asks.iter().all(|slot| slot.ids.len() == slot.fresh_only)
    }

    /// The first ask that has an attempt for a delivery.
    fn first(&self, fresh: bool) -> Option<usize> {
        self.asks.iter().position(|slot| slot.fits(fresh))
    }

    /// Takes an id away from those that are free.
    fn remove(&mut self, n: usize, id: AttemptId) {
        let slot = &mut self.asks[n];
        slot.ids.retain(|other| *other != id);
        slot.fresh_only = slot.fresh_only.min(slot.ids.len());
    }
}

impl Slot<'_> {
    fn fits(&self, fresh: bool) -> bool {
        let general = self.ids.len() - self.fresh_only;
        general > 0 || (fresh && self.fresh_only > 0)
    }

    /// First attempts use those that are for them alone last.
    fn take(&mut self, fresh: bool) -> Option<AttemptId> {
        if !self.fits(fresh) {
            return None;
        }
        if self.ids.len() == self.fresh_only {
            self.fresh_only -= 1;
        }
        self.ids.pop_front()
    }
}

/// How many groups the limited applications of a claim may still get.
struct Limits(BTreeMap<ApplicationId, u32>);

impl Limits {
    fn new(limits: &[ApplicationLimit]) -> Self {
        Self(limits.iter().map(|limit| (limit.application, limit.groups)).collect())
    }

    fn is_reached(&self, application: ApplicationId) -> bool {
        self.0.get(&application) == Some(&0)
    }

    fn count(&mut self, application: ApplicationId) {
        if let Some(left) = self.0.get_mut(&application) {
            *left -= 1;
        }
    }
}

impl Hook {
    pub(super) fn claim(
        &mut self,
        lines: &[DeliveryClaim],
        now: Timestamp,
    ) -> Vec<DeliveryClaimed> {
        lines.iter().map(|line| self.claim_line(line, now)).collect()
    }

    fn claim_line(&mut self, claim: &DeliveryClaim, now: Timestamp) -> DeliveryClaimed {
        self.end_expired(&claim.line, now);
        let mut groups = vec![Vec::new(); claim.asks.len()];
        let mut slots = Slots::new(&claim.asks);
        self.again(&mut slots, &mut groups, now);
        self.drop_used(&mut slots);
        let mut limits = Limits::new(&claim.limits);
        let mut due = self.due_endpoints(&claim.line, &slots, now);
        while let Some(endpoint) = due.pop_front() {
            let application = self.spot(endpoint).endpoint.application;
            let share = slots.left().div_ceil(due.len() + 1);
            let mut given = 0;
            while given < share && !limits.is_reached(application) {
                let Some((n, places)) = self.give(endpoint, &mut slots, now) else { break };
                groups[n].push(self.group(&places, now));
                limits.count(application);
                given += 1;
            }
        }
        let of_all = claim.further.then_some(claim.line == HookLine::PushFresh);
        let fresh_only = of_all.unwrap_or(slots.fresh_only());
        let sight = Sight { fresh_only, leases: true };
        let looks = slots.left() > 0 || claim.further;
        let may_give =
            |spot: &Spot| spot.is_of(&claim.line) && !limits.is_reached(spot.endpoint.application);
        let next_due = looks.then(|| self.first_due(may_give, sight, now)).flatten();
        DeliveryClaimed { groups, next_due }
    }

    /// Ends the leases that have expired.
    pub(super) fn end_expired(&mut self, line: &HookLine, now: Timestamp) {
        let is_over = |row: &&Row| row.lease().is_some_and(|lease| lease.until <= now);
        let over: Vec<i64> = self.rows.values().filter(is_over).map(|row| row.place).collect();
        for place in over {
            if self.spot(self.rows[&place].endpoint).is_of(line) {
                self.end_expired_row(place, now);
            }
        }
    }

    /// Rule 7: the attempt is unknown, and counted.
    pub(super) fn end_expired_row(&mut self, place: i64, now: Timestamp) {
        let row = self.rows[&place].clone();
        let Stage::Leased(lease, plan) = row.stage else { return };
        let options = &self.spot(row.endpoint).endpoint.options;
        let attempts_max = options.schedule().len() + 1;
        let scheduled = row.scheduled + u32::from(plan.manual.is_none());
        let used_up = usize::try_from(scheduled).expect("fits") >= attempts_max;
        let stage = match plan.manual {
            _ if lease.cancelled => Stage::Ended(End::Cancelled),
            Some(before) => before.stage(),
            None if used_up => Stage::Ended(End::Failed),
            None => Stage::Waiting(Plan::scheduled(lease.until)),
        };
        let attempt = Attempt {
            id: lease.attempt,
            message: row.message,
            endpoint: row.endpoint,
            attempt_no: row.attempts + 1,
            outcome: AttemptOutcome::Unknown,
            trigger: plan.trigger(),
            began_at: lease.since,
            took: std::time::Duration::ZERO,
            status: None,
            response: None,
            error: None,
            url: self.spot(row.endpoint).endpoint.url.clone(),
        };
        self.attempts.insert(attempt.id, attempt);
        let updated = self.row_mut(place);
        updated.stage = stage;
        updated.scheduled = scheduled;
        updated.attempts += 1;
        updated.attempted_at = Some(lease.since);
        updated.updated_at = now;
    }

    /// Rule 8: what the ids of a claim hold already.
    fn again(&self, slots: &mut Slots<'_>, groups: &mut [Vec<DeliveryGroup>], now: Timestamp) {
        for (n, groups) in groups.iter_mut().enumerate() {
            let mut held: BTreeMap<EndpointId, Vec<i64>> = BTreeMap::new();
            for id in &slots.asks[n].ask.attempts {
                let has = |row: &&Row| row.live(now).is_some_and(|lease| lease.attempt == *id);
                let Some(row) = self.rows.values().find(has) else { continue };
                held.entry(row.endpoint).or_default().push(row.place);
                slots.remove(n, *id);
            }
            for (endpoint, mut places) in held {
                places.sort_unstable();
                match self.spot(endpoint).endpoint.options.fifo {
                    Some(_) => groups.push(self.group(&places, now)),
                    None => groups.extend(places.iter().map(|one| self.group(&[*one], now))),
                }
            }
        }
    }

    /// Rule 8: ids that hold something, or whose attempt has ended, are used up.
    pub(super) fn drop_used(&self, slots: &mut Slots<'_>) {
        for n in 0..slots.asks.len() {
            for id in &slots.asks[n].ask.attempts {
                let holds = |row: &Row| row.lease().is_some_and(|lease| lease.attempt == *id);
                if self.attempts.contains_key(id) || self.rows.values().any(holds) {
                    slots.remove(n, *id);
                }
            }
        }
    }

    /// Rule 4: the endpoints that can give something, by the time they became due.
    fn due_endpoints(
        &self,
        line: &HookLine,
        slots: &Slots<'_>,
        now: Timestamp,
    ) -> VecDeque<EndpointId> {
        let sight = Sight { fresh_only: slots.fresh_only(), leases: false };
        let mut due: Vec<_> = (self.spots.values().filter(|spot| spot.is_of(line)))
            .filter(|spot| self.next_of(spot.endpoint.id, slots, now).is_some())
            .filter_map(|spot| {
                let since = self.due_of(spot.endpoint.id, sight, now)?;
                Some((since.max(spot.served.0), spot.served.1, spot.endpoint.id))
            })
            .collect();
        due.sort_unstable();
        due.into_iter().map(|(_, _, endpoint)| endpoint).collect()
    }

    /// The delivery that an endpoint gives next, and the ask that gets it.
    pub(super) fn next_of(
        &self,
        endpoint: EndpointId,
        slots: &Slots<'_>,
        now: Timestamp,
    ) -> Option<(usize, i64)> {
        if !self.is_free(endpoint, now) {
            return None;
        }
        let open = self.rows_of(endpoint).filter(|row| !row.has_ended());
        let is_due = |row: &&Row| row.waiting().is_some_and(|plan| plan.due <= now);
        let mut due: Vec<&Row> = match self.spot(endpoint).endpoint.options.fifo {
            Some(_) => open.take(1).filter(is_due).collect(),
            None => open.filter(is_due).collect(),
        };
        due.sort_by_key(|row| row.waiting().map(|plan| (plan.behind, plan.due, row.place)));
        due.iter().find_map(|row| Some((slots.first(row.is_fresh())?, row.place)))
    }

    /// Leases the next delivery of an endpoint, and with it those of its group.
    pub(super) fn give(
        &mut self,
        endpoint: EndpointId,
        slots: &mut Slots<'_>,
        now: Timestamp,
    ) -> Option<(usize, Vec<i64>)> {
        let (n, first) = self.next_of(endpoint, slots, now)?;
        let slot = &mut slots.asks[n];
        let batch = self.spot(endpoint).endpoint.options.fifo.map_or(1, |fifo| fifo.batch.max(1));
        let batch = usize::try_from(batch).expect("fits");
        let attempted_at = self.rows[&first].attempted_at;
        let open = self.rows_of(endpoint).filter(|row| !row.has_ended() && row.place >= first);
        let goes_along = |row: &&Row| {
            row.attempted_at == attempted_at && row.waiting().is_some_and(|plan| plan.due <= now)
        };
        let group: Vec<(i64, bool)> = open
            .take_while(goes_along)
            .take(batch)
            .map(|row| (row.place, row.is_fresh()))
            .collect();
        let mut places = Vec::new();
        for (place, fresh) in group {
            let Some(attempt) = slot.take(fresh) else { break };
            self.lease(place, attempt, slot.ask, now);
            places.push(place);
        }
        self.served += 1;
        let served = (now, self.served);
        let spot = self.spot_mut(endpoint);
        spot.move_rate(now);
        spot.served = served;
        Some((n, places))
    }

    fn lease(&mut self, place: i64, attempt: AttemptId, ask: &DeliveryAsk, now: Timestamp) {
        let endpoint = self.rows[&place].endpoint;
        let span = ask.lease.unwrap_or_else(|| self.spot(endpoint).endpoint.options.lease());
        let row = self.row_mut(place);
        let Stage::Waiting(plan) = row.stage else { return };
        let lease = Lease { attempt, since: now, until: now.plus(span), cancelled: false };
        row.stage = Stage::Leased(lease, plan);
        row.updated_at = now;
    }

    /// Leased deliveries of one endpoint, as they go out.
    pub(super) fn group(&self, places: &[i64], now: Timestamp) -> DeliveryGroup {
        let rows: Vec<&Row> = places.iter().map(|place| &self.rows[place]).collect();
        let spot = self.spot(rows[0].endpoint);
        let target = Arc::new(Target {
            endpoint: spot.endpoint.id,
            application: spot.endpoint.application,
            url: spot.endpoint.url.clone(),
            headers: spot.endpoint.headers.clone(),
            secrets: spot.signing(now),
            options: spot.endpoint.options.clone(),
        });
        let items = rows.into_iter().filter_map(|row| self.item(row, now)).collect();
        DeliveryGroup { target, items }
    }

    fn item(&self, row: &Row, now: Timestamp) -> Option<DeliveryItem> {
        let Stage::Leased(lease, plan) = row.stage else { return None };
        let message = &self.messages[&row.message];
        let trigger = plan.trigger();
        Some(DeliveryItem {
            token: DeliveryToken { delivery: row.place, attempt: lease.attempt },
            attempt_no: row.attempts + 1,
            scheduled_no: row.scheduled + u32::from(trigger == Trigger::Scheduled),
            trigger,
            message: row.message,
            event_type: message.stored.event_type.clone(),
            event_id: message.stored.event_id.clone(),
            channels: message.stored.channels.clone(),
            created_at: message.stored.created_at,
            payload: message.payload.clone(),
            now,
            lease_for: now.until(lease.until),
        })
    }
}
