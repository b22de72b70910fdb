//! Dispatchers: fetch turns and activities, run them, commit what they did.
//!
//! # Where it sits
//! Over a [`Provider`] and a [`Registry`]. Any number of runtimes, in any number of processes, may
//! share one store; nothing has to know of the others.
//!
//! # Invariants
//! * A dispatcher waits in the provider, never in a loop of its own: it sleeps only if the
//!   provider came back before its poll timeout, or failed.
//! * What was fetched is committed, given back, or left to its lease if the process dies.
//! * Code that does not fit its history suspends the instance; it never guesses.

mod ack;
mod activity;
mod commit;
mod dispatch;
mod incoming;
mod leftovers;
mod lost_tries;
mod options;
mod renewal;
mod repeats;
mod sessions;
mod slots;
mod sticky;
mod turn;
mod unclaimed;
mod uncommitted;
mod unregistered;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wakeline_core::{ActivityFilter, ActivityNames, Capabilities, error_chain};

use crate::client::Client;
use crate::provider::{Provider, WorkFilter};
use crate::registry::Registry;

pub use options::{Prefetch, RuntimeOptions, RuntimeOptionsError};

use activity::ActivityRunner;
use dispatch::{Activities, Turns, dispatch};
use lost_tries::LostTries;
use sessions::Sessions;
use slots::Slots;
use sticky::Sticky;
use turn::TurnRunner;

/// Time for claims whose dispatchers have gone, and for what was stopped, to end and be given back.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// Runs orchestrations and activities until it is shut down.
///
/// Dropping it stops it: nothing more is fetched, running activities are cancelled, dropped if they
/// do not return within [`RuntimeOptions::cancellation_grace`], and given back uncounted, and its
/// sessions are let go, so that another runtime takes them at once. That happens in the background;
/// [`Runtime::shutdown`] waits for it.
pub struct Runtime {
    provider: Arc<dyn Provider>,
    shared: Arc<Shared>,
    dispatchers: JoinSet<()>,
    /// No more fetches.
    closing: CancellationToken,
    /// Running activities are cancelled.
    cancelling: CancellationToken,
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.closing.cancel();
        self.cancelling.cancel();
        // They end by themselves, and give back what they hold first.
        self.dispatchers.detach_all();
    }
}

/// What all parts of a runtime share.
pub(crate) struct Shared {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) options: RuntimeOptions,
    pub(crate) closing: CancellationToken,
    pub(crate) cancelling: CancellationToken,
    pub(crate) sessions: Sessions,
    pub(crate) lost_tries: LostTries,
    /// Whether an instance was suspended here, because this process's code did not fit it.
    pub(crate) suspended: AtomicBool,
}

impl Shared {
    /// How long a fetch waits for work; `None` if it cannot.
    fn poll_timeout(&self) -> Option<Duration> {
        let long_poll = self.options.dispatcher_long_poll_timeout;
        long_poll.filter(|_| self.provider.supports_long_polling())
    }

    /// Slots for so much at once. Fetches that cannot wait are made again and again: nobody makes
    /// them ahead.
    fn slots(&self, concurrency: usize) -> Arc<Slots> {
        let waits = self.poll_timeout().is_some();
        Slots::new(concurrency, if waits { self.options.prefetch } else { Prefetch::Fixed(0) })
    }
}

impl Runtime {
    /// Starts a runtime with the default options, on the current tokio runtime.
    pub async fn start(
        provider: Arc<dyn Provider>,
        registry: Registry,
    ) -> Result<Self, RuntimeOptionsError> {
        Self::start_with_options(provider, registry, RuntimeOptions::default()).await
    }

    /// Starts a runtime on the current tokio runtime.
    ///
    /// Instances that were suspended because other code did not fit them, and that need what this
    /// registry has, get another try, piece by piece while the runtime runs.
    pub async fn start_with_options(
        provider: Arc<dyn Provider>,
        registry: Registry,
        options: RuntimeOptions,
    ) -> Result<Self, RuntimeOptionsError> {
        options.validate()?;
        let provider = match options.wake_mode {
            Some(mode) => provider
                .rewired(mode, options.long_poll.clone())
                .ok_or_else(|| RuntimeOptionsError::new("wake_mode", "needs our own provider"))?,
            None => provider,
        };
        provider.set_degraded_poll_interval(options.dispatcher_idle_sleep);
        let (closing, cancelling) = (CancellationToken::new(), CancellationToken::new());
        let capabilities = Capabilities::Of(registry.capabilities().into_iter().collect());
        let shared = Arc::new(Shared {
            provider: Arc::clone(&provider),
            registry: Arc::new(registry),
            sessions: Sessions::new(&options),
            lost_tries: LostTries::default(),
            options,
            closing: closing.clone(),
            cancelling: cancelling.clone(),
            suspended: AtomicBool::new(false),
        });
        let mut dispatchers = JoinSet::new();
        dispatchers.spawn(retry_at_start(Arc::clone(&shared), capabilities.clone()));
        spawn_turns(&shared, &capabilities, &mut dispatchers);
        spawn_activities(&shared, &mut dispatchers);
        dispatchers.spawn(leftovers::clear(Arc::clone(&shared)));
        if let Some(timeout) = shared.options.unclaimed_timeout {
            dispatchers.spawn(unclaimed::fail_late(Arc::clone(&shared), timeout));
        }
        Ok(Self { provider, shared, dispatchers, closing, cancelling })
    }

