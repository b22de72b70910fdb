//! Rate and breaker: what holds an endpoint back, and until when.

use std::time::Duration;

use wakeline_core::{EndpointId, HookChange, HookLine, HookWhat, Timestamp};
use wakeline_store::hook::BreakerSample;

use super::state::{Breaker, Hook, Row, Spot};

const SECOND: Duration = Duration::from_secs(1);

/// Which deliveries are looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight {
    /// Only first attempts by schedule.
    pub(super) fresh_only: bool,
    /// Leases too, for when they end.
    pub(super) leases: bool,
}

impl Spot {
    pub(super) fn is_off(&self) -> bool {
        self.deleted || self.endpoint.disabled.is_some()
    }

    /// Whether a line takes from it.
    pub(super) fn is_of(&self, line: &HookLine) -> bool {
        match line {
            HookLine::Push | HookLine::PushFresh => !self.endpoint.options.pull,
            HookLine::Pull(id) => self.endpoint.options.pull && self.endpoint.id == *id,
            HookLine::Chores => false,
        }
    }

    fn interval(&self) -> Option<Duration> {
        self.endpoint.options.rate_per_second.map(|rate| SECOND / rate.max(1))
    }

    /// The moment from which rate, breaker and throttle let an attempt through.
    pub(super) fn ready_at(&self) -> Timestamp {
        let breaker = match (self.breaker, self.endpoint.options.breaker) {
            (Breaker::Open { until, .. }, Some(_)) => until,
            _ => Timestamp(0),
        };
        // With one more attempt, the rate's time may be a second ahead, or one interval.
        let rate = self.interval().map_or(Timestamp(0), |interval| {
            let ahead = SECOND.max(interval) - interval;
            let ahead = i64::try_from(ahead.as_micros()).expect("at most a second");
            Timestamp(self.rate_at.0.saturating_sub(ahead))
        });
        breaker.max(rate).max(self.throttled_until)
    }

    /// Until when the breaker is open, if it is.
    pub(super) fn paused_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.endpoint.options.breaker?;
        match self.breaker {
            Breaker::Open { until, .. } => Some(until).filter(|until| now < *until),
            Breaker::Closed { .. } => None,
        }
    }

    pub(super) fn is_paused(&self, now: Timestamp) -> bool {
        self.paused_until(now).is_some()
    }

    /// Most attempts under way.
    pub(super) fn in_flight_max(&self) -> usize {
        let options = &self.endpoint.options;
        let most = match (self.breaker, options.breaker) {
            (Breaker::Open { .. }, Some(breaker)) => options.in_flight_max.min(breaker.probes),
            _ => options.in_flight_max,
        };
        usize::try_from(most.max(1)).expect("fits")
    }

    /// Counts an attempt against the rate.
    pub(super) fn move_rate(&mut self, now: Timestamp) {
        if let Some(interval) = self.interval() {
            self.rate_at = self.rate_at.max(now).plus(interval);
        }
    }

    /// What an attempt says about it.
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
        let opened = Breaker::Open { until: now.plus(options.open_for), successes: 0 };
        self.breaker = match (self.breaker, sample) {
            (same, BreakerSample::None) => same,
            (Breaker::Closed { .. }, BreakerSample::Success) => Breaker::Closed { failures: 0 },
            (Breaker::Closed { failures }, BreakerSample::Failure) => {
                let failures = failures + 1;
                if failures >= options.failures { opened } else { Breaker::Closed { failures } }
            }
            (Breaker::Open { .. }, BreakerSample::Failure) => opened,
            (Breaker::Open { until, successes }, BreakerSample::Success) => {
                let successes = successes + 1;
                let closes = successes >= options.probes;
                if closes {
                    Breaker::Closed { failures: 0 }
                } else {
                    Breaker::Open { until, successes }
                }
            }
        };
    }

    /// Whether nothing but failures for too long, of which this is one, switch it off.
    pub(super) fn has_failed_enough(&self, now: Timestamp) -> bool {
        let since = self.endpoint.failing_since.zip(self.endpoint.options.disable_after);
        since.is_some_and(|(since, after)| since.plus(after) <= now)
    }
}

