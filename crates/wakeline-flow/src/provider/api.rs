//! The workflow API of the wake hub: its lines, its hints, and how turns, activities and outcomes
//! are claimed for waiters.
//!
//! # Invariants
//! * An outcome is claimed by reading it, after the store has recorded that the instance has a
//!   waiter. The versions that a waiter has seen are part of its line, so a line is known to be
//!   empty only for waiters that have seen the same versions.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{
    ActivityFilter, Capabilities, FlowChange, FlowChangeKind, FlowLine, FlowTopic, InstanceId,
    OwnerId, error_chain,
};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    FlowBackend, TurnClaim, TurnItem, TurnRequest, Watched, WorkClaim, WorkItem, WorkRequest,
};
use wakeline_wake::{Api, Claim, ClaimOutcome};

use super::admin::SeenVersions;
use super::trace::FetchTrace;

/// The result of a claim for one line.
type FlowClaimed = ClaimOutcome<FlowClaimResult, Arc<StoreError>>;

/// What a dispatcher or a client waits for. All waiters of a line are served by the same claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FlowWaitLine {
    /// Turns of instances.
    Turns(Capabilities),
    /// Activities.
    Work {
        /// The activities that the waiters accept.
        filter: ActivityFilter,
        /// The owner for which sessions are claimed; `None` accepts no activities of sessions.
        owner: Option<OwnerId>,
    },
    /// The outcome of an instance, or a status text or key-value state newer than the versions
    /// seen.
    Outcome(InstanceId, SeenVersions),
}

/// A change that may concern waiters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowHint {
    /// A change that a store reported.
    Change(FlowChange),
    /// A turn of an instance whose capability is not known here; concerns all waiters for turns.
    AnyTurn,
}

/// What one waiter requests. The trace ends when nothing is left of the fetch.
#[derive(Debug, Clone)]
pub enum FlowRequest {
    /// Lease a turn.
    Turn(TurnRequest, FetchTrace),
    /// Lease an activity.
    Work(WorkRequest, FetchTrace),
    /// Read the outcome of an instance.
    Outcome,
}

/// What a claim returned to one waiter.
#[derive(Debug, Clone)]
pub enum FlowClaimResult {
    /// A leased turn.
    Turn(Box<TurnItem>, FetchTrace),
    /// A leased activity.
    Work(Box<WorkItem>, FetchTrace),
    /// The state of an instance.
    Outcome(Watched),
}

/// The workflow API over a store.
pub struct FlowApi {
    store: Arc<dyn FlowBackend>,
}

impl FlowApi {
    /// Creates the API over a store.
    pub fn new(store: Arc<dyn FlowBackend>) -> Self {
        Self { store }
    }

    async fn claim_turns(
        &self,
        claims: TracedClaims<TurnClaim>,
    ) -> Result<Vec<FlowClaimed>, Arc<StoreError>> {
        let TracedClaims { lines, traces } = claims;
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let further: Vec<_> = lines.iter().map(|line| line.further).collect();
        let traces = further.into_iter().zip(traces);
        let claimed = self.store.claim_turns(lines).await?.into_iter().zip(traces);
        let claimed_turn = |(turn, trace)| Some(FlowClaimResult::Turn(Box::new(turn?), trace));
        let claimed = claimed.map(|(line, (further, traces))| {
            let results = line.turns.into_iter().zip(traces).map(claimed_turn).collect();
            ClaimOutcome { further, ..ClaimOutcome::new(results, line.next_due) }
        });
        Ok(claimed.collect())
    }

    async fn claim_work(
        &self,
        claims: TracedClaims<WorkClaim>,
    ) -> Result<Vec<FlowClaimed>, Arc<StoreError>> {
        let TracedClaims { lines, traces } = claims;
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let further: Vec<_> = lines.iter().map(|line| line.further).collect();
        let traces = further.into_iter().zip(traces);
        let claimed = self.store.claim_work(lines).await?.into_iter().zip(traces);
        let claimed_work = |(work, trace)| Some(FlowClaimResult::Work(Box::new(work?), trace));
        let claimed = claimed.map(|(line, (further, traces))| {
            let results = line.work.into_iter().zip(traces).map(claimed_work).collect();
            ClaimOutcome { further, ..ClaimOutcome::new(results, line.next_due) }
        });
        Ok(claimed.collect())
    }

    async fn read_outcomes(
        &self,
        lines: Vec<OutcomeClaim>,
    ) -> Result<Vec<FlowClaimed>, Arc<StoreError>> {
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let instances = lines.iter().map(|line| line.instance.clone()).collect();
        let watched = self.store.watch(instances).await?;
        let claimed = watched.into_iter().zip(lines).map(|(watched, line)| {
            let news = is_news(&watched, line.seen).then_some(FlowClaimResult::Outcome(watched));
            ClaimOutcome::new(vec![news; line.waiters], None)
        });
        Ok(claimed.collect())
    }

