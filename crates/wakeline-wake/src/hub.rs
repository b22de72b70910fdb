//! Connects the sans-IO core to tokio: one lock, one driver task for the timers, one task per store
//! call, and one oneshot channel per waiter.
//!
//! # Where it sits
//! APIs call [`Hub::take`]; commits and listeners call [`Hub::hint`]. The caller that reports an
//! event to the core also carries out the actions that the core requests, so a hint starts its
//! claim directly.
//!
//! # Invariants
//! * The lock is held for the core's bookkeeping only, never across a store call.
//! * A parked poll costs one struct in the core and one oneshot channel. It has no task and no
//!   timer of its own.
//! * Dropping the last handle ends the driver. A claim in flight is finished, and its result is
//!   released.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use metrics::Gauge;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::api::{Api, Claim};
use crate::calls::{claim, sweep};
use crate::config::LongPollConfig;
use crate::core::{Action, CallId, HubTime, LineId, ParkOutcome, WaiterEnd, WaiterId, WakeCore};
use crate::hub_metrics::HubMetrics;
use crate::mode::WakeMode;
use crate::poll::{HintSource, Link, Patience, TakeError, TakeOutcome};
use crate::reservation::Reservation;
use crate::snapshot::{HubCounters, Snapshot};

/// The time after which a poll may be repeated that was refused because too many are waiting.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The settings of a hub.
#[derive(Debug, Clone, Default)]
pub struct HubOptions {
    /// The API's name in metrics and logs.
    pub label: &'static str,
    /// How waiters are woken.
    pub mode: WakeMode,
    /// How long waiters wait, and what happens when hints cannot be relied on.
    pub long_poll: LongPollConfig,
}

/// Parks polls that found nothing, and claims for them when something may have become available.
/// This is a handle: clones share one hub, which ends with the last of them.
pub struct Hub<F: Api> {
    inner: Arc<HubInner<F>>,
    _owner: Arc<DropGuard>,
}

impl<F: Api> Clone for Hub<F> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), _owner: Arc::clone(&self._owner) }
    }
}

impl<F: Api> Hub<F> {
    /// Starts a hub on the current tokio runtime. The settings must have been validated.
    pub fn start(api: Arc<F>, options: HubOptions) -> Self {
        let HubOptions { label, mode, long_poll } = options;
        let state = HubState {
            core: WakeCore::new(mode, long_poll),
            reply_channels: HashMap::new(),
            published: HubCounters::default(),
            planned: None,
        };
        let inner = Arc::new(HubInner {
            api,
            label,
            mode,
            state: Mutex::new(state),
            metrics: HubMetrics::new(label),
            runtime: Handle::current(),
            calls: TaskTracker::new(),
            started: Instant::now(),
            replan: Notify::new(),
        });
        let closed = CancellationToken::new();
        inner.runtime.spawn(drive(Arc::clone(&inner), closed.clone()));
        Self { inner, _owner: Arc::new(closed.drop_guard()) }
    }

    /// Performs one poll and returns what it takes within its patience. Dropping the future cancels
    /// the poll, and what was claimed for it is released.
    pub async fn take(
        &self,
        line: F::Line,
        request: F::Request,
        patience: Patience,
    ) -> Result<TakeOutcome<F::ClaimResult>, TakeError<F::Error>> {
        self.take_until(line, request, patience, std::future::pending()).await
    }

    /// Like [`Hub::take`], but stops waiting when `enough` completes. A parked poll is then
    /// answered with [`TakeOutcome::Empty`]; one with a claim in flight is answered with what that
    /// claim finds.
    pub async fn take_until(
        &self,
        line: F::Line,
        request: F::Request,
        patience: Patience,
        enough: impl Future<Output = ()>,
    ) -> Result<TakeOutcome<F::ClaimResult>, TakeError<F::Error>> {
        let label = F::label(&line);
        let (reply, answer) = oneshot::channel();
        let parked = self.inner.step(|state| {
            let parked = state.core.park(line, request, patience);
            if let ParkOutcome::Parked(id, _) = parked {
                state.reply_channels.insert(id, reply);
            }
            parked
        });
        let (id, line) = match parked {
            ParkOutcome::Parked(id, line) => (id, line),
            ParkOutcome::Drained => return Ok(TakeOutcome::Drained),
            ParkOutcome::TooMany => return Err(TakeError::TooMany { retry_after: RETRY_AFTER }),
        };
        let gauge = label.map(|label| self.inner.metrics.waiters_of(label));
        if let Some(gauge) = &gauge {
            gauge.increment(1.0);
        }
        let mut pending =
            PendingPoll { inner: &self.inner, id, line, answer, answered: false, gauge };
        let end = tokio::select! {
            biased;
            end = &mut pending.answer => end,
            () = enough => {
                self.inner.step(|state| state.core.end_patience(id));
                (&mut pending.answer).await
            }
        };
        pending.answered = true;
        match end {
            Ok(WaiterEnd::Claimed(result)) => Ok(TakeOutcome::Claimed(result)),
            Ok(WaiterEnd::Empty) => Ok(TakeOutcome::Empty),
            Ok(WaiterEnd::Drained) | Err(_) => Ok(TakeOutcome::Drained),
            Ok(WaiterEnd::Failed(error)) => Err(TakeError::Claim(error)),
        }
    }

