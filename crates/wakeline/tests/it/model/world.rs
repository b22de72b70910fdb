//! A store and the processes on it, which are killed or lose their database.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use wakeline::provider::{ProviderError, StoreProvider, StoreProviderOptions};
use wakeline::{Client, ClientError, FlowError, Json, Runtime, RuntimeOptions};
use wakeline_store::Backend;
use wakeline_store::flow::FlowStore as _;
use wakeline_testkit::faults::{Fault, FaultingStore, FlowMutation};

use super::program::{Dice, Program, Runs, registry};
use super::{WAIT_MAX, WorldResult};

/// The kind of disturbances of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disturbance {
    /// The database is unavailable for less than the length of a lease: everything runs once.
    Outages,
    /// The database is unavailable for longer than a lease: activities may run again, and no
    /// instance fails.
    LongOutages,
    /// Processes are killed, and single calls fail.
    Kills,
}

/// The reason with which instances are terminated and cancelled.
pub(super) const REASON: &str = "as planned";

/// More early events than this are raised in batches, so that it does not take long.
const SINGLE_MAX: u64 = 100;
/// The size of such a batch.
const TOGETHER: usize = 50;

/// A process that runs programs and can be killed.
pub(super) struct Process {
    store: Arc<FaultingStore>,
    client: Client,
    _runtime: Runtime,
}

/// A store, and the process that is currently running.
pub(super) struct World {
    pub(super) store: Arc<dyn Backend>,
    pub(super) disturbance: Disturbance,
    pub(super) runs: Runs,
    /// How long it waits for something that must happen.
    pub(super) patience: Duration,
    alive: Mutex<Arc<Process>>,
    mutation: Option<fn() -> FlowMutation>,
}

impl World {
    pub(super) async fn new(store: Arc<dyn Backend>, disturbance: Disturbance) -> Arc<Self> {
        Self::make(store, disturbance, None, WAIT_MAX).await
    }

    pub(super) async fn with_mutation(
        store: Arc<dyn Backend>,
        disturbance: Disturbance,
        mutation: fn() -> FlowMutation,
        patience: Duration,
    ) -> Arc<Self> {
        Self::make(store, disturbance, Some(mutation), patience).await
    }

    async fn make(
        store: Arc<dyn Backend>,
        disturbance: Disturbance,
        mutation: Option<fn() -> FlowMutation>,
        patience: Duration,
    ) -> Arc<Self> {
        let runs = Runs::default();
        let alive = Self::process(&store, disturbance, &runs).await;
        mutation.into_iter().for_each(|mutation| alive.store.mutate(mutation()));
        let alive = Mutex::new(Arc::new(alive));
        Arc::new(Self { store, disturbance, runs, patience, alive, mutation })
    }

