//! Checks a history of webhooks: the answers to senders, the requests that receivers got, and the
//! log of attempts.
//!
//! # Where it sits
//! The tests that kill servers and databases record a [`History`]. This module finds the guarantees
//! that the history violates. It does not depend on servers.
//!
//! # Invariants
//! * Receivers answer with the id of the request, and the log keeps answers, so that an answered
//!   attempt is matched with its request without comparing times.
//! * All times are microseconds by the clock of one machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// A message that was answered 202.
#[derive(Debug, Clone)]
pub(crate) struct Accepted {
    /// The mark in its payload.
    pub(crate) mark: String,
    pub(crate) message: String,
    /// The endpoints that are subscribed to it.
    pub(crate) endpoints: Vec<String>,
}

/// A request that a receiver has read completely.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// The id that the receiver gave it, and answered with.
    pub(crate) request: String,
    pub(crate) endpoint: String,
    pub(crate) message: String,
    pub(crate) mark: String,
    pub(crate) at: i64,
    /// The status of the answer, if it was a valid one.
    pub(crate) answer: Option<u16>,
    /// The time in the `Retry-After` header of the answer.
    pub(crate) retry_after: Duration,
    pub(crate) verified: bool,
}

/// An attempt in the log.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub(crate) endpoint: String,
    pub(crate) message: String,
    pub(crate) number: u64,
    /// succeeded, failed or unknown.
    pub(crate) outcome: String,
    pub(crate) began_at: i64,
    /// Status and body of the answer, if there was one.
    pub(crate) answer: Option<(u16, String)>,
}

/// A delivery that was read while it waited for its next attempt.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) endpoint: String,
    pub(crate) message: String,
    /// When the answer with this delivery was received.
    pub(crate) seen_at: i64,
    pub(crate) next_at: i64,
}

/// The final state of a delivery.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) endpoint: String,
    pub(crate) message: String,
    pub(crate) state: String,
    pub(crate) attempts: u64,
}

/// The delivery settings of an endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) schedule: Vec<Duration>,
    pub(crate) lease: Duration,
    /// Whether its messages are delivered one after the other.
    pub(crate) ordered: bool,
}

/// All recorded events. The history ends when all deliveries have arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) rules: BTreeMap<String, Rules>,
    pub(crate) accepted: Vec<Accepted>,
    /// The marks in the payloads of refused messages.
    pub(crate) refused: Vec<String>,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) log: Vec<Logged>,
    pub(crate) planned: Vec<Planned>,
    pub(crate) ended: Vec<Ended>,
}

/// The result of checking a history.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) accepted: usize,
    pub(crate) refused: usize,
    pub(crate) arrivals: usize,
    pub(crate) attempts: usize,
    pub(crate) unknown: usize,
    pub(crate) planned: usize,
    /// Number of attempts whose distance to the previous attempt could be measured.
    pub(crate) measured: usize,
    pub(crate) violations: Vec<String>,
}

impl Report {
    pub(crate) fn assert_clean(&self) {
        let some: Vec<_> = self.violations.iter().take(20).collect();
        assert!(some.is_empty(), "{} violations, {some:#?}", self.violations.len());
    }

    fn violation(&mut self, what: impl Into<String>) {
        self.violations.push(what.into());
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, refused, arrivals, attempts, unknown, planned, measured, .. } = self;
        write!(
            f,
            "{accepted} messages, {refused} refused, {arrivals} requests, {attempts} attempts \
             ({unknown} unknown), {measured} waits measured, {planned} plans seen, \
             {} violations",
            self.violations.len()
        )
    }
}

/// The endpoint and the message of a delivery.
type Key = (String, String);

/// The events of one delivery.
#[derive(Default)]
struct Track<'a> {
    arrivals: Vec<&'a Arrival>,
    log: Vec<&'a Logged>,
}

/// Looks for violations.
pub(crate) fn check(history: &History) -> Report {
    let mut report = Report {
        accepted: history.accepted.len(),
        refused: history.refused.len(),
        arrivals: history.arrivals.len(),
        attempts: history.log.len(),
        unknown: history.log.iter().filter(|one| one.outcome == "unknown").count(),
        planned: history.planned.len(),
        ..Report::default()
    };
    let tracks = tracks(history);
    answers_to_senders_were_correct(history, &mut report);
    every_request_is_signed_and_subscribed(history, &mut report);
    all_arrived(history, &tracks, &mut report);
    for (key, track) in &tracks {
        let Some(rules) = history.rules.get(&key.0) else {
            report.violation(format!("an unknown endpoint: {key:?}"));
            continue;
        };
        numbers_have_no_gaps(key, track, &mut report);
        let seen = requests_are_in_the_log(key, track, &mut report);
        let attempts: Vec<_> = track.log.iter().copied().zip(seen).collect();
        no_attempt_is_early(key, &attempts, rules, &mut report);
    }
    plans_are_kept(history, &tracks, &mut report);
    for (endpoint, _) in history.rules.iter().filter(|(_, rules)| rules.ordered) {
        order_is_kept(endpoint, history, &mut report);
    }
    report
}