    /// A client over the same provider. A start that names no version takes the newest one of this
    /// runtime's registry.
    pub fn client(&self) -> Client {
        Client::with_registry(Arc::clone(&self.provider), Arc::clone(&self.shared.registry))
    }

    /// Fetches nothing more; waits for what runs. After the grace, running activities are
    /// cancelled and given back, uncounted.
    pub async fn shutdown(mut self, grace: Duration) {
        self.closing.cancel();
        let ended = async { while self.dispatchers.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, ended).await.is_err() {
            self.cancelling.cancel();
            while self.dispatchers.join_next().await.is_some() {}
        }
        if self.shared.suspended.load(Ordering::Relaxed) {
            // During a deploy the processes with the new code may have started before: nobody else
            // would try again what did not fit this one.
            let known = self.shared.registry.capabilities().into_iter().collect();
            let capabilities = Capabilities::Of(known);
            let retried = retry_mismatched(&self.shared, &capabilities);
            if tokio::time::timeout(SETTLE_TIME, retried).await.is_err() {
                tracing::warn!("not all suspended instances were resumed within {SETTLE_TIME:?}");
            }
        }
        // A claim that was under way may have leased something to a dispatcher that has gone.
        if tokio::time::timeout(SETTLE_TIME, self.provider.settle()).await.is_err() {
            tracing::warn!("a claim did not end; what it took is available when its lease ends");
        }
    }
}

/// Beside the dispatchers: very many instances take a while, and others need not wait for them.
async fn retry_at_start(shared: Arc<Shared>, capabilities: Capabilities) {
    shared.closing.run_until_cancelled(retry_mismatched(&shared, &capabilities)).await;
}

async fn retry_mismatched(shared: &Shared, capabilities: &Capabilities) {
    let Some(admin) = shared.provider.admin() else { return };
    match admin.retry_mismatched(capabilities.clone()).await {
        Ok(0) => {}
        Ok(retried) => tracing::info!(retried, "resumed suspended instances"),
        Err(error) => {
            tracing::warn!(error = error_chain(&error), "suspended instances could not be resumed")
        }
    }
}

fn spawn_turns(shared: &Arc<Shared>, capabilities: &Capabilities, tasks: &mut JoinSet<()>) {
    if matches!(capabilities, Capabilities::Of(known) if known.is_empty()) {
        return;
    }
    let sticky = Sticky::new(shared.options.sticky_max);
    let runner = Arc::new(TurnRunner::new(Arc::clone(shared), sticky));
    let slots = shared.slots(shared.options.orchestration_concurrency);
    for _ in 0..slots.dispatchers() {
        let turns = Turns { runner: Arc::clone(&runner), capabilities: capabilities.clone() };
        tasks.spawn(dispatch(Arc::clone(shared), Arc::clone(&slots), turns));
    }
}

fn spawn_activities(shared: &Arc<Shared>, tasks: &mut JoinSet<()>) {
    if !shared.registry.has_activities() {
        return;
    }
    let runner = Arc::new(ActivityRunner::new(Arc::clone(shared)));
    let (tags, names) = (shared.options.tags.clone(), shared.registry.activity_names());
    let activities = ActivityFilter { tags, names: ActivityNames::Of(Arc::new(names)) };
    let filter = WorkFilter { activities, session: shared.sessions.claim() };
    let slots = shared.slots(shared.options.worker_concurrency);
    for _ in 0..slots.dispatchers() {
        let activities = Activities { runner: Arc::clone(&runner), filter: filter.clone() };
        let works = dispatch(Arc::clone(shared), Arc::clone(&slots), activities);
        tasks.spawn(shared.sessions.worker(works));
    }
    if shared.sessions.claim().is_some() {
        tasks.spawn(sessions::keep(Arc::clone(shared)));
    }
}
