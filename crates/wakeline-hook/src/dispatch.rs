//! The dispatcher, which claims deliveries and sends them, as many at a time as there are slots.
//!
//! # Where it sits
//! [`crate::HookService::run`] runs it. A few loops wait in the hub's push line for deliveries.
//! Each delivery is sent by a task of its own, so that a slow endpoint does not delay others.
//!
//! # Invariants
//! * A loop holds the slots that it requests deliveries for, so claimed deliveries begin at once.
//! * Some slots are reserved for first attempts, so that retries never fill the node. A loop that
//!   holds only reserved slots waits in a line of its own, and only until a general slot is free.
//! * No application holds all general slots: its claimed deliveries fit its share
//!   ([`crate::shares`]), or are released without counting an attempt.
//! * No loop waits for the end of a call, and no call waits for another call.

mod background;
mod deliver;
mod slots;
mod undecryptable;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wakeline_core::{AttemptId, DeliveryToken, HookChange, HookChangeKind, HookLine, error_chain};
use wakeline_store::StoreError;
use wakeline_store::hook::DeliveryRequest;
use wakeline_wake::{HintSource, Patience, TakeError, TakeOutcome, WakeMode};

use crate::api::{HookClaimResult, HookRequest, SenderClaimResult, tokens_of};
use crate::service::HookServiceInner;
use crate::shares::Shares;
use deliver::DeliveryTask;
use slots::{HeldSlots, Slots};
pub(crate) use undecryptable::UndecryptableEndpoints;

/// How long a loop waits before it generates new ids for its attempts. Ids sort by their age, so
/// this is shorter than the shortest usual wait between two attempts of a delivery: then the ids of
/// these attempts sort in the order of the attempts.
const PATIENCE: Duration = Duration::from_secs(4);
/// A loop's pause if long polling is switched off.
const IDLE_SLEEP: Duration = Duration::from_millis(100);
/// A loop's pause after a claim that failed permanently.
const ERROR_PAUSE: Duration = Duration::from_millis(250);

/// How many calls an application may have in progress for each free slot: a single application gets
/// at most three quarters of the slots.
const CALLS_PER_FREE_SLOT: u32 = 3;

/// Why a loop could not claim deliveries.
type HubError = TakeError<Arc<StoreError>>;

/// How many deliveries are sent at a time, and how they are claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchOptions {
    /// The maximum number of concurrent calls on this node. With 0 it sends nothing and does no
    /// background work. The default is 1,000.
    pub slots: u32,
    /// How many of the slots are reserved for first attempts. The default is 250.
    pub fresh_slots: u32,
    /// The number of loops that claim deliveries. The default is 4.
    pub senders: u32,
    /// The maximum number of deliveries that a loop claims at once. The default is 64.
    pub batch: u32,
    /// The number of loops in poll mode, where each loop polls by itself with the batch size of the
    /// mode. The default is 10.
    pub poll_senders: u32,
    /// How long calls may continue after the shutdown began. The default is 20 seconds.
    pub grace: Duration,
    /// The maximum number of rows that one unit of background work changes. The default is 1,000.
    pub background_rows: u32,
}

impl Default for DispatchOptions {
    fn default() -> Self {
        Self {
            slots: 1_000,
            fresh_slots: 250,
            senders: 4,
            batch: 64,
            poll_senders: 10,
            grace: Duration::from_secs(20),
            background_rows: 1_000,
        }
    }
}

impl DispatchOptions {
    /// Options with this many slots, a quarter of them reserved for first attempts.
    pub fn with_slots(slots: u32) -> Self {
        Self { slots, fresh_slots: slots / 4, ..Self::default() }
    }

    /// The shares of applications in the general slots.
    pub(crate) fn shares(&self) -> Shares {
        Shares::new(Slots::new(self.slots, self.fresh_slots).general_len(), CALLS_PER_FREE_SLOT)
    }
}

/// Sends deliveries until shutdown.
#[derive(Clone)]
pub(crate) struct Dispatcher {
    inner: Arc<HookServiceInner>,
    slots: Arc<Slots>,
    calls: TaskTracker,
}

impl Dispatcher {
    pub(crate) fn new(inner: Arc<HookServiceInner>) -> Self {
        let options = &inner.dispatch;
        let slots = Arc::new(Slots::new(options.slots, options.fresh_slots));
        Self { inner, slots, calls: TaskTracker::new() }
    }

