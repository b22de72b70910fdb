//! Claiming: rules 1 to 10, and deliveries that are leased on insert.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use wakeline_core::{ApplicationId, AttemptId, DeliveryToken, EndpointId, HookLine, Timestamp};
use wakeline_store::hook::{
    ApplicationLimit, Attempt, AttemptOutcome, DeliveryClaim, DeliveryClaimed, DeliveryGroup,
    DeliveryItem, DeliveryRequest, DeliveryTarget, Trigger,
};

use super::gate::LineSight;
use super::state::{
    AttemptPlan, DeliveryEnd, DeliveryStage, OracleDelivery, OracleDeliveryLease, OracleEndpoint,
    OracleHook,
};

/// The attempts that the requests of a claim can still make.
#[derive(Debug)]
pub(super) struct ClaimSlots<'a> {
    requests: Vec<ClaimSlot<'a>>,
}

#[derive(Debug)]
struct ClaimSlot<'a> {
    request: &'a DeliveryRequest,
    ids: VecDeque<AttemptId>,
    fresh_only: usize,
}

impl<'a> ClaimSlots<'a> {
    pub(super) fn new(requests: &'a [DeliveryRequest]) -> Self {
        let slot = |request: &'a DeliveryRequest| {
            let ids: VecDeque<_> = request.attempts.iter().copied().collect();
            let fresh_only =
                usize::try_from(request.fresh_only).expect("u32 fits into usize").min(ids.len());
            ClaimSlot { request, ids, fresh_only }
        };
        Self { requests: requests.iter().map(slot).collect() }
    }

    fn left(&self) -> usize {
        self.requests.iter().map(|slot| slot.ids.len()).sum()
    }

    /// Returns whether all remaining attempts are reserved for first attempts.
    fn fresh_only(&self) -> bool {
        self.requests.iter().all(|slot| slot.ids.len() == slot.fresh_only)
    }

    /// Returns the index of the first request that has an attempt for a delivery.
    fn first(&self, fresh: bool) -> Option<usize> {
        self.requests.iter().position(|slot| slot.fits(fresh))
    }

    /// Removes an attempt id, because it is already used.
    fn remove(&mut self, n: usize, id: AttemptId) {
        let slot = &mut self.requests[n];
        slot.ids.retain(|other| *other != id);
        slot.fresh_only = slot.fresh_only.min(slot.ids.len());
    }
}

impl ClaimSlot<'_> {
    fn fits(&self, fresh: bool) -> bool {
        let general = self.ids.len() - self.fresh_only;
        general > 0 || (fresh && self.fresh_only > 0)
    }

    /// Takes an attempt id. A first attempt uses the reserved ids last.
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

/// How many more groups a claim may give to each limited application.
struct OracleClaimLimits(BTreeMap<ApplicationId, u32>);

impl OracleClaimLimits {
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

impl OracleHook {
    pub(super) fn claim(
        &mut self,
        lines: &[DeliveryClaim],
        now: Timestamp,
    ) -> Vec<DeliveryClaimed> {
        lines.iter().map(|line| self.claim_line(line, now)).collect()
    }

    fn claim_line(&mut self, claim: &DeliveryClaim, now: Timestamp) -> DeliveryClaimed {
        self.end_expired(&claim.line, now);
        let mut groups = vec![Vec::new(); claim.requests.len()];
        let mut slots = ClaimSlots::new(&claim.requests);
        self.again(&mut slots, &mut groups, now);
        self.remove_used_ids(&mut slots);
        let mut limits = OracleClaimLimits::new(&claim.limits);
        let mut due = self.due_endpoints(&claim.line, &slots, now);
        while let Some(endpoint) = due.pop_front() {
            let application = self.endpoint_entry(endpoint).endpoint.application;
            let share = slots.left().div_ceil(due.len() + 1);
            let mut leased = 0;
            while leased < share && !limits.is_reached(application) {
                let Some((n, places)) = self.give(endpoint, &mut slots, now) else { break };
                groups[n].push(self.group(&places, now));
                limits.count(application);
                leased += 1;
            }
        }
        let of_all = claim.further.then_some(claim.line == HookLine::PushFresh);
        let fresh_only = of_all.unwrap_or(slots.fresh_only());
        let sight = LineSight { fresh_only, leases: true };
        let looks = slots.left() > 0 || claim.further;
        let may_serve = |entry: &OracleEndpoint| {
            entry.is_of(&claim.line) && !limits.is_reached(entry.endpoint.application)
        };
        let next_due = looks.then(|| self.first_due(may_serve, sight, now)).flatten();
        DeliveryClaimed { groups, next_due }
    }

