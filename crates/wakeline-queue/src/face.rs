//! What the queue tells the wake hub about itself: its lines, its hints, how to claim.
//!
//! # Invariants
//! * A grant of the line of chores is empty: it says that there are some; who gets it does them.
//!   Messages that are claimed in the same call neither wait for chores nor fail with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{Change, LeaseToken, QueueLine, Selector, Subscription, Topic, error_chain};
use wakeline_store::{ClaimRequest, Grant, LineClaim, LineOutcome, Store, StoreError};
use wakeline_wake::{Claim, Claimed, Face};

use crate::drops::Drops;

/// What a claim found for one line.
type Found = Claimed<Grant, Arc<StoreError>>;

/// What one waiting pop can take.
#[derive(Debug, Clone)]
pub struct Ask {
    /// How much, and under which token.
    pub request: ClaimRequest,
    /// Where the group begins, if this is its first poll.
    pub subscription: Subscription,
}

impl Ask {
    /// To hear of background work.
    pub fn chores() -> Self {
        let request = ClaimRequest {
            token: LeaseToken::generate(),
            batch_len_max: 1,
            bytes_max: 0,
            partitions_len_max: 1,
            auto_ack: false,
            worker: None,
        };
        Self { request, subscription: Subscription::All }
    }
}

/// When to look for background work again after that failed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The queue as a face of the wake hub.
pub struct QueueFace {
    store: Arc<dyn Store>,
    pub(crate) drops: Arc<Drops>,
    /// Whether the last claim was told that pops are paused.
    pub(crate) paused: Arc<AtomicBool>,
}

impl QueueFace {
    /// A face over a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, drops: Arc::default(), paused: Arc::default() }
    }

    /// Looks whether there is background work. The first waiter hears of it; the others go on
    /// waiting.
    async fn look_for_chores(&self, waiters: usize) -> Found {
        let mut grants: Vec<Option<Grant>> = vec![None; waiters];
        if waiters == 0 {
            return Claimed::new(grants, None);
        }
        let due = match self.store.sweep(vec![QueueLine::chores()]).await {
            Ok(due) => due.into_iter().next().flatten(),
            Err(error) => {
                tracing::warn!(
                    error = error_chain(&error),
                    "cannot look for maintenance tasks of queues: trying again"
                );
                Some(LOOK_AGAIN)
            }
        };
        if due == Some(Duration::ZERO) {
            let (lease_for, partitions) = (Duration::ZERO, Vec::new());
            grants[0] = Some(Grant { lease: None, lease_for, partitions });
        }
        Claimed::new(grants, due)
    }

    fn note_pause(&self, paused: bool) {
        if self.paused.swap(paused, Ordering::Relaxed) != paused {
            metrics::gauge!("wakeline_queue_pops_paused").set(if paused { 1.0 } else { 0.0 });
        }
    }

    async fn claim_messages(
        &self,
        claims: Vec<Claim<QueueLine, Ask>>,
    ) -> Result<Vec<Found>, Arc<StoreError>> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let (parts, lines): (Vec<_>, Vec<_>) = claims
            .into_iter()
            .map(|claim| {
                let further = claim.further;
                let lines = line_claims(claim);
                ((lines.len(), further), lines)
            })
            .unzip();
        let outcomes = self.store.claim(lines.into_iter().flatten().collect()).await?;
        outcomes.iter().for_each(|outcome| self.drops.expired(&outcome.dropped));
        self.note_pause(outcomes.iter().any(|outcome| outcome.paused));
        let mut outcomes = outcomes.into_iter();
        let found = parts
            .into_iter()
            .map(|(len, further)| Claimed { further, ..joined(outcomes.by_ref().take(len)) });
        Ok(found.collect())
    }
}

#[async_trait]
impl Face for QueueFace {
    type Line = QueueLine;
    type Topic = Topic;
    type Hint = Change;
    type Ask = Ask;
    type Grant = Grant;
    type Error = Arc<StoreError>;

    fn topic(line: &QueueLine) -> Topic {
        line.selector.clone()
    }

    fn topics(hint: &Change) -> Vec<Topic> {
        hint.topics()
    }

    fn is_own(line: &QueueLine) -> bool {
        line.is_chores()
    }

