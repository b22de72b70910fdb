//! What webhooks tell the wake hub about themselves: lines, hints, how to claim.
//!
//! # Invariants
//! * A grant of chores says that there are some: who gets it does them. Deliveries that are claimed
//!   in the same call neither wait for chores nor fail with them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{HookChange, HookLine, HookTopic};
use wakeline_store::StoreError;
use wakeline_store::hook::{DeliveryAsk, DeliveryClaim, DeliveryGroup, HookBackend};
use wakeline_wake::{Claim, Claimed, Face};

use crate::meters::Meters;

/// When to look for chores again after that failed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What a claim found for one line.
type Found = Claimed<Grant, Arc<StoreError>>;

/// What one waiter can take.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    /// Deliveries.
    Deliveries(DeliveryAsk),
    /// To hear of background work.
    Chores,
}

/// What one waiter got.
#[derive(Debug)]
pub(crate) enum Grant {
    /// Leased deliveries.
    Deliveries(Vec<DeliveryGroup>),
    /// There is background work.
    Chores,
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
    ) -> Result<Vec<Found>, Arc<StoreError>> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let claimed = self.store.claim_deliveries(claims).await?;
        let groups = claimed.iter().flat_map(|line| &line.groups).flatten();
        self.meters.claimed(groups.map(|group| group.items.len()).sum());
        let grant =
            |groups: Vec<DeliveryGroup>| (!groups.is_empty()).then_some(Grant::Deliveries(groups));
        let each = claimed
            .into_iter()
            .map(|line| Claimed::new(line.groups.into_iter().map(grant).collect(), line.next_due));
        Ok(each.collect())
    }

    /// Looks whether there are chores. The first waiter hears of them; the others go on waiting.
    async fn look_for_chores(&self, waiters: usize) -> Found {
        let mut grants: Vec<Option<Grant>> = Vec::new();
        grants.resize_with(waiters, || None);
        if waiters == 0 {
            return Claimed::new(grants, None);
        }
        let due = match self.store.sweep_hook(vec![HookLine::Chores]).await {
            Ok(due) => due.into_iter().next().flatten(),
            Err(error) => {
                tracing::warn!(%error, "cannot look for background work");
                Some(LOOK_AGAIN)
            }
        };
        if due == Some(Duration::ZERO) {
            grants[0] = Some(Grant::Chores);
        }
        Claimed::new(grants, due)
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
        line.topic()
    }

    fn topics(hint: &HookChange) -> Vec<HookTopic> {
        hint.line().into_iter().collect()
    }

    fn concerns(hint: &HookChange, line: &HookLine) -> bool {
        hint.line() == Some(line.topic())
    }

    fn due_in(hint: &HookChange) -> Duration {
        hint.due_in
    }

    fn capacity(ask: &Ask) -> usize {
        match ask {
            Ask::Deliveries(ask) => ask.attempts.len(),
            Ask::Chores => 1,
        }
    }

    fn items(grant: &Grant) -> usize {
        match grant {
            Grant::Deliveries(groups) => groups.iter().map(|group| group.items.len()).sum(),
            Grant::Chores => 1,
        }
    }

    async fn claim(
        &self,
        claims: Vec<Claim<HookLine, Ask>>,
    ) -> Result<Vec<Found>, Arc<StoreError>> {
        let mut deliveries = Vec::new();
        let mut waiters = 0;
        let mut is_chores = Vec::with_capacity(claims.len());
        for claim in claims {
            let chores = claim.line == HookLine::Chores;
            is_chores.push(chores);
            let mut asks = Vec::with_capacity(claim.asks.len());
            for ask in claim.asks {
                match ask {
                    Ask::Deliveries(ask) => asks.push(ask),
                    Ask::Chores => waiters += 1,
                }
            }
            if !chores {
                deliveries.push(DeliveryClaim { line: claim.line, asks });
            }
        }
        let (found, done) =
            tokio::join!(self.claim_deliveries(deliveries), self.look_for_chores(waiters));
        let (mut found, mut done) = (found?.into_iter(), Some(done));
        let nothing = || Claimed::new(Vec::new(), None);
        let each = is_chores
            .into_iter()
            .map(|chores| if chores { done.take() } else { found.next() }.unwrap_or_else(nothing));
        Ok(each.collect())
    }

    async fn sweep(&self, lines: Vec<HookLine>) -> Result<Vec<Option<Duration>>, Arc<StoreError>> {
        Ok(self.store.sweep_hook(lines).await?)
    }

    async fn release(&self, grants: Vec<Grant>) -> Vec<HookChange> {
        let mut tokens = Vec::new();
        for grant in grants {
            match grant {
                Grant::Deliveries(groups) => {
                    let items = groups.iter().flat_map(|group| &group.items);
                    tokens.extend(items.map(|item| item.token));
                }
                Grant::Chores => {}
            }
        }
        if tokens.is_empty() {
            return Vec::new();
        }
        self.store.release_deliveries(tokens).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "could not give back unsent deliveries");
            Vec::new()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakeline_store::hook::{HookAdmin as _, HookApplications as _, HookStore as _, NewMessage};
    use wakeline_testkit::hook_conformance::{application, ask, message};
    use wakeline_testkit::oracle::MemoryStore;

    #[tokio::test]
    async fn chores_are_told_of_beside_deliveries_and_not_done() {
        let store = Arc::new(MemoryStore::with_real_clock());
        let face = HookFace::new(store.clone(), Arc::new(Meters::new()));
        let claim = || {
            let push = Claim { line: HookLine::Push, asks: vec![Ask::Deliveries(ask(1))] };
            vec![push, Claim { line: HookLine::Chores, asks: vec![Ask::Chores, Ask::Chores] }]
        };
        let chores = async || face.claim(claim()).await.expect("claimed").remove(1);
        let idle = chores().await;
        assert!(idle.grants.iter().all(Option::is_none) && idle.next_due.is_none());
        let app = application(None);
        let expired = NewMessage { retention: Duration::ZERO, ..message(app.id) };
        store.create_application(app, None).await.expect("stored");
        store.emit(expired, Vec::new()).await.expect("stored");
        let busy = chores().await;
        assert!(matches!(busy.grants[..], [Some(Grant::Chores), None]), "{:?}", busy.grants);
        assert_eq!(store.hook_calls().get("do_chores"), None);
        store.do_chores(1_000).await.expect("done");
        assert!(chores().await.grants.iter().all(Option::is_none));
    }
}
