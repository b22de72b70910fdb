//! The tokio glue around the core: one lock, one driver task for its timers, a task per store
//! call, a oneshot per waiter.
//!
//! # Where it sits
//! Faces call [`Hub::take`]; commits and listeners call [`Hub::hint`]. Whoever tells the core
//! something also carries out what it asks for, so a hint starts its claim without a detour.
//!
//! # Invariants
//! * The lock is held for the core's bookkeeping only, never across a store call.
//! * A parked poll is a struct in the core and a oneshot: no task, no timer of its own.
//! * Dropping the last handle ends the driver; a claim under way is finished and released.

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

use crate::calls::{claim, sweep};
use crate::config::LongPollConfig;
use crate::core::{Action, CallId, Core, End, IntentionId, LineId, Moment, Parked};
use crate::face::{Claim, Face};
use crate::meters::Meters;
use crate::mode::WakeMode;
use crate::poll::{HintSource, Link, Patience, TakeError, Taken};
use crate::reservation::Reservation;
use crate::snapshot::{Counters, Snapshot};

/// What a poll is told to wait for when too many wait already.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How a hub is set up.
#[derive(Debug, Clone, Default)]
pub struct HubOptions {
    /// The face's name in metrics and logs.
    pub label: &'static str,
    /// How waiters are woken.
    pub mode: WakeMode,
    /// How they wait.
    pub long_poll: LongPollConfig,
}

/// Parks polls that found nothing, and claims for them when something may have come. A handle:
/// clones share one hub, which ends with the last of them.
pub struct Hub<F: Face> {
    inner: Arc<Inner<F>>,
    _owner: Arc<DropGuard>,
}

impl<F: Face> Clone for Hub<F> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), _owner: Arc::clone(&self._owner) }
    }
}

impl<F: Face> Hub<F> {
    /// Starts a hub on the current tokio runtime. The settings are taken as validated.
    pub fn start(face: Arc<F>, options: HubOptions) -> Self {
        let HubOptions { label, mode, long_poll } = options;
        let state = State {
            core: Core::new(mode, long_poll),
            doors: HashMap::new(),
            published: Counters::default(),
            planned: None,
        };
        let inner = Arc::new(Inner {
            face,
            label,
            mode,
            state: Mutex::new(state),
            meters: Meters::new(label),
            runtime: Handle::current(),
            calls: TaskTracker::new(),
            started: Instant::now(),
            replan: Notify::new(),
        });
        let closed = CancellationToken::new();
        inner.runtime.spawn(drive(Arc::clone(&inner), closed.clone()));
        Self { inner, _owner: Arc::new(closed.drop_guard()) }
    }

    /// One poll: what it takes, within its patience. Dropping the future cancels it, and what
    /// was claimed for it is released.
    pub async fn take(
        &self,
        line: F::Line,
        ask: F::Ask,
        patience: Patience,
    ) -> Result<Taken<F::Grant>, TakeError<F::Error>> {
        self.take_until(line, ask, patience, std::future::pending()).await
    }

    /// As [`Hub::take`]. When `enough` comes, it waits no longer: a parked poll is answered with
    /// [`Taken::Empty`], one that is being claimed for with what that claim finds.
    pub async fn take_until(
        &self,
        line: F::Line,
        ask: F::Ask,
        patience: Patience,
        enough: impl Future<Output = ()>,
    ) -> Result<Taken<F::Grant>, TakeError<F::Error>> {
        let label = F::label(&line);
        let (door, answer) = oneshot::channel();
        let parked = self.inner.step(|state| {
            let parked = state.core.park(line, ask, patience);
            if let Parked::Yes(id, _) = parked {
                state.doors.insert(id, door);
            }
            parked
        });
        let (id, line) = match parked {
            Parked::Yes(id, line) => (id, line),
            Parked::Drained => return Ok(Taken::Drained),
            Parked::TooMany => return Err(TakeError::TooMany { retry_after: RETRY_AFTER }),
        };
        let gauge = label.map(|label| self.inner.meters.waiters_of(label));
        if let Some(gauge) = &gauge {
            gauge.increment(1.0);
        }
        let mut seat = Seat { inner: &self.inner, id, line, answer, answered: false, gauge };
        let end = tokio::select! {
            biased;
            end = &mut seat.answer => end,
            () = enough => {
                self.inner.step(|state| state.core.hurry(id));
                (&mut seat.answer).await
            }
        };
        seat.answered = true;
        match end {
            Ok(End::Granted(grant)) => Ok(Taken::Granted(grant)),
            Ok(End::Empty) => Ok(Taken::Empty),
            Ok(End::Drained) | Err(_) => Ok(Taken::Drained),
            Ok(End::Failed(error)) => Err(TakeError::Claim(error)),
        }
    }

