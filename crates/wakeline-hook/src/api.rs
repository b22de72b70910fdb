//! The webhook API of the wake hub: its lines and hints, and how deliveries are claimed.
//!
//! # Invariants
//! * A claim result for background work says only that work is due; the waiter that receives it
//!   does the work. Deliveries claimed in the same call neither wait for background work nor fail
//!   with it.
//! * An application gets no more calls than its share of the slots allows: a claim limits its
//!   deliveries, and deliveries leased in excess are released without counting an attempt.
//! * The slots reserved for first attempts are not shared: a node whose reserved slots are all in
//!   use still has its general slots, which serve any attempt.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{DeliveryToken, HookChange, HookLine, HookTopic, error_chain};
use wakeline_store::StoreError;
use wakeline_store::hook::{DeliveryClaim, DeliveryGroup, DeliveryRequest, HookBackend};
use wakeline_wake::{Api, Claim, ClaimOutcome};

use crate::meters::HookMeters;
use crate::shares::{Share, Shares};

/// The pause before the store is queried for background work again after a failure.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The outcome of a claim in one line.
type HookClaimOutcome = ClaimOutcome<HookClaimResult, Arc<StoreError>>;

/// What one waiter can take.
#[derive(Debug, Clone)]
pub(crate) enum HookRequest {
    /// Deliveries to send, or to hand to a client that pulls.
    Deliveries(DeliveryRequest),
    /// A notice that background work is due.
    Background,
}

/// What one waiter claimed.
#[derive(Debug)]
pub(crate) enum HookClaimResult {
    /// Leased deliveries for a client that pulls.
    Deliveries(Vec<DeliveryGroup>),
    /// Leased deliveries for a sender.
    Calls(SenderClaimResult),
    /// Background work is due.
    Background,
}

/// The deliveries that a sender claimed.
#[derive(Debug, Default)]
pub(crate) struct SenderClaimResult {
    /// The calls to make, those in general slots first.
    pub(crate) calls: Vec<AdmittedCall>,
    /// The deliveries that exceed the shares of their applications; they are released.
    pub(crate) refused: Vec<DeliveryGroup>,
}

/// A call that the application's share allows.
#[derive(Debug)]
pub(crate) struct AdmittedCall {
    pub(crate) group: DeliveryGroup,
    /// The share, held until the call has ended; `None` in a slot reserved for first attempts.
    pub(crate) share: Option<Share>,
}

impl SenderClaimResult {
    /// Admits the calls that fit the shares of their applications. The first `general` of them use
    /// general slots.
    pub(crate) fn new(
        shares: &Arc<Shares>,
        general: usize,
        groups: Vec<DeliveryGroup>,
    ) -> SenderClaimResult {
        let mut result = Self::default();
        for group in groups {
            if result.calls.len() >= general {
                result.calls.push(AdmittedCall { group, share: None });
                continue;
            }
            match Shares::take(shares, group.target.application) {
                Some(share) => result.calls.push(AdmittedCall { group, share: Some(share) }),
                None => result.refused.push(group),
            }
        }
        result
    }

    fn groups(&self) -> impl Iterator<Item = &DeliveryGroup> {
        self.calls.iter().map(|call| &call.group).chain(&self.refused)
    }
}

/// The number of attempts in a request that may be first attempts or retries.
pub(crate) fn general(request: &DeliveryRequest) -> usize {
    request.attempts.len().saturating_sub(request.fresh_only as usize)
}

/// The webhook API of the wake hub.
pub(crate) struct HookApi {
    store: Arc<dyn HookBackend>,
    meters: Arc<HookMeters>,
    shares: Arc<Shares>,
}

impl HookApi {
    /// Creates the API. `shares` divides the general slots among applications.
    pub(crate) fn new(
        store: Arc<dyn HookBackend>,
        meters: Arc<HookMeters>,
        shares: Arc<Shares>,
    ) -> Self {
        Self { store, meters, shares }
    }

