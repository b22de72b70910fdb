//! Settling: how attempts end.

use std::time::Duration;

use wakeline_core::{DeliveryToken, EndpointId, HookChange, Timestamp};
use wakeline_store::hook::{
    Attempt, AttemptOutcome, DeliveryVerdict, DisableReason, SettleDelivery, SettledDelivery,
    SettledState,
};

use super::state::{Before, End, Hook, Lease, Plan, Row, Stage};

impl Hook {
    /// The delivery whose live lease a token proves.
    fn held(&self, token: DeliveryToken, now: Timestamp) -> Option<&Row> {
        let row = self.rows.get(&token.delivery)?;
        row.live(now).filter(|lease| lease.attempt == token.attempt).map(|_| row)
    }

    pub(super) fn settle(&mut self, end: SettleDelivery, now: Timestamp) -> SettledDelivery {
        let Some(row) = self.held(end.token, now).cloned() else {
            let (state, disabled, changes) = (SettledState::Stale, None, Vec::new());
            return SettledDelivery { state, disabled, opened: false, changes };
        };
        let Stage::Leased(lease, plan) = row.stage else { unreachable!("it is leased") };
        self.log(&row, plan, &end, now);
        let stage = followed_by(lease, plan, end.verdict, now);
        let updated = self.row_mut(row.place);
        updated.stage = stage;
        updated.attempts += 1;
        updated.attempted_at = Some(lease.since);
        updated.scheduled += u32::from(plan.manual.is_none());
        updated.updated_at = now;
        let open_before = self.spot_mut(row.endpoint).is_paused(now);
        let disabled = self.judge(row.endpoint, &end, now);
        let opened = !open_before && self.spot_mut(row.endpoint).is_paused(now);
        let mut changes = self.tell([row.endpoint], now);
        let farewell = end.announce_disabled.filter(|_| disabled.is_some());
        for message in end.announce.into_iter().chain(farewell) {
            changes.extend(self.emit(message, &[], now).changes);
        }
        let state = match stage {
            Stage::Waiting(_) | Stage::Leased(..) => SettledState::Retrying,
            Stage::Ended(End::Delivered) => SettledState::Delivered,
            Stage::Ended(End::Failed) => SettledState::Failed,
            Stage::Ended(End::Cancelled) => SettledState::Cancelled,
        };
        SettledDelivery { state, disabled, opened, changes }
    }

    fn log(&mut self, row: &Row, plan: Plan, end: &SettleDelivery, now: Timestamp) {
        let outcome = match end.verdict {
            DeliveryVerdict::Delivered => AttemptOutcome::Succeeded,
            DeliveryVerdict::Retry(_) | DeliveryVerdict::Failed => AttemptOutcome::Failed,
        };
        let ago = i64::try_from(end.record.began_ago.as_micros()).unwrap_or(i64::MAX);
        let attempt = Attempt {
            id: end.token.attempt,
            message: row.message,
            endpoint: row.endpoint,
            attempt_no: row.attempts + 1,
            outcome,
            trigger: plan.trigger(),
            began_at: Timestamp(now.0.saturating_sub(ago)),
            took: end.record.took,
            status: end.record.status,
            response: Some(end.record.response.clone()),
            error: end.record.error.clone(),
            url: end.record.url.clone(),
        };
        self.attempts.insert(attempt.id, attempt);
    }

    /// What an attempt means for its endpoint. Tells why it is disabled by it, if it is.
    fn judge(
        &mut self,
        endpoint: EndpointId,
        end: &SettleDelivery,
        now: Timestamp,
    ) -> Option<DisableReason> {
        let spot = self.spot_mut(endpoint);
        if spot.deleted {
            return None;
        }
        let was_failing = spot.endpoint.failing_since;
        let was_paused = spot.is_paused(now);
        spot.sample(end.sample, now);
        if let Some(span) = end.throttle {
            spot.throttled_until = spot.throttled_until.max(now.plus(span));
        }
        let fails = end.sample == wakeline_store::hook::BreakerSample::Failure
            && was_failing.is_some()
            && !was_paused
            && spot.has_failed_enough(now);
        let reason = match (end.gone, fails) {
            (true, _) => DisableReason::Gone,
            (false, true) => DisableReason::Failing,
            (false, false) => return None,
        };
        if spot.endpoint.disabled.is_some() {
            return None;
        }
        spot.endpoint.disabled = Some(reason);
        Some(reason)
    }

    pub(super) fn release(&mut self, tokens: &[DeliveryToken], now: Timestamp) -> Vec<HookChange> {
        let mut touched = Vec::new();
        for token in tokens {
            let Some(row) = self.held(*token, now) else { continue };
            let (place, endpoint) = (row.place, row.endpoint);
            let Stage::Leased(lease, plan) = row.stage else { continue };
            let row = self.row_mut(place);
            let cancelled = Stage::Ended(End::Cancelled);
            row.stage = if lease.cancelled { cancelled } else { Stage::Waiting(plan) };
            row.updated_at = now;
            touched.push(endpoint);
        }
        self.tell(touched, now)
    }

    pub(super) fn extend(
        &mut self,
        tokens: &[DeliveryToken],
        span: Duration,
        now: Timestamp,
    ) -> Vec<bool> {
        let mut extended = Vec::new();
        for token in tokens {
            let place = self.held(*token, now).map(|row| row.place);
            if let Some(Stage::Leased(lease, _)) = place.map(|place| &mut self.row_mut(place).stage)
            {
                lease.until = now.plus(span);
            }
            extended.push(place.is_some());
        }
        extended
    }
}

/// Rules 3 and 4: what becomes of a delivery.
fn followed_by(lease: Lease, plan: Plan, verdict: DeliveryVerdict, now: Timestamp) -> Stage {
    let retry = |after: Duration| Stage::Waiting(Plan::scheduled(now.plus(after)));
    match (verdict, plan.manual) {
        _ if lease.cancelled => Stage::Ended(End::Cancelled),
        (DeliveryVerdict::Delivered, _) => Stage::Ended(End::Delivered),
        (DeliveryVerdict::Retry(after), None | Some(Before::Ended(_))) => retry(after),
        (DeliveryVerdict::Failed, None) => Stage::Ended(End::Failed),
        (DeliveryVerdict::Retry(_) | DeliveryVerdict::Failed, Some(before)) => before.stage(),
    }
}
