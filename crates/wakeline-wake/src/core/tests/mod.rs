//! The laws of the core, tested with a toy API and with time as a number.

mod any_wake;
mod background;
mod broadcast;
mod compete;
mod degraded;
mod fused;
mod leaving;
mod poll;
mod property;
mod refused;
mod reserved;
mod schedules;
mod sweeps;
mod timers;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use async_trait::async_trait;

use super::*;
use crate::api::ClaimOutcome;
use crate::poll::Patience;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
const LONG: Patience = Patience::Wait(Duration::from_secs(30));

/// The group of the toy's own background tasks.
const OWN: u8 = 200;

/// A request that must not be claimed for again after an error that says "lost".
const UNREPEATABLE: usize = 77;

/// Lines are (topic, group); hints name a topic, and a group if only that one is concerned.
#[derive(Debug)]
struct Toy;

type ToyLine = (u32, u8);

#[derive(Debug, Clone, Copy)]
struct ToyHint {
    /// `None` spans all topics.
    topic: Option<u32>,
    group: Option<u8>,
    due_in: Duration,
}

#[async_trait]
impl Api for Toy {
    type Line = ToyLine;
    type Topic = u32;
    type Hint = ToyHint;
    type Request = usize;
    type ClaimResult = usize;
    type Error = String;

    fn topic(line: &ToyLine) -> u32 {
        line.0
    }
    fn topics(hint: &ToyHint) -> Vec<u32> {
        hint.topic.into_iter().collect()
    }
    fn concerns(hint: &ToyHint, line: &ToyLine) -> bool {
        hint.topic.is_none_or(|topic| topic == line.0)
            && hint.group.is_none_or(|group| group == line.1)
    }
    fn is_own(line: &ToyLine) -> bool {
        line.1 == OWN
    }
    fn spans_topics(hint: &ToyHint) -> bool {
        hint.topic.is_none()
    }
    fn due_in(hint: &ToyHint) -> Duration {
        hint.due_in
    }
    fn capacity(request: &usize) -> usize {
        *request
    }
    fn may_have_taken(request: &usize, error: &String) -> bool {
        *request == UNREPEATABLE && error == "lost"
    }
    fn items(result: &usize) -> usize {
        *result
    }
    async fn claim(
        &self,
        _: Vec<Claim<ToyLine, usize>>,
    ) -> Result<Vec<ClaimOutcome<usize, String>>, String> {
        unreachable!("the core makes no calls")
    }
    async fn sweep(&self, _: Vec<ToyLine>) -> Result<Vec<Option<Duration>>, String> {
        unreachable!("the core makes no calls")
    }
    async fn release(&self, _: Vec<usize>) -> Vec<ToyHint> {
        unreachable!("the core makes no calls")
    }
}

fn hint(topic: u32) -> ToyHint {
    ToyHint { topic: Some(topic), group: None, due_in: Duration::ZERO }
}

/// How a waiter ended, in a form that can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ended {
    Claimed(usize),
    Empty,
    Drained,
    Failed(String),
}

/// A claim in flight, as the test sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ClaimInFlight {
    call: CallId,
    /// The lines and their numbers of requests.
    lines: Vec<(ToyLine, usize)>,
}

fn down() -> Link {
    Link::Down { reason: "cut".into() }
}

/// The core with a store that the test operates by hand.
struct Rig {
    core: WakeCore<Toy>,
    claims: VecDeque<ClaimInFlight>,
    sweeps: VecDeque<Vec<ToyLine>>,
    ended: HashMap<WaiterId, Ended>,
    released: Vec<usize>,
    pickups: Vec<Duration>,
    /// The number of items that each claim found.
    items: Vec<usize>,
    /// Whether answers report what is next although every request was served.
    further: bool,
    log: Vec<&'static str>,
}

impl Rig {
    fn new(mode: WakeMode) -> Self {
        Self::with(mode, LongPollConfig::default())
    }

    fn with(mode: WakeMode, config: LongPollConfig) -> Self {
        Self {
            core: WakeCore::new(mode, config),
            claims: VecDeque::new(),
            sweeps: VecDeque::new(),
            ended: HashMap::new(),
            released: Vec::new(),
            pickups: Vec::new(),
            items: Vec::new(),
            further: false,
            log: Vec::new(),
        }
    }