    async fn give_back(&self, claimed: FlowClaimResult) -> Vec<FlowChange> {
        let token = match &claimed {
            FlowClaimResult::Turn(turn, _) => turn.token,
            FlowClaimResult::Work(work, _) => work.token,
            FlowClaimResult::Outcome(_) => return Vec::new(),
        };
        match self.store.abandon(token, Duration::ZERO, true).await {
            Ok((_, changes)) => changes,
            Err(error) => {
                tracing::warn!(
                    error = error_chain(&error), %token,
                    "could not release an unused lease; it will expire"
                );
                Vec::new()
            }
        }
    }
}

/// Whether a waiter that has seen these versions gets this state as its answer.
pub(super) fn is_news(watched: &Watched, seen: SeenVersions) -> bool {
    match watched {
        Watched::Missing => true,
        Watched::Found(detail) => {
            detail.state.is_ended()
                || seen.status_version.is_some_and(|version| detail.status_version > version)
                || seen.kv_version.is_some_and(|version| detail.kv_version > version)
        }
    }
}

#[async_trait]
impl Api for FlowApi {
    type Line = FlowWaitLine;
    type Topic = FlowTopic;
    type Hint = FlowHint;
    type Request = FlowRequest;
    type ClaimResult = FlowClaimResult;
    type Error = Arc<StoreError>;

    fn topic(line: &FlowWaitLine) -> FlowTopic {
        match line {
            FlowWaitLine::Turns(_) => FlowTopic::Turns,
            FlowWaitLine::Work { .. } => FlowTopic::Work,
            FlowWaitLine::Outcome(instance, _) => FlowTopic::Outcome(instance.clone()),
        }
    }

    fn topics(hint: &FlowHint) -> Vec<FlowTopic> {
        match hint {
            FlowHint::Change(change) => vec![change.topic()],
            FlowHint::AnyTurn => vec![FlowTopic::Turns],
        }
    }

    fn concerns(hint: &FlowHint, line: &FlowWaitLine) -> bool {
        let FlowHint::Change(change) = hint else { return matches!(line, FlowWaitLine::Turns(_)) };
        match (&change.what, line) {
            (FlowChangeKind::Turn(capability), FlowWaitLine::Turns(known)) => {
                known.allow(capability)
            }
            (FlowChangeKind::Work(route), FlowWaitLine::Work { filter, .. }) => {
                filter.allows(route)
            }
            (FlowChangeKind::Outcome(changed), FlowWaitLine::Outcome(instance, _)) => {
                changed == instance
            }
            _ => false,
        }
    }

    fn due_in(hint: &FlowHint) -> Duration {
        match hint {
            FlowHint::Change(change) => change.due_in,
            FlowHint::AnyTurn => Duration::ZERO,
        }
    }

    fn capacity(_: &FlowRequest) -> usize {
        1
    }

    fn items(_: &FlowClaimResult) -> usize {
        1
    }

    fn label(line: &FlowWaitLine) -> Option<String> {
        let label = match line {
            FlowWaitLine::Turns(_) => "turns",
            FlowWaitLine::Work { .. } => "work",
            FlowWaitLine::Outcome(..) => "outcome",
        };
        Some(label.to_owned())
    }

    async fn claim(
        &self,
        claims: Vec<Claim<FlowWaitLine, FlowRequest>>,
    ) -> Result<Vec<FlowClaimed>, Arc<StoreError>> {
        let sorted = SortedClaims::of(claims);
        let (turns, work, outcomes) = tokio::join!(
            self.claim_turns(sorted.turns),
            self.claim_work(sorted.work),
            self.read_outcomes(sorted.outcomes)
        );
        match (turns, work, outcomes) {
            (Ok(turns), Ok(work), Ok(outcomes)) => Ok(merge(&sorted.kinds, turns, work, outcomes)),
            (turns, work, outcomes) => {
                // One kind failed. What the others claimed is released, because no waiter gets it.
                let mut error = None;
                for outcome in [turns, work, outcomes] {
                    match outcome {
                        Ok(claimed) => {
                            for claimed in
                                claimed.into_iter().flat_map(|line| line.results).flatten()
                            {
                                self.give_back(claimed).await;
                            }
                        }
                        Err(failed) => error = Some(failed),
                    }
                }
                Err(error.expect("at least one of them failed"))
            }
        }
    }