    async fn process(store: &Arc<dyn Backend>, disturbance: Disturbance, runs: &Runs) -> Process {
        let faulting = Arc::new(FaultingStore::new(Arc::clone(store)));
        let backend: Arc<dyn wakeline_store::flow::FlowBackend> = faulting.clone();
        let provider = Arc::new(StoreProvider::new(backend, StoreProviderOptions::default()));
        let lease = match disturbance {
            Disturbance::Outages => Duration::from_secs(30),
            Disturbance::LongOutages | Disturbance::Kills => Duration::from_secs(1),
        };
        let options = RuntimeOptions {
            orchestrator_lock_timeout: lease,
            worker_lock_timeout: lease,
            session_lock_timeout: lease,
            // A killed process costs an attempt. An outage costs none, but a slow machine may cost
            // one.
            attempts_max: if disturbance == Disturbance::Kills { 1_000 } else { 20 },
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::start_with_options(provider.clone(), registry(runs), options);
        let runtime = runtime.await.expect("started");
        Process { store: faulting, client: Client::new(provider), _runtime: runtime }
    }

    fn alive(&self) -> Arc<Process> {
        Arc::clone(&self.alive.lock())
    }

    /// Kills the process in one of its next calls, and starts another one.
    async fn kill(&self, dice: &mut Dice) {
        let victim = self.alive();
        let fault = if dice.one_in(2) { Fault::Before } else { Fault::After };
        victim.store.fail_from(1 + dice.below(8), fault);
        sleep(Duration::from_millis(10)).await;
        let next = Self::process(&self.store, self.disturbance, &self.runs).await;
        self.mutation.iter().for_each(|mutation| next.store.mutate(mutation()));
        *self.alive.lock() = Arc::new(next);
    }

    async fn disturb(&self, dice: &mut Dice) {
        let process = self.alive();
        match self.disturbance {
            Disturbance::Outages | Disturbance::LongOutages => {
                let ms = match self.disturbance {
                    Disturbance::LongOutages => 1_100 + dice.below(1_000),
                    // The long outages last longer than any small number of attempts.
                    _ if dice.one_in(2) => 6_000,
                    _ => dice.below(1_000),
                };
                process.store.fail_from(1, Fault::Before);
                sleep(Duration::from_millis(ms)).await;
                process.store.end_outage();
            }
            Disturbance::Kills if dice.one_in(2) => self.kill(dice).await,
            Disturbance::Kills => {
                for _ in 0..4 {
                    let fault = if dice.one_in(2) { Fault::Before } else { Fault::After };
                    process.store.fail(1 + dice.below(60), fault);
                }
            }
        }
    }

    /// Makes a few disturbances.
    pub(super) async fn disturb_sometimes(self: Arc<Self>, mut dice: Dice) {
        for _ in 0..4 {
            sleep(Duration::from_millis(50 + dice.below(500))).await;
            self.disturb(&mut dice).await;
        }
    }

    /// Repeats a call with the current process until it is answered.
    async fn repeat<T, F>(&self, call: impl Fn(Client) -> F) -> WorldResult<T>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let began = Instant::now();
        loop {
            let process = self.alive();
            match timeout(Duration::from_secs(2), call(process.client.clone())).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(ClientError::Provider(_))) => sleep(Duration::from_millis(20)).await,
                Ok(Err(ClientError::TimedOut { .. })) | Err(_) => {}
                Ok(Err(error)) => return Err(error.to_string()),
            }
            if began.elapsed() > self.patience {
                return Err("no answer".to_owned());
            }
        }
    }

    /// Sends all events that a program takes, some of them before it is started.
    pub(super) async fn start(&self, id: &str, program: &Program, early: u64) -> WorldResult<()> {
        let events = program.clone().expected().events;
        let early = early.min(events);
        if early > SINGLE_MAX {
            self.raise_together(id, 0..early).await?;
        } else {
            self.raise(id, 0..early).await?;
        }
        self.repeat(|client| async move { client.start(id, "program", program).await }).await?;
        self.raise(id, early..events).await
    }

    async fn raise(&self, id: &str, events: Range<u64>) -> WorldResult<()> {
        for n in events {
            let raise = |client: Client| async move {
                match client.raise_event_early(id, "n", &n).await {
                    // The instance took the event of a call that was not answered, which was the
                    // last.
                    Err(ClientError::Ended(_)) => Ok(()),
                    other => other,
                }
            };
            self.repeat(raise).await?;
        }
        Ok(())
    }

    /// Raises events in one call for an instance that is not started yet, so no waiter has to be
    /// woken.
    async fn raise_together(&self, id: &str, events: Range<u64>) -> WorldResult<()> {
        for first in events.clone().step_by(TOGETHER) {
            let raise = |_| async move {
                let event =
                    |n: u64| Client::event_envelope(id, "n", Json::of(&n).expect("a number"));
                let some = (first..events.end).take(TOGETHER).map(event);
                let envelopes = some.collect::<Result<_, _>>()?;
                let raised = self.alive().store.enqueue(envelopes, Vec::new()).await;
                raised.map(drop).map_err(|error| {
                    let (operation, source) = ("raise events", error.into());
                    ClientError::Provider(ProviderError::Retryable { operation, source })
                })
            };
            self.repeat(raise).await?;
        }
        Ok(())
    }

    /// Returns the result of an instance.
    pub(super) async fn end(&self, id: &str) -> WorldResult<Result<u64, FlowError>> {
        let second = Duration::from_secs(1);
        self.repeat(|client| async move {
            match client.wait(id, second).await {
                Err(ClientError::Failed { error, .. }) => Ok(Err(error)),
                other => other.map(Ok),
            }
        })
        .await
    }

    /// Deletes a tree; without force as soon as all children have ended.
    pub(super) async fn delete(&self, id: &str, force: bool) -> WorldResult<()> {
        let began = Instant::now();
        loop {
            let deleted = self.repeat(|client| async move {
                match client.delete(id, force).await {
                    // A call that was not answered has deleted the instance.
                    Err(ClientError::NotFound(_)) => Ok(Vec::new()),
                    other => other.map(|report| report.running),
                }
            });
            let running = deleted.await?;
            if running.is_empty() {
                return Ok(());
            }
            if began.elapsed() > self.patience {
                return Err(format!("{running:?} never ended"));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub(super) async fn terminate(&self, id: &str) -> WorldResult<()> {
        self.repeat(|client| async move { client.terminate(id, REASON).await }).await.map(drop)
    }

    /// Requests cancellation of an instance that has not ended.
    pub(super) async fn cancel(&self, id: &str) -> WorldResult<()> {
        self.repeat(|client| async move {
            match client.cancel(id, REASON).await {
                Err(ClientError::Ended(_)) => Ok(()),
                other => other,
            }
        })
        .await
    }
}