impl Hook {
    /// Attempts under way.
    pub(super) fn in_flight(&self, endpoint: EndpointId, now: Timestamp) -> usize {
        self.rows_of(endpoint).filter(|row| row.live(now).is_some()).count()
    }

    /// Whether one more attempt may begin now.
    pub(super) fn is_free(&self, endpoint: EndpointId, now: Timestamp) -> bool {
        let spot = self.spot(endpoint);
        let in_flight = self.in_flight(endpoint, now);
        let room = match spot.endpoint.options.fifo {
            Some(_) => in_flight == 0,
            None => in_flight < spot.in_flight_max(),
        };
        !spot.is_off() && spot.ready_at() <= now && room
    }

    /// When an endpoint has something to claim, if nothing but time passes.
    pub(super) fn due_of(
        &self,
        endpoint: EndpointId,
        sight: Sight,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let spot = self.spot(endpoint);
        if spot.is_off() {
            return None;
        }
        let mut open: Vec<&Row> = self.rows_of(endpoint).filter(|row| !row.has_ended()).collect();
        if spot.endpoint.options.fifo.is_some() {
            open.truncate(1);
        }
        let time = |row: &&Row| match (row.waiting(), row.lease()) {
            (Some(plan), _) => (row.is_fresh() || !sight.fresh_only).then_some(plan.due),
            (None, Some(lease)) => (sight.leases && !sight.fresh_only).then_some(lease.until),
            (None, None) => None,
        };
        let first = open.iter().filter_map(time).min()?;
        Some(first.max(spot.ready_at()).max(self.room_at(endpoint, now)))
    }

    /// When there is room for one more attempt; the past, if there is.
    fn room_at(&self, endpoint: EndpointId, now: Timestamp) -> Timestamp {
        let spot = self.spot(endpoint);
        let live = self.rows_of(endpoint).filter_map(|row| row.live(now));
        let mut ends: Vec<Timestamp> = live.map(|lease| lease.until).collect();
        ends.sort_unstable();
        let most = match spot.endpoint.options.fifo {
            Some(_) => 1,
            None => spot.in_flight_max(),
        };
        // A group of an endpoint in order is one attempt: it ends with its last lease.
        let must_end = match spot.endpoint.options.fifo {
            Some(_) => ends.len(),
            None => (ends.len() + 1).saturating_sub(most),
        };
        must_end.checked_sub(1).map_or(Timestamp(0), |last| ends[last])
    }

    /// Time until a line has something that can be seen.
    pub(super) fn line_due(
        &self,
        line: &HookLine,
        sight: Sight,
        now: Timestamp,
    ) -> Option<Duration> {
        self.first_due(|spot| spot.is_of(line), sight, now)
    }

    /// Time until one of some endpoints has something that can be seen.
    pub(super) fn first_due(
        &self,
        counts: impl Fn(&Spot) -> bool,
        sight: Sight,
        now: Timestamp,
    ) -> Option<Duration> {
        let spots = self.spots.values().filter(|spot| counts(spot));
        let times = spots.filter_map(|spot| self.due_of(spot.endpoint.id, sight, now));
        times.min().map(|at| now.until(at))
    }

    /// What waiters are told after a change to what waits for some endpoints.
    pub(super) fn tell(
        &self,
        endpoints: impl IntoIterator<Item = EndpointId>,
        now: Timestamp,
    ) -> Vec<HookChange> {
        let mut changes: Vec<HookChange> = Vec::new();
        for endpoint in endpoints {
            let sight = Sight { fresh_only: false, leases: false };
            let Some(at) = self.due_of(endpoint, sight, now) else { continue };
            let pull = self.spot(endpoint).endpoint.options.pull;
            let what = if pull { HookWhat::Pull(endpoint) } else { HookWhat::Push };
            let due_in = now.until(at);
            match changes.iter_mut().find(|change| change.what == what) {
                Some(known) => known.due_in = known.due_in.min(due_in),
                None => changes.push(HookChange { what, due_in }),
            }
        }
        changes
    }
}
