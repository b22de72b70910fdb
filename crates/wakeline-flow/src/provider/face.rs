//! What orchestrations tell the wake hub about themselves: lines, hints, how to claim.
//!
//! # Invariants
//! * Waiters of an outcome claim by reading it, after noting in the store that somebody waits.
//!   What they have seen is part of their line: a line is empty only for those who saw as much.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{
    ActivityFilter, Capabilities, FlowChange, FlowLine, FlowTopic, FlowWhat, InstanceId, OwnerId,
    error_chain,
};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    FlowBackend, TurnClaim, TurnItem, TurnRequest, Watched, WorkClaim, WorkItem, WorkRequest,
};
use wakeline_wake::{Claim, Claimed, Face};

use super::admin::Seen;
use super::trace::Trace;

/// What a claim found for one line.
type Found = Claimed<Grant, Arc<StoreError>>;

/// What a dispatcher or a client waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Line {
    /// Turns of instances.
    Turns(Capabilities),
    /// Activities.
    Work {
        /// Which are taken.
        filter: ActivityFilter,
        /// On whose behalf sessions are claimed.
        owner: Option<OwnerId>,
    },
    /// An instance's outcome, or something newer than what was seen.
    Outcome(InstanceId, Seen),
}

/// A hint, or the wish to find anyone who waits for turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// A store said so.
    Change(FlowChange),
    /// A turn of an instance whose needs are not known here.
    AnyTurn,
}

/// What one waiter can take.
#[derive(Debug, Clone)]
pub enum Ask {
    /// A turn.
    Turn(TurnRequest, Trace),
    /// An activity.
    Work(WorkRequest, Trace),
    /// A look.
    Outcome,
}

/// What one waiter got.
#[derive(Debug, Clone)]
pub enum Grant {
    /// A turn.
    Turn(Box<TurnItem>, Trace),
    /// An activity.
    Work(Box<WorkItem>, Trace),
    /// How the instance stands.
    Outcome(Watched),
}

/// Orchestrations as a face of the wake hub.
pub struct FlowFace {
    store: Arc<dyn FlowBackend>,
}

impl FlowFace {
    /// A face over a store.
    pub fn new(store: Arc<dyn FlowBackend>) -> Self {
        Self { store }
    }

    async fn claim_turns(
        &self,
        (lines, traces): Traced<TurnClaim>,
    ) -> Result<Vec<Found>, Arc<StoreError>> {
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let further: Vec<_> = lines.iter().map(|line| line.further).collect();
        let traces = further.into_iter().zip(traces);
        let claimed = self.store.claim_turns(lines).await?.into_iter().zip(traces);
        let granted = |(turn, trace)| Some(Grant::Turn(Box::new(turn?), trace));
        let claimed = claimed.map(|(line, (further, traces))| {
            let grants = line.turns.into_iter().zip(traces).map(granted).collect();
            Claimed { further, ..Claimed::new(grants, line.next_due) }
        });
        Ok(claimed.collect())
    }

    async fn claim_work(
        &self,
        (lines, traces): Traced<WorkClaim>,
    ) -> Result<Vec<Found>, Arc<StoreError>> {
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let further: Vec<_> = lines.iter().map(|line| line.further).collect();
        let traces = further.into_iter().zip(traces);
        let claimed = self.store.claim_work(lines).await?.into_iter().zip(traces);
        let granted = |(work, trace)| Some(Grant::Work(Box::new(work?), trace));
        let claimed = claimed.map(|(line, (further, traces))| {
            let grants = line.work.into_iter().zip(traces).map(granted).collect();
            Claimed { further, ..Claimed::new(grants, line.next_due) }
        });
        Ok(claimed.collect())
    }

    async fn look(
        &self,
        lines: Vec<(InstanceId, Seen, usize)>,
    ) -> Result<Vec<Found>, Arc<StoreError>> {
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let instances = lines.iter().map(|(instance, ..)| instance.clone()).collect();
        let watched = self.store.watch(instances).await?;
        let claimed = watched.into_iter().zip(lines).map(|(watched, (_, seen, asks))| {
            let grant = is_news(&watched, seen).then_some(Grant::Outcome(watched));
            Claimed::new(vec![grant; asks], None)
        });
        Ok(claimed.collect())
    }

