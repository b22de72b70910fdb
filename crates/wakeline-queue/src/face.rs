//! What the queue tells the wake hub about itself: its lines, its hints, how to claim.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{Change, QueueLine, Selector, Subscription, Topic};
use wakeline_store::{ClaimRequest, Grant, LineClaim, Store, StoreError};
use wakeline_wake::{Claim, Claimed, Face};

/// What one waiting pop can take.
#[derive(Debug, Clone)]
pub struct Ask {
    /// How much, and under which token.
    pub request: ClaimRequest,
    /// Where the group begins, if this is its first poll.
    pub subscription: Subscription,
}

/// The queue as a face of the wake hub.
pub struct QueueFace {
    store: Arc<dyn Store>,
}

impl QueueFace {
    /// A face over a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
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
        match &line.selector {
            Selector::Queue(queue) | Selector::Partition(queue, _) => Some(queue.to_string()),
            Selector::Filter { .. } => None,
        }
    }

    async fn claim(
        &self,
        claims: Vec<Claim<QueueLine, Ask>>,
    ) -> Result<Vec<Claimed<Grant>>, Arc<StoreError>> {
        let lines = claims.into_iter().map(line_claim).collect();
        let outcomes = self.store.claim(lines).await?;
        let claimed = |outcome: wakeline_store::LineOutcome| Claimed {
            grants: outcome.grants,
            next_due: outcome.next_due,
        };
        Ok(outcomes.into_iter().map(claimed).collect())
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