    /// Runs until `shutdown`, then waits for calls in progress, but no longer than the grace
    /// period.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let senders = match self.inner.hub.mode() {
            WakeMode::Poll(_) => self.inner.dispatch.poll_senders,
            _ => self.inner.dispatch.senders,
        };
        let loops = TaskTracker::new();
        for _ in 0..senders.max(1) {
            loops.spawn(self.clone().fetch(shutdown.clone()));
        }
        loops.spawn(background::run(Arc::clone(&self.inner), shutdown));
        loops.close();
        loops.wait().await;
        self.calls.close();
        if tokio::time::timeout(self.inner.dispatch.grace, self.calls.wait()).await.is_err() {
            let left = self.calls.len();
            tracing::warn!(
                left,
                "some webhook requests did not finish within drain_timeout_ms: they are repeated \
                 after their leases end"
            );
        }
    }

    /// Runs one loop: claims as many deliveries as it has slots for, and begins to send them.
    async fn fetch(self, shutdown: CancellationToken) {
        let poll = match self.inner.hub.mode() {
            WakeMode::Poll(poll) => Some(poll),
            _ => None,
        };
        let most = poll.map_or(self.inner.dispatch.batch, |poll| poll.batch).max(1);
        let patience = if poll.is_some() { self.inner.max_wait } else { PATIENCE };
        loop {
            let held = tokio::select! {
                () = shutdown.cancelled() => return,
                held = Slots::take(&self.slots, most) => held,
            };
            let began = Instant::now();
            let taken = tokio::select! {
                // In this order, so that a node that is shutting down begins nothing, even if a
                // claim result has arrived. The hub releases that result.
                biased;
                () = shutdown.cancelled() => return,
                taken = self.take(&held, patience) => taken,
            };
            let pause = match taken {
                Ok(TakeOutcome::Claimed(HookClaimResult::Calls(result))) => {
                    let items = result.calls.iter().map(|call| call.group.items.len());
                    let found: usize = items.sum();
                    self.begin(result, held);
                    // Polling pauses as usual, unless a full batch suggests that there is more.
                    poll.filter(|poll| found < poll.batch as usize).map(|poll| poll.interval)
                }
                Ok(
                    TakeOutcome::Claimed(
                        HookClaimResult::Deliveries(_) | HookClaimResult::Background,
                    )
                    | TakeOutcome::Empty,
                ) => {
                    let early = began.elapsed() < patience.min(self.inner.max_wait) / 2;
                    (early && !held.has_better()).then_some(IDLE_SLEEP)
                }
                Ok(TakeOutcome::Drained) => return,
                Err(TakeError::TooMany { retry_after }) => Some(retry_after),
                Err(TakeError::Claim(error)) => {
                    tracing::warn!(
                        error = error_chain(&error),
                        "cannot claim deliveries: trying again"
                    );
                    Some(ERROR_PAUSE)
                }
            };
            if let Some(pause) = pause {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }

    /// Waits for deliveries that may use these slots.
    async fn take(
        &self,
        held: &HeldSlots,
        patience: Duration,
    ) -> Result<TakeOutcome<HookClaimResult>, HubError> {
        let line = if held.is_fresh_only() { HookLine::PushFresh } else { HookLine::Push };
        let request = HookRequest::Deliveries(delivery_request(held));
        self.inner.hub.take_until(line, request, Patience::Wait(patience), held.better()).await
    }

    /// Begins calls, each in a slot of its own. Unused slots become free again.
    fn begin(&self, result: SenderClaimResult, mut held: HeldSlots) {
        let claimed_at = Instant::now();
        for call in result.calls {
            let inner = Arc::clone(&self.inner);
            let task = DeliveryTask { inner, group: call.group, claimed_at };
            self.calls.spawn(task.run(held.one(), call.share));
        }
        let refused: Vec<DeliveryToken> = tokens_of(&result.refused).collect();
        if !refused.is_empty() {
            let inner = Arc::clone(&self.inner);
            self.calls.spawn(async move { inner.release(refused).await });
        }
    }
}

fn delivery_request(held: &HeldSlots) -> DeliveryRequest {
    let attempts = (0..held.len()).map(|_| AttemptId::generate()).collect();
    DeliveryRequest { attempts, fresh_only: held.fresh_only(), lease: None }
}

impl HookServiceInner {
    /// Publishes the changes of a commit to this node's waiters.
    fn hint(&self, changes: &[HookChange]) {
        self.hub.hint(changes, HintSource::InProcess);
    }

    /// Releases deliveries that were not sent, without counting an attempt.
    async fn release(&self, tokens: Vec<DeliveryToken>) {
        match self.store.release_deliveries(tokens).await {
            Ok(changes) => self.hint(&changes),
            Err(error) => {
                tracing::warn!(
                    error = error_chain(&error),
                    "unsent deliveries could not be released: they are sent after their leases end"
                )
            }
        }
    }

    /// Called when a call has ended: if an application was limited, senders look again for
    /// deliveries that its share allows now.
    fn share_freed(&self) {
        if self.shares.was_limited() {
            self.hint(&[HookChange::now(HookChangeKind::Push)]);
        }
    }
}
