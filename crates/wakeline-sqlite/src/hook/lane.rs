//! Lanes: when an endpoint can be served, and the rate limit, throttle and breaker that delay it.
//!
//! # Invariants
//! * `due_at` is exact whenever it is written: the time at which the first waiting delivery can be
//!   leased, if nothing but time passes. It includes the rate limit, the throttle, the breaker, and
//!   the leases that must end before. Claims walk only the index over it. `fresh_at` is the same
//!   for first attempts.
//! * Delaying an endpoint counts no attempt and changes no delivery.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{OptionalExtension as _, Row};
use wakeline_core::{BreakerOptions, HookChange, HookChangeKind, Timestamp};
use wakeline_store::hook::BreakerSample;

use super::cache::{self, EndpointConfig, number};
use super::delivery::DeliveryClass;
use super::sql;
use crate::error::{Res, corrupt};
use crate::session::DbSession;

const SECOND: Duration = Duration::from_secs(1);

/// A lane with the columns of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndpointLane {
    pub(super) endpoint: i64,
    pub(super) pulled: bool,
    pub(super) due_at: Option<i64>,
    pub(super) fresh_at: Option<i64>,
    served_at: i64,
    rate_at: i64,
    throttled_until: i64,
    failures: u32,
    open_until: Option<i64>,
    successes: u32,
    pub(super) failing_since: Option<i64>,
}

impl EndpointLane {
    pub(super) fn read(s: &DbSession<'_>, endpoint: i64) -> Res<Self> {
        let mut statement = s.conn.prepare_cached(sql!("lane_read"))?;
        let mut rows = statement.query([endpoint])?;
        let row = rows.next()?;
        let row = row.ok_or_else(|| corrupt("endpoint", endpoint)("it has no lane"))?;
        decode(endpoint, row)
    }

    fn write(&self, s: &DbSession<'_>) -> Res<()> {
        s.conn.prepare_cached(sql!("lane_write"))?.execute((
            self.endpoint,
            self.pulled,
            self.due_at,
            self.fresh_at,
            self.served_at,
            self.rate_at,
            self.throttled_until,
            self.failures,
            self.open_until,
            self.successes,
            self.failing_since,
        ))?;
        Ok(())
    }

    /// Computes when the endpoint can be served.
    pub(super) fn refresh(&mut self, s: &DbSession<'_>, config: &EndpointConfig) -> Res<()> {
        (self.due_at, self.fresh_at) = (None, None);
        if !config.is_on() {
            return Ok(());
        }
        let (first, fresh) = first_waiting(s, config)?;
        let Some(first) = first else { return Ok(()) };
        let capacity_at = self.capacity_at(s, config)?.unwrap_or(0);
        let from = capacity_at.max(self.gate(config)).max(self.served_at);
        self.due_at = Some(first.max(from));
        self.fresh_at = fresh.map(|fresh| fresh.max(from));
        Ok(())
    }

    /// The time from which rate limit, throttle and breaker allow an attempt, possibly in the past.
    pub(super) fn gate(&self, config: &EndpointConfig) -> i64 {
        let open = config.options().breaker.and(self.open_until).unwrap_or(0);
        let rate = match config.options().rate_per_second {
            // The rate limit allows bursts: after the next attempt, `rate_at` may be up to a second
            // ahead.
            Some(rate) => self.rate_at - micros(SECOND - interval(rate)),
            None => 0,
        };
        self.throttled_until.max(open).max(rate)
    }

    /// Whether rate limit, throttle or breaker forbid an attempt now.
    pub(super) fn is_held_back(&self, config: &EndpointConfig, now: Timestamp) -> bool {
        self.gate(config) > now.0
    }

    /// The number of attempts that may be in flight at once. A group of an endpoint in strict order
    /// counts as one.
    fn cap(&self, config: &EndpointConfig) -> u32 {
        let options = config.options();
        let cap = match options.breaker {
            _ if options.fifo.is_some() => 1,
            Some(breaker) if self.open_until.is_some() => options.in_flight_max.min(breaker.probes),
            _ => options.in_flight_max,
        };
        cap.max(1)
    }

    /// When a lease ends that makes capacity for one more attempt, or `None` if there is capacity
    /// now.
    fn capacity_at(&self, s: &DbSession<'_>, config: &EndpointConfig) -> Res<Option<i64>> {
        let cap = self.cap(config);
        if in_flight(s, self.endpoint, cap)? < cap {
            return Ok(None);
        }
        let live = in_flight(s, self.endpoint, u32::MAX)?;
        // A group is in flight until its last lease ends.
        let before = if config.options().fifo.is_some() { live - 1 } else { live - cap };
        number(s, sql!("delivery_nth_end"), (self.endpoint, s.now.0, before))
    }