    /// Reports that these may have become available. Never blocks; the whole slice counts as one
    /// wake. Returns true if claims were started for it. They are tasks, which run before the
    /// caller's next steps if the caller yields.
    pub fn hint(&self, hints: &[F::Hint], source: HintSource) -> bool {
        if hints.is_empty() {
            return false;
        }
        let (begun, ()) = self.inner.step_counting(|state| {
            // The hint shows that the store has answered someone.
            state.core.store_answered();
            state.core.hint(hints, source);
        });
        begun > 0
    }

    /// Reserves up to `max` parked polls that may be able to take what the hint refers to, so that
    /// a write can serve them in its own commit. What the write makes available beyond them is
    /// hinted as usual, after the reservations have ended.
    pub fn reserve(&self, hint: &F::Hint, max: usize) -> Vec<Reservation<F>> {
        if max == 0 {
            return Vec::new();
        }
        let reserved = self.inner.step(|state| state.core.reserve(hint, max));
        let held = |reserved| Reservation::new(Arc::clone(&self.inner), reserved);
        reserved.into_iter().map(held).collect()
    }

    /// Reports that anything may have become available, for example after a (re)connect or a hint
    /// that was too long to send.
    pub fn everything(&self) {
        self.inner.step(|state| state.core.everything());
    }

    /// Reports whether hints of other processes arrive. Call [`Hub::everything`] once they do.
    pub fn link(&self, state: Link) {
        self.inner.step(|inner| inner.core.link(state));
    }

    /// Sets the time between two claims of degraded polling.
    pub fn set_degraded_poll_interval(&self, interval: Duration) {
        self.inner.step(|inner| inner.core.set_degraded_poll_interval(interval));
    }

    /// Answers all parked polls with [`TakeOutcome::Drained`], and also later ones that would have
    /// to wait.
    pub fn drain(&self) {
        self.inner.step(|state| state.core.drain());
    }

    /// Waits until no claim is in flight and everything that was claimed for cancelled polls is
    /// released. It is meant to follow [`Hub::drain`], before the store is closed.
    pub async fn wait_for_claims(&self) {
        self.inner.calls.close();
        self.inner.calls.wait().await;
    }

    /// Returns how waiters are woken.
    pub fn mode(&self) -> WakeMode {
        self.inner.mode
    }

    /// Returns the current state of the hub.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.step(|state| state.core.snapshot())
    }
}

/// A poll whose caller is waiting for the answer. Dropping it cancels the poll.
struct PendingPoll<'a, F: Api> {
    inner: &'a Arc<HubInner<F>>,
    id: WaiterId,
    line: LineId,
    answer: oneshot::Receiver<WaiterEnd<F>>,
    answered: bool,
    gauge: Option<Gauge>,
}

impl<F: Api> Drop for PendingPoll<'_, F> {
    fn drop(&mut self) {
        if let Some(gauge) = &self.gauge {
            gauge.decrement(1.0);
        }
        if self.answered {
            return;
        }
        // The channel is closed first: then an answer is either in the channel, or returns to its
        // sender.
        self.answer.close();
        if let Ok(end) = self.answer.try_recv() {
            if let WaiterEnd::Claimed(result) = end {
                self.inner.release(vec![(self.line, result)]);
            }
            return;
        }
        self.inner.step(|state| {
            state.reply_channels.remove(&self.id);
            state.core.cancel(self.id);
        });
    }
}

pub(crate) struct HubInner<F: Api> {
    pub(crate) api: Arc<F>,
    pub(crate) label: &'static str,
    pub(crate) mode: WakeMode,
    state: Mutex<HubState<F>>,
    metrics: HubMetrics,
    runtime: Handle,
    /// The claims and releases in flight. A claim starts its releases before it ends.
    calls: TaskTracker,
    started: Instant,
    /// Notified when the time for which the driver planned to wake has become too late.
    replan: Notify,
}

pub(crate) struct HubState<F: Api> {
    pub(crate) core: WakeCore<F>,
    reply_channels: HashMap<WaiterId, oneshot::Sender<WaiterEnd<F>>>,
    published: HubCounters,
    /// When the driver wakes.
    planned: Option<HubTime>,
}

/// The arguments of one claim.
pub(crate) type LineClaims<F> = Vec<Claim<<F as Api>::Line, <F as Api>::Request>>;