    fn concerns(hint: &Change, line: &QueueLine) -> bool {
        hint.concerns(line)
    }

    /// A change of a whole queue speaks to waiters on any of its partitions, whose topics the
    /// hint cannot list.
    fn spans_topics(hint: &Change) -> bool {
        hint.partition.is_none()
    }

    fn due_in(hint: &Change) -> Duration {
        hint.due_in
    }

    fn capacity(ask: &Ask) -> usize {
        ask.request.batch_len_max as usize
    }

    /// Only the database's clock says whether a moment has come.
    fn needs_check(ask: &Ask) -> bool {
        matches!(ask.subscription, Subscription::From(_))
    }

    /// An autoAck claim settles what it takes and leaves no lease. If its outcome is unknown, the
    /// messages may be gone, and the consumer has to learn of it.
    fn may_have_taken(ask: &Ask, error: &Arc<StoreError>) -> bool {
        ask.request.auto_ack && matches!(**error, StoreError::Transient { .. })
    }

    fn items(grant: &Grant) -> usize {
        grant.partitions.iter().map(|partition| partition.messages.len()).sum()
    }

    /// Waiters on several queues at once are not counted for any one of them.
    fn label(line: &QueueLine) -> Option<String> {
        if line.is_chores() {
            return None;
        }
        match &line.selector {
            Selector::Queue(queue) | Selector::Partition(queue, _) => Some(queue.to_string()),
            Selector::Filter { .. } => None,
        }
    }

    async fn claim(
        &self,
        claims: Vec<Claim<QueueLine, Ask>>,
    ) -> Result<Vec<Found>, Arc<StoreError>> {
        let is_chores: Vec<bool> = claims.iter().map(|claim| claim.line.is_chores()).collect();
        if !is_chores.contains(&true) {
            return self.claim_messages(claims).await;
        }
        let (chores, messages): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|claim| claim.line.is_chores());
        let waiters = chores.iter().map(|claim| claim.asks.len()).sum();
        let (found, done) =
            tokio::join!(self.claim_messages(messages), self.look_for_chores(waiters));
        let (mut found, mut done) = (found?.into_iter(), Some(done));
        let nothing = || Claimed::new(Vec::new(), None);
        let each = is_chores
            .into_iter()
            .map(|chores| if chores { done.take() } else { found.next() }.unwrap_or_else(nothing));
        Ok(each.collect())
    }

    async fn sweep(&self, lines: Vec<QueueLine>) -> Result<Vec<Option<Duration>>, Arc<StoreError>> {
        Ok(self.store.sweep(lines).await?)
    }

    async fn release(&self, grants: Vec<Grant>) -> Vec<Change> {
        let leases: Vec<_> = grants.into_iter().filter_map(|grant| grant.lease).collect();
        if leases.is_empty() {
            return Vec::new();
        }
        self.store.release(leases).await.unwrap_or_else(|error| {
            tracing::warn!(
                error = error_chain(&error),
                "the lease of a client that went away could not be released: it ends by itself"
            );
            Vec::new()
        })
    }
}

/// The waiters of a line in order of arrival, split where they say differently where a new group
/// begins: one that says it wrongly is refused alone.
fn line_claims(claim: Claim<QueueLine, Ask>) -> Vec<LineClaim> {
    let mut lines: Vec<LineClaim> = Vec::with_capacity(1);
    for Ask { request, subscription } in claim.asks {
        match lines.last_mut() {
            Some(last) if last.subscription == subscription => last.requests.push(request),
            _ => {
                let (line, requests) = (claim.line.clone(), vec![request]);
                let further = claim.further;
                lines.push(LineClaim { line, subscription, requests, further });
            }
        }
    }
    lines
}

/// What the claims of one line found together.
fn joined(outcomes: impl Iterator<Item = LineOutcome>) -> Found {
    let mut found = Claimed::new(Vec::new(), None);
    for LineOutcome { grants, next_due, refused, .. } in outcomes {
        if let Some(refusal) = refused {
            let error = Arc::new(refusal.into_error());
            let asks = found.grants.len()..found.grants.len() + grants.len();
            found.refused.extend(asks.map(|index| (index, Arc::clone(&error))));
        }
        found.grants.extend(grants);
        found.next_due = [found.next_due, next_due].into_iter().flatten().min();
    }
    found
}