    /// How many more attempts can be in flight, not considering rate limit, throttle and breaker.
    pub(super) fn capacity(&self, s: &DbSession<'_>, config: &EndpointConfig) -> Res<u32> {
        if !config.is_on() {
            return Ok(0);
        }
        let cap = self.cap(config);
        Ok(cap - in_flight(s, self.endpoint, cap)?)
    }

    /// Counts an attempt that begins now.
    pub(super) fn spend(&mut self, config: &EndpointConfig, now: Timestamp) {
        self.served_at = now.0;
        if let Some(rate) = config.options().rate_per_second {
            self.rate_at = self.rate_at.max(now.0) + micros(interval(rate));
        }
    }

    /// Forbids attempts for a duration.
    pub(super) fn throttle(&mut self, now: Timestamp, span: Duration) {
        self.throttled_until = self.throttled_until.max(now.plus(span).0);
    }

    /// Updates breaker and failure time with the outcome of an attempt. Returns whether the
    /// endpoint has failed for too long.
    pub(super) fn sample(
        &mut self,
        config: &EndpointConfig,
        now: Timestamp,
        sample: BreakerSample,
    ) -> bool {
        let breaker = config.options().breaker;
        match sample {
            BreakerSample::None => false,
            BreakerSample::Success => {
                self.failing_since = None;
                if let Some(breaker) = breaker {
                    self.succeeded(breaker, now);
                }
                false
            }
            BreakerSample::Failure if self.is_open(config, now) => false,
            BreakerSample::Failure => {
                let since = self.failing_since;
                self.failing_since = since.or(Some(now.0));
                if let Some(breaker) = breaker {
                    self.failed(breaker, now);
                }
                let ends = since.zip(config.options().disable_after);
                ends.is_some_and(|(since, after)| Timestamp(since).plus(after) <= now)
            }
        }
    }

    fn succeeded(&mut self, breaker: BreakerOptions, now: Timestamp) {
        match self.open_until {
            None => self.failures = 0,
            Some(until) if until > now.0 => {}
            Some(_) => {
                self.successes = self.successes.saturating_add(1);
                if self.successes >= breaker.probes {
                    self.close();
                }
            }
        }
    }

    fn failed(&mut self, breaker: BreakerOptions, now: Timestamp) {
        self.failures = self.failures.saturating_add(1);
        if self.open_until.is_some() || self.failures >= breaker.failures {
            self.close();
            self.open_until = Some(now.plus(breaker.open_for).0);
        }
    }

    /// Whether the breaker is open.
    pub(super) fn is_open(&self, config: &EndpointConfig, now: Timestamp) -> bool {
        let open_until = config.options().breaker.and(self.open_until);
        open_until.is_some_and(|until| until > now.0)
    }

    /// Closes the breaker.
    fn close(&mut self) {
        (self.failures, self.open_until, self.successes) = (0, None, 0);
    }

    /// Whether the lane need not be written. The time at which it was last served matters only
    /// while a delivery waits.
    fn is_like(&self, before: &Self) -> bool {
        let served_at = if self.due_at.is_some() { before.served_at } else { self.served_at };
        *before == Self { served_at: before.served_at, ..self.clone() }
            && served_at == self.served_at
    }

    /// Forgets earlier failures, after the endpoint was enabled again.
    pub(super) fn forgive(&mut self) {
        self.close();
        self.failing_since = None;
    }
}

/// Whether a new delivery of an endpoint has to wait for others: for waiting ones, including those
/// whose expired lease was not ended yet, and in strict order for all open ones.
pub(super) fn has_others(s: &DbSession<'_>, config: &EndpointConfig) -> Res<bool> {
    let found = match config.options().fifo {
        Some(_) => number(s, sql!("delivery_open_in_order"), [config.no])?,
        None => number(s, sql!("delivery_waits"), (config.no, s.now.0))?,
    };
    Ok(found.is_some())
}