    /// Ends the expired leases of a line.
    pub(super) fn end_expired(&mut self, line: &HookLine, now: Timestamp) {
        let is_over = |row: &&OracleDelivery| row.lease().is_some_and(|lease| lease.until <= now);
        let over: Vec<i64> = self.rows.values().filter(is_over).map(|row| row.place).collect();
        for place in over {
            if self.endpoint_entry(self.rows[&place].endpoint).is_of(line) {
                self.end_expired_row(place, now);
            }
        }
    }

    /// Applies rule 7: the outcome of the attempt is unknown, and the attempt counts.
    pub(super) fn end_expired_row(&mut self, place: i64, now: Timestamp) {
        let row = self.rows[&place].clone();
        let DeliveryStage::Leased(lease, plan) = row.stage else { return };
        let options = &self.endpoint_entry(row.endpoint).endpoint.options;
        let attempts_max = options.schedule().len() + 1;
        let scheduled = row.scheduled + u32::from(plan.manual.is_none());
        let used_up = usize::try_from(scheduled).expect("u32 fits into usize") >= attempts_max;
        let stage = match plan.manual {
            _ if lease.cancelled => DeliveryStage::Ended(DeliveryEnd::Cancelled),
            Some(before) => before.stage(),
            None if used_up => DeliveryStage::Ended(DeliveryEnd::Failed),
            None => DeliveryStage::Waiting(AttemptPlan::scheduled(lease.until)),
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
            url: self.endpoint_entry(row.endpoint).endpoint.url.clone(),
        };
        self.attempts.insert(attempt.id, attempt);
        let updated = self.row_mut(place);
        updated.stage = stage;
        updated.scheduled = scheduled;
        updated.attempts += 1;
        updated.attempted_at = Some(lease.since);
        updated.updated_at = now;
    }

    /// Applies rule 8: returns what the attempt ids of a repeated claim already hold.
    fn again(&self, slots: &mut ClaimSlots<'_>, groups: &mut [Vec<DeliveryGroup>], now: Timestamp) {
        for (n, groups) in groups.iter_mut().enumerate() {
            let mut held: BTreeMap<EndpointId, Vec<i64>> = BTreeMap::new();
            for id in &slots.requests[n].request.attempts {
                let has =
                    |row: &&OracleDelivery| row.live(now).is_some_and(|lease| lease.attempt == *id);
                let Some(row) = self.rows.values().find(has) else { continue };
                held.entry(row.endpoint).or_default().push(row.place);
                slots.remove(n, *id);
            }
            for (endpoint, mut places) in held {
                places.sort_unstable();
                match self.endpoint_entry(endpoint).endpoint.options.fifo {
                    Some(_) => groups.push(self.group(&places, now)),
                    None => groups.extend(places.iter().map(|one| self.group(&[*one], now))),
                }
            }
        }
    }

    /// Applies rule 8: an id that holds a delivery, or whose attempt has ended, cannot be used
    /// again.
    pub(super) fn remove_used_ids(&self, slots: &mut ClaimSlots<'_>) {
        for n in 0..slots.requests.len() {
            for id in &slots.requests[n].request.attempts {
                let holds =
                    |row: &OracleDelivery| row.lease().is_some_and(|lease| lease.attempt == *id);
                if self.attempts.contains_key(id) || self.rows.values().any(holds) {
                    slots.remove(n, *id);
                }
            }
        }
    }

    /// Applies rule 4: returns the endpoints with a due delivery, in the order of their due times.
    fn due_endpoints(
        &self,
        line: &HookLine,
        slots: &ClaimSlots<'_>,
        now: Timestamp,
    ) -> VecDeque<EndpointId> {
        let sight = LineSight { fresh_only: slots.fresh_only(), leases: false };
        let mut due: Vec<_> = (self.endpoint_entries.values().filter(|entry| entry.is_of(line)))
            .filter(|entry| self.next_of(entry.endpoint.id, slots, now).is_some())
            .filter_map(|entry| {
                let since = self.due_of(entry.endpoint.id, sight, now)?;
                Some((since.max(entry.served.0), entry.served.1, entry.endpoint.id))
            })
            .collect();
        due.sort_unstable();
        due.into_iter().map(|(_, _, endpoint)| endpoint).collect()
    }

