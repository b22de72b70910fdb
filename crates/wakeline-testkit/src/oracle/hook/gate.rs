//! Rate limit and circuit breaker: what delays the deliveries of an endpoint, and until when.

use std::time::Duration;

use wakeline_core::{EndpointId, HookChange, HookChangeKind, HookLine, Timestamp};
use wakeline_store::hook::BreakerSample;

use super::state::{OracleBreaker, OracleDelivery, OracleEndpoint, OracleHook};

const SECOND: Duration = Duration::from_secs(1);

/// Which deliveries count when a due time is computed.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineSight {
    /// Whether only first scheduled attempts count.
    pub(super) fresh_only: bool,
    /// Whether leased deliveries count, with the end of their lease as due time.
    pub(super) leases: bool,
}

impl OracleEndpoint {
    pub(super) fn is_off(&self) -> bool {
        self.deleted || self.endpoint.disabled.is_some()
    }

    /// Returns whether a line takes deliveries from the endpoint.
    pub(super) fn is_of(&self, line: &HookLine) -> bool {
        match line {
            HookLine::Push | HookLine::PushFresh => !self.endpoint.options.pull,
            HookLine::Pull(id) => self.endpoint.options.pull && self.endpoint.id == *id,
            HookLine::Background => false,
        }
    }

    fn interval(&self) -> Option<Duration> {
        self.endpoint.options.rate_per_second.map(|rate| SECOND / rate.max(1))
    }

    /// Returns the time from which rate limit, breaker and throttling allow an attempt.
    pub(super) fn ready_at(&self) -> Timestamp {
        let breaker = match (self.breaker, self.endpoint.options.breaker) {
            (OracleBreaker::Open { until, .. }, Some(_)) => until,
            _ => Timestamp(0),
        };
        // After one more attempt, the rate's time may be ahead by a second or by one interval.
        let rate = self.interval().map_or(Timestamp(0), |interval| {
            let ahead = SECOND.max(interval) - interval;
            let ahead = i64::try_from(ahead.as_micros()).expect("at most a second");
            Timestamp(self.rate_at.0.saturating_sub(ahead))
        });
        breaker.max(rate).max(self.throttled_until)
    }

    /// Returns until when the breaker is open, if it is open.
    pub(super) fn paused_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.endpoint.options.breaker?;
        match self.breaker {
            OracleBreaker::Open { until, .. } => Some(until).filter(|until| now < *until),
            OracleBreaker::Closed { .. } => None,
        }
    }

    pub(super) fn is_paused(&self, now: Timestamp) -> bool {
        self.paused_until(now).is_some()
    }

    /// Returns the largest allowed number of attempts in flight.
    pub(super) fn in_flight_max(&self) -> usize {
        let options = &self.endpoint.options;
        let most = match (self.breaker, options.breaker) {
            (OracleBreaker::Open { .. }, Some(breaker)) => {
                options.in_flight_max.min(breaker.probes)
            }
            _ => options.in_flight_max,
        };
        usize::try_from(most.max(1)).expect("u32 fits into usize")
    }

    /// Counts an attempt against the rate.
    pub(super) fn move_rate(&mut self, now: Timestamp) {
        if let Some(interval) = self.interval() {
            self.rate_at = self.rate_at.max(now).plus(interval);
        }
    }

    /// Applies the result of an attempt to the breaker and to the time of failing.
    pub(super) fn sample(&mut self, sample: BreakerSample, now: Timestamp) {
        let is_open = self.is_paused(now);
        match sample {
            BreakerSample::Success => self.endpoint.failing_since = None,
            BreakerSample::Failure if !is_open => {
                self.endpoint.failing_since.get_or_insert(now);
            }
            BreakerSample::Failure | BreakerSample::None => {}
        }
        let Some(options) = self.endpoint.options.breaker.filter(|_| !is_open) else { return };
        let opened = OracleBreaker::Open { until: now.plus(options.open_for), successes: 0 };
        self.breaker = match (self.breaker, sample) {
            (same, BreakerSample::None) => same,
            (OracleBreaker::Closed { .. }, BreakerSample::Success) => {
                OracleBreaker::Closed { failures: 0 }
            }
            (OracleBreaker::Closed { failures }, BreakerSample::Failure) => {
                let failures = failures + 1;
                if failures >= options.failures {
                    opened
                } else {
                    OracleBreaker::Closed { failures }
                }
            }
            (OracleBreaker::Open { .. }, BreakerSample::Failure) => opened,
            (OracleBreaker::Open { until, successes }, BreakerSample::Success) => {
                let successes = successes + 1;
                let closes = successes >= options.probes;
                if closes {
                    OracleBreaker::Closed { failures: 0 }
                } else {
                    OracleBreaker::Open { until, successes }
                }
            }
        };
    }

    /// Returns whether the endpoint has failed for so long that it must be disabled.
    pub(super) fn has_failed_enough(&self, now: Timestamp) -> bool {
        let since = self.endpoint.failing_since.zip(self.endpoint.options.disable_after);
        since.is_some_and(|(since, after)| since.plus(after) <= now)
    }
}

