//! Lanes: when an endpoint can be served, and what holds it back.
//!
//! # Invariants
//! * `due_at` is exact whenever it is written: the time at which its first waiting delivery can go,
//!   if nothing but time passes; rate, throttle, breaker and the leases that must end before are in
//!   it. Claims walk the index over it and nothing else. `fresh_at` is the same for first attempts.
//! * What holds an endpoint back counts no attempt and changes no delivery.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{OptionalExtension as _, Row};
use wakeline_core::{BreakerOptions, HookChange, HookWhat, Timestamp};
use wakeline_store::hook::BreakerSample;

use super::delivery::Class;
use super::known::{self, Config, number};
use super::sql;
use crate::error::{Res, corrupt};
use crate::session::Session;

const SECOND: Duration = Duration::from_secs(1);

/// A lane as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lane {
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

impl Lane {
    pub(super) fn read(s: &Session<'_>, endpoint: i64) -> Res<Self> {
        let mut statement = s.conn.prepare_cached(sql!("lane_read"))?;
        let mut rows = statement.query([endpoint])?;
        let row = rows.next()?;
        let row = row.ok_or_else(|| corrupt("endpoint", endpoint)("it has no lane"))?;
        decode(endpoint, row)
    }

    fn write(&self, s: &Session<'_>) -> Res<()> {
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

    /// Works out when it can be served.
    pub(super) fn refresh(&mut self, s: &Session<'_>, config: &Config) -> Res<()> {
        (self.due_at, self.fresh_at) = (None, None);
        if !config.is_on() {
            return Ok(());
        }
        let (first, fresh) = first_waiting(s, config)?;
        let Some(first) = first else { return Ok(()) };
        let room_at = self.room_at(s, config)?.unwrap_or(0);
        let from = room_at.max(self.gate(config)).max(self.served_at);
        self.due_at = Some(first.max(from));
        self.fresh_at = fresh.map(|fresh| fresh.max(from));
        Ok(())
    }

    /// The time from which rate, throttle and breaker let an attempt through; it may have passed.
    pub(super) fn gate(&self, config: &Config) -> i64 {
        let open = config.options().breaker.and(self.open_until).unwrap_or(0);
        let rate = match config.options().rate_per_second {
            // With one more attempt it may be a second ahead.
            Some(rate) => self.rate_at - micros(SECOND - interval(rate)),
            None => 0,
        };
        self.throttled_until.max(open).max(rate)
    }

    /// Whether rate, throttle or breaker hold it back now.
    pub(super) fn is_held_back(&self, config: &Config, now: Timestamp) -> bool {
        self.gate(config) > now.0
    }

    /// Most attempts under way at once. A group of an endpoint in strict order is one.
    fn cap(&self, config: &Config) -> u32 {
        let options = config.options();
        let cap = match options.breaker {
            _ if options.fifo.is_some() => 1,
            Some(breaker) if self.open_until.is_some() => options.in_flight_max.min(breaker.probes),
            _ => options.in_flight_max,
        };
        cap.max(1)
    }

    /// When a lease ends that makes room for one more attempt; `None` if there is room.
    fn room_at(&self, s: &Session<'_>, config: &Config) -> Res<Option<i64>> {
        let cap = self.cap(config);
        if in_flight(s, self.endpoint, cap)? < cap {
            return Ok(None);
        }
        let live = in_flight(s, self.endpoint, u32::MAX)?;
        // A group ends with its last lease.
        let before = if config.options().fifo.is_some() { live - 1 } else { live - cap };
        number(s, sql!("delivery_nth_end"), (self.endpoint, s.now.0, before))
    }

    /// How many more attempts can be under way, if nothing else holds them back.
    pub(super) fn room(&self, s: &Session<'_>, config: &Config) -> Res<u32> {
        if !config.is_on() {
            return Ok(0);
        }
        let cap = self.cap(config);
        Ok(cap - in_flight(s, self.endpoint, cap)?)
    }

    /// An attempt begins.
    pub(super) fn spend(&mut self, config: &Config, now: Timestamp) {
        self.served_at = now.0;
        if let Some(rate) = config.options().rate_per_second {
            self.rate_at = self.rate_at.max(now.0) + micros(interval(rate));
        }
    }

    /// It gets nothing for so long.
    pub(super) fn throttle(&mut self, now: Timestamp, span: Duration) {
        self.throttled_until = self.throttled_until.max(now.plus(span).0);
    }

    /// Takes in what an attempt says about the endpoint. True if it has failed for too long.
    pub(super) fn sample(
        &mut self,
        config: &Config,
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

    /// Whether its breaker is open.
    pub(super) fn is_open(&self, config: &Config, now: Timestamp) -> bool {
        let open_until = config.options().breaker.and(self.open_until);
        open_until.is_some_and(|until| until > now.0)
    }

    /// Closes the breaker.
    fn close(&mut self) {
        (self.failures, self.open_until, self.successes) = (0, None, 0);
    }

    /// Whether there is nothing to write. When it was served matters only while something waits.
    fn is_like(&self, before: &Self) -> bool {
        let served_at = if self.due_at.is_some() { before.served_at } else { self.served_at };
        *before == Self { served_at: before.served_at, ..self.clone() }
            && served_at == self.served_at
    }

    /// Forgets that it failed: it was switched on again.
    pub(super) fn forgive(&mut self) {
        self.close();
        self.failing_since = None;
    }
}

/// Whether a new delivery of an endpoint has to wait for others: those that wait, if only for a
/// look at their expired lease; in strict order, all that have not ended.
pub(super) fn has_others(s: &Session<'_>, config: &Config) -> Res<bool> {
    let found = match config.options().fifo {
        Some(_) => number(s, sql!("delivery_open_in_order"), [config.no])?,
        None => number(s, sql!("delivery_waits"), (config.no, s.now.0))?,
    };
    Ok(found.is_some())
}

/// When the first delivery that waits is due, and when the first one that is fresh.
fn first_waiting(s: &Session<'_>, config: &Config) -> Res<(Option<i64>, Option<i64>)> {
    if config.options().fifo.is_some() {
        let mut statement = s.conn.prepare_cached(sql!("delivery_head"))?;
        let head = statement.query_row([config.no], |row| Ok((row.get(0)?, row.get(1)?)));
        return Ok(head.optional()?.unwrap_or_default());
    }
    let mut statement = s.conn.prepare_cached(sql!("delivery_firsts"))?;
    let firsts: [Option<i64>; 4] = statement
        .query_row([config.no], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
    let fresh = Class::ALL.into_iter().filter(|class| class.is_fresh());
    let first_fresh = fresh.filter_map(|class| firsts[class as usize]).min();
    Ok((firsts.into_iter().flatten().min(), first_fresh))
}

/// What an attempt costs at a rate; at most a second.
fn interval(rate: u32) -> Duration {
    SECOND / rate.max(1)
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Live leases of an endpoint, counted no further than `most`.
fn in_flight(s: &Session<'_>, endpoint: i64, most: u32) -> Res<u32> {
    let mut statement = s.conn.prepare_cached(sql!("delivery_in_flight"))?;
    Ok(statement.query_row((endpoint, s.now.0, most), |row| row.get(0))?)
}

fn decode(endpoint: i64, row: &Row<'_>) -> Res<Lane> {
    Ok(Lane {
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

/// The lanes that a command touches: read once, written once.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    touched: Vec<i64>,
    lanes: HashMap<i64, Touched>,
}

#[derive(Debug)]
struct Touched {
    before: Lane,
    lane: Lane,
}

impl Lanes {
    /// The lane of an endpoint, and what is known of it.
    pub(super) fn get(
        &mut self,
        s: &mut Session<'_>,
        endpoint: i64,
    ) -> Res<(&mut Lane, Arc<Config>)> {
        let config = known::endpoint(s, endpoint)?;
        if !self.lanes.contains_key(&endpoint) {
            let lane = Lane::read(s, endpoint)?;
            self.touched.push(endpoint);
            self.lanes.insert(endpoint, Touched { before: lane.clone(), lane });
        }
        let touched = self.lanes.get_mut(&endpoint).expect("it was just taken in");
        Ok((&mut touched.lane, config))
    }

    /// Leaves a lane as it is in the database.
    pub(super) fn forget(&mut self, endpoint: i64) {
        self.touched.retain(|other| *other != endpoint);
        self.lanes.remove(&endpoint);
    }

    /// Writes those back that have changed. Returns when they can be served, for those who wait in
    /// this process; others are told what comes sooner than they know.
    pub(super) fn finish(self, s: &mut Session<'_>) -> Res<Vec<HookChange>> {
        let (mut told, mut hints) = (Vec::new(), Vec::new());
        let Self { touched, mut lanes } = self;
        for endpoint in touched {
            let Touched { before, mut lane } = lanes.remove(&endpoint).expect("touched once");
            let config = known::endpoint(s, endpoint)?;
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
            told.push(change);
        }
        s.hint_hook(&merged(hints));
        Ok(merged(told))
    }
}

/// The soonest change of each kind.
pub(super) fn merged(changes: Vec<HookChange>) -> Vec<HookChange> {
    let mut soonest: HashMap<HookWhat, Duration> = HashMap::new();
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