    /// Returns the next delivery of an endpoint, and the index of the request that gets it.
    pub(super) fn next_of(
        &self,
        endpoint: EndpointId,
        slots: &ClaimSlots<'_>,
        now: Timestamp,
    ) -> Option<(usize, i64)> {
        if !self.is_free(endpoint, now) {
            return None;
        }
        let open = self.rows_of(endpoint).filter(|row| !row.has_ended());
        let is_due = |row: &&OracleDelivery| row.waiting().is_some_and(|plan| plan.due <= now);
        let mut due: Vec<&OracleDelivery> =
            match self.endpoint_entry(endpoint).endpoint.options.fifo {
                Some(_) => open.take(1).filter(is_due).collect(),
                None => open.filter(is_due).collect(),
            };
        due.sort_by_key(|row| row.waiting().map(|plan| (plan.behind, plan.due, row.place)));
        due.iter().find_map(|row| Some((slots.first(row.is_fresh())?, row.place)))
    }

    /// Leases the next delivery of an endpoint, together with the rest of its group.
    pub(super) fn give(
        &mut self,
        endpoint: EndpointId,
        slots: &mut ClaimSlots<'_>,
        now: Timestamp,
    ) -> Option<(usize, Vec<i64>)> {
        let (n, first) = self.next_of(endpoint, slots, now)?;
        let slot = &mut slots.requests[n];
        let batch =
            self.endpoint_entry(endpoint).endpoint.options.fifo.map_or(1, |fifo| fifo.batch.max(1));
        let batch = usize::try_from(batch).expect("u32 fits into usize");
        let attempted_at = self.rows[&first].attempted_at;
        let open = self.rows_of(endpoint).filter(|row| !row.has_ended() && row.place >= first);
        let is_of_group = |row: &&OracleDelivery| {
            row.attempted_at == attempted_at && row.waiting().is_some_and(|plan| plan.due <= now)
        };
        let group: Vec<(i64, bool)> = open
            .take_while(is_of_group)
            .take(batch)
            .map(|row| (row.place, row.is_fresh()))
            .collect();
        let mut places = Vec::new();
        for (place, fresh) in group {
            let Some(attempt) = slot.take(fresh) else { break };
            self.lease(place, attempt, slot.request, now);
            places.push(place);
        }
        self.served += 1;
        let served = (now, self.served);
        let entry = self.endpoint_entry_mut(endpoint);
        entry.move_rate(now);
        entry.served = served;
        Some((n, places))
    }

    fn lease(&mut self, place: i64, attempt: AttemptId, request: &DeliveryRequest, now: Timestamp) {
        let endpoint = self.rows[&place].endpoint;
        let span =
            request.lease.unwrap_or_else(|| self.endpoint_entry(endpoint).endpoint.options.lease());
        let row = self.row_mut(place);
        let DeliveryStage::Waiting(plan) = row.stage else { return };
        let lease =
            OracleDeliveryLease { attempt, since: now, until: now.plus(span), cancelled: false };
        row.stage = DeliveryStage::Leased(lease, plan);
        row.updated_at = now;
    }

    /// Builds the group of leased deliveries of one endpoint that is sent.
    pub(super) fn group(&self, places: &[i64], now: Timestamp) -> DeliveryGroup {
        let rows: Vec<&OracleDelivery> = places.iter().map(|place| &self.rows[place]).collect();
        let entry = self.endpoint_entry(rows[0].endpoint);
        let target = Arc::new(DeliveryTarget {
            endpoint: entry.endpoint.id,
            application: entry.endpoint.application,
            url: entry.endpoint.url.clone(),
            headers: entry.endpoint.headers.clone(),
            secrets: entry.signing(now),
            options: entry.endpoint.options.clone(),
        });
        let items = rows.into_iter().filter_map(|row| self.item(row, now)).collect();
        DeliveryGroup { target, items }
    }

    fn item(&self, row: &OracleDelivery, now: Timestamp) -> Option<DeliveryItem> {
        let DeliveryStage::Leased(lease, plan) = row.stage else { return None };
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