impl OracleHook {
    /// Returns the number of attempts in flight.
    pub(super) fn in_flight(&self, endpoint: EndpointId, now: Timestamp) -> usize {
        self.rows_of(endpoint).filter(|row| row.live(now).is_some()).count()
    }

    /// Returns whether one more attempt may start now.
    pub(super) fn is_free(&self, endpoint: EndpointId, now: Timestamp) -> bool {
        let entry = self.endpoint_entry(endpoint);
        let in_flight = self.in_flight(endpoint, now);
        let has_capacity = match entry.endpoint.options.fifo {
            Some(_) => in_flight == 0,
            None => in_flight < entry.in_flight_max(),
        };
        !entry.is_off() && entry.ready_at() <= now && has_capacity
    }

    /// Returns when an endpoint has a delivery to claim, if only time passes.
    pub(super) fn due_of(
        &self,
        endpoint: EndpointId,
        sight: LineSight,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let entry = self.endpoint_entry(endpoint);
        if entry.is_off() {
            return None;
        }
        let mut open: Vec<&OracleDelivery> =
            self.rows_of(endpoint).filter(|row| !row.has_ended()).collect();
        if entry.endpoint.options.fifo.is_some() {
            open.truncate(1);
        }
        let time = |row: &&OracleDelivery| match (row.waiting(), row.lease()) {
            (Some(plan), _) => (row.is_fresh() || !sight.fresh_only).then_some(plan.due),
            (None, Some(lease)) => (sight.leases && !sight.fresh_only).then_some(lease.until),
            (None, None) => None,
        };
        let first = open.iter().filter_map(time).min()?;
        Some(first.max(entry.ready_at()).max(self.capacity_at(endpoint, now)))
    }

    /// Returns when one more attempt may be in flight; a past time if it may be now.
    fn capacity_at(&self, endpoint: EndpointId, now: Timestamp) -> Timestamp {
        let entry = self.endpoint_entry(endpoint);
        let live = self.rows_of(endpoint).filter_map(|row| row.live(now));
        let mut ends: Vec<Timestamp> = live.map(|lease| lease.until).collect();
        ends.sort_unstable();
        let most = match entry.endpoint.options.fifo {
            Some(_) => 1,
            None => entry.in_flight_max(),
        };
        // A group of a FIFO endpoint counts as one attempt, which ends with its last lease.
        let must_end = match entry.endpoint.options.fifo {
            Some(_) => ends.len(),
            None => (ends.len() + 1).saturating_sub(most),
        };
        must_end.checked_sub(1).map_or(Timestamp(0), |last| ends[last])
    }

    /// Returns the time until a line has a delivery that counts.
    pub(super) fn line_due(
        &self,
        line: &HookLine,
        sight: LineSight,
        now: Timestamp,
    ) -> Option<Duration> {
        self.first_due(|entry| entry.is_of(line), sight, now)
    }

    /// Returns the time until one of the chosen endpoints has a delivery that counts.
    pub(super) fn first_due(
        &self,
        is_chosen: impl Fn(&OracleEndpoint) -> bool,
        sight: LineSight,
        now: Timestamp,
    ) -> Option<Duration> {
        let entries = self.endpoint_entries.values().filter(|entry| is_chosen(entry));
        let times = entries.filter_map(|entry| self.due_of(entry.endpoint.id, sight, now));
        times.min().map(|at| now.until(at))
    }

    /// Returns the changes for the waiters of some endpoints whose deliveries have changed.
    pub(super) fn changes_of(
        &self,
        endpoints: impl IntoIterator<Item = EndpointId>,
        now: Timestamp,
    ) -> Vec<HookChange> {
        let mut changes: Vec<HookChange> = Vec::new();
        for endpoint in endpoints {
            let sight = LineSight { fresh_only: false, leases: false };
            let Some(at) = self.due_of(endpoint, sight, now) else { continue };
            let pull = self.endpoint_entry(endpoint).endpoint.options.pull;
            let what = if pull { HookChangeKind::Pull(endpoint) } else { HookChangeKind::Push };
            let due_in = now.until(at);
            match changes.iter_mut().find(|change| change.what == what) {
                Some(known) => known.due_in = known.due_in.min(due_in),
                None => changes.push(HookChange { what, due_in }),
            }
        }
        changes
    }
}
