//! What webhooks tell the wake hub about themselves: lines, hints, how to claim.
//!
//! # Invariants
//! * Chores are claimed by doing a piece of them: who waits for them hears what it came to.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{HookChange, HookLine, HookTopic};
use wakeline_store::StoreError;
use wakeline_store::hook::{ChoreReport, DeliveryAsk, DeliveryClaim, DeliveryGroup, HookBackend};
use wakeline_wake::{Claim, Claimed, Face};

use crate::meters::Meters;

/// What one waiter can take.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    /// Deliveries.
    Deliveries(DeliveryAsk),
    /// A piece of background work, on so many rows.
    Chores(u32),
}

/// What one waiter got.
#[derive(Debug)]
pub(crate) enum Grant {
    /// Leased deliveries.
    Deliveries(Vec<DeliveryGroup>),
    /// Background work that was done.
    Chores(ChoreReport),
}

/// Webhooks as a face of the wake hub.
pub(crate) struct HookFace {
    store: Arc<dyn HookBackend>,
    meters: Arc<Meters>,
}

impl HookFace {
    pub(crate) fn new(store: Arc<dyn HookBackend>, meters: Arc<Meters>) -> Self {
        Self { store, meters }
    }

    async fn claim_deliveries(
        &self,
        claims: Vec<DeliveryClaim>,
    ) -> Result<Vec<Claimed<Grant>>, Arc<StoreError>> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let claimed = self.store.claim_deliveries(claims).await?;
        let groups = claimed.iter().flat_map(|line| &line.groups).flatten();
        self.meters.claimed(groups.map(|group| group.items.len()).sum());
        let grant =
            |groups: Vec<DeliveryGroup>| (!groups.is_empty()).then_some(Grant::Deliveries(groups));
        let each = claimed.into_iter().map(|line| Claimed {
            grants: line.groups.into_iter().map(grant).collect(),
            next_due: line.next_due,
        });
        Ok(each.collect())
    }

    /// The first waiter hears of the work that was done; the others go on waiting.
    async fn do_chores(
        &self,
        rows: Option<u32>,
        waiters: usize,
    ) -> Result<Option<Claimed<Grant>>, Arc<StoreError>> {
        let Some(rows) = rows else { return Ok(None) };
        let report = self.store.do_chores(rows).await?;
        let next_due = report.next_due;
        let idle = report.rows == 0 && report.changes.is_empty();
        let mut grants: Vec<Option<Grant>> = Vec::new();
        grants.resize_with(waiters, || None);
        if let Some(first) = grants.first_mut().filter(|_| !idle) {
            *first = Some(Grant::Chores(report));
        }
        Ok(Some(Claimed { grants, next_due }))
    }
}

#[async_trait]
impl Face for HookFace {
    type Line = HookLine;
    type Topic = HookTopic;
    type Hint = HookChange;
    type Ask = Ask;
    type Grant = Grant;
    type Error = Arc<StoreError>;

    fn topic(line: &HookLine) -> HookTopic {
        line.clone()
    }

    fn topics(hint: &HookChange) -> Vec<HookTopic> {
        hint.line().into_iter().collect()
    }

    fn concerns(hint: &HookChange, line: &HookLine) -> bool {
        hint.line().as_ref() == Some(line)
    }

    fn due_in(hint: &HookChange) -> Duration {
        hint.due_in
    }

    fn capacity(ask: &Ask) -> usize {
        match ask {
            Ask::Deliveries(ask) => ask.attempts.len(),
            Ask::Chores(_) => 1,
        }
    }

    fn items(grant: &Grant) -> usize {
        match grant {
            Grant::Deliveries(groups) => groups.iter().map(|group| group.items.len()).sum(),
            Grant::Chores(_) => 1,
        }
    }

    async fn claim(
        &self,
        claims: Vec<Claim<HookLine, Ask>>,
    ) -> Result<Vec<Claimed<Grant>>, Arc<StoreError>> {
        let mut deliveries = Vec::new();
        let (mut rows, mut waiters) = (None, 0);
        let mut is_chores = Vec::with_capacity(claims.len());
        for claim in claims {
            let chores = claim.line == HookLine::Chores;
            is_chores.push(chores);
            let mut asks = Vec::with_capacity(claim.asks.len());
            for ask in claim.asks {
                match ask {
                    Ask::Deliveries(ask) => asks.push(ask),
                    Ask::Chores(most) => {
                        rows = Some(most);
                        waiters += 1;
                    }
                }
            }
            if !chores {
                deliveries.push(DeliveryClaim { line: claim.line, asks });
            }
        }
        let (found, done) =
            tokio::join!(self.claim_deliveries(deliveries), self.do_chores(rows, waiters));
        let mut found = found?.into_iter();
        // Deliveries that were claimed beside chores that failed must not be lost with them.
        let mut done = match done {
            Err(error) if found.len() > 0 => {
                tracing::warn!(%error, "background work failed");
                None
            }
            done => done?,
        };
        let nothing = || Claimed { grants: Vec::new(), next_due: None };
        let each = is_chores
            .into_iter()
            .map(|chores| if chores { done.take() } else { found.next() }.unwrap_or_else(nothing));
        Ok(each.collect())
    }

    async fn sweep(&self, lines: Vec<HookLine>) -> Result<Vec<Option<Duration>>, Arc<StoreError>> {
        Ok(self.store.sweep_hook(lines).await?)
    }

    async fn release(&self, grants: Vec<Grant>) -> Vec<HookChange> {
        let mut changes = Vec::new();
        let mut tokens = Vec::new();
        for grant in grants {
            match grant {
                Grant::Deliveries(groups) => {
                    let items = groups.iter().flat_map(|group| &group.items);
                    tokens.extend(items.map(|item| item.token));
                }
                Grant::Chores(report) => changes.extend(report.changes),
            }
        }
        if !tokens.is_empty() {
            match self.store.release_deliveries(tokens).await {
                Ok(released) => changes.extend(released),
                Err(error) => tracing::warn!(%error, "could not give back unsent deliveries"),
            }
        }
        changes
    }
}
