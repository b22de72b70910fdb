//! What the queue tells the wake hub about itself: its lines, its hints, how to claim.
//!
//! # Invariants
//! * A grant of the line of chores is empty: it says that there are some; who gets it does them.
//!   Messages that are claimed in the same call neither wait for chores nor fail with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{Change, LeaseToken, QueueLine, Selector, Subscription, Topic};
use wakeline_store::{ClaimRequest, Grant, LineClaim, Store, StoreError};
use wakeline_wake::{Claim, Claimed, Face};

use crate::drops::Drops;

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
    async fn look_for_chores(&self, waiters: usize) -> Claimed<Grant> {
        let mut grants: Vec<Option<Grant>> = vec![None; waiters];
        if waiters == 0 {
            return Claimed { grants, next_due: None };
        }
        let due = match self.store.sweep(vec![QueueLine::chores()]).await {
            Ok(due) => due.into_iter().next().flatten(),
            Err(error) => {
                tracing::warn!(%error, "cannot look for background work");
                Some(LOOK_AGAIN)
            }
        };
        if due == Some(Duration::ZERO) {
            let (lease_for, partitions) = (Duration::ZERO, Vec::new());
            grants[0] = Some(Grant { lease: None, lease_for, partitions });
        }
        Claimed { grants, next_due: due }
    }

    fn note_pause(&self, paused: bool) {
        if self.paused.swap(paused, Ordering::Relaxed) != paused {
            metrics::gauge!("wakeline_queue_pops_paused").set(if paused { 1.0 } else { 0.0 });
        }
    }

    async fn claim_messages(
        &self,
        lines: Vec<LineClaim>,
    ) -> Result<Vec<Claimed<Grant>>, Arc<StoreError>> {
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let outcomes = self.store.claim(lines).await?;
        outcomes.iter().for_each(|outcome| self.drops.expired(&outcome.dropped));
        self.note_pause(outcomes.iter().any(|outcome| outcome.paused));
        let claimed = |outcome: wakeline_store::LineOutcome| Claimed {
            grants: outcome.grants,
            next_due: outcome.next_due,
        };
        Ok(outcomes.into_iter().map(claimed).collect())
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
    ) -> Result<Vec<Claimed<Grant>>, Arc<StoreError>> {
        let is_chores: Vec<bool> = claims.iter().map(|claim| claim.line.is_chores()).collect();
        if !is_chores.contains(&true) {
            return self.claim_messages(claims.into_iter().map(line_claim).collect()).await;
        }
        let (chores, messages): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|claim| claim.line.is_chores());
        let waiters = chores.iter().map(|claim| claim.asks.len()).sum();
        let messages = messages.into_iter().map(line_claim).collect();
        let (found, done) =
            tokio::join!(self.claim_messages(messages), self.look_for_chores(waiters));
        let (mut found, mut done) = (found?.into_iter(), Some(done));
        let nothing = || Claimed { grants: Vec::new(), next_due: None };
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
            tracing::warn!(%error, "could not release the lease of a client that went away");
            Vec::new()
        })
    }
}

/// All waiters of a line ride in one claim; the earliest of them says where a new group begins.
fn line_claim(claim: Claim<QueueLine, Ask>) -> LineClaim {
    LineClaim {
        line: claim.line,
        subscription: claim.asks.first().map(|ask| ask.subscription).unwrap_or_default(),
        requests: claim.asks.into_iter().map(|ask| ask.request).collect(),
    }
}