    /// These may have become available. Never blocks; the whole slice is one wake. True if claims
    /// are on their way for it: they are tasks, which go before the caller's next steps if the
    /// caller yields.
    pub fn hint(&self, hints: &[F::Hint], source: HintSource) -> bool {
        if hints.is_empty() {
            return false;
        }
        let (begun, ()) = self.inner.step_counting(|state| {
            // Who has something to say of the store was answered by it.
            state.core.store_answered();
            state.core.hint(hints, source);
        });
        begun > 0
    }

    /// Sets up to `max` parked polls aside that may be able to take what the hint speaks of, so
    /// that a write can serve them in its own commit. What it makes available beyond them is
    /// hinted as usual, after the reservations have ended.
    pub fn reserve(&self, hint: &F::Hint, max: usize) -> Vec<Reservation<F>> {
        if max == 0 {
            return Vec::new();
        }
        let reserved = self.inner.step(|state| state.core.reserve(hint, max));
        let held = |reserved| Reservation::new(Arc::clone(&self.inner), reserved);
        reserved.into_iter().map(held).collect()
    }

    /// Anything may have become available: after a (re)connect, or a hint too long to send.
    pub fn everything(&self) {
        self.inner.step(|state| state.core.everything());
    }

    /// Says whether hints of other processes arrive. Call [`Hub::everything`] once they do.
    pub fn link(&self, state: Link) {
        self.inner.step(|inner| inner.core.link(state));
    }

    /// Sets the time between two claims of degraded polling.
    pub fn set_degraded_poll_interval(&self, interval: Duration) {
        self.inner.step(|inner| inner.core.set_degraded_poll_interval(interval));
    }

    /// Answers all parked polls with [`Taken::Drained`], and later ones that would wait.
    pub fn drain(&self) {
        self.inner.step(|state| state.core.drain());
    }

    /// Waits until no claim is under way and what was claimed for nobody is released. Meant to
    /// follow [`Hub::drain`], before the store is closed.
    pub async fn settled(&self) {
        self.inner.calls.close();
        self.inner.calls.wait().await;
    }

    /// How waiters are woken.
    pub fn mode(&self) -> WakeMode {
        self.inner.mode
    }

    /// A look at the hub.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.step(|state| state.core.snapshot())
    }
}

/// A poll that is being waited for.
struct Seat<'a, F: Face> {
    inner: &'a Arc<Inner<F>>,
    id: IntentionId,
    line: LineId,
    answer: oneshot::Receiver<End<F>>,
    answered: bool,
    gauge: Option<Gauge>,
}

impl<F: Face> Drop for Seat<'_, F> {
    fn drop(&mut self) {
        if let Some(gauge) = &self.gauge {
            gauge.decrement(1.0);
        }
        if self.answered {
            return;
        }
        // Closed first: an answer is either in here, or comes back to its sender.
        self.answer.close();
        if let Ok(end) = self.answer.try_recv() {
            if let End::Granted(grant) = end {
                self.inner.release(vec![(self.line, grant)]);
            }
            return;
        }
        self.inner.step(|state| {
            state.doors.remove(&self.id);
            state.core.cancel(self.id);
        });
    }
}

pub(crate) struct Inner<F: Face> {
    pub(crate) face: Arc<F>,
    pub(crate) label: &'static str,
    pub(crate) mode: WakeMode,
    state: Mutex<State<F>>,
    meters: Meters,
    runtime: Handle,
    /// Claims and releases under way. A claim starts its releases before it ends.
    calls: TaskTracker,
    started: Instant,
    /// Rung when the driver's planned time has become too late.
    replan: Notify,
}

pub(crate) struct State<F: Face> {
    pub(crate) core: Core<F>,
    doors: HashMap<IntentionId, oneshot::Sender<End<F>>>,
    published: Counters,
    /// When the driver wakes.
    planned: Option<Moment>,
}