/// The effects that are carried out after the lock is released.
struct Effects<F: Api> {
    claims: Vec<(CallId, LineClaims<F>)>,
    sweeps: Vec<Vec<F::Line>>,
    answers: Vec<(LineId, oneshot::Sender<WaiterEnd<F>>, WaiterEnd<F>)>,
    released: Vec<(LineId, F::ClaimResult)>,
}

impl<F: Api> HubInner<F> {
    /// Advances the core to the present, passes an input to it, and carries out the actions that it
    /// requests.
    pub(crate) fn step<R>(self: &Arc<Self>, input: impl FnOnce(&mut HubState<F>) -> R) -> R {
        self.step_counting(input).1
    }

    /// Like [`HubInner::step`]; also returns the number of claims that were started.
    fn step_counting<R>(self: &Arc<Self>, input: impl FnOnce(&mut HubState<F>) -> R) -> (usize, R) {
        let (output, effects) = {
            let mut state = self.state.lock();
            let state = &mut *state;
            // The clock is read under the lock, so that time never runs backwards for the core.
            state.core.advance(self.started.elapsed());
            let output = input(state);
            let effects = self.effects(state);
            self.metrics.publish(&state.core, &mut state.published);
            let next = state.core.next_wakeup();
            if next.is_some_and(|next| state.planned.is_none_or(|planned| next < planned)) {
                state.planned = next;
                self.replan.notify_one();
            }
            (output, effects)
        };
        let begun = effects.claims.len();
        self.run(effects);
        (begun, output)
    }

    fn effects(&self, state: &mut HubState<F>) -> Effects<F> {
        let mut effects = Effects {
            claims: Vec::new(),
            sweeps: Vec::new(),
            answers: Vec::new(),
            released: Vec::new(),
        };
        for action in state.core.take_actions() {
            match action {
                Action::Claim { call, claims } => effects.claims.push((call, claims)),
                Action::Sweep { lines } => effects.sweeps.push(lines),
                Action::Release { line, result } => effects.released.push((line, result)),
                Action::Observe(sample) => self.metrics.observe(sample),
                Action::Finish { waiter, line, end } => {
                    match (state.reply_channels.remove(&waiter), end) {
                        (Some(reply), end) => effects.answers.push((line, reply, end)),
                        (None, WaiterEnd::Claimed(result)) => effects.released.push((line, result)),
                        (None, _) => {}
                    }
                }
                Action::Degraded { reason } => {
                    tracing::warn!(
                        api = self.label, %reason,
                        "this node is degraded and polls for work"
                    );
                }
                Action::Recovered { after } => {
                    // The message does not contain the duration, so that identical log lines can be
                    // counted.
                    tracing::info!(
                        api = self.label,
                        "this node is no longer degraded and does not poll any more"
                    );
                    tracing::debug!(
                        api = self.label,
                        ?after,
                        "this node was degraded for this time"
                    );
                }
            }
        }
        effects
    }

    fn run(self: &Arc<Self>, effects: Effects<F>) {
        for (call, claims) in effects.claims {
            self.calls.spawn_on(claim(Arc::clone(self), call, claims), &self.runtime);
        }
        for lines in effects.sweeps {
            self.runtime.spawn(sweep(Arc::clone(self), lines));
        }
        let mut released = effects.released;
        for (line, reply, end) in effects.answers {
            if let Err(WaiterEnd::Claimed(result)) = reply.send(end) {
                released.push((line, result));
            }
        }
        self.release(released);
    }

    fn release(self: &Arc<Self>, released: Vec<(LineId, F::ClaimResult)>) {
        if released.is_empty() {
            return;
        }
        let inner = Arc::clone(self);
        let release = async move {
            let (lines, results): (Vec<_>, Vec<_>) = released.into_iter().unzip();
            let hints = inner.api.release(results).await;
            inner.step(|state| {
                state.core.released(&lines);
                state.core.hint(&hints, HintSource::InProcess);
            });
        };
        self.calls.spawn_on(release, &self.runtime);
    }
}

/// Advances the core when its timers expire, until the last handle is dropped.
async fn drive<F: Api>(inner: Arc<HubInner<F>>, closed: CancellationToken) {
    let driver = Driver(inner);
    let inner = &driver.0;
    loop {
        let next = inner.step(|state| {
            state.planned = state.core.next_wakeup();
            state.planned
        });
        let wakeup = async {
            match next {
                Some(at) => tokio::time::sleep_until(inner.started + at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = closed.cancelled() => return,
            () = inner.replan.notified() => {}
            () = wakeup => {}
        }
    }
}

/// Drains the core when the driver ends, also if it ends because its runtime is shut down. No
/// waiter is left without an answer.
struct Driver<F: Api>(Arc<HubInner<F>>);

impl<F: Api> Drop for Driver<F> {
    fn drop(&mut self) {
        self.0.step(|state| state.core.drain());
    }
}
