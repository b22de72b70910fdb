//! The hub's figures, as users tune by them: `wakeline_wake_*`, labelled with the face.
//!
//! Handles are made once per hub, so the process installs its recorder before it starts one.

use std::collections::HashMap;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use parking_lot::Mutex;

use crate::core::{Core, Sample};
use crate::face::Face;
use crate::snapshot::Counters;

/// Labels beyond this many are counted together.
const LABELS_MAX: usize = 100;
const OTHER: &str = "other";

const COUNTERS_LEN: usize = 18;

pub(crate) struct Meters {
    face: &'static str,
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

impl Meters {
    pub(crate) fn new(face: &'static str) -> Self {
        Self {
            face,
            waiters: gauge!("wakeline_wake_waiters", "face" => face),
            claims_in_flight: gauge!("wakeline_wake_claims_in_flight", "face" => face),
            claims_queued: gauge!("wakeline_wake_claims_queued", "face" => face),
            degraded: gauge!("wakeline_wake_degraded", "face" => face),
            listener_up: gauge!("wakeline_wake_listener_up", "face" => face),
            served: histogram!("wakeline_wake_waiters_served_per_claim", "face" => face),
            items: histogram!("wakeline_wake_items_per_poll", "face" => face),
            pickup: histogram!("wakeline_wake_pickup_seconds", "face" => face),
            counters: counters(face),
            by_label: Mutex::new(HashMap::new()),
        }
    }

    /// Brings the gauges and counters up to date; `before` is what was told last.
    pub(crate) fn publish<F: Face>(&self, core: &Core<F>, before: &mut Counters) {
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

    /// The gauge of waiters under a label.
    pub(crate) fn waiters_of(&self, label: String) -> Gauge {
        let mut known = self.by_label.lock();
        let label = if known.len() < LABELS_MAX || known.contains_key(&label) {
            label
        } else {
            OTHER.to_owned()
        };
        let gauge = known.entry(label).or_insert_with_key(|label| {
            gauge!("wakeline_wake_waiters_by_label", "face" => self.face, "label" => label.clone())
        });
        gauge.clone()
    }
}

fn counters(face: &'static str) -> [Counter; COUNTERS_LEN] {
    let hint = |value| counter!("wakeline_wake_hints_total", "face" => face, "source" => value);
    let wake = |value| counter!("wakeline_wake_wakes_total", "face" => face, "reason" => value);
    let claim = |value| counter!("wakeline_wake_claims_total", "face" => face, "outcome" => value);
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
        counter!("wakeline_wake_sweeps_total", "face" => face),
        counter!("wakeline_wake_missed_hints_total", "face" => face),
        counter!("wakeline_wake_born_leased_total", "face" => face),
    ]
}

/// The counters in the order of [`counters`].
fn flat(all: &Counters) -> [u64; COUNTERS_LEN] {
    let Counters { hints, wakes, claims, sweeps, missed_hints, born_leased } = all;
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
        *born_leased,
    ]
}