/// What one claim asks for.
pub(crate) type Claims<F> = Vec<Claim<<F as Face>::Line, <F as Face>::Ask>>;

/// What is done after the lock is let go.
struct Errands<F: Face> {
    claims: Vec<(CallId, Claims<F>)>,
    sweeps: Vec<Vec<F::Line>>,
    answers: Vec<(LineId, oneshot::Sender<End<F>>, End<F>)>,
    released: Vec<(LineId, F::Grant)>,
}

impl<F: Face> Inner<F> {
    /// Brings the core up to the present, tells it something, and carries out what it asks for.
    pub(crate) fn step<R>(self: &Arc<Self>, tell: impl FnOnce(&mut State<F>) -> R) -> R {
        self.step_counting(tell).1
    }

    /// As [`Inner::step`]; counts the claims that were begun.
    fn step_counting<R>(self: &Arc<Self>, tell: impl FnOnce(&mut State<F>) -> R) -> (usize, R) {
        let (told, errands) = {
            let mut state = self.state.lock();
            let state = &mut *state;
            // Read under the lock, so that time never runs backwards for the core.
            state.core.advance(self.started.elapsed());
            let told = tell(state);
            let errands = self.errands(state);
            self.meters.publish(&state.core, &mut state.published);
            let next = state.core.next_wakeup();
            if next.is_some_and(|next| state.planned.is_none_or(|planned| next < planned)) {
                state.planned = next;
                self.replan.notify_one();
            }
            (told, errands)
        };
        let begun = errands.claims.len();
        self.run(errands);
        (begun, told)
    }

    fn errands(&self, state: &mut State<F>) -> Errands<F> {
        let mut errands = Errands {
            claims: Vec::new(),
            sweeps: Vec::new(),
            answers: Vec::new(),
            released: Vec::new(),
        };
        for action in state.core.take_actions() {
            match action {
                Action::Claim { call, claims } => errands.claims.push((call, claims)),
                Action::Sweep { lines } => errands.sweeps.push(lines),
                Action::Release { line, grant } => errands.released.push((line, grant)),
                Action::Observe(sample) => self.meters.observe(sample),
                Action::Finish { intention, line, end } => {
                    match (state.doors.remove(&intention), end) {
                        (Some(door), end) => errands.answers.push((line, door, end)),
                        (None, End::Granted(grant)) => errands.released.push((line, grant)),
                        (None, _) => {}
                    }
                }
                Action::Degraded { reason } => {
                    tracing::warn!(face = self.label, %reason, "degraded: polling for work");
                }
                Action::Recovered { after } => {
                    // Without the time that it took: lines that are the same can be counted.
                    tracing::info!(face = self.label, "no longer degraded: polling ended");
                    tracing::debug!(face = self.label, ?after, "it was degraded for");
                }
            }
        }
        errands
    }

    fn run(self: &Arc<Self>, errands: Errands<F>) {
        for (call, claims) in errands.claims {
            self.calls.spawn_on(claim(Arc::clone(self), call, claims), &self.runtime);
        }
        for lines in errands.sweeps {
            self.runtime.spawn(sweep(Arc::clone(self), lines));
        }
        let mut released = errands.released;
        for (line, door, end) in errands.answers {
            if let Err(End::Granted(grant)) = door.send(end) {
                released.push((line, grant));
            }
        }
        self.release(released);
    }

    fn release(self: &Arc<Self>, released: Vec<(LineId, F::Grant)>) {
        if released.is_empty() {
            return;
        }
        let inner = Arc::clone(self);
        let release = async move {
            let (lines, grants): (Vec<_>, Vec<_>) = released.into_iter().unzip();
            let hints = inner.face.release(grants).await;
            inner.step(|state| {
                state.core.released(&lines);
                state.core.hint(&hints, HintSource::InProcess);
            });
        };
        self.calls.spawn_on(release, &self.runtime);
    }
}

/// Advances the core when its timers come, until the last handle is gone.
async fn drive<F: Face>(inner: Arc<Inner<F>>, closed: CancellationToken) {
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

/// Nobody is left waiting when the driver ends, be it because its runtime does.
struct Driver<F: Face>(Arc<Inner<F>>);

impl<F: Face> Drop for Driver<F> {
    fn drop(&mut self) {
        self.0.step(|state| state.core.drain());
    }
}
