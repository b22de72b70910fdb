//! Fetches deliveries and sends them, as many at a time as there are slots.
//!
//! # Where it sits
//! [`crate::HookService::run`] runs it. A few loops wait in the hub's push line for deliveries;
//! each delivery is a task of its own, so that nobody waits for a slow endpoint.
//!
//! # Invariants
//! * A loop holds the slots that it asks deliveries for: what it is granted can begin at once.
//! * Some slots are kept for first attempts, so that retries never fill the node. A loop that holds
//!   none but these waits in a line of its own, and no longer than until another slot is free.
//! * No application holds all slots for anything: what it is granted fits its share
//!   ([`crate::shares`]), or is given back uncounted.
//! * No loop waits for a call's end, and no call waits for another.

mod chores;
mod deliver;
mod slots;
mod unopened;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wakeline_core::{AttemptId, DeliveryToken, HookChange, HookLine, HookWhat, error_chain};
use wakeline_store::StoreError;
use wakeline_store::hook::DeliveryAsk;
use wakeline_wake::{HintSource, Patience, TakeError, Taken, WakeMode};

use crate::face::{Ask, Grant, SenderGrant, tokens_of};
use crate::service::Inner;
use crate::shares::Shares;
use deliver::Job;
use slots::{Held, Slots};
pub(crate) use unopened::Unopened;

/// How long a loop waits before it makes new ids for its attempts, which sort by their age: less
/// than the shortest usual wait between two attempts, so that these sort in their order.
const PATIENCE: Duration = Duration::from_secs(4);
/// A loop's pause where long polling is switched off.
const IDLE_SLEEP: Duration = Duration::from_millis(100);
/// A loop's pause after a claim that failed for good.
const FAILED_SLEEP: Duration = Duration::from_millis(250);

/// How many calls an application may have under way for each slot that is free: one alone has at
/// most three quarters of the slots.
const CALLS_PER_FREE_SLOT: u32 = 3;

/// Why a loop was given nothing.
type HubError = TakeError<Arc<StoreError>>;

/// How many deliveries are sent at a time, and how they are fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchOptions {
    /// Most calls under way on this node; 0: it sends nothing and does no background work. 1,000.
    pub slots: u32,
    /// How many of them are kept for first attempts. 250.
    pub fresh_slots: u32,
    /// Loops that fetch. 4.
    pub senders: u32,
    /// Most deliveries that a loop fetches at once. 64.
    pub batch: u32,
    /// Loops that fetch in poll mode, where each polls by itself; its batch is the mode's. 10.
    pub poll_senders: u32,
    /// How long calls may go on after the shutdown began. 20 s.
    pub grace: Duration,
    /// Most rows that one piece of background work touches. 1,000.
    pub chore_rows: u32,
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
            chore_rows: 1_000,
        }
    }
}

impl DispatchOptions {
    /// So many slots, a quarter of them kept for first attempts.
    pub fn with_slots(slots: u32) -> Self {
        Self { slots, fresh_slots: slots / 4, ..Self::default() }
    }

    /// How applications share the slots for anything.
    pub(crate) fn shares(&self) -> Shares {
        Shares::new(Slots::new(self.slots, self.fresh_slots).general_len(), CALLS_PER_FREE_SLOT)
    }
}

/// Sends deliveries until it is told to stop.
#[derive(Clone)]
pub(crate) struct Dispatcher {
    inner: Arc<Inner>,
    slots: Arc<Slots>,
    calls: TaskTracker,
}

impl Dispatcher {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        let options = &inner.dispatch;
        let slots = Arc::new(Slots::new(options.slots, options.fresh_slots));
        Self { inner, slots, calls: TaskTracker::new() }
    }

    /// Runs until `shutdown`, then waits for calls under way, within the grace.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let senders = match self.inner.hub.mode() {
            WakeMode::Poll(_) => self.inner.dispatch.poll_senders,
            _ => self.inner.dispatch.senders,
        };
        let loops = TaskTracker::new();
        for _ in 0..senders.max(1) {
            loops.spawn(self.clone().fetch(shutdown.clone()));
        }
        loops.spawn(chores::run(Arc::clone(&self.inner), shutdown));
        loops.close();
        loops.wait().await;
        self.calls.close();
        if tokio::time::timeout(self.inner.dispatch.grace, self.calls.wait()).await.is_err() {
            let left = self.calls.len();
            tracing::warn!(
                left,
                "some calls did not finish within drain_timeout_ms: they are made again after \
                 their leases end"
            );
        }
    }

    /// One loop: takes as much as there are slots for, and begins it.
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
                // In this order: a node that is told to stop begins nothing, even if a claim result
                // has arrived. The hub releases it.
                biased;
                () = shutdown.cancelled() => return,
                taken = self.take(&held, patience) => taken,
            };
            let pause = match taken {
                Ok(Taken::Granted(Grant::Calls(grant))) => {
                    let items = grant.calls.iter().map(|call| call.group.items.len());
                    let found: usize = items.sum();
                    self.begin(grant, held);
                    // Polling keeps its pace, unless there is more to expect.
                    poll.filter(|poll| found < poll.batch as usize).map(|poll| poll.interval)
                }
                Ok(Taken::Granted(Grant::Deliveries(_) | Grant::Chores) | Taken::Empty) => {
                    let early = began.elapsed() < patience.min(self.inner.max_wait) / 2;
                    (early && !held.has_better()).then_some(IDLE_SLEEP)
                }
                Ok(Taken::Drained) => return,
                Err(TakeError::TooMany { retry_after }) => Some(retry_after),
                Err(TakeError::Claim(error)) => {
                    tracing::warn!(
                        error = error_chain(&error),
                        "cannot fetch deliveries: trying again"
                    );
                    Some(FAILED_SLEEP)
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

    /// Waits for deliveries for which these slots are good.
    async fn take(&self, held: &Held, patience: Duration) -> Result<Taken<Grant>, HubError> {
        let line = if held.is_fresh_only() { HookLine::PushFresh } else { HookLine::Push };
        let ask = Ask::Deliveries(ask_for(held));
        self.inner.hub.take_until(line, ask, Patience::Wait(patience), held.better()).await
    }

    /// Begins calls, each in a slot of its own. Slots that are left over are free again.
    fn begin(&self, grant: SenderGrant, mut held: Held) {
        let granted = Instant::now();
        for call in grant.calls {
            let job = Job { inner: Arc::clone(&self.inner), group: call.group, granted };
            self.calls.spawn(job.run(held.one(), call.share));
        }
        let refused: Vec<DeliveryToken> = tokens_of(&grant.refused).collect();
        if !refused.is_empty() {
            let inner = Arc::clone(&self.inner);
            self.calls.spawn(async move { inner.give_back(refused).await });
        }
    }
}

fn ask_for(held: &Held) -> DeliveryAsk {
    let attempts = (0..held.len()).map(|_| AttemptId::generate()).collect();
    DeliveryAsk { attempts, fresh_only: held.fresh_only(), lease: None }
}

impl Inner {
    /// Tells this node's waiters what a commit made available.
    fn hint(&self, changes: &[HookChange]) {
        self.hub.hint(changes, HintSource::InProcess);
    }

    /// Gives deliveries back unsent: no attempt is used up.
    async fn give_back(&self, tokens: Vec<DeliveryToken>) {
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

    /// A call has ended: has senders look for what an application may begin now that could not
    /// begin before.
    fn share_freed(&self) {
        if self.shares.was_limited() {
            self.hint(&[HookChange::now(HookWhat::Push)]);
        }
    }
}
