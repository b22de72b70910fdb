//! What webhooks tell the wake hub about themselves: lines, hints, how to claim.
//!
//! # Invariants
//! * A grant of chores says that there are some: who gets it does them. Deliveries that are claimed
//!   in the same call neither wait for chores nor fail with them.
//! * An application is given no more calls than its share of the slots allows: a claim asks for no
//!   more, and what is leased beyond it all the same is not begun, but given back uncounted.
//! * The slots that are kept for first attempts are not shared: a node full of those still has its
//!   other slots, and these are for everything.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{DeliveryToken, HookChange, HookLine, HookTopic, error_chain};
use wakeline_store::StoreError;
use wakeline_store::hook::{DeliveryAsk, DeliveryClaim, DeliveryGroup, HookBackend};
use wakeline_wake::{Claim, Claimed, Face};

use crate::meters::Meters;
use crate::shares::{Share, Shares};

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
    /// Leased deliveries, for one who fetches.
    Deliveries(Vec<DeliveryGroup>),
    /// Leased deliveries, for a sender.
    Calls(SenderGrant),
    /// There is background work.
    Chores,
}

/// What a sender got.
#[derive(Debug, Default)]
pub(crate) struct SenderGrant {
    /// Calls to make, those in slots for anything first.
    pub(crate) calls: Vec<AdmittedCall>,
    /// What the shares of its applications do not allow now.
    pub(crate) refused: Vec<DeliveryGroup>,
}

/// A call that may be made.
#[derive(Debug)]
pub(crate) struct AdmittedCall {
    pub(crate) group: DeliveryGroup,
    /// Held until it has ended; `None` in a slot for first attempts only.
    pub(crate) share: Option<Share>,
}

impl SenderGrant {
    /// Lets calls begin that fit the shares of their applications. The first `general` of them
    /// go in slots for anything.
    pub(crate) fn new(
        shares: &Arc<Shares>,
        general: usize,
        groups: Vec<DeliveryGroup>,
    ) -> SenderGrant {
        let mut grant = Self::default();
        for group in groups {
            if grant.calls.len() >= general {
                grant.calls.push(AdmittedCall { group, share: None });
                continue;
            }
            match Shares::take(shares, group.target.application) {
                Some(share) => grant.calls.push(AdmittedCall { group, share: Some(share) }),
                None => grant.refused.push(group),
            }
        }
        grant
    }

    fn groups(&self) -> impl Iterator<Item = &DeliveryGroup> {
        self.calls.iter().map(|call| &call.group).chain(&self.refused)
    }
}

/// How many attempts of an ask are for anything.
pub(crate) fn general(ask: &DeliveryAsk) -> usize {
    ask.attempts.len().saturating_sub(ask.fresh_only as usize)
}

/// Webhooks as a face of the wake hub.
pub(crate) struct HookFace {
    store: Arc<dyn HookBackend>,
    meters: Arc<Meters>,
    shares: Arc<Shares>,
}

impl HookFace {
    /// `shares`: those of the slots for anything.
    pub(crate) fn new(
        store: Arc<dyn HookBackend>,
        meters: Arc<Meters>,
        shares: Arc<Shares>,
    ) -> Self {
        Self { store, meters, shares }
    }

    /// A claim for a line that gives no application more than its share.
    fn delivery_claim(
        &self,
        (line, further): (HookLine, bool),
        asks: Vec<DeliveryAsk>,
    ) -> DeliveryClaim {
        let limits = match line {
            HookLine::Push => self.shares.limits(asks.iter().map(|ask| ask.attempts.len()).sum()),
            HookLine::PushFresh | HookLine::Pull(_) | HookLine::Chores => Vec::new(),
        };
        DeliveryClaim { line, asks, limits, further }
    }

    /// What a waiter is given; `sent`: how many slots for anything a sender has.
    fn grant(&self, sent: Option<usize>, groups: Vec<DeliveryGroup>) -> Option<Grant> {
        if groups.is_empty() {
            return None;
        }
        Some(match sent {
            Some(general) => Grant::Calls(SenderGrant::new(&self.shares, general, groups)),
            None => Grant::Deliveries(groups),
        })
    }

    async fn claim_deliveries(
        &self,
        claims: Vec<DeliveryClaim>,
    ) -> Result<Vec<Found>, Arc<StoreError>> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let forms: Vec<_> = claims.iter().map(|claim| (slots_of(claim), claim.further)).collect();
        let claimed = self.store.claim_deliveries(claims).await?;
        let groups = claimed.iter().flat_map(|line| &line.groups).flatten();
        self.meters.claimed(groups.map(|group| group.items.len()).sum());
        let mut found = Vec::with_capacity(claimed.len());
        for (line, (sent, further)) in claimed.into_iter().zip(forms) {
            let asks = line.groups.into_iter().zip(sent);
            let grants = asks.map(|(groups, sent)| self.grant(sent, groups)).collect();
            found.push(Claimed { further, ..Claimed::new(grants, line.next_due) });
        }
        Ok(found)
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
                tracing::warn!(
                    error = error_chain(&error),
                    "cannot look for maintenance tasks of webhooks: trying again"
                );
                Some(LOOK_AGAIN)
            }
        };
        if due == Some(Duration::ZERO) {
            grants[0] = Some(Grant::Chores);
        }
        Claimed::new(grants, due)
    }
}

/// The leases of some groups.
pub(crate) fn tokens_of<'a>(
    groups: impl IntoIterator<Item = &'a DeliveryGroup>,
) -> impl Iterator<Item = DeliveryToken> {
    groups.into_iter().flat_map(|group| group.items.iter().map(|item| item.token))
}

/// By ask, how many slots for anything a sender has; `None` for who fetches.
fn slots_of(claim: &DeliveryClaim) -> Vec<Option<usize>> {
    let is_sent = matches!(claim.line, HookLine::Push | HookLine::PushFresh);
    claim.asks.iter().map(|ask| is_sent.then(|| general(ask))).collect()
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
            Grant::Calls(grant) => grant.groups().map(|group| group.items.len()).sum(),
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
                deliveries.push(self.delivery_claim((claim.line, claim.further), asks));
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
                Grant::Deliveries(groups) => tokens.extend(tokens_of(&groups)),
                Grant::Calls(grant) => tokens.extend(tokens_of(grant.groups())),
                Grant::Chores => {}
            }
        }
        if tokens.is_empty() {
            return Vec::new();
        }
        self.store.release_deliveries(tokens).await.unwrap_or_else(|error| {
            tracing::warn!(
                error = error_chain(&error),
                "unsent deliveries could not be released: they are sent after their leases end"
            );
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
        let shares = Arc::new(Shares::new(1, 1));
        let face = HookFace::new(store.clone(), Arc::new(Meters::new()), shares);
        let claim = || {
            let push =
                Claim { line: HookLine::Push, asks: vec![Ask::Deliveries(ask(1))], further: false };
            let asks = vec![Ask::Chores, Ask::Chores];
            vec![push, Claim { line: HookLine::Chores, asks, further: false }]
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