    async fn give_back(&self, grant: Grant) -> Vec<FlowChange> {
        let token = match &grant {
            Grant::Turn(turn, _) => turn.token,
            Grant::Work(work, _) => work.token,
            Grant::Outcome(_) => return Vec::new(),
        };
        match self.store.abandon(token, Duration::ZERO, true).await {
            Ok((_, changes)) => changes,
            Err(error) => {
                tracing::warn!(
                    error = error_chain(&error), %token,
                    "a lease that no waiter took could not be released: it ends by itself"
                );
                Vec::new()
            }
        }
    }
}

/// Whether a waiter that saw so much is answered by this.
pub(super) fn is_news(watched: &Watched, seen: Seen) -> bool {
    match watched {
        Watched::Missing => true,
        Watched::There(detail) => {
            detail.state.is_ended()
                || seen.status_version.is_some_and(|version| detail.status_version > version)
                || seen.kv_version.is_some_and(|version| detail.kv_version > version)
        }
    }
}

#[async_trait]
impl Face for FlowFace {
    type Line = Line;
    type Topic = FlowTopic;
    type Hint = Hint;
    type Ask = Ask;
    type Grant = Grant;
    type Error = Arc<StoreError>;

    fn topic(line: &Line) -> FlowTopic {
        match line {
            Line::Turns(_) => FlowTopic::Turns,
            Line::Work { .. } => FlowTopic::Work,
            Line::Outcome(instance, _) => FlowTopic::Outcome(instance.clone()),
        }
    }

    fn topics(hint: &Hint) -> Vec<FlowTopic> {
        match hint {
            Hint::Change(change) => vec![change.topic()],
            Hint::AnyTurn => vec![FlowTopic::Turns],
        }
    }

    fn concerns(hint: &Hint, line: &Line) -> bool {
        let Hint::Change(change) = hint else { return matches!(line, Line::Turns(_)) };
        match (&change.what, line) {
            (FlowWhat::Turn(capability), Line::Turns(known)) => known.allow(capability),
            (FlowWhat::Work(route), Line::Work { filter, .. }) => filter.allows(route),
            (FlowWhat::Outcome(changed), Line::Outcome(instance, _)) => changed == instance,
            _ => false,
        }
    }

    fn due_in(hint: &Hint) -> Duration {
        match hint {
            Hint::Change(change) => change.due_in,
            Hint::AnyTurn => Duration::ZERO,
        }
    }

    fn capacity(_: &Ask) -> usize {
        1
    }

    fn items(_: &Grant) -> usize {
        1
    }

    fn label(line: &Line) -> Option<String> {
        let label = match line {
            Line::Turns(_) => "turns",
            Line::Work { .. } => "work",
            Line::Outcome(..) => "outcome",
        };
        Some(label.to_owned())
    }

    async fn claim(&self, claims: Vec<Claim<Line, Ask>>) -> Result<Vec<Found>, Arc<StoreError>> {
        let sorted = Sorted::of(claims);
        let (turns, work, looks) = tokio::join!(
            self.claim_turns(sorted.turns),
            self.claim_work(sorted.work),
            self.look(sorted.looks)
        );
        match (turns, work, looks) {
            (Ok(turns), Ok(work), Ok(looks)) => Ok(merge(&sorted.kinds, turns, work, looks)),
            (turns, work, looks) => {
                // One kind failed: what the others found would stay leased to nobody.
                let mut error = None;
                for outcome in [turns, work, looks] {
                    match outcome {
                        Ok(claimed) => {
                            for grant in claimed.into_iter().flat_map(|line| line.grants).flatten()
                            {
                                self.give_back(grant).await;
                            }
                        }
                        Err(failed) => error = Some(failed),
                    }
                }
                Err(error.expect("at least one of them failed"))
            }
        }
    }

