//! The metrics of the hub, `wakeline_wake_*`, which users need for tuning. The label `api` names
//! the API.
//!
//! Handles are created once per hub, so the process must install its recorder before it starts one.

use std::collections::HashMap;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use parking_lot::Mutex;

use crate::api::Api;
use crate::core::{Sample, WakeCore};
use crate::snapshot::HubCounters;

/// Labels beyond this number are counted together.
const LABELS_MAX: usize = 100;
const OTHER: &str = "other";

const COUNTERS_LEN: usize = 18;

pub(crate) struct HubMetrics {
    api: &'static str,
    waiters: Gauge,
    claims_in_flight: Gauge,
    claims_queued: Gauge,
    degraded: Gauge,
    listener_up: Gauge,
    served: Histogram,
    items: Histogram,
    pickup: Histogram,
    counters: [Counter; COUNTERS_LEN],
    by_label: Mutex<HashMap<String, Gauge>>,
}

impl HubMetrics {
    pub(crate) fn new(api: &'static str) -> Self {
        Self {
            api,
            waiters: gauge!("wakeline_wake_waiters", "api" => api),
            claims_in_flight: gauge!("wakeline_wake_claims_in_flight", "api" => api),
            claims_queued: gauge!("wakeline_wake_claims_queued", "api" => api),
            degraded: gauge!("wakeline_wake_degraded", "api" => api),
            listener_up: gauge!("wakeline_wake_listener_up", "api" => api),
            served: histogram!("wakeline_wake_waiters_served_per_claim", "api" => api),
            items: histogram!("wakeline_wake_items_per_poll", "api" => api),
            pickup: histogram!("wakeline_wake_pickup_seconds", "api" => api),
            counters: counters(api),
            by_label: Mutex::new(HashMap::new()),
        }
    }

    /// Updates the gauges and counters; `before` holds the values that were published last.
    pub(crate) fn publish<F: Api>(&self, core: &WakeCore<F>, before: &mut HubCounters) {
        self.waiters.set(core.waiters() as f64);
        self.claims_in_flight.set(core.claims_in_flight() as f64);
        self.claims_queued.set(core.claims_queued() as f64);
        self.degraded.set(if core.is_degraded() { 1.0 } else { 0.0 });
        self.listener_up.set(if core.is_linked() { 1.0 } else { 0.0 });
        let now = *core.counters();
        if now == *before {
            return;
        }
        let changes = flat(&now).into_iter().zip(flat(before)).zip(&self.counters);
        for ((now, before), counter) in changes {
            if now > before {
                counter.increment(now - before);
            }
        }
        *before = now;
    }

    pub(crate) fn observe(&self, sample: Sample) {
        match sample {
            Sample::Pickup(span) => self.pickup.record(span.as_secs_f64()),
            Sample::Served(waiters) => self.served.record(waiters as f64),
            Sample::Items(items) => self.items.record(items as f64),
        }
    }

    /// Returns the gauge of waiters under a label.
    pub(crate) fn waiters_of(&self, label: String) -> Gauge {
        let mut known = self.by_label.lock();
        let label = if known.len() < LABELS_MAX || known.contains_key(&label) {
            label
        } else {
            OTHER.to_owned()
        };
        let gauge = known.entry(label).or_insert_with_key(|label| {
            gauge!("wakeline_wake_waiters_by_label", "api" => self.api, "label" => label.clone())
        });
        gauge.clone()
    }
}

fn counters(api: &'static str) -> [Counter; COUNTERS_LEN] {
    let hint = |value| counter!("wakeline_wake_hints_total", "api" => api, "source" => value);
    let wake = |value| counter!("wakeline_wake_wakes_total", "api" => api, "reason" => value);
    let claim = |value| counter!("wakeline_wake_claims_total", "api" => api, "outcome" => value);
    [
        hint("in_process"),
        hint("notify"),
        wake("notify"),
        wake("in_process"),
        wake("timer"),
        wake("fallback"),
        wake("reconnect"),
        wake("delivery_timeout"),
        wake("claim_error"),
        wake("listener_lost"),
        wake("shutdown"),
        claim("found"),
        claim("empty"),
        claim("refused"),
        claim("error"),
        counter!("wakeline_wake_sweeps_total", "api" => api),
        counter!("wakeline_wake_missed_hints_total", "api" => api),
        counter!("wakeline_wake_leased_on_insert_total", "api" => api),
    ]
}

/// Returns the counters in the order of [`counters`].
fn flat(all: &HubCounters) -> [u64; COUNTERS_LEN] {
    let HubCounters { hints, wakes, claims, sweeps, missed_hints, leased_on_insert } = all;
    [
        hints.in_process,
        hints.notify,
        wakes.notify,
        wakes.in_process,
        wakes.timer,
        wakes.fallback,
        wakes.reconnect,
        wakes.delivery_timeout,
        wakes.claim_error,
        wakes.listener_lost,
        wakes.shutdown,
        claims.found,
        claims.empty,
        claims.refused,
        claims.error,
        *sweeps,
        *missed_hints,
        *leased_on_insert,
    ]
}