    /// A claim in a line that gives no application more than its share.
    fn delivery_claim(
        &self,
        line: HookLine,
        further: bool,
        requests: Vec<DeliveryRequest>,
    ) -> DeliveryClaim {
        let limits = match line {
            HookLine::Push => {
                let attempts = requests.iter().map(|request| request.attempts.len());
                self.shares.limits(attempts.sum())
            }
            HookLine::PushFresh | HookLine::Pull(_) | HookLine::Background => Vec::new(),
        };
        DeliveryClaim { line, requests, limits, further }
    }

    /// The result for a waiter. `general` is the number of general slots that a sender holds;
    /// `None` for a client that pulls.
    fn result(
        &self,
        general: Option<usize>,
        groups: Vec<DeliveryGroup>,
    ) -> Option<HookClaimResult> {
        if groups.is_empty() {
            return None;
        }
        Some(match general {
            Some(general) => {
                HookClaimResult::Calls(SenderClaimResult::new(&self.shares, general, groups))
            }
            None => HookClaimResult::Deliveries(groups),
        })
    }

    async fn claim_deliveries(
        &self,
        claims: Vec<DeliveryClaim>,
    ) -> Result<Vec<HookClaimOutcome>, Arc<StoreError>> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let general_slots: Vec<_> = claims.iter().map(general_slots_of).collect();
        let further: Vec<_> = claims.iter().map(|claim| claim.further).collect();
        let claimed = self.store.claim_deliveries(claims).await?;
        let groups = claimed.iter().flat_map(|line| &line.groups).flatten();
        self.meters.claimed(groups.map(|group| group.items.len()).sum());
        let mut outcomes = Vec::with_capacity(claimed.len());
        for ((line, general_slots), further) in claimed.into_iter().zip(general_slots).zip(further)
        {
            let requests = line.groups.into_iter().zip(general_slots);
            let results = requests.map(|(groups, general)| self.result(general, groups)).collect();
            outcomes.push(ClaimOutcome { further, ..ClaimOutcome::new(results, line.next_due) });
        }
        Ok(outcomes)
    }

    /// Queries whether background work is due. Only the first waiter is notified; the others
    /// continue to wait.
    async fn look_for_background_work(&self, waiters: usize) -> HookClaimOutcome {
        let mut results: Vec<Option<HookClaimResult>> = Vec::new();
        results.resize_with(waiters, || None);
        if waiters == 0 {
            return ClaimOutcome::new(results, None);
        }
        let due = match self.store.sweep_hook(vec![HookLine::Background]).await {
            Ok(due) => due.into_iter().next().flatten(),
            Err(error) => {
                tracing::warn!(
                    error = error_chain(&error),
                    "cannot check whether webhooks have maintenance tasks: trying again"
                );
                Some(LOOK_AGAIN)
            }
        };
        if due == Some(Duration::ZERO) {
            results[0] = Some(HookClaimResult::Background);
        }
        ClaimOutcome::new(results, due)
    }
}

/// The lease tokens of all deliveries in some groups.
pub(crate) fn tokens_of<'a>(
    groups: impl IntoIterator<Item = &'a DeliveryGroup>,
) -> impl Iterator<Item = DeliveryToken> {
    groups.into_iter().flat_map(|group| group.items.iter().map(|item| item.token))
}

/// For each request, the number of general slots that a sender holds; `None` for a client that
/// pulls.
fn general_slots_of(claim: &DeliveryClaim) -> Vec<Option<usize>> {
    let is_sent = matches!(claim.line, HookLine::Push | HookLine::PushFresh);
    claim.requests.iter().map(|request| is_sent.then(|| general(request))).collect()
}

#[async_trait]
impl Api for HookApi {
    type Line = HookLine;
    type Topic = HookTopic;
    type Hint = HookChange;
    type Request = HookRequest;
    type ClaimResult = HookClaimResult;
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

