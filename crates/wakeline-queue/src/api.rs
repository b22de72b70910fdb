//! Connects queues to the wake hub: their lines, their hints, and how they are claimed.
//!
//! # Invariants
//! * A result of the background line is empty: it only says that there is background work, and the
//!   waiter that receives it does the work. Messages that are claimed in the same call neither wait
//!   for background work nor fail with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{Change, LeaseToken, QueueLine, Selector, Subscription, Topic, error_chain};
use wakeline_store::{ClaimRequest, LineClaim, LineOutcome, QueueClaimResult, Store, StoreError};
use wakeline_wake::{Api, Claim, ClaimOutcome};

use crate::drops::Drops;

/// What a claim found for one line.
type QueueClaimOutcome = ClaimOutcome<QueueClaimResult, Arc<StoreError>>;

/// What one waiting pop can take.
#[derive(Debug, Clone)]
pub struct PopRequest {
    /// The limits of the claim, and the token of its lease.
    pub request: ClaimRequest,
    /// Where the group begins, if this is its first poll.
    pub subscription: Subscription,
}

impl PopRequest {
    /// Creates the request of a task that waits for background work.
    pub fn background() -> Self {
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

/// The time until the next check for background work after a check that failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Implements the interface [`Api`] of the wake hub for queues.
pub struct QueueApi {
    store: Arc<dyn Store>,
    pub(crate) drops: Arc<Drops>,
    /// Whether pops were paused at the last claim.
    pub(crate) paused: Arc<AtomicBool>,
}

impl QueueApi {
    /// Creates the API over a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, drops: Arc::default(), paused: Arc::default() }
    }

    /// Checks whether there is background work. Only the first waiter is notified of it; the others
    /// continue to wait.
    async fn check_background_work(&self, waiters: usize) -> QueueClaimOutcome {
        let mut results: Vec<Option<QueueClaimResult>> = vec![None; waiters];
        if waiters == 0 {
            return ClaimOutcome::new(results, None);
        }
        let due = match self.store.sweep(vec![QueueLine::background()]).await {
            Ok(due) => due.into_iter().next().flatten(),
            Err(error) => {
                tracing::warn!(
                    error = error_chain(&error),
                    "cannot check whether queues have maintenance tasks: trying again"
                );
                Some(RETRY_AFTER)
            }
        };
        if due == Some(Duration::ZERO) {
            let (lease_for, partitions) = (Duration::ZERO, Vec::new());
            results[0] = Some(QueueClaimResult { lease: None, lease_for, partitions });
        }
        ClaimOutcome::new(results, due)
    }

    fn note_pause(&self, paused: bool) {
        if self.paused.swap(paused, Ordering::Relaxed) != paused {
            metrics::gauge!("wakeline_queue_pops_paused").set(if paused { 1.0 } else { 0.0 });
        }
    }

    async fn claim_messages(
        &self,
        claims: Vec<Claim<QueueLine, PopRequest>>,
    ) -> Result<Vec<QueueClaimOutcome>, Arc<StoreError>> {
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
            .map(|(len, further)| ClaimOutcome { further, ..joined(outcomes.by_ref().take(len)) });
        Ok(found.collect())
    }
}

#[async_trait]
impl Api for QueueApi {
    type Line = QueueLine;
    type Topic = Topic;
    type Hint = Change;
    type Request = PopRequest;
    type ClaimResult = QueueClaimResult;
    type Error = Arc<StoreError>;

    fn topic(line: &QueueLine) -> Topic {
        line.selector.clone()
    }

    fn topics(hint: &Change) -> Vec<Topic> {
        hint.topics()
    }

    fn is_own(line: &QueueLine) -> bool {
        line.is_background()
    }

    fn concerns(hint: &Change, line: &QueueLine) -> bool {
        hint.concerns(line)
    }

    /// A change of a whole queue concerns waiters on any of its partitions, whose topics the hint
    /// cannot list.
    fn spans_topics(hint: &Change) -> bool {
        hint.partition.is_none()
    }