    async fn sweep(&self, lines: Vec<Line>) -> Result<Vec<Option<Duration>>, Arc<StoreError>> {
        let mut due = vec![None; lines.len()];
        let (mut asked, mut stored) = (Vec::new(), Vec::new());
        let (mut watching, mut watched) = (Vec::new(), Vec::new());
        for (place, line) in lines.into_iter().enumerate() {
            match line {
                Line::Turns(capabilities) => {
                    asked.push(place);
                    stored.push(FlowLine::Turns(capabilities));
                }
                Line::Work { filter, owner } => {
                    asked.push(place);
                    stored.push(FlowLine::Work { filter, owner });
                }
                Line::Outcome(instance, seen) => {
                    watching.push((place, seen));
                    watched.push(instance);
                }
            }
        }
        if !stored.is_empty() {
            for (place, span) in asked.into_iter().zip(self.store.sweep_flow(stored).await?) {
                due[place] = span;
            }
        }
        if !watched.is_empty() {
            // Notes once more that somebody waits: what a lost hint spoke of is found here.
            for ((place, seen), now) in watching.into_iter().zip(self.store.watch(watched).await?) {
                due[place] = is_news(&now, seen).then_some(Duration::ZERO);
            }
        }
        Ok(due)
    }

    async fn release(&self, grants: Vec<Grant>) -> Vec<Hint> {
        let mut hints = Vec::new();
        for grant in grants {
            hints.extend(self.give_back(grant).await.into_iter().map(Hint::Change));
        }
        hints
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Turns,
    Work,
    Outcome,
}

/// Claims of lines, and the traces of the fetches that each is for.
type Traced<C> = (Vec<C>, Vec<Vec<Trace>>);

/// Claims by kind, and the order in which they came.
#[derive(Default)]
struct Sorted {
    kinds: Vec<Kind>,
    turns: Traced<TurnClaim>,
    work: Traced<WorkClaim>,
    looks: Vec<(InstanceId, Seen, usize)>,
}

impl Sorted {
    fn of(claims: Vec<Claim<Line, Ask>>) -> Self {
        let mut sorted = Self::default();
        for Claim { line, asks, further } in claims {
            match line {
                Line::Turns(capabilities) => {
                    let (requests, traces) = asks.into_iter().filter_map(Ask::into_turn).unzip();
                    sorted.kinds.push(Kind::Turns);
                    sorted.turns.0.push(TurnClaim { capabilities, requests, further });
                    sorted.turns.1.push(traces);
                }
                Line::Work { filter, .. } => {
                    let (requests, traces): (Vec<WorkRequest>, _) =
                        asks.into_iter().filter_map(Ask::into_work).unzip();
                    let session = requests.first().and_then(|request| request.session.clone());
                    sorted.kinds.push(Kind::Work);
                    sorted.work.0.push(WorkClaim { filter, session, requests, further });
                    sorted.work.1.push(traces);
                }
                Line::Outcome(instance, seen) => {
                    sorted.kinds.push(Kind::Outcome);
                    sorted.looks.push((instance, seen, asks.len()));
                }
            }
        }
        sorted
    }
}

impl Ask {
    pub(super) fn into_turn(self) -> Option<(TurnRequest, Trace)> {
        match self {
            Self::Turn(request, trace) => Some((request, trace)),
            _ => None,
        }
    }

    pub(super) fn into_work(self) -> Option<(WorkRequest, Trace)> {
        match self {
            Self::Work(request, trace) => Some((request, trace)),
            _ => None,
        }
    }
}

/// Puts the outcomes back into the order of the claims.
fn merge(kinds: &[Kind], turns: Vec<Found>, work: Vec<Found>, looks: Vec<Found>) -> Vec<Found> {
    let (mut turns, mut work, mut looks) = (turns.into_iter(), work.into_iter(), looks.into_iter());
    let next = |kind: &Kind| {
        let outcome = match kind {
            Kind::Turns => turns.next(),
            Kind::Work => work.next(),
            Kind::Outcome => looks.next(),
        };
        outcome.unwrap_or(Claimed::new(Vec::new(), None))
    };
    kinds.iter().map(next).collect()
}
