//! The metrics of webhooks, `wakeline_hook_*`. Created once, after the process has installed its
//! metrics recorder.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use wakeline_store::hook::{DisableReason, SettledState};

use crate::send::AttemptEnd;

/// The metrics of webhooks.
pub(crate) struct HookMeters {
    /// Deliveries by their state after an attempt.
    delivered: Counter,
    retrying: Counter,
    failed: Counter,
    cancelled: Counter,
    stale: Counter,
    duration: Histogram,
    pub(crate) in_flight: Gauge,
    throttled: Counter,
    opened: Counter,
    per_claim: Histogram,
}

impl HookMeters {
    pub(crate) fn new() -> Self {
        let deliveries = |outcome| counter!("wakeline_hook_deliveries_total", "outcome" => outcome);
        Self {
            delivered: deliveries("delivered"),
            retrying: deliveries("retrying"),
            failed: deliveries("failed"),
            cancelled: deliveries("cancelled"),
            stale: deliveries("stale"),
            duration: histogram!("wakeline_hook_attempt_seconds"),
            in_flight: gauge!("wakeline_hook_in_flight"),
            throttled: counter!("wakeline_hook_throttled_total"),
            opened: counter!("wakeline_hook_breakers_opened_total"),
            per_claim: histogram!("wakeline_hook_deliveries_per_claim"),
        }
    }

    pub(crate) fn attempted(&self, ended: &AttemptEnd, took: Duration) {
        counter!("wakeline_hook_attempts_total", "class" => class(ended)).increment(1);
        self.duration.record(took.as_secs_f64());
    }

    pub(crate) fn settled(&self, state: SettledState) {
        match state {
            SettledState::Delivered => &self.delivered,
            SettledState::Retrying => &self.retrying,
            SettledState::Failed => &self.failed,
            SettledState::Cancelled => &self.cancelled,
            SettledState::Stale => &self.stale,
        }
        .increment(1);
    }

    pub(crate) fn throttled(&self) {
        self.throttled.increment(1);
    }

    pub(crate) fn opened(&self) {
        self.opened.increment(1);
    }

    pub(crate) fn disabled(&self, reason: DisableReason) {
        let reason = match reason {
            DisableReason::Requested => "asked",
            DisableReason::Gone => "gone",
            DisableReason::Failing => "failing",
        };
        counter!("wakeline_hook_endpoints_disabled_total", "reason" => reason).increment(1);
    }

    /// Records how many deliveries a claim returned.
    pub(crate) fn claimed(&self, deliveries: usize) {
        self.per_claim.record(deliveries as f64);
    }
}

fn class(ended: &AttemptEnd) -> &'static str {
    match ended {
        AttemptEnd::Response { status, .. } => match status / 100 {
            1 => "1xx",
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            _ => "5xx",
        },
        AttemptEnd::Timeout => "timeout",
        AttemptEnd::Refused(_) => "refused",
        AttemptEnd::Failed(_) => "error",
    }
}
