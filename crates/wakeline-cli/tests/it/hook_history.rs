//! Judges what webhooks did by what others saw: what senders were answered, what receivers got,
//! what the log of attempts says.
//!
//! # Where it sits
//! The tests that kill servers and databases gather a [`History`]; this says which promises it
//! breaks. It knows nothing of servers.
//!
//! # Invariants
//! * Receivers name each request in their answer, and the log keeps answers: an attempt that was
//!   answered is the request that it names, without guessing by times.
//! * All times are microseconds of one machine's clock.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// A message that was answered 202.
#[derive(Debug, Clone)]
pub(crate) struct Accepted {
    /// What its payload says.
    pub(crate) mark: String,
    pub(crate) message: String,
    /// The endpoints that want it.
    pub(crate) endpoints: Vec<String>,
}

/// A request that a receiver read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// The receiver's name for it, told in its answer.
    pub(crate) request: String,
    pub(crate) endpoint: String,
    pub(crate) message: String,
    pub(crate) mark: String,
    pub(crate) at: i64,
    /// What was answered, if it was answered properly.
    pub(crate) answer: Option<u16>,
    /// How long the answer asked to be left alone.
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
    /// Status and body of the answer, if one came.
    pub(crate) answer: Option<(u16, String)>,
}

/// A delivery that was seen waiting for its next attempt.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) endpoint: String,
    pub(crate) message: String,
    /// When the answer that said so was there.
    pub(crate) seen_at: i64,
    pub(crate) next_at: i64,
}

/// How a delivery stood at the end.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) endpoint: String,
    pub(crate) message: String,
    pub(crate) state: String,
    pub(crate) attempts: u64,
}

/// How an endpoint is delivered to.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) schedule: Vec<Duration>,
    pub(crate) lease: Duration,
    /// Whether its messages come one after the other.
    pub(crate) ordered: bool,
}

/// All that was seen. Every delivery had the time to arrive.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) rules: BTreeMap<String, Rules>,
    pub(crate) accepted: Vec<Accepted>,
    /// What the payloads said that were refused.
    pub(crate) refused: Vec<String>,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) log: Vec<Logged>,
    pub(crate) planned: Vec<Planned>,
    pub(crate) ended: Vec<Ended>,
}

/// What a history comes to.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) accepted: usize,
    pub(crate) refused: usize,
    pub(crate) arrivals: usize,
    pub(crate) attempts: usize,
    pub(crate) unknown: usize,
    pub(crate) planned: usize,
    /// Attempts that followed another, whose distance could be measured.
    pub(crate) measured: usize,
    pub(crate) complaints: Vec<String>,
}

impl Report {
    pub(crate) fn assert_clean(&self) {
        let some: Vec<_> = self.complaints.iter().take(20).collect();
        assert!(some.is_empty(), "{} broken promises, {some:#?}", self.complaints.len());
    }

    fn complain(&mut self, what: impl Into<String>) {
        self.complaints.push(what.into());
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, refused, arrivals, attempts, unknown, planned, measured, .. } = self;
        write!(
            f,
            "{accepted} messages, {refused} refused, {arrivals} requests, {attempts} attempts \
             ({unknown} unknown), {measured} waits measured, {planned} plans seen, \
             {} broken promises",
            self.complaints.len()
        )
    }
}

type Key = (String, String);

/// One delivery, as all sides saw it.
#[derive(Default)]
struct Track<'a> {
    arrivals: Vec<&'a Arrival>,
    log: Vec<&'a Logged>,
}

/// Looks for broken promises.
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
    senders_were_told_the_truth(history, &mut report);
    every_request_is_signed_and_asked_for(history, &mut report);
    all_arrived(history, &tracks, &mut report);
    for (key, track) in &tracks {
        let Some(rules) = history.rules.get(&key.0) else {
            report.complain(format!("an endpoint that nobody made: {key:?}"));
            continue;
        };
        numbers_have_no_gaps(key, track, &mut report);
        let seen = requests_are_in_the_log(key, track, &mut report);
        let attempts: Vec<_> = track.log.iter().copied().zip(seen).collect();
        none_runs_early(key, &attempts, rules, &mut report);
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

/// A message has one id however often it was posted, and what was refused is not sent.
fn senders_were_told_the_truth(history: &History, report: &mut Report) {
    let ids: BTreeMap<_, _> =
        history.accepted.iter().map(|one| (one.mark.as_str(), one.message.as_str())).collect();
    let refused: BTreeSet<_> = history.refused.iter().map(String::as_str).collect();
    for arrival in &history.arrivals {
        let mark = arrival.mark.as_str();
        if refused.contains(mark) {
            report.complain(format!("{mark} was refused, and yet it was sent"));
        } else if ids.get(mark).is_some_and(|id| *id != arrival.message) {
            report.complain(format!("{mark} was sent as a second message {}", arrival.message));
        }
    }
}

fn every_request_is_signed_and_asked_for(history: &History, report: &mut Report) {
    let wanted: BTreeMap<_, _> =
        history.accepted.iter().map(|one| (one.message.as_str(), &one.endpoints)).collect();
    for arrival in &history.arrivals {
        let (endpoint, mark) = (&arrival.endpoint, &arrival.mark);
        if !arrival.verified {
            report.complain(format!("{mark} came to {endpoint} without a good signature"));
        }
        match wanted.get(arrival.message.as_str()) {
            Some(endpoints) if endpoints.contains(endpoint) => {}
            _ => report.complain(format!("{mark} came to {endpoint}, which did not ask for it")),
        }
    }
}

/// Every message that was accepted is with every endpoint that wants it, and the log says so.
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
                report.complain(format!("{} has no delivery to {endpoint}", accepted.mark));
                continue;
            };
            let track = tracks.get(&key);
            let arrived = |arrival: &&Arrival| arrival.answer.is_some_and(|s| s / 100 == 2);
            if !track.is_some_and(|track| track.arrivals.iter().any(arrived)) {
                report.complain(format!("{} never arrived at {endpoint}", accepted.mark));
            }
            let logged = track.map_or(0, |track| track.log.len()) as u64;
            if end.state != "delivered" || end.attempts != logged {
                report.complain(format!("{end:?} with {logged} attempts in the log"));
            }
        }
    }
}