fn tracks(history: &History) -> BTreeMap<Key, Track<'_>> {
    let mut tracks: BTreeMap<Key, Track<'_>> = BTreeMap::new();
    for arrival in &history.arrivals {
        let key = (arrival.endpoint.clone(), arrival.message.clone());
        tracks.entry(key).or_default().arrivals.push(arrival);
    }
    for logged in &history.log {
        let key = (logged.endpoint.clone(), logged.message.clone());
        tracks.entry(key).or_default().log.push(logged);
    }
    for track in tracks.values_mut() {
        track.arrivals.sort_by_key(|arrival| arrival.at);
        track.log.sort_by_key(|logged| logged.number);
    }
    tracks
}

/// A message has one id, however often it was posted. A refused message is not sent.
fn answers_to_senders_were_correct(history: &History, report: &mut Report) {
    let ids: BTreeMap<_, _> =
        history.accepted.iter().map(|one| (one.mark.as_str(), one.message.as_str())).collect();
    let refused: BTreeSet<_> = history.refused.iter().map(String::as_str).collect();
    for arrival in &history.arrivals {
        let mark = arrival.mark.as_str();
        if refused.contains(mark) {
            report.violation(format!("{mark} was refused, but was sent"));
        } else if ids.get(mark).is_some_and(|id| *id != arrival.message) {
            report.violation(format!("{mark} was sent as a second message {}", arrival.message));
        }
    }
}

fn every_request_is_signed_and_subscribed(history: &History, report: &mut Report) {
    let wanted: BTreeMap<_, _> =
        history.accepted.iter().map(|one| (one.message.as_str(), &one.endpoints)).collect();
    for arrival in &history.arrivals {
        let (endpoint, mark) = (&arrival.endpoint, &arrival.mark);
        if !arrival.verified {
            report.violation(format!("{mark} arrived at {endpoint} without a valid signature"));
        }
        match wanted.get(arrival.message.as_str()) {
            Some(endpoints) if endpoints.contains(endpoint) => {}
            _ => report
                .violation(format!("{mark} arrived at {endpoint}, which is not subscribed to it")),
        }
    }
}

/// Every accepted message has arrived at every subscribed endpoint, and is in the log as delivered.
fn all_arrived(history: &History, tracks: &BTreeMap<Key, Track<'_>>, report: &mut Report) {
    let ended: BTreeMap<_, _> = history
        .ended
        .iter()
        .map(|ended| ((ended.endpoint.clone(), ended.message.clone()), ended))
        .collect();
    for accepted in &history.accepted {
        for endpoint in &accepted.endpoints {
            let key = (endpoint.clone(), accepted.message.clone());
            let Some(end) = ended.get(&key) else {
                report.violation(format!("{} has no delivery to {endpoint}", accepted.mark));
                continue;
            };
            let track = tracks.get(&key);
            let arrived = |arrival: &&Arrival| arrival.answer.is_some_and(|s| s / 100 == 2);
            if !track.is_some_and(|track| track.arrivals.iter().any(arrived)) {
                report.violation(format!("{} never arrived at {endpoint}", accepted.mark));
            }
            let logged = track.map_or(0, |track| track.log.len()) as u64;
            if end.state != "delivered" || end.attempts != logged {
                report.violation(format!("{end:?} with {logged} attempts in the log"));
            }
        }
    }
}

/// Attempts are numbered from 1 without gaps, and a successful attempt is the last.
fn numbers_have_no_gaps(key: &Key, track: &Track<'_>, report: &mut Report) {
    let numbers: Vec<_> = track.log.iter().map(|logged| logged.number).collect();
    if !numbers.iter().copied().eq(1..=numbers.len() as u64) {
        report.violation(format!("the attempts of {key:?} are numbered {numbers:?}"));
    }
    let before = track.log.iter().rev().skip(1);
    for logged in before.filter(|logged| logged.outcome == "succeeded") {
        report.violation(format!("another attempt followed a success: {logged:?}"));
    }
}