    /// Carries the actions of the core out on the rig.
    fn pump(&mut self) {
        for action in self.core.take_actions() {
            match action {
                Action::Claim { call, claims } => {
                    let lines = claims.iter().map(|c| (c.line, c.requests.len())).collect();
                    self.claims.push_back(ClaimInFlight { call, lines });
                }
                Action::Sweep { lines } => self.sweeps.push_back(lines),
                Action::Finish { waiter, end, .. } => {
                    let end = match end {
                        WaiterEnd::Claimed(items) => Ended::Claimed(items),
                        WaiterEnd::Empty => Ended::Empty,
                        WaiterEnd::Drained => Ended::Drained,
                        WaiterEnd::Failed(error) => Ended::Failed(error),
                    };
                    let before = self.ended.insert(waiter, end);
                    assert_eq!(before, None, "a waiter ends once");
                }
                Action::Release { result, .. } => self.released.push(result),
                Action::Observe(Sample::Pickup(span)) => self.pickups.push(span),
                Action::Observe(Sample::Items(items)) => self.items.push(items),
                Action::Observe(Sample::Served(_)) => {}
                Action::Degraded { .. } => self.log.push("degraded"),
                Action::Recovered { .. } => self.log.push("recovered"),
            }
        }
    }

    fn at(&mut self, now: Duration) {
        self.core.advance(now);
        self.pump();
    }

    /// Lets time pass as the hub would: in the steps that the core requests, answering every claim
    /// as empty and every sweep with "nothing".
    fn idle_until(&mut self, end: Duration) {
        while let Some(next) = self.core.next_wakeup().filter(|next| *next <= end) {
            self.at(next);
            self.settle();
        }
        self.at(end);
        self.settle();
    }

    fn settle(&mut self) {
        while !self.claims.is_empty() {
            self.empty(None);
        }
        while let Some(lines) = self.sweeps.pop_front() {
            self.core.swept(vec![None; lines.len()]);
            self.pump();
        }
    }

    fn arrive(&mut self, line: ToyLine, patience: Patience) -> WaiterId {
        let ParkOutcome::Parked(id, _) = self.core.park(line, 1, patience) else {
            panic!("the poll was accepted");
        };
        self.pump();
        id
    }

    fn hint(&mut self, hint: ToyHint) {
        self.core.hint(&[hint], HintSource::InProcess);
        self.pump();
    }

    /// Answers the oldest claim: the first `found` requests get one item each.
    fn found(&mut self, found: usize) {
        self.answer(found, None);
    }

    fn empty(&mut self, next_due: Option<Duration>) {
        self.answer(0, next_due);
    }

    fn answer(&mut self, mut found: usize, next_due: Option<Duration>) {
        let seen = self.claims.pop_front().expect("a claim is under way");
        let outcomes = seen.lines.iter().map(|(_, requests)| {
            let here = found.min(*requests);
            found -= here;
            let results = (0..*requests).map(|n| (n < here).then_some(1)).collect();
            let next_due = next_due.filter(|_| self.further || here < *requests);
            ClaimOutcome { further: self.further, ..ClaimOutcome::new(results, next_due) }
        });
        let outcomes = outcomes.collect();
        self.core.claimed(seen.call, outcomes);
        self.pump();
    }

    /// Answers the oldest claim: the requests with these indexes are refused, and no waiter gets
    /// anything.
    fn refuse(&mut self, indexes: &[usize]) {
        let seen = self.claims.pop_front().expect("a claim is under way");
        let mut first = 0;
        let outcomes = seen.lines.iter().map(|(_, requests)| {
            let here = first..first + requests;
            first = here.end;
            let refused = indexes.iter().filter(|index| here.contains(index));
            let refused = refused.map(|index| (index - here.start, "wrong".to_owned())).collect();
            ClaimOutcome { refused, ..ClaimOutcome::new(vec![None; *requests], None) }
        });
        let outcomes = outcomes.collect();
        self.core.claimed(seen.call, outcomes);
        self.pump();
    }

    fn fail(&mut self) {
        let seen = self.claims.pop_front().expect("a claim is under way");
        self.core.claim_failed(seen.call, Some("no database".into()));
        self.pump();
    }

    fn cancel(&mut self, id: WaiterId) {
        self.core.cancel(id);
        self.pump();
    }

    /// Returns the lines and numbers of requests of the claims in flight.
    fn in_flight(&self) -> Vec<Vec<(ToyLine, usize)>> {
        self.claims.iter().map(|seen| seen.lines.clone()).collect()
    }

    fn claims_total(&self) -> u64 {
        self.core.counters.claims.total()
    }

    /// Creates one waiter on (1, 0), parked after an empty claim.
    fn with_parked(mode: WakeMode) -> (Self, WaiterId) {
        let mut rig = Self::new(mode);
        let id = rig.arrive((1, 0), LONG);
        rig.empty(None);
        assert_eq!(rig.core.waiters(), 1);
        (rig, id)
    }

    /// Creates waiters on (1, 0), parked without a claim.
    fn park_many(&mut self, count: usize) -> Vec<WaiterId> {
        let ids: Vec<_> = (0..count).map(|_| self.arrive((1, 0), LONG)).collect();
        self.settle();
        assert!(self.ended.is_empty());
        ids
    }
}
