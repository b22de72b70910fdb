//! The runtime: dispatchers that fetch turns and activities, run them and commit their results.
//!
//! # Where it sits
//! It sits on top of a [`Provider`] and a [`Registry`]. Any number of runtimes in any number of
//! processes may share one store; they need not know of each other.
//!
//! # Invariants
//! * A dispatcher waits in the provider, not in a loop of its own: it sleeps only if the provider
//!   returned before the poll timeout, or failed.
//! * A fetched item is committed or given back; if the process dies, its lease ends.
//! * Code that does not match its history suspends the instance.

mod ack;
mod activity;
mod commit;
mod dispatch;
mod incoming;
mod leftovers;
mod lost_attempts;
mod options;
mod renewal;
mod retry_pauses;
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
use lost_attempts::LostAttempts;
use sessions::Sessions;
use slots::RunSlots;
use sticky::Sticky;
use turn::TurnRunner;

/// The time that interrupted claims and stopped items have to end and to be given back.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// Runs orchestrations and activities until it is shut down.
///
/// Dropping it stops it: it fetches nothing more; running activities are cancelled, dropped if they
/// do not return within [`RuntimeOptions::cancellation_grace`], and given back without counting the
/// attempt; and its sessions are released, so that another runtime takes them at once. This happens
/// in the background; [`Runtime::shutdown`] waits for it.
pub struct Runtime {
    provider: Arc<dyn Provider>,
    shared: Arc<RuntimeShared>,
    dispatchers: JoinSet<()>,
    /// Cancelled when nothing more is to be fetched.
    closing: CancellationToken,
    /// Cancelled when running activities are to be cancelled.
    cancelling: CancellationToken,
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.closing.cancel();
        self.cancelling.cancel();
        // The dispatchers end by themselves, after they have given back what they hold.
        self.dispatchers.detach_all();
    }
}

/// The state that all parts of a runtime share.
pub(crate) struct RuntimeShared {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) options: RuntimeOptions,
    pub(crate) closing: CancellationToken,
    pub(crate) cancelling: CancellationToken,
    pub(crate) sessions: Sessions,
    pub(crate) lost_attempts: LostAttempts,
    /// Whether this runtime suspended an instance because its code did not match the history.
    pub(crate) suspended: AtomicBool,
}

impl RuntimeShared {
    /// How long a fetch waits for work; `None` if the provider cannot wait.
    fn poll_timeout(&self) -> Option<Duration> {
        let long_poll = self.options.dispatcher_long_poll_timeout;
        long_poll.filter(|_| self.provider.supports_long_polling())
    }

    /// Creates slots for this many items at the same time. Nothing is fetched ahead if fetches
    /// cannot wait, because they are then repeated all the time.
    fn slots(&self, concurrency: usize) -> Arc<RunSlots> {
        let waits = self.poll_timeout().is_some();
        RunSlots::new(concurrency, if waits { self.options.prefetch } else { Prefetch::Fixed(0) })
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
    /// Instances that were suspended because other code did not match their history are resumed, in
    /// batches while the runtime runs, if this registry has a capability that they need.
    pub async fn start_with_options(
        provider: Arc<dyn Provider>,
        registry: Registry,
        options: RuntimeOptions,
    ) -> Result<Self, RuntimeOptionsError> {
        options.validate()?;
        let provider = match options.wake_mode {
            Some(mode) => provider.rewired(mode, options.long_poll.clone()).ok_or_else(|| {
                RuntimeOptionsError::new("wake_mode", "needs a provider of Wakeline")
            })?,
            None => provider,
        };
        provider.set_degraded_poll_interval(options.dispatcher_idle_sleep);
        let (closing, cancelling) = (CancellationToken::new(), CancellationToken::new());
        let capabilities = Capabilities::Of(registry.capabilities().into_iter().collect());
        let shared = Arc::new(RuntimeShared {
            provider: Arc::clone(&provider),
            registry: Arc::new(registry),
            sessions: Sessions::new(&options),
            lost_attempts: LostAttempts::default(),
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

    /// Creates a client over the same provider. A start that names no version takes the newest one
    /// of this runtime's registry.
    pub fn client(&self) -> Client {
        Client::with_registry(Arc::clone(&self.provider), Arc::clone(&self.shared.registry))
    }

    /// Stops fetching, and waits until everything that runs has ended. After the grace period,
    /// running activities are cancelled and given back without counting the attempt.
    pub async fn shutdown(mut self, grace: Duration) {
        self.closing.cancel();
        let ended = async { while self.dispatchers.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, ended).await.is_err() {
            self.cancelling.cancel();
            while self.dispatchers.join_next().await.is_some() {}
        }
        if self.shared.suspended.load(Ordering::Relaxed) {
            // During a deployment, processes with the new code may have started before this one
            // suspended the instance, so no other process would resume it.
            let known = self.shared.registry.capabilities().into_iter().collect();
            let capabilities = Capabilities::Of(known);
            let retried = retry_mismatched(&self.shared, &capabilities);
            if tokio::time::timeout(SETTLE_TIME, retried).await.is_err() {
                tracing::warn!(
                    "not all suspended instances could be resumed within {SETTLE_TIME:?} before \
                     the shutdown"
                );
            }
        }
        // A claim in progress may have leased something to a dispatcher that has ended.
        if tokio::time::timeout(SETTLE_TIME, self.provider.settle()).await.is_err() {
            tracing::warn!(
                "a claim did not end before the shutdown: its work is available when the lease ends"
            );
        }
    }
}

/// Resumes suspended instances concurrently with the dispatchers, because many instances take a
/// while and others need not wait for them.
async fn retry_at_start(shared: Arc<RuntimeShared>, capabilities: Capabilities) {
    shared.closing.run_until_cancelled(retry_mismatched(&shared, &capabilities)).await;
}

async fn retry_mismatched(shared: &RuntimeShared, capabilities: &Capabilities) {
    let Some(admin) = shared.provider.admin() else { return };
    match admin.retry_mismatched(capabilities.clone()).await {
        Ok(0) => {}
        Ok(retried) => tracing::info!(retried, "resumed suspended instances"),
        Err(error) => {
            tracing::warn!(error = error_chain(&error), "could not resume suspended instances")
        }
    }
}

fn spawn_turns(shared: &Arc<RuntimeShared>, capabilities: &Capabilities, tasks: &mut JoinSet<()>) {
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

fn spawn_activities(shared: &Arc<RuntimeShared>, tasks: &mut JoinSet<()>) {
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
