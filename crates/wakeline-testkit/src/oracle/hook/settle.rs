//! Settling: recording how attempts ended.

use std::time::Duration;

use wakeline_core::{DeliveryToken, EndpointId, HookChange, Timestamp};
use wakeline_store::hook::{
    Attempt, AttemptOutcome, DeliveryVerdict, DisableReason, SettleDelivery, SettledDelivery,
    SettledState,
};

use super::state::{
    AttemptPlan, BeforeManual, DeliveryEnd, DeliveryStage, OracleDelivery, OracleDeliveryLease,
    OracleHook,
};

impl OracleHook {
    /// Returns the delivery whose live lease a token holds.
    fn held(&self, token: DeliveryToken, now: Timestamp) -> Option<&OracleDelivery> {
        let row = self.rows.get(&token.delivery)?;
        row.live(now).filter(|lease| lease.attempt == token.attempt).map(|_| row)
    }

    pub(super) fn settle(&mut self, end: SettleDelivery, now: Timestamp) -> SettledDelivery {
        let Some(row) = self.held(end.token, now).cloned() else {
            let (state, disabled, changes) = (SettledState::Stale, None, Vec::new());
            return SettledDelivery { state, disabled, opened: false, changes };
        };
        let DeliveryStage::Leased(lease, plan) = row.stage else { unreachable!("it is leased") };
        self.log(&row, plan, &end, now);
        let stage = followed_by(lease, plan, end.verdict, now);
        let updated = self.row_mut(row.place);
        updated.stage = stage;
        updated.attempts += 1;
        updated.attempted_at = Some(lease.since);
        updated.scheduled += u32::from(plan.manual.is_none());
        updated.updated_at = now;
        let open_before = self.endpoint_entry_mut(row.endpoint).is_paused(now);
        let disabled = self.judge(row.endpoint, &end, now);
        let opened = !open_before && self.endpoint_entry_mut(row.endpoint).is_paused(now);
        let mut changes = self.changes_of([row.endpoint], now);
        let notice = end.announce_disabled.filter(|_| disabled.is_some());
        for message in end.announce.into_iter().chain(notice) {
            changes.extend(self.emit(message, &[], now).changes);
        }
        let state = match stage {
            DeliveryStage::Waiting(_) | DeliveryStage::Leased(..) => SettledState::Retrying,
            DeliveryStage::Ended(DeliveryEnd::Delivered) => SettledState::Delivered,
            DeliveryStage::Ended(DeliveryEnd::Failed) => SettledState::Failed,
            DeliveryStage::Ended(DeliveryEnd::Cancelled) => SettledState::Cancelled,
        };
        SettledDelivery { state, disabled, opened, changes }
    }

    fn log(
        &mut self,
        row: &OracleDelivery,
        plan: AttemptPlan,
        end: &SettleDelivery,
        now: Timestamp,
    ) {
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

    /// Applies the end of an attempt to its endpoint. Returns the reason if this disables the
    /// endpoint.
    fn judge(
        &mut self,
        endpoint: EndpointId,
        end: &SettleDelivery,
        now: Timestamp,
    ) -> Option<DisableReason> {
        let entry = self.endpoint_entry_mut(endpoint);
        if entry.deleted {
            return None;
        }
        let was_failing = entry.endpoint.failing_since;
        let was_paused = entry.is_paused(now);
        entry.sample(end.sample, now);
        if let Some(span) = end.throttle {
            entry.throttled_until = entry.throttled_until.max(now.plus(span));
        }
        let fails = end.sample == wakeline_store::hook::BreakerSample::Failure
            && was_failing.is_some()
            && !was_paused
            && entry.has_failed_enough(now);
        let reason = if end.gone {
            DisableReason::Gone
        } else if fails {
            DisableReason::Failing
        } else {
            return None;
        };
        if entry.endpoint.disabled.is_some() {
            return None;
        }
        entry.endpoint.disabled = Some(reason);
        Some(reason)
    }

    pub(super) fn release(&mut self, tokens: &[DeliveryToken], now: Timestamp) -> Vec<HookChange> {
        let mut touched = Vec::new();
        for token in tokens {
            let Some(row) = self.held(*token, now) else { continue };
            let (place, endpoint) = (row.place, row.endpoint);
            let DeliveryStage::Leased(lease, plan) = row.stage else { continue };
            let row = self.row_mut(place);
            let cancelled = DeliveryStage::Ended(DeliveryEnd::Cancelled);
            row.stage = if lease.cancelled { cancelled } else { DeliveryStage::Waiting(plan) };
            row.updated_at = now;
            touched.push(endpoint);
        }
        self.changes_of(touched, now)
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
            if let Some(DeliveryStage::Leased(lease, _)) =
                place.map(|place| &mut self.row_mut(place).stage)
            {
                lease.until = now.plus(span);
            }
            extended.push(place.is_some());
        }
        extended
    }
}

/// Applies rules 3 and 4: returns the next stage of a delivery.
fn followed_by(
    lease: OracleDeliveryLease,
    plan: AttemptPlan,
    verdict: DeliveryVerdict,
    now: Timestamp,
) -> DeliveryStage {
    let retry = |after: Duration| DeliveryStage::Waiting(AttemptPlan::scheduled(now.plus(after)));
    match (verdict, plan.manual) {
        _ if lease.cancelled => DeliveryStage::Ended(DeliveryEnd::Cancelled),
        (DeliveryVerdict::Delivered, _) => DeliveryStage::Ended(DeliveryEnd::Delivered),
        (DeliveryVerdict::Retry(after), None | Some(BeforeManual::Ended(_))) => retry(after),
        (DeliveryVerdict::Failed, None) => DeliveryStage::Ended(DeliveryEnd::Failed),
        (DeliveryVerdict::Retry(_) | DeliveryVerdict::Failed, Some(before)) => before.stage(),
    }
}
