//! A store and the processes on it, which are killed and lose their database.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use wakeline::provider::{ProviderError, StoreProvider, StoreProviderOptions};
use wakeline::{Client, ClientError, FlowError, Json, Runtime, RuntimeOptions};
use wakeline_store::WholeStore;
use wakeline_store::flow::FlowStore as _;
use wakeline_testkit::faults::{Fault, FaultingStore, FlowMutation};

use super::program::{Dice, Program, Runs, registry};
use super::{Answered, PATIENCE};

/// How a world is disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chaos {
    /// The database goes away for less time than a lease lasts: everything runs once.
    Outages,
    /// It goes away for longer than a lease: activities may run again, and nothing is given up.
    LongOutages,
    /// Processes are killed, and single calls fail.
    Kills,
}

/// Why instances are terminated and cancelled.
pub(super) const REASON: &str = "as planned";

/// More early events than this are raised in few calls, so that it does not take long.
const SINGLE_MAX: u64 = 100;
/// Of so many each.
const TOGETHER: usize = 50;

/// What runs programs: it can be killed.
pub(super) struct Process {
    store: Arc<FaultingStore>,
    client: Client,
    _runtime: Runtime,
}

/// A store, and the process that is alive.
pub(super) struct World {
    pub(super) store: Arc<dyn WholeStore>,
    pub(super) chaos: Chaos,
    pub(super) runs: Runs,
    /// How long it waits for what must come.
    pub(super) patience: Duration,
    alive: Mutex<Arc<Process>>,
    mutation: Option<fn() -> FlowMutation>,
}

impl World {
    pub(super) async fn new(store: Arc<dyn WholeStore>, chaos: Chaos) -> Arc<Self> {
        Self::make(store, chaos, (None, PATIENCE)).await
    }

    pub(super) async fn with_defect(
        store: Arc<dyn WholeStore>,
        chaos: Chaos,
        (mutation, patience): (fn() -> FlowMutation, Duration),
    ) -> Arc<Self> {
        Self::make(store, chaos, (Some(mutation), patience)).await
    }

    async fn make(
        store: Arc<dyn WholeStore>,
        chaos: Chaos,
        (mutation, patience): (Option<fn() -> FlowMutation>, Duration),
    ) -> Arc<Self> {
        let runs = Runs::default();
        let alive = Self::process(&store, chaos, &runs).await;
        mutation.into_iter().for_each(|mutation| alive.store.mutate(mutation()));
        let alive = Mutex::new(Arc::new(alive));
        Arc::new(Self { store, chaos, runs, patience, alive, mutation })
    }

    async fn process(store: &Arc<dyn WholeStore>, chaos: Chaos, runs: &Runs) -> Process {
        let faulting = Arc::new(FaultingStore::new(Arc::clone(store)));
        let backend: Arc<dyn wakeline_store::flow::FlowBackend> = faulting.clone();
        let provider = Arc::new(StoreProvider::new(backend, StoreProviderOptions::default()));
        let lease = match chaos {
            Chaos::Outages => Duration::from_secs(30),
            Chaos::LongOutages | Chaos::Kills => Duration::from_secs(1),
        };
        let options = RuntimeOptions {
            orchestrator_lock_timeout: lease,
            worker_lock_timeout: lease,
            session_lock_timeout: lease,
            // A killed process costs an attempt. An outage costs none, but a slow machine may.
            attempts_max: if chaos == Chaos::Kills { 1_000 } else { 20 },
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::start_with_options(provider.clone(), registry(runs), options);
        let runtime = runtime.await.expect("started");
        Process { store: faulting, client: Client::new(provider), _runtime: runtime }
    }

    fn alive(&self) -> Arc<Process> {
        Arc::clone(&self.alive.lock())
    }

    /// Ends the process in one of its next calls, and starts another one.
    async fn kill(&self, dice: &mut Dice) {
        let victim = self.alive();
        let fault = if dice.one_in(2) { Fault::Before } else { Fault::After };
        victim.store.fail_from(1 + dice.below(8), fault);
        sleep(Duration::from_millis(10)).await;
        let next = Self::process(&self.store, self.chaos, &self.runs).await;
        self.mutation.iter().for_each(|mutation| next.store.mutate(mutation()));
        *self.alive.lock() = Arc::new(next);
    }

    async fn disturb(&self, dice: &mut Dice) {
        let process = self.alive();
        match self.chaos {
            Chaos::Outages | Chaos::LongOutages => {
                let ms = match self.chaos {
                    Chaos::LongOutages => 1_100 + dice.below(1_000),
                    // The long ones outlast any small number of tries.
                    _ if dice.one_in(2) => 6_000,
                    _ => dice.below(1_000),
                };
                process.store.fail_from(1, Fault::Before);
                sleep(Duration::from_millis(ms)).await;
                process.store.end_outage();
            }
            Chaos::Kills if dice.one_in(2) => self.kill(dice).await,
            Chaos::Kills => {
                for _ in 0..4 {
                    let fault = if dice.one_in(2) { Fault::Before } else { Fault::After };
                    process.store.fail(1 + dice.below(60), fault);
                }
            }
        }
    }

    /// Disturbs what runs a few times.
    pub(super) async fn disturb_sometimes(self: Arc<Self>, mut dice: Dice) {
        for _ in 0..4 {
            sleep(Duration::from_millis(50 + dice.below(500))).await;
            self.disturb(&mut dice).await;
        }
    }

    /// Repeats a call, with whatever process is alive, until it is answered.
    async fn repeat<T, F>(&self, call: impl Fn(Client) -> F) -> Answered<T>
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
    pub(super) async fn start(&self, id: &str, program: &Program, early: u64) -> Answered<()> {
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

    async fn raise(&self, id: &str, events: Range<u64>) -> Answered<()> {
        for n in events {
            let raise = |client: Client| async move {
                match client.raise_event_early(id, "n", &n).await {
                    // It took the event of a call that was not answered, which was its last.
                    Err(ClientError::Ended(_)) => Ok(()),
                    other => other,
                }
            };
            self.repeat(raise).await?;
        }
        Ok(())
    }

    /// Raises events of an instance that is not started yet, so that nobody has to be woken.
    async fn raise_together(&self, id: &str, events: Range<u64>) -> Answered<()> {
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

    /// What an instance came to.
    pub(super) async fn end(&self, id: &str) -> Answered<Result<u64, FlowError>> {
        let second = Duration::from_secs(1);
        self.repeat(|client| async move {
            match client.wait(id, second).await {
                Err(ClientError::Failed { error, .. }) => Ok(Err(error)),
                other => other.map(Ok),
            }
        })
        .await
    }

    /// Deletes a tree. Without force as soon as all children have ended.
    pub(super) async fn delete(&self, id: &str, force: bool) -> Answered<()> {
        let began = Instant::now();
        loop {
            let deleted = self.repeat(|client| async move {
                match client.delete(id, force).await {
                    // It was deleted by a call that was not answered.
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

    pub(super) async fn terminate(&self, id: &str) -> Answered<()> {
        self.repeat(|client| async move { client.terminate(id, REASON).await }).await.map(drop)
    }

    /// Asks an instance to cancel, if it has not ended.
    pub(super) async fn cancel(&self, id: &str) -> Answered<()> {
        self.repeat(|client| async move {
            match client.cancel(id, REASON).await {
                Err(ClientError::Ended(_)) => Ok(()),
                other => other,
            }
        })
        .await
    }
}