    async fn sweep(
        &self,
        lines: Vec<FlowWaitLine>,
    ) -> Result<Vec<Option<Duration>>, Arc<StoreError>> {
        let mut due = vec![None; lines.len()];
        let (mut stored_places, mut stored) = (Vec::new(), Vec::new());
        let (mut watched_places, mut watched) = (Vec::new(), Vec::new());
        for (place, line) in lines.into_iter().enumerate() {
            match line {
                FlowWaitLine::Turns(capabilities) => {
                    stored_places.push(place);
                    stored.push(FlowLine::Turns(capabilities));
                }
                FlowWaitLine::Work { filter, owner } => {
                    stored_places.push(place);
                    stored.push(FlowLine::Work { filter, owner });
                }
                FlowWaitLine::Outcome(instance, seen) => {
                    watched_places.push((place, seen));
                    watched.push(instance);
                }
            }
        }
        if !stored.is_empty() {
            let spans = self.store.sweep_flow(stored).await?;
            for (place, span) in stored_places.into_iter().zip(spans) {
                due[place] = span;
            }
        }
        if !watched.is_empty() {
            // Records again that the instances have waiters, and finds what a lost hint reported.
            let states = self.store.watch(watched).await?;
            for ((place, seen), now) in watched_places.into_iter().zip(states) {
                due[place] = is_news(&now, seen).then_some(Duration::ZERO);
            }
        }
        Ok(due)
    }

    async fn release(&self, results: Vec<FlowClaimResult>) -> Vec<FlowHint> {
        let mut hints = Vec::new();
        for claimed in results {
            hints.extend(self.give_back(claimed).await.into_iter().map(FlowHint::Change));
        }
        hints
    }
}

#[derive(Clone, Copy)]
enum FlowClaimKind {
    Turns,
    Work,
    Outcome,
}

/// Claims of lines, and for each claim the traces of the fetches that it is for.
struct TracedClaims<C> {
    lines: Vec<C>,
    traces: Vec<Vec<FetchTrace>>,
}

impl<C> Default for TracedClaims<C> {
    fn default() -> Self {
        Self { lines: Vec::new(), traces: Vec::new() }
    }
}

/// The waiters of one line for the outcome of an instance.
struct OutcomeClaim {
    instance: InstanceId,
    seen: SeenVersions,
    waiters: usize,
}

/// Claims by kind, and the order in which the kinds came.
#[derive(Default)]
struct SortedClaims {
    kinds: Vec<FlowClaimKind>,
    turns: TracedClaims<TurnClaim>,
    work: TracedClaims<WorkClaim>,
    outcomes: Vec<OutcomeClaim>,
}

impl SortedClaims {
    fn of(claims: Vec<Claim<FlowWaitLine, FlowRequest>>) -> Self {
        let mut sorted = Self::default();
        for Claim { line, requests, further } in claims {
            match line {
                FlowWaitLine::Turns(capabilities) => {
                    let (requests, traces) =
                        requests.into_iter().filter_map(FlowRequest::into_turn).unzip();
                    sorted.kinds.push(FlowClaimKind::Turns);
                    sorted.turns.lines.push(TurnClaim { capabilities, requests, further });
                    sorted.turns.traces.push(traces);
                }
                FlowWaitLine::Work { filter, .. } => {
                    let (requests, traces): (Vec<WorkRequest>, _) =
                        requests.into_iter().filter_map(FlowRequest::into_work).unzip();
                    let session = requests.first().and_then(|request| request.session.clone());
                    sorted.kinds.push(FlowClaimKind::Work);
                    sorted.work.lines.push(WorkClaim { filter, session, requests, further });
                    sorted.work.traces.push(traces);
                }
                FlowWaitLine::Outcome(instance, seen) => {
                    sorted.kinds.push(FlowClaimKind::Outcome);
                    sorted.outcomes.push(OutcomeClaim { instance, seen, waiters: requests.len() });
                }
            }
        }
        sorted
    }
}

impl FlowRequest {
    pub(super) fn into_turn(self) -> Option<(TurnRequest, FetchTrace)> {
        match self {
            Self::Turn(request, trace) => Some((request, trace)),
            _ => None,
        }
    }

    pub(super) fn into_work(self) -> Option<(WorkRequest, FetchTrace)> {
        match self {
            Self::Work(request, trace) => Some((request, trace)),
            _ => None,
        }
    }
}

/// Puts the results back into the order of the claims.
fn merge(
    kinds: &[FlowClaimKind],
    turns: Vec<FlowClaimed>,
    work: Vec<FlowClaimed>,
    outcomes: Vec<FlowClaimed>,
) -> Vec<FlowClaimed> {
    let (mut turns, mut work) = (turns.into_iter(), work.into_iter());
    let mut outcomes = outcomes.into_iter();
    let next = |kind: &FlowClaimKind| {
        let claimed = match kind {
            FlowClaimKind::Turns => turns.next(),
            FlowClaimKind::Work => work.next(),
            FlowClaimKind::Outcome => outcomes.next(),
        };
        claimed.unwrap_or(ClaimOutcome::new(Vec::new(), None))
    };
    kinds.iter().map(next).collect()
}