    fn due_in(hint: &Change) -> Duration {
        hint.due_in
    }

    fn capacity(request: &PopRequest) -> usize {
        request.request.batch_len_max as usize
    }

    /// A subscription from a time is invalid if the time lies in the future, and only the
    /// database's clock can decide that.
    fn needs_check(request: &PopRequest) -> bool {
        matches!(request.subscription, Subscription::From(_))
    }

    /// An autoAck claim settles what it takes and leaves no lease. If its outcome is unknown, the
    /// messages may be gone, and the consumer must be notified.
    fn may_have_taken(request: &PopRequest, error: &Arc<StoreError>) -> bool {
        request.request.auto_ack && matches!(**error, StoreError::Transient { .. })
    }

    fn items(result: &QueueClaimResult) -> usize {
        result.partitions.iter().map(|partition| partition.messages.len()).sum()
    }

    /// Waiters on several queues at once are not counted for any one of them.
    fn label(line: &QueueLine) -> Option<String> {
        if line.is_background() {
            return None;
        }
        match &line.selector {
            Selector::Queue(queue) | Selector::Partition(queue, _) => Some(queue.to_string()),
            Selector::Filter { .. } => None,
        }
    }

    async fn claim(
        &self,
        claims: Vec<Claim<QueueLine, PopRequest>>,
    ) -> Result<Vec<QueueClaimOutcome>, Arc<StoreError>> {
        let is_background: Vec<bool> =
            claims.iter().map(|claim| claim.line.is_background()).collect();
        if !is_background.contains(&true) {
            return self.claim_messages(claims).await;
        }
        let (background, messages): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|claim| claim.line.is_background());
        let waiters = background.iter().map(|claim| claim.requests.len()).sum();
        let (found, background_outcome) =
            tokio::join!(self.claim_messages(messages), self.check_background_work(waiters));
        let (mut found, mut background_outcome) = (found?.into_iter(), Some(background_outcome));
        let nothing = || ClaimOutcome::new(Vec::new(), None);
        let each = is_background.into_iter().map(|background| {
            if background { background_outcome.take() } else { found.next() }
                .unwrap_or_else(nothing)
        });
        Ok(each.collect())
    }

    async fn sweep(&self, lines: Vec<QueueLine>) -> Result<Vec<Option<Duration>>, Arc<StoreError>> {
        Ok(self.store.sweep(lines).await?)
    }

    async fn release(&self, results: Vec<QueueClaimResult>) -> Vec<Change> {
        let leases: Vec<_> = results.into_iter().filter_map(|result| result.lease).collect();
        if leases.is_empty() {
            return Vec::new();
        }
        self.store.release(leases).await.unwrap_or_else(|error| {
            tracing::warn!(
                error = error_chain(&error),
                "the lease of a client that disconnected could not be released: it will expire"
            );
            Vec::new()
        })
    }
}

/// Splits the waiters of a line, in order of arrival, into runs with the same subscription, so that
/// an invalid subscription is refused without refusing the others.
fn line_claims(claim: Claim<QueueLine, PopRequest>) -> Vec<LineClaim> {
    let mut lines: Vec<LineClaim> = Vec::with_capacity(1);
    for PopRequest { request, subscription } in claim.requests {
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

/// Merges the outcomes of the claims of one line.
fn joined(outcomes: impl Iterator<Item = LineOutcome>) -> QueueClaimOutcome {
    let mut found = ClaimOutcome::new(Vec::new(), None);
    for LineOutcome { results, next_due, refused, .. } in outcomes {
        if let Some(refusal) = refused {
            let error = Arc::new(refusal.into_error());
            let requests = found.results.len()..found.results.len() + results.len();
            found.refused.extend(requests.map(|index| (index, Arc::clone(&error))));
        }
        found.results.extend(results);
        found.next_due = [found.next_due, next_due].into_iter().flatten().min();
    }
    found
}