/// When the first waiting delivery is due, and when the first one that waits for its first attempt.
fn first_waiting(s: &DbSession<'_>, config: &EndpointConfig) -> Res<(Option<i64>, Option<i64>)> {
    if config.options().fifo.is_some() {
        let mut statement = s.conn.prepare_cached(sql!("delivery_head"))?;
        let head = statement.query_row([config.no], |row| Ok((row.get(0)?, row.get(1)?)));
        return Ok(head.optional()?.unwrap_or_default());
    }
    let mut statement = s.conn.prepare_cached(sql!("delivery_firsts"))?;
    let firsts: [Option<i64>; 4] = statement
        .query_row([config.no], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
    let fresh = DeliveryClass::ALL.into_iter().filter(|class| class.is_fresh());
    let first_fresh = fresh.filter_map(|class| firsts[class as usize]).min();
    Ok((firsts.into_iter().flatten().min(), first_fresh))
}

/// The time between two attempts at a rate, at most a second.
fn interval(rate: u32) -> Duration {
    SECOND / rate.max(1)
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// The number of live leases of an endpoint, counted up to `most`.
fn in_flight(s: &DbSession<'_>, endpoint: i64, most: u32) -> Res<u32> {
    let mut statement = s.conn.prepare_cached(sql!("delivery_in_flight"))?;
    Ok(statement.query_row((endpoint, s.now.0, most), |row| row.get(0))?)
}

fn decode(endpoint: i64, row: &Row<'_>) -> Res<EndpointLane> {
    Ok(EndpointLane {
        endpoint,
        pulled: row.get(0)?,
        due_at: row.get(1)?,
        fresh_at: row.get(2)?,
        served_at: row.get(3)?,
        rate_at: row.get(4)?,
        throttled_until: row.get(5)?,
        failures: row.get(6)?,
        open_until: row.get(7)?,
        successes: row.get(8)?,
        failing_since: row.get(9)?,
    })
}

/// The lanes that a command changes. Each is read once and written once.
#[derive(Debug, Default)]
pub(super) struct EndpointLanes {
    touched: Vec<i64>,
    lanes: HashMap<i64, ChangedEndpointLane>,
}

#[derive(Debug)]
struct ChangedEndpointLane {
    before: EndpointLane,
    lane: EndpointLane,
}

impl EndpointLanes {
    /// Returns the lane of an endpoint, and the endpoint's cached columns.
    pub(super) fn get(
        &mut self,
        s: &mut DbSession<'_>,
        endpoint: i64,
    ) -> Res<(&mut EndpointLane, Arc<EndpointConfig>)> {
        let config = cache::endpoint(s, endpoint)?;
        if !self.lanes.contains_key(&endpoint) {
            let lane = EndpointLane::read(s, endpoint)?;
            self.touched.push(endpoint);
            self.lanes.insert(endpoint, ChangedEndpointLane { before: lane.clone(), lane });
        }
        let touched = self.lanes.get_mut(&endpoint).expect("it was just taken in");
        Ok((&mut touched.lane, config))
    }

    /// Discards the changes of a lane.
    pub(super) fn forget(&mut self, endpoint: i64) {
        self.touched.retain(|other| *other != endpoint);
        self.lanes.remove(&endpoint);
    }

    /// Writes the lanes that have changed. Returns hints for the waiters of this process, for all
    /// lanes that have a due time; other processes are notified only of times that are earlier than
    /// before.
    pub(super) fn finish(self, s: &mut DbSession<'_>) -> Res<Vec<HookChange>> {
        let (mut changes, mut hints) = (Vec::new(), Vec::new());
        let Self { touched, mut lanes } = self;
        for endpoint in touched {
            let ChangedEndpointLane { before, mut lane } =
                lanes.remove(&endpoint).expect("touched once");
            let config = cache::endpoint(s, endpoint)?;
            lane.pulled = config.options().pull;
            lane.refresh(s, &config)?;
            if !lane.is_like(&before) {
                lane.write(s)?;
            }
            let Some(due_at) = lane.due_at else { continue };
            let change = HookChange { what: config.what(), due_in: s.now.until(Timestamp(due_at)) };
            if before.due_at.is_none_or(|before| due_at < before) || before.pulled != lane.pulled {
                hints.push(change.clone());
            }
            changes.push(change);
        }
        s.hint_hook(&merged(hints));
        Ok(merged(changes))
    }
}

/// Merges changes: one per line, with its earliest time.
pub(super) fn merged(changes: Vec<HookChange>) -> Vec<HookChange> {
    let mut soonest: HashMap<HookChangeKind, Duration> = HashMap::new();
    let mut order = Vec::new();
    for HookChange { what, due_in } in changes {
        match soonest.get_mut(&what) {
            Some(known) => *known = due_in.min(*known),
            None => {
                order.push(what.clone());
                soonest.insert(what, due_in);
            }
        }
    }
    order.into_iter().map(|what| HookChange { due_in: soonest[&what], what }).collect()
}