/// Attempts are numbered from one on, and the one that succeeded is the last.
fn numbers_have_no_gaps(key: &Key, track: &Track<'_>, report: &mut Report) {
    let numbers: Vec<_> = track.log.iter().map(|logged| logged.number).collect();
    if !numbers.iter().copied().eq(1..=numbers.len() as u64) {
        report.complain(format!("the attempts of {key:?} are numbered {numbers:?}"));
    }
    let before = track.log.iter().rev().skip(1);
    for logged in before.filter(|logged| logged.outcome == "succeeded") {
        report.complain(format!("another attempt followed a success: {logged:?}"));
    }
}

/// Finds each request in the log; gives back the request of each attempt where it is known.
fn requests_are_in_the_log<'a>(
    key: &Key,
    track: &Track<'a>,
    report: &mut Report,
) -> Vec<Option<&'a Arrival>> {
    let mut seen: Vec<Option<&'a Arrival>> = vec![None; track.log.len()];
    // Requests and attempts behind the last pair that is known.
    let (mut first_request, mut first_attempt) = (0, 0);
    for (place, logged) in track.log.iter().enumerate() {
        let Some((status, request)) = &logged.answer else {
            if logged.outcome == "succeeded" {
                report.complain(format!("a success without an answer: {logged:?}"));
            }
            continue;
        };
        let rest = &track.arrivals[first_request..];
        let found = rest.iter().position(|arrival| arrival.request == *request);
        let Some(found) = found.map(|found| first_request + found) else {
            report.complain(format!("no such request, or out of order: {logged:?}"));
            continue;
        };
        let arrival = track.arrivals[found];
        let success = logged.outcome == "succeeded";
        if arrival.answer != Some(*status) || success != (status / 100 == 2) {
            report.complain(format!("{arrival:?} is in the log as {logged:?}"));
        }
        between(
            key,
            &track.arrivals[first_request..found],
            &mut seen[first_attempt..place],
            report,
        );
        seen[place] = Some(arrival);
        (first_request, first_attempt) = (found + 1, place + 1);
    }
    between(key, &track.arrivals[first_request..], &mut seen[first_attempt..], report);
    seen
}

/// Requests whose answers are not in the log must each have an attempt without an answer there.
fn between<'a>(
    key: &Key,
    requests: &[&'a Arrival],
    attempts: &mut [Option<&'a Arrival>],
    report: &mut Report,
) {
    if requests.len() > attempts.len() {
        let (saw, logged) = (requests.len(), attempts.len());
        report.complain(format!("{saw} requests of {key:?} where the log has {logged} attempts"));
    }
    // As many of each: they belong together. Else some were never seen, and it is open which.
    if requests.len() == attempts.len() {
        attempts.iter_mut().zip(requests).for_each(|(seen, request)| *seen = Some(request));
    }
}

/// An attempt comes after its wait, spread by at most a fifth; after what the endpoint asked for;
/// and after the lease of one that nobody ended.
fn none_runs_early(
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
        // What was answered was received before the wait began.
        if let (Some(last), Some(_)) = (seen, &before.answer) {
            earliest = earliest.max(last.at + micros(wait.max(last.retry_after)));
        }
        if arrival.at < earliest {
            let early = earliest - arrival.at;
            let number = after.number;
            report.complain(format!("attempt {number} of {key:?} came {early} us early"));
        }
    }
}

/// Nothing comes before the time that was shown for it.
fn plans_are_kept(history: &History, tracks: &BTreeMap<Key, Track<'_>>, report: &mut Report) {
    for plan in &history.planned {
        let key = (plan.endpoint.clone(), plan.message.clone());
        let Some(track) = tracks.get(&key) else { continue };
        let early = |arrival: &&&Arrival| (plan.seen_at..plan.next_at).contains(&arrival.at);
        if let Some(arrival) = track.arrivals.iter().find(early) {
            report.complain(format!("{arrival:?} came before {plan:?}"));
        }
    }
}

/// One message after the other, and those of one sender in the order in which it sent them.
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
            report.complain(format!("{mark} came to {endpoint} out of order"));
        }
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).expect("a short span")
}

#[cfg(test)]
mod tests;