    fn capacity(request: &HookRequest) -> usize {
        match request {
            HookRequest::Deliveries(request) => request.attempts.len(),
            HookRequest::Background => 1,
        }
    }

    fn items(result: &HookClaimResult) -> usize {
        match result {
            HookClaimResult::Deliveries(groups) => {
                groups.iter().map(|group| group.items.len()).sum()
            }
            HookClaimResult::Calls(result) => result.groups().map(|group| group.items.len()).sum(),
            HookClaimResult::Background => 1,
        }
    }

    async fn claim(
        &self,
        claims: Vec<Claim<HookLine, HookRequest>>,
    ) -> Result<Vec<HookClaimOutcome>, Arc<StoreError>> {
        let mut deliveries = Vec::new();
        let mut waiters = 0;
        let mut is_background = Vec::with_capacity(claims.len());
        for claim in claims {
            let background = claim.line == HookLine::Background;
            is_background.push(background);
            let mut requests = Vec::with_capacity(claim.requests.len());
            for request in claim.requests {
                match request {
                    HookRequest::Deliveries(request) => requests.push(request),
                    HookRequest::Background => waiters += 1,
                }
            }
            if !background {
                deliveries.push(self.delivery_claim(claim.line, claim.further, requests));
            }
        }
        let (claimed, background) =
            tokio::join!(self.claim_deliveries(deliveries), self.look_for_background_work(waiters));
        let (mut claimed, mut background) = (claimed?.into_iter(), Some(background));
        let mut outcomes = Vec::with_capacity(is_background.len());
        for is_background in is_background {
            let outcome = if is_background { background.take() } else { claimed.next() };
            outcomes.push(outcome.unwrap_or_else(|| ClaimOutcome::new(Vec::new(), None)));
        }
        Ok(outcomes)
    }

    async fn sweep(&self, lines: Vec<HookLine>) -> Result<Vec<Option<Duration>>, Arc<StoreError>> {
        Ok(self.store.sweep_hook(lines).await?)
    }

    async fn release(&self, results: Vec<HookClaimResult>) -> Vec<HookChange> {
        let mut tokens = Vec::new();
        for result in results {
            match result {
                HookClaimResult::Deliveries(groups) => tokens.extend(tokens_of(&groups)),
                HookClaimResult::Calls(result) => tokens.extend(tokens_of(result.groups())),
                HookClaimResult::Background => {}
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
    use wakeline_testkit::hook_conformance::{application, message, request};
    use wakeline_testkit::oracle::MemoryStore;

    #[tokio::test]
    async fn background_work_is_reported_with_deliveries_and_not_done_by_the_claim() {
        let store = Arc::new(MemoryStore::with_real_clock());
        let shares = Arc::new(Shares::new(1, 1));
        let api = HookApi::new(store.clone(), Arc::new(HookMeters::new()), shares);
        let claim = || {
            let requests = vec![HookRequest::Deliveries(request(1))];
            let push = Claim { line: HookLine::Push, requests, further: false };
            let requests = vec![HookRequest::Background, HookRequest::Background];
            vec![push, Claim { line: HookLine::Background, requests, further: false }]
        };
        let background = async || api.claim(claim()).await.expect("claimed").remove(1);
        let idle = background().await;
        assert!(idle.results.iter().all(Option::is_none) && idle.next_due.is_none());
        let app = application(None);
        let expired = NewMessage { retention: Duration::ZERO, ..message(app.id) };
        store.create_application(app, None).await.expect("stored");
        store.emit(expired, Vec::new()).await.expect("stored");
        let busy = background().await;
        assert!(matches!(busy.results[..], [Some(HookClaimResult::Background), None]), "{busy:?}");
        assert_eq!(store.hook_calls().get("run_background"), None);
        store.run_background(1_000).await.expect("done");
        assert!(background().await.results.iter().all(Option::is_none));
    }
}