/// Finds each request in the log. Returns the request of each attempt, if it is known.
fn requests_are_in_the_log<'a>(
    key: &Key,
    track: &Track<'a>,
    report: &mut Report,
) -> Vec<Option<&'a Arrival>> {
    let mut seen: Vec<Option<&'a Arrival>> = vec![None; track.log.len()];
    // The first request and the first attempt after the last known pair.
    let (mut first_request, mut first_attempt) = (0, 0);
    for (place, logged) in track.log.iter().enumerate() {
        let Some((status, request)) = &logged.answer else {
            if logged.outcome == "succeeded" {
                report.violation(format!("a success without an answer: {logged:?}"));
            }
            continue;
        };
        let rest = &track.arrivals[first_request..];
        let found = rest.iter().position(|arrival| arrival.request == *request);
        let Some(found) = found.map(|found| first_request + found) else {
            report.violation(format!("no such request, or out of order: {logged:?}"));
            continue;
        };
        let arrival = track.arrivals[found];
        let success = logged.outcome == "succeeded";
        if arrival.answer != Some(*status) || success != (status / 100 == 2) {
            report.violation(format!("{arrival:?} is in the log as {logged:?}"));
        }
        match_unanswered(
            key,
            &track.arrivals[first_request..found],
            &mut seen[first_attempt..place],
            report,
        );
        seen[place] = Some(arrival);
        (first_request, first_attempt) = (found + 1, place + 1);
    }
    match_unanswered(key, &track.arrivals[first_request..], &mut seen[first_attempt..], report);
    seen
}

/// Requests whose answers are not in the log must each have an attempt without an answer there.
fn match_unanswered<'a>(
    key: &Key,
    requests: &[&'a Arrival],
    attempts: &mut [Option<&'a Arrival>],
    report: &mut Report,
) {
    if requests.len() > attempts.len() {
        let (saw, logged) = (requests.len(), attempts.len());
        report.violation(format!("{saw} requests of {key:?} where the log has {logged} attempts"));
    }
    // With equal numbers they belong together. Otherwise some attempts did not reach the receiver,
    // and it is unknown which.
    if requests.len() == attempts.len() {
        attempts.iter_mut().zip(requests).for_each(|(seen, request)| *seen = Some(request));
    }
}

/// An attempt is not made before its wait is over, which jitter shortens by at most a fifth, nor
/// before the time in `Retry-After`, nor before the lease of an attempt without a result ends.
fn no_attempt_is_early(
    key: &Key,
    attempts: &[(&Logged, Option<&Arrival>)],
    rules: &Rules,
    report: &mut Report,
) {
    for (place, pair) in attempts.windows(2).enumerate() {
        let ((before, seen), (after, Some(arrival))) = (pair[0], pair[1]) else { continue };
        report.measured += 1;
        let wait = if before.outcome == "unknown" {
            rules.lease
        } else {
            rules.schedule.get(place).copied().unwrap_or_default().mul_f64(0.8)
        };
        let mut earliest = before.began_at + micros(wait);
        // An answered request was received before the wait began.
        if let (Some(last), Some(_)) = (seen, &before.answer) {
            earliest = earliest.max(last.at + micros(wait.max(last.retry_after)));
        }
        if arrival.at < earliest {
            let early = earliest - arrival.at;
            let number = after.number;
            report.violation(format!("attempt {number} of {key:?} was {early} us early"));
        }
    }
}

/// No attempt is made before the time that was shown for it.
fn plans_are_kept(history: &History, tracks: &BTreeMap<Key, Track<'_>>, report: &mut Report) {
    for plan in &history.planned {
        let key = (plan.endpoint.clone(), plan.message.clone());
        let Some(track) = tracks.get(&key) else { continue };
        let early = |arrival: &&&Arrival| (plan.seen_at..plan.next_at).contains(&arrival.at);
        if let Some(arrival) = track.arrivals.iter().find(early) {
            report.violation(format!("{arrival:?} arrived before {plan:?}"));
        }
    }
}

/// Messages arrive one after the other, and the messages of one sender in the order in which they
/// were sent.
fn order_is_kept(endpoint: &str, history: &History, report: &mut Report) {
    let mut arrivals: Vec<_> =
        history.arrivals.iter().filter(|arrival| arrival.endpoint == endpoint).collect();
    arrivals.sort_by_key(|arrival| arrival.at);
    let mut marks: Vec<&str> = arrivals.iter().map(|arrival| arrival.mark.as_str()).collect();
    marks.dedup();
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for mark in marks {
        let (sender, number) = mark.rsplit_once('-').unwrap_or((mark, "0"));
        let number = number.parse().unwrap_or_default();
        if last.insert(sender, number).is_some_and(|last| last >= number) {
            report.violation(format!("{mark} arrived at {endpoint} out of order"));
        }
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).expect("a short span")
}

#[cfg(test)]
mod tests;
